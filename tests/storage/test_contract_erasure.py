"""What every backend does when what events say is erased, or expires."""

import io
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import psycopg
import pytest

import backstory
from backstory.log import chain
from backstory.log.chain import digest_texts
from tests.storage.test_contract_deletion import raw
from tests.storage.test_contract_moves import act_while_compacting

FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "bedrock")


@pytest.fixture
def told(agent):
    """An agent that was told a secret in every kind of message."""
    agent.system("Be careful.")
    agent.user("secret question")
    call = agent.tool_call("look", {"for": "secret argument"}, id="c1")
    agent.tool_result(call, "secret output")
    agent.assistant("secret answer")
    agent.note("secret note", {"of": "secret payload"})
    agent.user("plain")
    return agent


def test_an_erased_event_keeps_its_position_without_its_text(store, told):
    before = told.events([2])[0]
    digests = [told.digest(position) for position in range(1, 8)]
    [event] = told.erase([2], why="asked by the user")
    assert event == told.events([2])[0]
    assert (event.seq, event.kind, event.created_us, event.content) == (
        2,
        "user",
        before.created_us,
        "",
    )
    erased = event.data["erased"]
    assert erased["why"] == "asked by the user"
    assert erased["content"] != sha256(b"secret question").hexdigest()
    assert datetime.fromisoformat(erased["at"]).tzinfo is not None
    assert [told.digest(position) for position in range(1, 8)] == digests
    assert store.verify() == []
    assert [event.content for event in told.context().messages][:2] == ["Be careful.", ""]


@pytest.mark.parametrize("format", FORMATS)
def test_requests_name_erased_calls_and_results_and_leave_out_other_erased_events(told, format):
    told.erase(range(2, 7), why="asked")
    dump = told.conversation().dump(format)
    assert "secret" not in str(dump.body)
    assert str(dump.body).count("(erased)") == 2
    assert [(one.rule, one.at) for one in dump.repairs if one.rule == "erased"] == [
        ("erased", position) for position in (2, 3, 4, 5)
    ]
    assert b"(erased)" in told.conversation().to_bytes(format)
    assert [message.kind for message in told.conversation()] == [
        "system",
        "tool_call",
        "tool_result",
        "user",
    ]


def test_forks_may_erase_inherited_events(store, told):
    fork = told.fork("fork")
    deeper = fork.fork("deeper")
    deeper.erase([2], why="asked")
    assert told.events([2])[0].content == fork.events([2])[0].content == ""
    store.delete("main")
    fork.erase([4], why="asked")
    assert deeper.events([4])[0].content == ""
    assert store.verify() == []


def test_copies_made_by_a_compaction_go_with_it_and_it_with_its_copies(store, told):
    told.compact("a summary", keep=2)
    fork = told.fork("fork")
    fork.user("more")
    fork.compact("another", keep=3)
    copies = [event for event in fork.events() if (event.data or {}).get("copy_of") == 5]
    assert len(copies) == 2
    erased = fork.erase([copies[-1].seq], why="asked")
    assert [event.seq for event in erased] == [5, *(copy.seq for copy in copies)]
    assert all(event.content != "secret answer" for event in fork.events())
    assert all(event.content != "secret answer" for event in told.events())
    assert store.verify() == []


def test_a_copy_of_the_end_of_an_item_goes_with_the_item_and_without_the_summary(store, agent):
    agent.user("question")
    call = agent.tool_call("look", {}, id="c1")
    agent.append("tool_result", "out", {"id": "c1", "item": {"of": "adk", "part": 1}})
    agent.append("user", "secret", {"item": {"of": "adk", "json": "[]", "events": 2}})
    agent.compact("a summary", keep=1)
    copy = agent.events()[-1]
    assert (call.seq, copy.data["copy_of"]) == (2, 4)
    erased = agent.erase([copy.seq], why="asked")
    assert [event.seq for event in erased] == [3, 4, copy.seq]
    assert agent.context().messages[0].content == "a summary"
    assert store.verify() == []


