"""What every backend does when agents are deleted."""

import io
from pathlib import Path

import pytest

import backstory
from tests.storage.held import act_before
from tests.threads import in_threads


def texts(agent):
    return [event.content for event in agent.context().messages]


def contents(store):
    return [agent.name for agent in store.agents()]


def test_a_deleted_agent_is_gone_from_every_list_and_its_handle_finds_nothing(store):
    agent = store.ensure("user/1", name="main", system="Be careful.")
    other = store.start("other")
    agent.user("hello")
    removed = store.delete("main")
    assert [(one.id, one.name, one.key, one.events, one.kept) for one in removed.agents] == [
        (agent.id, "main", "user/1", 2, 0)
    ]
    assert removed.events == 2
    assert store.agents() == [other]
    assert [session.id for session in store.sessions()] == [other.id]
    assert store.search("hello") == []
    for use in (
        lambda: agent.head,
        lambda: agent.user("more"),
        lambda: agent.append("user", "more", key="k"),
        lambda: agent.append("user", "more", expected=2),
        agent.context,
        agent.events,
        agent.marks,
        agent.fork,
        agent.spawn,
        agent.undo,
        lambda: agent.rename("another"),
        lambda: agent.describe(title="x"),
        lambda: store.agent(key="user/1"),
        lambda: store.agent(agent.id),
        lambda: store.delete(agent),
    ):
        with pytest.raises(backstory.AgentNotFound):
            use()
    assert store.verify() == []


def test_a_fork_survives_its_source_with_all_that_it_inherits(store, agent):
    for text in ("one", "two", "three", "four"):
        agent.user(text)
    fork = agent.fork("fork", at=2)
    fork.user("mine")
    grandchild = fork.fork("grandchild")
    removed = store.delete("main")
    assert (removed.events, removed.agents[0].events, removed.agents[0].kept) == (2, 2, 2)
    assert texts(fork) == texts(grandchild) == ["one", "two", "mine"]
    assert contents(store) == ["fork", "grandchild"]
    assert (fork.session, store.agent("fork").parent) == (agent.id, agent.id)
    fork.jump(1)
    again = grandchild.fork("again", at=1)
    assert texts(again) == ["one"]
    assert store.verify() == []


def test_an_event_that_a_fork_inherits_is_found_by_its_key_when_its_owner_is_gone(store, agent):
    event = agent.append("user", "a", key="the one")
    agent.append("user", "b", key="another")
    fork = agent.fork("fork", at=event.seq)
    assert store.find("the one") == [(agent, event)]
    store.delete(agent)
    assert store.find("the one") == [(fork, event)]
    assert store.find("another") == []


def test_inherited_events_are_removed_with_the_last_fork(store, agent):
    agent.extend([("user", "one"), ("user", "two"), ("user", "three")])
    early, late = agent.fork("early", at=1), agent.fork("late", at=3)
    assert store.delete("main").events == 0
    assert store.delete("late").events == 2
    assert texts(early) == ["one"]
    assert store.verify() == []
    assert store.delete("early").events == 1
    assert (store.agents(), store.sessions(), store.verify()) == ([], [], [])
    with pytest.raises(backstory.AgentNotFound):
        late.context()


def test_a_deleted_agent_between_two_others_holds_them_together(store, agent):
    agent.extend([("user", "a1"), ("user", "a2")])
    middle = agent.fork("middle")
    middle.extend([("user", "m3"), ("user", "m4")])
    last = middle.fork("last", at=3)
    store.delete("middle")
    store.delete("main")
    assert texts(last) == ["a1", "a2", "m3"]
    assert store.verify() == []


def test_sub_agents_survive_and_keep_nothing_of_the_one_they_came_from(store, agent):
    agent.extend([("user", "one"), ("user", "two")])
    fork = agent.fork("fork")
    fork.user("three")
    sub = fork.spawn("sub")
    sub.user("alone")
    assert store.delete("fork").events == 1
    assert store.delete("main").events == 2
    assert texts(sub) == ["alone"]
    assert store.verify() == []


