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
    DocumentUrl,
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
from pydantic_ai.usage import RequestUsage

import backstory
from backstory.adapters import pydantic_ai as adapter
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


@pytest.mark.parametrize(
    "id", ["", "\0", "x" * 100_000, "a (part 2)"], ids=["empty", "nul", "long", "reserved"]
)
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


@pytest.mark.parametrize("parent", ["backstory", "backstory:x", "backstory:x:0", "backstory:x:99"])
def test_an_entry_behind_one_of_others_that_is_not_there_conflicts(store, run, parent):
    run(store.save(talk("Hello")))
    before = run(store.read_record("c"))
    entry = ConversationEntry(parent_id=parent, message=asked("a"))
    record = ConversationRecord(conversation_id="c", head_id=entry.id)
    with pytest.raises(ConversationConflict):
        run(store.write_record(record, new_entries=[entry], expected_revision=before.revision))
    assert words(run(store.load("c"))) == ["Hello"]


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


def test_an_entry_behind_an_unknown_one_conflicts_and_writes_nothing(store, run, opened):
    entry = ConversationEntry(parent_id="nobody", message=asked("a"))
    record = ConversationRecord(conversation_id="c", head_id=entry.id)
    with pytest.raises(ConversationConflict):
        run(store.write_record(record, new_entries=[entry], expected_revision=None))
    assert opened.agents() == []


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


def test_files_stay_files_in_prompts_and_in_results(store, run):
    image = BinaryContent(b"\x89PNG\xff\xfe", media_type="image/png")
    document = BinaryContent(b"%PDF-1.7 \xff" * 10, media_type="application/pdf")
    prompt = ["look", document, DocumentUrl("https://example.org/b.pdf")]
    messages = [
        ModelRequest(parts=[UserPromptPart(prompt, timestamp=NOW)]),
        answered(ToolCallPart("f", {}, tool_call_id="1"), ToolCallPart("g", {}, tool_call_id="2")),
        ModelRequest(
            parts=[
                ToolReturnPart("f", ["here", image], tool_call_id="1", timestamp=NOW),
                ToolReturnPart("g", {"page": document}, tool_call_id="2", timestamp=NOW),
            ]
        ),
    ]
    run(store.save(Conversation(conversation_id="c", messages=list(messages))))
    agent = store.agent("c")
    [question, *_, first, second] = agent.messages()
    assert (question.content, first.content, second.content) == ("look", "here", '{"page":null}')
    [asking, _, results] = agent.conversation().to("anthropic")["messages"]
    assert [block["type"] for block in asking["content"]] == ["text", "document", "document"]
    types = [[block["type"] for block in each["content"]] for each in results["content"]]
    assert types == [["text", "image"], ["text", "document"]]
    loaded = run(store.load("c")).messages
    assert loaded[0].parts[0].content[1].data == document.data
    assert loaded[2].parts[0].content[1].data == image.data
    [form, *_] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    file = form["parts"][0]["content"][1]["data"]
    assert question.data_json.count(file) == 1  # the message and its exact form share it


def test_the_usage_of_an_answer_is_recorded_with_its_model(store, run):
    answer = answered(TextPart("Paris."), ToolCallPart("f", {}, tool_call_id="1"))
    answer.usage = RequestUsage(input_tokens=100, output_tokens=7, cache_read_tokens=40)
    run(store.save(Conversation(conversation_id="c", messages=[asked("a"), answer])))
    [_, text, call] = store.agent("c").messages()
    assert (text.data["model"], text.data["usage"]) == (
        "claude-x",
        {"input": 100, "output": 7, "cached": 40},
    )
    assert "usage" not in call.data


def test_a_listing_with_a_limit_does_not_read_other_tenants(store, run, monkeypatch):
    validated = []
    records = adapter.Records

    class Records:
        dump_python = staticmethod(records.dump_python)

        def validate_python(self, form):
            validated.append(form["conversation_id"])
            return records.validate_python(form)

    for scope in ("me", "you"):
        for number in range(5):
            conversation = Conversation(conversation_id=f"{scope}-{number}", messages=[asked("a")])
            run(store.save(conversation, scope=scope))
    monkeypatch.setattr(adapter, "Records", Records())
    found = run(store.list_conversations(scope="me", limit=2))
    assert [each.conversation_id for each in found] == ["me-4", "me-3"]
    assert validated == ["me-4", "me-3"]


def test_a_call_that_others_left_open_is_closed_unless_repair_is_off(durable_url, run):
    with backstory.open(durable_url) as opened:
        agent = opened.ensure("mine")
        agent.user("Look.")
        agent.tool_call("look", {}, id="c1")
        messages = run(BackstoryConversations(opened).history("mine").load())
        assert messages[2].parts[0].tool_call_id == "c1"
        assert messages[2].parts[0].outcome == "failed"
        plain = BackstoryConversations(opened, repair=False)
        assert len(run(plain.history("mine").load())) == 2