def test_what_was_erased_can_be_compacted_and_its_call_stays_legal(store, told):
    told.erase([3, 4], why="asked")
    told.compact("a summary", keep=4)
    assert "secret output" not in str(told.context().messages)
    assert str(told.conversation().to("anthropic")).count("(erased)") == 2
    assert store.verify() == []


def test_a_compaction_does_not_bring_back_text_that_is_erased_meanwhile(store, told, monkeypatch):
    text = told.events([7])[0].content
    act_while_compacting(monkeypatch, lambda: told.erase([7], why="asked"))
    written = told.compact("a summary", keep=1)
    assert text not in str(written)
    assert text not in str(told.events())
    assert store.verify() == []


def test_search_does_not_find_erased_text(store, told):
    assert len(store.search("secret")) == 5
    told.erase([2, 3], why="asked")
    assert sorted(hit.event.seq for hit in store.search("secret")) == [4, 5, 6]
    told.erase([4, 5, 6], why="asked")
    assert store.search("secret") == store.search("look") == []
    assert [hit.event.seq for hit in store.search("plain")] == [7]
    store.delete(told)
    assert store.search("plain") == []


def test_every_kind_can_be_erased_and_contexts_keep_their_positions(store, agent):
    agent.user("one")
    agent.mark("secret label")
    agent.user("two")
    agent.rewind()
    agent.jump(1, by="secret name")
    agent.undo()
    agent.clear(by="secret name")
    agent.user("three")
    before = [[event.seq for event in agent.context(at).messages] for at in range(9)]
    agent.erase(range(1, 9), why="asked")
    assert [[event.seq for event in agent.context(at).messages] for at in range(9)] == before
    assert agent.events([2])[0].label is None
    assert "secret" not in str(agent.events())
    assert store.verify() == []
    agent.undo()
    assert store.verify() == []


def test_an_event_is_erased_once_and_its_key_is_not_used_again(store, agent):
    agent.append("user", "secret", {"a": 1}, key="k")
    [first] = agent.erase([1], why="first")
    [again] = agent.erase([1], why="second")
    assert again == first
    assert agent.append("user", "secret", {"a": 1}, key="k") == first
    # Nobody can know whether this is what was erased.
    assert agent.append("user", "another", {"a": 1}, key="k") == first
    assert agent.head == 1


@pytest.mark.parametrize("positions", [[0], [99], [1, 99], ["1"], [True], [1.0]])
def test_what_is_not_there_cannot_be_erased_and_nothing_is(store, agent, positions):
    agent.user("stays")
    with pytest.raises((backstory.PositionNotFound, backstory.Invalid)):
        agent.erase(positions, why="asked")
    assert agent.events([1])[0].content == "stays"


@pytest.mark.parametrize("why", ["", "  ", None, 3, "x" * 1_001])
def test_an_erasure_needs_a_reason(store, agent, why):
    agent.user("stays")
    with pytest.raises(backstory.Invalid, match="needs a reason"):
        agent.erase([1], why=why)
    assert agent.events([1])[0].content == "stays"


def test_an_old_handle_erases_nothing(store, agent):
    agent.user("one")
    agent.fork("fork")
    store.delete(agent)
    with pytest.raises(backstory.AgentNotFound):
        agent.erase([1], why="asked")


def test_the_key_that_erased_events_have_in_their_data_is_reserved(store, agent):
    with pytest.raises(backstory.InvalidEvent, match="reserved"):
        agent.append("user", "x", {"erased": {}})
    with pytest.raises(backstory.InvalidEvent, match="reserved"):
        agent.extend([("note", "n", {"erased": None})])
    assert agent.head == 0


def test_an_export_carries_erased_events_and_imports_clean(store, told):
    told.erase([2, 3, 4], why="asked")
    kept = io.StringIO()
    store.export_to(kept)
    assert "secret question" not in kept.getvalue()
    with backstory.open(":memory:") as copy:
        copy.import_from(kept.getvalue().splitlines())
        assert copy.verify() == []
        assert copy.agent("main").events() == told.events()
        again = io.StringIO()
        copy.export_to(again)
        assert again.getvalue() == kept.getvalue()


