"""The conversations of pydantic-ai: saves, branches and forks, conflicts, and odd ids."""

import asyncio
import dataclasses
from datetime import UTC, datetime

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import backstory
from backstory.adapters.pydantic_ai import BackstoryConversations
from backstory.storage.sqlite.backend import SqliteBackend

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def asked(text):
    return ModelRequest(parts=[UserPromptPart(text, timestamp=NOW)], timestamp=NOW)


def answered(*parts):
    return ModelResponse(parts=list(parts), timestamp=NOW, model_name="claude-x")


def talk(*texts):
    messages = [
        asked(text) if n % 2 == 0 else answered(TextPart(text)) for n, text in enumerate(texts)
    ]
    return Conversation(messages=messages, conversation_id="c")


def words(conversation):
    parts = [part for message in conversation.messages for part in message.parts]
    return [getattr(part, "content", "(a call)") for part in parts]


@pytest.fixture
def store(durable_url):
    store = BackstoryConversations(durable_url)
    yield store
    store.close()


def test_a_save_stores_only_what_is_new(store, run):
    conversation = talk("a", "b")
    assert len(run(store.save(conversation))) == 2
    conversation.messages.append(asked("c"))
    assert len(run(store.save(conversation))) == 1
    assert words(run(store.load("c"))) == ["a", "b", "c"]
    assert [event.content for event in store.agent("c").events() if event.kind != "note"] == [
        "a",
        "b",
        "c",
    ]


def test_a_stale_save_a_second_creation_and_an_unknown_head_conflict(store, run):
    run(store.save(talk("a", "b")))
    one, two = run(store.load("c")), run(store.load("c"))
    one.messages.append(asked("one"))
    two.messages.append(asked("two"))
    run(store.save(one))
    with pytest.raises(ConversationConflict):
        run(store.save(two))
    with pytest.raises(ConversationConflict):
        run(store.save(talk("x")))
    lost = ConversationRecord(conversation_id="new", head_id="nobody")
    with pytest.raises(ConversationConflict):
        run(store.write_record(lost, expected_revision=None))
    new = ConversationEntry(id="new", parent_id=None, message=asked("new"))
    with pytest.raises(ConversationConflict):
        run(store.write_record(lost, new_entries=[new], expected_revision=None))
    with pytest.raises(ConversationConflict):
        run(store.delete_record("c", expected_revision="another"))
    assert words(run(store.load("c"))) == ["a", "b", "one"]


def test_of_two_savers_at_once_one_wins(store, run):
    async def savers():
        tries = [store.save(talk(f"saver {n}")) for n in range(6)]
        return await asyncio.gather(*tries, return_exceptions=True)

    outcomes = run(savers())
    assert sum(isinstance(each, ConversationConflict) for each in outcomes) == 5
    assert len(run(store.load("c")).messages) == 1


def test_scopes_keep_conversations_to_their_owners(store, run):
    run(store.save(talk("a"), scope="me"))
    assert run(store.load("c", scope="you")) is None
    assert run(store.list_conversations(scope="you")) == []
    assert len(run(store.list_conversations(scope="me"))) == 1
    run(store.delete("c", scope="you"))
    assert words(run(store.load("c", scope="me"))) == ["a"]


def test_conversations_are_listed_by_their_last_save(store, run):
    for id in ("one", "two", "three"):
        run(store.save(Conversation(conversation_id=id, messages=[asked(id)])))
    again = run(store.load("one"))
    again.messages.append(asked("more"))
    run(store.save(again))
    assert [each.conversation_id for each in run(store.list_conversations(limit=2))] == [
        "one",
        "three",
    ]


def test_a_fork_shares_and_survives_the_deletion_of_its_source(store, run):
    run(store.save(talk("a", "b", "c")))
    run(store.fork("c", at=2, new_conversation_id="f"))
    before = store.agent("f").head
    assert store.agent("f").fork_seq > 0
    run(store.delete("c"))
    assert words(run(store.load("f"))) == ["a", "b"]
    assert run(store.load("c")) is None
    run(store.save(talk("again")))
    assert words(run(store.load("c"))) == ["again"]
    assert store.agent("f").head == before