def test_below_takes_all_that_come_from_it(store, agent):
    agent.user("one")
    fork = agent.fork("fork")
    sub = fork.spawn("sub")
    sub.user("two")
    other = agent.fork("other")
    removed = store.delete("fork", below=True)
    assert {one.id for one in removed.agents} == {fork.id, sub.id}
    assert contents(store) == ["main", "other"]
    assert len(store.delete(agent, below=True).agents) == 2
    assert (store.agents(), store.verify()) == ([], [])
    with pytest.raises(backstory.AgentNotFound):
        other.user("late")


def test_a_dry_run_reports_a_deletion_and_changes_nothing(store, agent):
    agent.extend([("user", "one"), ("user", "two")])
    agent.fork("fork", at=1)
    planned = store.delete("main", dry_run=True)
    assert agent.head == 2
    assert store.delete("main") == planned


def test_the_key_of_a_deleted_agent_can_be_used_again(store):
    first = store.ensure("k", system="one")
    store.delete(first)
    second = store.ensure("k", system="two")
    assert texts(second) == ["two"]
    with pytest.raises(backstory.AgentNotFound):
        first.user("to the old one")
    assert texts(second) == ["two"]


def test_where_forks_of_the_old_one_survive_the_key_begins_another_session(store):
    generations = []
    for n in range(3):
        agent = store.ensure("k")
        agent.user(str(n))
        generations.append(agent.fork(f"fork {n}"))
        store.delete(agent)
    last = store.ensure("k")
    assert len({agent.session for agent in (*generations, last)}) == 4
    assert [texts(agent) for agent in generations] == [["0"], ["1"], ["2"]]
    assert store.ensure("k") == last == store.agent(key="k")
    for fork in generations:
        store.delete(fork)
    assert store.ensure("k") == last
    assert store.verify() == []
    with pytest.raises(backstory.KeyTaken):
        store.start("another", key="k")


def test_a_keyed_fork_can_be_made_again_too(store, agent):
    agent.user("hi")
    fork = agent.fork("f", key="k")
    fork.user("from the first")
    grandchild = fork.fork("g")
    store.delete(fork)
    again = agent.fork("f", key="k")
    assert store.agent(key="k") == again != fork
    assert texts(grandchild) == ["hi", "from the first"]
    assert store.verify() == []


def test_threads_that_delete_and_ensure_one_key_never_lose_it(store):
    def work(nth):
        for _ in range(5):
            agent = store.ensure("shared")
            try:
                agent.user(str(nth))
                if nth % 2:
                    agent.fork()
                store.delete(agent)
            except backstory.AgentNotFound:
                pass

    in_threads(work, 4)
    assert store.ensure("shared") == store.agent(key="shared")
    assert store.verify() == []


def test_a_source_is_forgotten_with_the_agent_it_became(store):
    with store.intake() as intake:
        agent = intake.agent("k", name="imported")
        intake.extend(agent, [("user", "from elsewhere")])
        intake.remember("tool", "their-id", agent=agent, cursor={"line": 1})
        intake.commit()
    assert store.intake().source("tool", "their-id") is not None
    store.agent(key="k").fork("fork")
    store.delete(store.agent(key="k"))
    assert store.intake().source("tool", "their-id") is None
    with store.intake() as intake:  # what is taken in again is another agent
        again = intake.agent("k")
        intake.extend(again, [("user", "once more")])
        intake.commit()
    assert (texts(store.agent(key="k")), store.verify()) == (["once more"], [])


def test_a_follower_sees_the_events_of_an_agent_that_was_made_again(store):
    first = store.ensure("k", system="one")
    first.user("two")
    with store.follow(timeout=0) as follower:
        store.delete(first)
        assert list(follower) == []
        store.ensure("k", system="again")
        assert [event.content for _, event in follower] == ["again"]


