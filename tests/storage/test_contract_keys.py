"""What every backend does with keys, notes, descriptions and pages."""

import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

import backstory
from backstory import listings
from tests.threads import in_threads

# --- keys of agents ---


def test_ensure_starts_a_session_once_and_finds_it_again(store):
    first = store.ensure("user/42", system="Be careful.")
    again = store.ensure("user/42", name="another name")
    assert again == first == store.agent(key="user/42")
    assert again.name == first.name
    assert first.key == "user/42"
    assert [event.content for event in again.events()] == ["Be careful."]


def test_ensure_replaces_a_system_prompt_that_changed(store):
    agent = store.ensure("bot", system="Old.")
    agent.user("hi")
    for _ in range(2):  # the next start of the program, and the one after it
        assert store.ensure("bot", system="New.") == agent
    assert [event.content for event in agent.events()] == ["Old.", "hi", "New."]
    assert agent.conversation().to("anthropic")["system"] == [{"type": "text", "text": "New."}]
    before = agent.conversation(at=2).to("anthropic")["system"]
    assert before == [{"type": "text", "text": "Old."}]
    store.ensure("bot", system="Old.")
    assert agent.conversation().to("anthropic")["system"] == [{"type": "text", "text": "Old."}]


def test_ensure_leaves_later_system_messages_and_writes_a_prompt_that_was_cleared(store):
    agent = store.ensure("bot", system="Base.")
    agent.system("It is Monday.")
    assert store.ensure("bot", system="Base.").head == 2
    agent.clear()
    assert store.ensure("bot", system="Base.").head == 4
    with pytest.raises(backstory.Invalid):
        store.ensure("bot", system=" ")
    assert agent.head == 4


def test_processes_that_ensure_a_new_prompt_at_once_write_it_once(store):
    agent = store.ensure("bot", system="Old.")
    in_threads(lambda _: store.ensure("bot", system="New."), 8)
    assert [event.content for event in agent.events()] == ["Old.", "New."]


def test_a_name_is_derived_from_any_key(store):
    for key in ("a/b@c", " blanks ", "x" * 1_000, "ключ", "\n"):
        agent = store.ensure(key)
        assert (store.agent(key=key), agent.key) == (agent, key)
        assert store.agent(agent.id) == agent


def long_text(seed):
    """A thousand characters that cannot be compressed, four bytes each: too much for a btree."""
    choose = random.Random(seed)
    return "".join(chr(choose.randrange(0x20000, 0x2A000)) for _ in range(1_000))


def test_the_longest_keys_are_keys_in_every_script(store):
    key = long_text("a key")
    like_it = key[:-1] + "x"
    agent = store.ensure(key)
    assert store.ensure(key) == agent != store.ensure(like_it)
    assert store.agents(prefix=key[:999]) == [agent, store.agent(key=like_it)]
    assert store.agents(prefix=key) == [agent]
    assert agent.fork(key=long_text("of a fork")).key == long_text("of a fork")
    event = agent.append("user", "once", key=key)
    assert agent.append("user", "once", key=key) == event == agent.find(key)
    assert agent.append("user", "another", key=like_it).seq == event.seq + 1
    assert [found.seq for _, found in store.find(like_it)] == [event.seq + 1]
    with store.intake() as intake:
        assert intake.find_keys([key, "no such key", key]) == {key}


def test_the_name_of_a_note_may_be_long(store, agent):
    name = long_text("a name")
    note = agent.note(name, {"n": 1})
    agent.note(name[:-1] + "x")
    assert agent.notes(name) == [note]
    assert agent.last_notes([name]) == {name: note}
    assert store.last_notes(name) == [(agent, note)]


def test_a_prefix_is_the_beginning_of_keys_and_nothing_else(store):
    keys = [
        "user:",
        "user:1",
        "user:ä",
        "user:\U0010ffff\U0010ffff",
        "User:1",
        "user1",
        "usér:1",
        "user;",
        "use",
    ]
    for key in keys:
        store.ensure(key)
    for prefix in ("user:", "user", "u", "user:\U0010ffff"):
        assert {agent.key for agent in store.agents(prefix=prefix)} == {
            key for key in keys if key.startswith(prefix)
        }