def test_every_part_comes_back_equal(store, run):
    image = BinaryContent(b"\x89PNG", media_type="image/png")
    messages = [
        ModelRequest(
            parts=[SystemPromptPart("Be brief.", timestamp=NOW)], timestamp=NOW, instructions="hm"
        ),
        ModelRequest(
            parts=[
                UserPromptPart(
                    ["look", ImageUrl("https://example.org/a.png"), image], timestamp=NOW
                )
            ]
        ),
        answered(
            ThinkingPart("so", signature="c2VhbA==", provider_name="anthropic"),
            TextPart("words"),
            ToolCallPart("f", '{"a": 1,  "b":2}', tool_call_id="1"),
            ToolCallPart("g", None, tool_call_id="2"),
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("f", {"deep": [1, None, 2.5]}, tool_call_id="1", timestamp=NOW),
                ToolReturnPart("g", "again", tool_call_id="2", outcome="retried", timestamp=NOW),
            ]
        ),
        answered(),
        ModelRequest(parts=[]),
        asked("a\0b \ud800"),
    ]
    run(store.save(Conversation(conversation_id="c", messages=list(messages))))
    loaded = run(store.load("c")).messages
    as_json = ModelMessagesTypeAdapter.dump_python(
        messages, mode="json"
    )  # what it keeps of a file's type
    assert loaded == ModelMessagesTypeAdapter.validate_python(as_json)
    agent = store.agent("c")
    assert [message.kind for message in agent.conversation()] == [
        *("system", "user", "assistant", "assistant", "tool_call", "tool_call"),
        *("tool_result", "tool_result", "assistant", "user"),
    ]
    body = agent.conversation().to("anthropic", model="claude-x")
    assert body["messages"][0]["content"][1]["type"] == "image"
    assert body["messages"][1]["content"][0]["type"] == "thinking"
    assert len(body["messages"][1]["content"]) == 4


def test_what_others_wrote_is_loaded_and_can_be_continued_and_forked(store, run):
    run(store.save(talk("a", "b")))
    agent = store.agent("c")
    agent.user("c")
    call = agent.tool_call("add", {"a": 1}, id="t1")
    agent.tool_result(call, "2")
    agent.assistant("d")
    loaded = run(store.load("c"))
    assert [type(message).__name__ for message in loaded.messages[2:]] == [
        "ModelRequest",
        "ModelResponse",
        "ModelRequest",
        "ModelResponse",
    ]
    assert loaded.messages[4].parts[0].tool_name == "add"
    forked = run(store.fork("c", new_conversation_id="f"))
    for conversation in (loaded, forked):
        conversation.messages.append(asked("e"))
        run(store.save(conversation))
    for id in ("c", "f"):
        assert words(run(store.load(id)))[-2:] == ["d", "e"]
    short = run(store.branch("c", at=3, expected_revision=run(store.load("c")).revision))
    assert words(short) == ["a", "b", "c"]


def test_what_the_agent_rewound_is_gone_and_a_copy_from_before_conflicts(store, run):
    run(store.save(talk("a", "b")))
    store.agent("c").mark("here")
    longer = run(store.load("c"))
    longer.messages.append(asked("c"))
    run(store.save(longer))
    store.agent("c").rewind("here")
    loaded = run(store.load("c"))
    assert words(loaded) == ["a", "b"]
    longer.messages.append(asked("d"))
    with pytest.raises(ConversationConflict):
        run(store.save(longer))
    loaded.messages.append(asked("e"))
    run(store.save(loaded))
    assert words(run(store.load("c"))) == ["a", "b", "e"]
    store.agent("c").clear()
    assert run(store.load("c")) is None


def test_two_processes_lose_nothing(durable_url, two_writers, run, sound):
    two_writers("pydantic_ai", durable_url)
    with backstory.open(durable_url) as opened:
        store = BackstoryConversations(opened)
        loaded = words(run(store.load("shared")))
        assert sorted(loaded) == sorted(f"{name} {n}" for name in ("one", "two") for n in range(50))
        sound(opened)


def test_an_unknown_entry_is_a_lookup_error(store, run):
    for id in ("nobody", "backstory:x:1", "backstory:x"):
        with pytest.raises(LookupError):
            run(store.read_entry(id))
    with pytest.raises(UserError):
        run(store.branch("nobody", at=1, expected_revision="x"))


@pytest.mark.parametrize("id", ["", "\0", "x" * 100_000], ids=["empty", "nul", "long"])
def test_an_entry_may_have_any_id(store, run, id):
    with pytest.raises(LookupError):
        run(store.read_entry(id))
    entry = ConversationEntry(id=id, parent_id=None, message=asked("Hello"))
    record = ConversationRecord(conversation_id="c", head_id=id, updated_at=NOW, revision="1")
    run(store.write_record(record, new_entries=[entry], expected_revision=None))
    assert run(store.read_entry(id)) == entry
    loaded = run(store.load("c"))
    loaded.messages.append(answered(TextPart("Hi")))
    run(store.save(loaded))
    assert words(run(store.load("c"))) == ["Hello", "Hi"]