def test_a_deleted_name_is_free_in_its_session(store, agent):
    agent.user("hi")
    fork = agent.fork("idea")
    fork.fork("deeper")
    store.delete("idea")
    assert agent.fork("idea").name == "idea"


def test_the_number_of_a_deleted_agent_is_not_given_to_the_next(store, agent):
    agent.user("hi")
    old = agent.fork("old")
    old.user("secret")
    store.delete(old)
    new = agent.fork("new")
    new.user("plain")
    with pytest.raises(backstory.AgentNotFound):
        old.context()
    store.delete(new)
    store.delete(agent)
    fresh = store.start("fresh")
    for gone in (old, new, agent):
        with pytest.raises(backstory.AgentNotFound):
            gone.user("to nobody")
    assert (fresh.head, store.verify()) == (0, [])


def test_a_session_whose_root_is_deleted_is_still_listed_paged_and_found(store):
    roots = [store.start(name) for name in ("a", "b", "c")]
    fork = roots[1].fork("fork")
    store.delete("b")
    everything = store.sessions()
    assert {session.id for session in everything} == {root.id for root in roots}
    for order in ("born", "updated"):
        paged, last = [], None
        while page := store.sessions(order=order, limit=1, after=last):
            paged += page
            last = page[-1]
        assert sorted(session.id for session in paged) == sorted(root.id for root in roots)
    assert store.agents(session=roots[1].id) == [fork]
    assert store.agent(f"{roots[1].id}/fork") == store.agent(f"{fork.session[:35]}/fork") == fork


def test_search_finds_inherited_events_and_no_deleted_ones(store, agent):
    agent.extend([("user", "apple inherited"), ("user", "apple gone")])
    fork = agent.fork("fork", at=1)
    assert len(store.search("apple")) == 2
    store.delete("main")
    assert [(hit.agent, hit.event.content) for hit in store.search("apple")] == [
        (fork, "apple inherited")
    ]
    assert [hit.event.content for hit in store.search("apple", live=True)] == ["apple inherited"]
    fork.user("apple later")
    assert len(store.search("apple", agent="fork")) == 2


def test_an_export_contains_the_rest_of_deleted_agents(store, agent):
    agent.extend([("user", "one"), ("user", "two")])
    fork = agent.fork("fork", at=1)
    fork.spawn("sub").user("alone")
    store.delete("main")
    store.delete("fork")
    other = fork.session
    kept = io.StringIO()
    store.export_to(kept)
    assert "two" not in kept.getvalue()
    with backstory.open(":memory:") as copy:
        copy.import_from(kept.getvalue().splitlines())
        assert copy.import_from(kept.getvalue().splitlines()).agents == 0
        assert [agent.name for agent in copy.agents()] == ["sub"]
        assert (copy.agents()[0].session, copy.verify()) == (other, [])


def test_an_import_does_not_restore_a_deleted_agent_that_others_need(store, agent):
    agent.extend([("user", "one"), ("user", "two")])
    before = io.StringIO()
    store.export_to(before)
    agent.fork("fork", at=1)
    store.delete("main")
    with pytest.raises(backstory.Invalid, match="was deleted from this store"):
        store.import_from(before.getvalue().splitlines())


def test_a_seal_reports_a_deleted_agent(store, agent):
    agent.user("one")
    fork = agent.fork("fork")
    seal = store.seal()
    store.delete("main")
    assert [finding.agent_id for finding in store.verify(seal=seal)] == [agent.id]
    assert store.verify(seal=store.seal()) == []
    assert texts(fork) == ["one"]


def test_what_is_not_there_cannot_be_deleted(store, agent):
    with pytest.raises(backstory.AgentNotFound):
        store.delete("nobody")
    assert store.agents() == [agent]


# --- the bytes ---


def raw(path):
    return b"".join(file.read_bytes() for file in Path(path).parent.glob(f"{Path(path).name}*"))