@pytest.mark.parametrize("key", ["", "x" * 1_001, "a\0b", "\ud800", 3, None])
def test_what_is_not_a_key_is_refused_and_nothing_is_made(store, key):
    with pytest.raises(backstory.Invalid):
        store.ensure(key)
    assert store.agents() == []


def test_the_id_of_a_keyed_agent_is_the_same_in_every_store(store):
    with backstory.open(":memory:") as other:
        assert store.ensure("k").id == other.ensure("k").id


def test_a_key_that_is_taken_is_refused_and_one_that_is_not_there_is_not_found(store, agent):
    store.ensure("k")
    for make in (store.start, agent.fork, agent.spawn):
        with pytest.raises(backstory.KeyTaken, match="key 'k' already exists"):
            make("another", key="k")
    with pytest.raises(backstory.AgentNotFound, match="no agent has the key 'missing'"):
        store.agent(key="missing")
    assert len(store.agents()) == 2


def test_forks_and_sub_agents_have_keys_too(store, agent):
    agent.user("hi")
    fork, sub = agent.fork("f", key="fork"), agent.spawn("s", key="sub")
    assert (store.agent(key="fork"), store.agent(key="sub")) == (fork, sub)
    assert (fork.session, fork.fork_seq, sub.spawned) == (agent.session, 1, True)


def test_threads_that_ask_for_one_key_get_one_session(store):
    found = []
    in_threads(lambda nth: found.append(store.ensure("shared", system="once").id), 8)
    assert len(found) == 8
    assert len(set(found)) == len(store.agents()) == store.agent(key="shared").head == 1


def test_eight_processes_that_ask_for_one_key_make_one_session(durable_url):
    backstory.open(durable_url).close()
    code = "import sys, backstory; print(backstory.open(sys.argv[1]).ensure('shared', system='once').id)"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, durable_url], stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    ids = {process.communicate()[0] for process in started}
    assert [process.returncode for process in started] == [0] * 8
    with backstory.open(durable_url) as store:
        assert ids == {f"{store.agent(key='shared').id}\n"}
        assert [agent.head for agent in store.agents()] == [1]


# --- keys of events ---


def test_an_event_is_written_once_under_its_key(store, agent):
    first = agent.append("user", "hi", {"n": 1}, key="k")
    assert agent.append("user", "hi", {"n": 1}, key="k") == first
    assert (agent.head, first.key, agent.find("k"), agent.find("other")) == (1, "k", first, None)
    assert agent.events()[0].key == "k"


def test_a_key_of_a_different_event_is_refused(store, agent):
    agent.append("user", "hi", None, key="k")
    for other in (("user", "ho", None), ("assistant", "hi", None), ("user", "hi", {"a": 1})):
        with pytest.raises(backstory.KeyTaken, match="position 1 has the key 'k'"):
            agent.append(*other, key="k")
    with pytest.raises(backstory.Invalid, match="the same key"):
        agent.extend([("user", "a", None, "x"), ("user", "a", None, "x")])
    assert agent.head == 1


def test_a_batch_writes_its_new_events_and_returns_all(store, agent):
    agent.extend([("user", "a", None, "1"), ("user", "b", None, "2")])
    written = agent.extend([("user", "b", None, "2"), ("user", "c", None, "3"), ("user", "d")])
    assert [(event.seq, event.content) for event in written] == [(2, "b"), (3, "c"), (4, "d")]
    assert store.verify() == []


def test_a_fork_finds_the_keys_it_inherits_and_only_those(store, agent):
    agent.append("user", "a", None, key="1")
    fork = agent.fork("f")
    agent.append("user", "later", None, key="2")
    assert fork.append("user", "a", None, key="1").seq == 1
    assert fork.find("2") is None
    assert fork.append("user", "mine", None, key="2").seq == 2
    assert [(owner.name, event.content) for owner, event in store.find("2")] == [
        ("main", "later"),
        ("f", "mine"),
    ]