def test_text_that_is_smuggled_into_an_erased_event_is_found_and_refused(new_url):
    with backstory.open(new_url("memory")) as store:
        agent = store.start("main")
        agent.user("secret")
        agent.erase([1], why="asked")
        kept = io.StringIO()
        store.export_to(kept)
        forged = kept.getvalue().replace('"content":"",', '"content":"forged",')
        with (
            backstory.open(":memory:") as other,
            pytest.raises(backstory.Invalid, match="still contains text"),
        ):
            other.import_from(forged.splitlines())
        [record] = store._backend.list_agents()
        with store._backend.begin(agents=[record]) as rows:
            rows.erase_event(record, 1, "forged", agent.events()[0].data_json)
        assert [finding.problem for finding in store.verify()] == [
            "it still contains text or data, although it is erased"
        ]


# --- expire ---


def later(seconds=3_600):
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_idle_sessions_expire_and_the_others_stay(store):
    old = [store.ensure(f"old/{n}", system="x") for n in range(2)]
    other = store.start("other")
    fork = old[0].fork("fork")
    moment = fork.created_at + timedelta(microseconds=1)
    for agent in (old[1], other):
        while agent.events([agent.head])[0].created_at < moment if agent.head else True:
            agent.user("still in use")
    planned = store.expire(moment)
    assert {one.id for one in planned.agents} == {old[0].id, fork.id}
    assert len(store.agents()) == 4
    assert store.expire(moment, dry_run=False) == planned
    assert {agent.id for agent in store.agents()} == {old[1].id, other.id}
    assert store.expire(later(), prefix="old/", dry_run=False).agents[0].key == "old/1"
    assert store.agents() == [other]
    assert store.verify() == []


def refuse_sessions(store, monkeypatch, *busy):
    """Let some sessions be in use. Return the sessions that are asked for, which grow."""
    real = store._backend.begin
    asked = []

    def begin(*, sessions=(), agents=()):
        asked.extend(sessions)
        if set(sessions) & set(busy):
            raise backstory.Busy("someone else is writing")
        return real(sessions=sessions, agents=agents)

    monkeypatch.setattr(store._backend, "begin", begin)
    return asked


def test_a_session_that_is_in_use_does_not_keep_others_from_expiring(store, monkeypatch):
    first, second, third = (store.ensure(f"s/{n}", system="x") for n in range(3))
    refuse_sessions(store, monkeypatch, second.session)
    removed = store.expire(later(), dry_run=False)
    assert [gone.id for gone in removed.agents] == [first.id, third.id]
    assert removed.skipped == (second.session,)
    assert store.agents() == [second]


def test_dead_contents_expire_beside_a_session_that_is_in_use(store, monkeypatch):
    agents = [store.ensure(f"s/{n}", system="dead") for n in range(3)]
    for agent in agents:
        agent.clear()
    refuse_sessions(store, monkeypatch, agents[0].session)
    removed = store.expire(later(), dead=True, dry_run=False)
    assert removed == backstory.Removed((), 0, 2, (agents[0].session,))
    assert [agent.events([1])[0].content for agent in agents] == ["dead", "", ""]


def test_after_several_sessions_in_a_row_that_are_in_use_the_others_are_not_tried(
    store, monkeypatch
):
    """Each one costs the timeout of the store, and probably the store itself is locked."""
    sessions = [store.start(f"s{n}").session for n in range(5)]
    asked = refuse_sessions(store, monkeypatch, *sessions)
    assert store.expire(later(), dry_run=False).skipped == tuple(sessions)
    assert asked == sessions[:3]


def test_expire_needs_an_aware_time(store):
    with pytest.raises(backstory.Invalid, match="time zone"):
        store.expire(datetime(2026, 1, 1))