@pytest.mark.parametrize("id", ["backstory", "backstory:x", "backstory:x:1", "backstory:x:3"])
def test_an_id_that_looks_like_ours_is_read_branched_from_and_forked(store, run, id):
    def write(conversation, entry_id, parent, expected):
        entry = ConversationEntry(id=entry_id, parent_id=parent, message=asked(entry_id))
        record = ConversationRecord(
            conversation_id=conversation, head_id=entry_id, revision=entry_id
        )
        run(store.write_record(record, new_entries=[entry], expected_revision=expected))
        return [each.id for each in run(store.read_history(entry_id))]

    assert write("c", id, None, None) == [id]
    store.agent("c").user("And?")  # at position 3
    behind = run(store.read_record("c"))
    assert write("c", "two", id, behind.revision) == [id, "two"]
    assert write("c", "three", id, "two") == [id, "three"]
    assert write("d", "four", id, None) == [id, "four"]
    assert run(store.read_entry(id)).message == asked(id)


@pytest.mark.parametrize("parent", ["backstory", "backstory:x", "backstory:x:0", "backstory:x:99"])
def test_an_entry_behind_one_of_others_that_is_not_there_conflicts(store, run, parent):
    run(store.save(talk("Hello")))
    before = run(store.read_record("c"))
    entry = ConversationEntry(parent_id=parent, message=asked("a"))
    record = ConversationRecord(conversation_id="c", head_id=entry.id)
    with pytest.raises(ConversationConflict):
        run(store.write_record(record, new_entries=[entry], expected_revision=before.revision))
    assert words(run(store.load("c"))) == ["Hello"]


@pytest.mark.parametrize(("id", "said"), [("a\ud800", "half of a surrogate pair"), (5, "not int")])
def test_an_id_that_is_no_text_writes_nothing(store, run, id, said):
    entry = ConversationEntry(id=id, parent_id=None, message=asked("Hello"))
    record = ConversationRecord(conversation_id="c", head_id=id)
    with pytest.raises(TypeError, match=said):
        run(store.write_record(record, new_entries=[entry], expected_revision=None))
    assert store._history.store.agents() == []


@pytest.mark.parametrize(
    "place", ["x:1", "{id}:0", "{id}:2", "{id}:", "{id}:x", "{id}:" + "9" * 5_000]
)
def test_an_unknown_entry_of_others_is_a_lookup_error(store, run, place):
    agent = store.agent("c")
    agent.user("Hello")
    with pytest.raises(LookupError):
        run(store.read_entry("backstory:" + place.format(id=agent.id)))


@pytest.mark.parametrize("message", [None, "Hello", {"kind": "request"}], ids=repr)
def test_what_is_no_message_writes_nothing(store, run, message):
    history = store.history("mine")
    with pytest.raises(TypeError, match="ModelRequest"):
        run(history.save([asked("Hello"), message]))
    assert run(history.load()) == []


def test_a_record_is_listed_as_it_is_read(store, run):
    run(store.save(talk("Hello")))
    store.agent("c").user("And?")
    assert run(store.read_records()) == [run(store.read_record("c"))]


def test_an_entry_behind_an_unknown_one_conflicts_and_writes_nothing(store, run):
    entry = ConversationEntry(parent_id="nobody", message=asked("a"))
    record = ConversationRecord(conversation_id="c", head_id=entry.id)
    with pytest.raises(ConversationConflict):
        run(store.write_record(record, new_entries=[entry], expected_revision=None))
    assert store._history.store.agents() == []


def test_a_thousand_messages_are_loaded_by_as_many_queries_as_four(tmp_path, run, monkeypatch):
    store = BackstoryConversations(str(tmp_path / "h.db"))

    def queries(id, conversation):
        conversation = dataclasses.replace(conversation, conversation_id=id)
        run(store.save(conversation))
        calls = []
        run_statement = SqliteBackend._run

        def count(self, *args):
            calls.append(1)
            return run_statement(self, *args)

        monkeypatch.setattr(SqliteBackend, "_run", count)
        found = run(store.load(id))
        monkeypatch.setattr(SqliteBackend, "_run", run_statement)
        assert found.messages == conversation.messages
        return len(calls)

    assert queries("long", talk(*map(str, range(1_000)))) == queries("short", talk("a", "b"))
    store.close()