def test_a_repeat_under_expected_has_to_have_the_same_key(store, agent):
    first = agent.append("jump", None, {"target_message_id": 0}, key="mine", expected=0)
    assert agent.append("jump", None, {"target_message_id": 0}, key="mine", expected=0) == first
    with pytest.raises(backstory.Conflict):
        agent.append("jump", None, {"target_message_id": 0}, key="yours", expected=0)


def test_keys_and_jumps_are_written_after_an_expected_head(store, agent):
    agent.extend([("user", "a"), ("user", "b")])
    jump = ("jump", None, {"target_message_id": 1}, "j")
    batch = [("user", "c", None, "k"), jump, ("clear", None, None, "l"), ("user", "d")]
    written = agent.extend(batch, expected=2)
    assert [event.seq for event in written] == [3, 4, 5, 6]
    assert [row.base for row in agent.outline()] == [None, None, None, 1, 0, None]
    assert agent.extend(batch, expected=2) == written
    assert store.verify() == []


def test_keys_that_exist_are_found_under_expected(store, agent):
    [first] = agent.extend([("user", "a", None, "k")], expected=0)
    later = agent.user("b")
    assert agent.append("user", "a", key="k", expected=0) == first
    assert agent.append("user", "a", key="k", expected=2) == first
    assert agent.append("user", "a", key="k", expected=99) == first
    assert agent.extend([("user", "a", None, "k"), ("user", "c")], expected=2) == [
        first,
        agent.events()[-1],
    ]
    for expected in (0, 3):
        with pytest.raises(backstory.KeyTaken, match="position 1 has the key 'k'"):
            agent.append("user", "other", key="k", expected=expected)
    with pytest.raises(backstory.Invalid, match="the same key"):
        agent.extend([("user", "a", None, "x"), ("user", "a", None, "x")], expected=3)
    with pytest.raises(backstory.Conflict):
        agent.extend([("user", "a", None, "k"), ("user", "new", None, "n")], expected=later.seq - 1)
    assert agent.head == 3
    assert store.verify() == []


def test_a_fork_finds_inherited_keys_under_expected(agent):
    first = agent.append("user", "a", key="k")
    fork = agent.fork("f")
    assert fork.append("user", "a", key="k", expected=1) == first
    with pytest.raises(backstory.KeyTaken):
        fork.append("user", "other", key="k", expected=1)
    assert fork.head == 1


def write_in_vain(store, agent, events):
    other = store.start("other")
    with pytest.raises(backstory.Conflict):
        store.write([(agent, events), (other, [("user", "x")], 5)])


def take_in_in_vain(store, agent, events):
    intake = store.intake()
    intake.extend(agent, events)
    intake.extend(agent, [("user", "x")], expected=5)
    with pytest.raises(backstory.Conflict):
        intake.commit()


def start_in_vain(store, agent, events):
    store.start("other", key="taken")
    with pytest.raises(backstory.KeyTaken):
        store.start("main", key="taken", events=events)


@pytest.mark.parametrize("write", [write_in_vain, take_in_in_vain, start_in_vain])
def test_an_inert_event_is_logged_only_when_it_is_in_the_log(store, agent, write, caplog):
    events = [("rewind", None, {"target_message_id": 9})]
    write(store, agent, events)
    assert caplog.messages == []
    with store.intake() as intake:
        intake.extend(agent, events)
    other = store.start("started", events=events)
    assert caplog.messages == [
        f"agent {name!r} ({id}), position 1: invalid rewind: 9 is not an earlier position; "
        "the event is inert"
        for name, id in (("main", agent.id), ("started", other.id))
    ]


def test_a_malformed_jump_under_expected_is_inert_and_logged_once(agent, caplog):
    agent.extend([("jump", None, {"target_message_id": 9}), ("user", "a")], expected=0)
    assert [event.content for event in agent.context().messages] == ["a"]
    assert len(caplog.messages) == 1
    assert "position 1: invalid jump: 9 is not an earlier position" in caplog.messages[0]


def test_an_empty_batch_under_expected_is_checked_too(store, agent):
    assert agent.extend([], expected=0) == []
    with pytest.raises(backstory.Conflict):
        agent.extend([], expected=99)