def test_dead_contents_expire_and_nothing_that_a_context_a_fork_or_a_mark_needs(store, agent):
    agent.user("in the fork only")  # 1
    agent.user("at the fork")  # 2
    fork = agent.fork("fork")
    agent.clear()  # 3
    agent.user("dead")  # 4
    agent.clear()  # 5
    agent.user("before a dead mark")  # 6
    agent.mark("dead mark")  # 7
    agent.user("dead too")  # 8
    agent.note("dead note", {"x": 1})  # 9
    agent.clear()  # 10
    agent.user("live")  # 11
    fork.clear()
    contexts = [agent.context().messages, fork.context().messages, fork.context(2).messages]
    contexts += [agent.context(7).messages]
    assert store.expire(later(), dead=True) == backstory.Removed((), 0, 3)
    assert agent.events([4])[0].content == "dead"
    assert store.expire(later(-3_600), dead=True, dry_run=False).erased == 0
    assert store.expire(later(), dead=True, dry_run=False).erased == 3
    assert [
        position
        for position in range(1, 12)
        if "erased" in (agent.events([position])[0].data or {})
    ] == [
        4,
        8,
        9,
    ]
    assert contexts == [
        agent.context().messages,
        fork.context().messages,
        fork.context(2).messages,
        agent.context(7).messages,
    ]
    assert store.expire(later(), dead=True).erased == 0
    assert store.verify() == []


def test_labels_do_not_expire_with_the_context_that_they_were_given_in(store, agent):
    agent.user("labelled")
    agent.clear()
    agent.label("here", at=1)
    agent.clear()
    store.expire(later(), dead=True, dry_run=False)
    assert agent.context("here").messages[0].content == "labelled"


def test_live_copies_of_dead_messages_do_not_expire(store, agent):
    agent.user("one")
    agent.user("two")
    agent.compact("a summary", keep=1)
    store.expire(later(), dead=True, dry_run=False)
    assert [event.content for event in agent.context().messages] == ["a summary", "two"]
    assert agent.events([2])[0].content == ""
    assert store.verify() == []


# --- the bytes ---


def test_after_an_erasure_no_file_contains_the_text(new_url):
    url = new_url("sqlite")
    with backstory.open(url) as store:
        agents = [store.start(f"agent {n}") for n in range(3)]
        for n in range(600):
            agents[n % 3].user(
                f"secret{n}x " + "filler " * (n % 5) ** 5, data={"more": f"hidden{n}x"}
            )
            if n % 100 == 0:
                store.search("anything")
        store.search("anything")
        agents[0].compact("a summary", keep=10)
        for agent in agents:
            agent.erase(range(1, 201), why="asked")
        found = raw(url)
        left = [n for n in range(600) if b"secret%dx" % n in found or b"hidden%dx" % n in found]
        assert left == []
        assert store.verify() == []
        assert store.search("secret5x") == []


def test_postgres_has_no_row_with_erased_text(new_url):
    url = new_url("postgres")
    with backstory.open(url) as store:
        agent = store.start("main")
        agent.user("secret one", data={"more": "secret two"})
        store.search("secret")
        agent.erase([1], why="asked")
    with psycopg.connect(url) as db:
        names = db.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'backstory'"
        ).fetchall()
        dump = "".join(
            str(db.execute(f"SELECT * FROM backstory.{name}").fetchall()) for (name,) in names
        )
    assert "secret" not in dump


# --- what could be found out by trying ---


def read_everything(url, store):
    """All values in the files or tables of a store, and in an export of it, as one text."""
    export = io.StringIO()
    store.export_to(export)
    if url.endswith(".db"):
        return raw(url).hex() + raw(url).decode(errors="replace") + export.getvalue()
    if url == ":memory:":
        return str(store._backend.tables) + export.getvalue()
    with psycopg.connect(url) as db:
        tables = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'backstory'")
        rows = [db.execute(f"SELECT * FROM backstory.{name}").fetchall() for (name,) in tables]
    values = [value for table in rows for row in table for value in row]
    texts = [one.hex() if isinstance(one, bytes) else str(one) for one in values]
    return "\n".join(texts) + export.getvalue()