def test_after_a_deletion_no_file_contains_the_text(new_url):
    url = new_url("sqlite")
    with backstory.open(url) as store:
        agents = [store.ensure(f"key-{n}-secretkey", name=f"name{n}") for n in range(8)]
        for n in range(1_500):  # interleaved, of all sizes: pages are split, and values overflow
            agent = agents[n * 7 % 8]
            agent.user(
                f"kept{n}x" if agent is agents[0] else f"secret{n}x " + "filler " * (n % 5) ** 5
            )
            if n % 100 == 0:
                store.search("anything")
        agents[1].describe(title="secrettitle")
        agents[1].note("secretnote", {"of": "secretdata"})
        for agent in agents[1:]:
            store.delete(agent)
        with backstory.open(url) as other:  # files are looked at while the store is open
            assert [hit.event.content for hit in other.search("kept8x")] == ["kept8x"]
            assert other.verify() == []
        found = raw(url)
        assert b"kept8x" in found
        left = [n for n in range(1_500) if b"secret%dx" % n in found]
        assert left == []
        for word in (b"secrettitle", b"secretnote", b"secretdata", b"key-1-secretkey", b"name1"):
            assert word not in found


def test_postgres_has_no_row_with_deleted_text(new_url):
    import psycopg

    url = new_url("postgres")
    with backstory.open(url) as store:
        agent = store.ensure("secretkey", name="secretname")
        agent.user("secret one")
        agent.user("secret two")
        agent.fork("fork", at=0)
        store.search("secret")
        store.delete(agent)
    with psycopg.connect(url) as db:
        tables = db.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'backstory' ORDER BY tablename"
        ).fetchall()
        dump = "".join(
            str(db.execute(f"SELECT * FROM backstory.{name}").fetchall())  # type: ignore[call-overload]
            for (name,) in tables
        )
    assert "secret" not in dump


def test_a_session_without_its_root_is_titled_by_its_eldest_agent(store):
    root = store.start("root")
    root.user("hi")
    root.fork("eldest").describe(title="What is left", tags=["x"])
    root.fork("younger").describe(title="Another")
    root.describe(title="Gone")
    assert [session.title for session in store.sessions()] == ["Gone"]
    store.delete(root)
    [session] = store.sessions()
    assert (session.title, session.tags) == ("What is left", ("x",))


@pytest.mark.parametrize("read", [backstory.Agent.messages, backstory.Agent.context])
def test_a_fork_that_is_deleted_in_the_middle_of_a_read_is_not_found(store, monkeypatch, read):
    """Not even what it inherited is returned."""
    parent = store.start("parent")
    parent.user("inherited")
    fork = parent.fork("fork")
    fork.user("own")
    walk = store._backend.walk

    def walk_and_delete(*args):
        monkeypatch.undo()
        found = walk(*args)
        store.delete(fork.id)
        return found

    monkeypatch.setattr(store._backend, "walk", walk_and_delete)
    with pytest.raises(backstory.AgentNotFound):
        read(fork)


# --- an agent that is deleted in the middle of a read of all agents ---


def test_notes_of_all_agents_do_without_one_that_is_deleted_meanwhile(store, agent, monkeypatch):
    agent.note("todo")
    passing = agent.fork("passing")
    act_before(store, monkeypatch, "walk", lambda: store.delete(passing))
    assert [owner for owner, _ in store.last_notes("todo")] == [agent]


def test_a_key_is_looked_for_without_an_agent_that_is_deleted_meanwhile(store, agent, monkeypatch):
    agent.append("user", "hello", key="k")
    act_before(store, monkeypatch, "list_agents", lambda: store.delete(agent))
    assert store.find("k") == []


def test_verify_does_without_an_agent_that_is_written_to_and_deleted_meanwhile(
    store, agent, monkeypatch
):
    agent.user("one")
    act_before(store, monkeypatch, "read_rows", lambda: agent.user("two"))
    act_before(store, monkeypatch, "read_head", lambda: store.delete(agent))
    assert store.verify() == []
    assert store.agents() == []