def test_twenty_threads_that_pop_get_twenty_items(store, agent):
    agent.extend([("user", str(n)) for n in range(20)])
    popped = []

    def pop(nth):
        while True:
            context = agent.context()
            newest = [event for event in context.messages if event.kind == "user"][-1]
            target = {"target_message_id": newest.seq - 1}
            try:
                agent.append("jump", None, target, key=f"pop {nth}", expected=context.at)
            except backstory.Conflict:
                continue
            popped.append(newest.content)
            return

    in_threads(pop, 20)
    assert sorted(popped, key=int) == [str(n) for n in range(20)]


# --- notes ---


def test_notes_follow_rewinds_and_forks_and_no_model_is_given_them(store, agent):
    agent.note("state", {"n": 1})
    agent.user("hi")
    agent.mark("x")
    agent.note("state", {"n": 2})
    agent.note("other")
    fork = agent.fork("f")
    agent.rewind("x")
    assert [note.data for note in agent.notes("state")] == [{"n": 1}]
    assert [note.content for note in fork.notes()] == ["state", "state", "other"]
    assert agent.last_notes(["state"])["state"].data == {"n": 1}
    assert (
        fork.last_notes(["state"])["state"].data,
        fork.last_notes(["state"], at=2)["state"].data,
    ) == (
        {"n": 2},
        {"n": 1},
    )
    assert agent.last_notes(["missing"]) == {}
    assert [note.data for note in agent.notes("state", live=False)] == [{"n": 1}, {"n": 2}]
    assert [message.kind for message in agent.conversation()] == ["user"]
    assert [(owner.name, note.data) for owner, note in store.last_notes("state")] == [
        ("main", {"n": 1}),
        ("f", {"n": 2}),
    ]


def test_names_of_notes_that_are_ours_are_refused(agent):
    with pytest.raises(backstory.Invalid, match="the library's own"):
        agent.note("backstory.settings", {})
    assert agent.head == 0


# --- beside the log ---


def test_details_of_an_agent_change_key_by_key(store, agent):
    assert agent.about == {}
    agent.describe(title="First", tags=["a", "b"], cwd="/x")
    store.agent("main").describe(title="Second", cwd=None)
    assert store.agent("main").about == {"title": "Second", "tags": ["a", "b"]}
    [session] = store.sessions()
    assert (session.title, session.tags) == ("Second", ("a", "b"))
    assert agent.describe(title=None, tags=None) == {}
    assert agent.head == 0


@pytest.mark.parametrize(
    "about",
    [{"title": ""}, {"title": 3}, {"tags": "a"}, {"tags": [1]}, {"x": {1}}, {"x": "y" * 70_000}],
    ids=str,
)
def test_invalid_details_of_an_agent_are_refused(agent, about):
    with pytest.raises(backstory.Invalid):
        agent.describe(**about)
    assert agent.about == {}


# --- pages ---


def test_agents_are_listed_page_by_page_in_both_orders(store):
    agents = [store.ensure(f"user/{n}") for n in range(7)]
    for n in (3, 0, 6):
        agents[n].user("hi")
    born, updated = [], []
    while page := store.agents(limit=2, after=born[-1] if born else None):
        born += page
    while page := store.agents(order="updated", limit=2, after=updated[-1] if updated else None):
        updated += page
    assert born == agents
    assert [agent.key for agent in updated[:3]] == ["user/6", "user/0", "user/3"]
    assert sorted(agent.id for agent in updated) == sorted(agent.id for agent in agents)
    assert [session.key for session in store.sessions(order="updated", limit=1)] == ["user/6"]


def test_listings_by_key_and_by_time(store):
    store.ensure("a/1"), store.ensure("a/2"), store.ensure("b/1")
    now = datetime.now(UTC)
    assert [agent.key for agent in store.agents(prefix="a/")] == ["a/1", "a/2"]
    assert len(store.agents(since=now - timedelta(hours=1))) == 3
    assert (
        store.agents(since=now + timedelta(hours=1))
        == store.agents(until=now - timedelta(hours=1))
        == []
    )
    assert len(store.sessions(prefix="b/", until=now + timedelta(hours=1))) == 1


@pytest.mark.parametrize(
    "asked", [{"order": "size"}, {"limit": 0}, {"limit": "3"}, {"since": datetime(2026, 1, 1)}]
)
def test_a_page_that_cannot_be_is_refused(store, asked):
    with pytest.raises(backstory.Invalid):
        store.agents(**asked)