def test_nothing_is_left_to_compare_a_guess_of_erased_text_with(url):
    with backstory.open(url) as store:
        agent = store.start("main")
        agent.user("My PIN is 4711", data={"pin": "4711"})
        request = {"model": "m", "messages": [{"role": "user", "content": "My PIN is 4711"}]}
        answer = {"choices": [{"message": {"role": "assistant", "content": "A prime."}}]}
        [event] = agent.record(answer, model="m", request=request)
        request_digest = event.data["request"]["sha256"]
        fork = agent.fork("fork")
        [forked] = fork.record(answer, model="m", request=request)
        store.search("anything")
        [row] = store._backend.read_rows(agent._record, 0, 1)
        digests = [one.hex() for one in digest_texts(row.content, row.data_json, None)]
        guesses = [*digests, row.salt.hex(), request_digest]
        before = read_everything(url, store)
        assert row.salt.hex() in before or str(row.salt) in before
        assert request_digest in before

        agent.erase([1], why="asked")
        after = read_everything(url, store)
        assert [guess for guess in guesses if guess in after] == []
        assert str(row.salt) not in after
        assert agent.events([2])[0].data["request"]["sha256"] == ""
        assert fork.events([forked.seq])[0].data["request"]["sha256"] == ""
        assert len(store.search("prime")) == 2
        assert store.verify() == []
        findings = store.verify(requests=True)
        assert [finding.severity for finding in findings] == ["warning", "warning"]
        assert "cannot be checked" in findings[0].problem


def test_the_digests_of_requests_before_an_erased_event_stay(store, agent):
    agent.user("Hello.")
    request = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
    answer = {"choices": [{"message": {"role": "assistant", "content": "Hi."}}]}
    [event] = agent.record(answer, model="m", request=request)
    agent.user("My PIN is 4711")
    agent.erase([3], why="asked")
    assert agent.events([2])[0] == event
    assert store.verify(requests=True) == []


FILE_DIGEST = "a1" * 32


def test_a_digest_in_the_arguments_of_a_later_call_stays_until_the_call_is_erased(url):
    with backstory.open(url) as store:
        agent = store.start("main")
        agent.user("secret")
        agent.tool_call("chk", {"sha256": FILE_DIGEST})
        assert len(store.search(FILE_DIGEST)) == 1
        agent.erase([1], why="asked")
        assert agent.events([2])[0].data["arguments"] == {"sha256": FILE_DIGEST}
        assert len(store.search(FILE_DIGEST)) == 1
        agent.erase([2], why="asked")
        assert FILE_DIGEST not in read_everything(url, store)
        assert store.verify() == []


def test_events_with_the_digests_of_an_earlier_version_can_be_erased(store, agent, monkeypatch):
    """It emptied every `"sha256"` before it computed a digest, not only that of the request."""
    agent.user("question")
    with monkeypatch.context() as patch:
        patch.setattr(chain, "empty_request_digests", chain.empty_all_digests)
        agent.tool_call("chk", {"sha256": FILE_DIGEST}, id="c1")
        fork = agent.fork("fork")
        fork.tool_call("chk", {"sha256": FILE_DIGEST}, id="c2")
    fork.user("go on")
    assert store.verify() == []
    fork.erase([2, 3], why="asked")
    assert FILE_DIGEST not in str(fork.events())
    assert store.verify() == []


def test_erased_events_have_the_ids_of_their_owners(store, agent):
    agent.user("secret")
    fork = agent.fork("fork")
    fork.compact("a summary", keep=1)
    would_be = agent.erase([1], why="asked", dry_run=True)
    erased = agent.erase([1], why="asked")
    owners = [(event.owner_id, event.seq) for event in erased]
    assert owners == [(one.owner_id, one.seq) for one in would_be]
    assert {owner for owner, _ in owners} == {agent.id, fork.id}