@pytest.mark.parametrize("few", [2, 1_000])
def test_the_latest_sessions_with_a_prefix_are_paged_whether_they_are_few_or_many(
    store, monkeypatch, few
):
    monkeypatch.setattr(listings, "MOST_LISTED_BY_ID", few)
    made = [store.ensure(f"{kind}/{n}") for n in range(5) for kind in ("user", "other")][::2]
    for n in (3, 0):
        made[n].fork().user("later")
    wanted = [made[n].id for n in (0, 3, 4, 2, 1)]
    found, last = [], None
    while page := store.sessions(order="updated", prefix="user/", limit=2, after=last):
        found += [session.id for session in page]
        last = page[-1]
    assert found == wanted
    moment = store.sessions(order="updated", prefix="user/")[1].updated_at
    within = {"since": moment, "until": datetime.now(UTC) + timedelta(days=1)}
    assert [one.id for one in store.sessions(order="updated", prefix="user/", **within)] == wanted[
        :2
    ]
    assert store.sessions(order="updated", prefix="nobody/") == []
    behind = store.sessions(order="updated", prefix="user/", after="other/4")
    assert [one.id for one in behind] == wanted[2:]


def test_old_sessions_with_a_prefix_are_not_looked_for_among_all_that_are_later(store, monkeypatch):
    monkeypatch.setattr(listings, "MOST_LISTED_BY_ID", 2)
    monkeypatch.setattr(listings, "AGENTS_AT_ONCE", 2)
    old = [store.ensure(f"old/{n}").id for n in range(3)]  # more than a few
    for n in range(60):
        store.ensure(f"other/{n}")
    asked = []
    list_agents = store._backend.list_agents

    def record_query(query):
        asked.append(query)
        return list_agents(query)

    monkeypatch.setattr(store._backend, "list_agents", record_query)
    assert [one.id for one in store.sessions(order="updated", prefix="old/", limit=2)] == old[:0:-1]
    assert len(asked) < 15


def count_lookups(store, monkeypatch, act):
    """Return how often `act` lists agents."""
    lookups = []
    real = store._backend.list_agents

    def list_agents(*args):
        lookups.append(args)
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(store._backend, "list_agents", list_agents)
        act()
    return len(lookups)


def test_a_key_that_reads_like_the_next_generation_of_another_is_another(store):
    first = store.ensure("a")
    first.user("one")
    first.fork("heir")  # so that the row of the deleted agent stays
    store.delete(first.id)
    second = store.ensure("a")
    other = store.ensure("a\n1")
    assert other.id not in (first.id, second.id)
    assert store.agent(key="a\n1").id == other.id
    assert store.agent(key="a").id == second.id


def test_generations_of_a_key_are_not_counted_one_by_one(store, monkeypatch):
    for _ in range(40):
        agent = store.ensure("user:1")
        agent.fork()  # it keeps the row of the deleted agent
        store.delete(agent)
    assert count_lookups(store, monkeypatch, lambda: store.ensure("user:1")) < 40
    assert count_lookups(store, monkeypatch, lambda: store.ensure("user:1")) == 2


def test_an_agent_that_was_created_while_generations_are_counted_is_found(store, monkeypatch):
    agent = store.ensure("user:1")
    agent.fork()
    store.delete(agent)
    created = []
    real = store._backend.list_agents

    def list_agents(query):
        found = real(query)
        if query.key == "user:1" and not created:
            created.append(None)
            created[0] = store.ensure("user:1")
        return found

    monkeypatch.setattr(store._backend, "list_agents", list_agents)
    assert [store.ensure("user:1")] == created


def test_an_event_that_came_back_into_the_context_is_not_written_again(agent):
    first = agent.user("hello", key="k", once="context")
    agent.jump(0)
    agent.user("hello", key="k", once="context")
    agent.undo()
    repeated = agent.user("hello", key="k", once="context")
    assert (repeated.seq, repeated.is_live) == (first.seq, True)
    assert [message.content for message in agent.conversation()] == ["hello"]
