"""The history of Microsoft's Agent Framework: the same with our provider as with the framework's own."""

import asyncio

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    tool,
)

import backstory
from backstory.adapters.agent_framework import BackstoryHistory

RANDOM = ("id", "additional_properties")


@tool(approval_mode="never_require")
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Client(FunctionInvocationLayer, BaseChatClient):
    """Answers by what it was asked, and keeps what it was given."""

    def __init__(self):
        super().__init__()
        self.given = []

    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        self.given.append([plain(message) for message in messages])
        last = messages[-1]
        if last.text == "add":
            calls = [
                Content.from_function_call(f"c{n}", "add", arguments={"a": n, "b": n})
                for n in (1, 2)
            ]
            return ChatResponse(messages=[Message("assistant", calls)], response_id="r")
        said = last.text or " and ".join(content.result for content in last.contents)
        return ChatResponse(messages=[Message("assistant", [f"it is {said}"])], response_id="r")


def plain(message):
    """What a message says, without ids and the notes that the framework makes about its providers."""

    def bare(value):
        match value:
            case dict():
                return {key: bare(each) for key, each in value.items() if key not in RANDOM}
            case list():
                return [bare(each) for each in value]
        return value

    return bare(message.to_dict())


async def story(provider):
    client = Client()
    agent = Agent(client, tools=[add], context_providers=[provider])
    session = AgentSession(session_id="s")
    for prompt in ("hello", "add", "hello"):
        await agent.run(prompt, session=session)
    return client.given


@pytest.fixture
def history(durable_url):
    history = BackstoryHistory(durable_url)
    yield history
    history.close()


def texts(messages):
    return [message.text for message in messages]


def test_the_model_is_given_the_same_as_with_the_provider_in_memory(history, run, sound, opened):
    theirs = run(story(InMemoryHistoryProvider()))
    ours = run(story(history))
    assert ours == theirs
    kinds = [message.kind for message in history.agent("s").conversation()]
    assert kinds == [
        *("user", "assistant", "user", "tool_call", "tool_call"),
        *("tool_result", "tool_result", "assistant", "user", "assistant"),
    ]
    sound(opened)


def test_messages_come_back_equal(history, run):
    messages = [
        Message("system", ["Be brief."]),
        Message(
            "user", ["look", Content.from_uri("https://example.org/a.png", media_type="image/png")]
        ),
        Message(
            "assistant",
            ["yes", Content.from_function_call("c", "f", arguments='{"a": ')],
            message_id="m",
        ),
        Message("tool", [Content.from_function_result("c", result={"deep": [1, None]})]),
        Message("assistant", [Content.from_text_reasoning(text="hm")]),
        Message("user", [], additional_properties={"x": 1}),
        Message(
            "assistant",
            [Content.from_function_approval_request("a", Content.from_function_call("c2", "g"))],
        ),
    ]
    run(history.save_messages("s", messages))
    found = run(history.get_messages("s"))
    assert [message.to_dict() for message in found] == [message.to_dict() for message in messages]
    body = history.agent("s").conversation().to("anthropic")
    assert body["messages"][0]["content"][1]["type"] == "image"


def test_a_transcript_handed_in_again_adds_only_what_is_new(history, run):
    first = [Message("user", ["a"]), Message("assistant", ["b"])]
    run(history.save_messages("s", first))
    run(history.save_messages("s", [*first, Message("user", ["c"])]))
    run(history.save_messages("s", [Message("user", ["c"])]))
    run(history.save_messages("s", [Message("user", ["d"], message_id="1")]))
    run(history.save_messages("s", [Message("user", ["d"], message_id="1")]))
    assert texts(run(history.get_messages("s"))) == ["a", "b", "c", "c", "d"]


def test_without_a_session_it_is_the_default_one_and_ids_are_any_text(history, run):
    for id in (None, "a/b", "x" * 3_000):
        run(history.save_messages(id, [Message("user", [str(id)])]))
    assert (
        texts(run(history.get_messages(None)))
        == texts(run(history.get_messages("default")))
        == ["None"]
    )
    assert texts(run(history.get_messages("a/b"))) == ["a/b"]
    assert run(history.get_messages("nobody")) == []


def test_excluded_messages_can_be_skipped(durable_url, run):
    history = BackstoryHistory(durable_url, skip_excluded=True, store_outputs=False)
    run(
        history.save_messages(
            "s", [Message("user", ["a"], additional_properties={"_excluded": True})]
        )
    )
    assert run(history.get_messages("s")) == []
    assert history.store_outputs is False
    history.close()


def test_a_crash_between_call_and_result_leaves_a_session_that_goes_on(history, run):
    call = Content.from_function_call("c", "add", arguments={"a": 1, "b": 2})
    run(history.save_messages("s", [Message("user", ["add"]), Message("assistant", [call])]))
    run(history.save_messages("s", [Message("user", ["hello?"])]))
    body = history.agent("s").conversation().to("openai")
    assert [message["role"] for message in body["messages"]] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]


def test_what_others_wrote_a_rewind_and_a_fork(history, run):
    run(history.save_messages("s", [Message("user", ["a"])]))
    agent = history.agent("s")
    agent.mark("here")
    call = agent.tool_call("add", {"a": 1}, id="c")
    agent.tool_result(call, "2", error=True)
    agent.assistant("Two.")
    found = run(history.get_messages("s"))
    assert [message.role for message in found] == ["user", "assistant", "tool", "assistant"]
    history.fork("s", "t", at="here")
    assert texts(run(history.get_messages("t"))) == ["a"]
    agent.rewind("here")
    assert texts(run(history.get_messages("s"))) == ["a"]


def test_it_opens_an_agent_that_something_else_began(run):
    with backstory.open(":memory:") as store:
        store.ensure("mine").user("hello")
        assert texts(run(BackstoryHistory(store, key="mine").get_messages("any"))) == ["hello"]


def test_two_processes_lose_nothing(durable_url, two_writers, run, sound, opened):
    two_writers("agent_framework", durable_url)
    history = BackstoryHistory(durable_url)
    found = texts(run(history.get_messages("shared")))
    assert sorted(found) == sorted(f"{name} {n}" for name in ("one", "two") for n in range(50))
    sound(opened)


def test_a_transcript_that_someone_else_saves_meanwhile_is_there_once(history, run, meanwhile):
    messages = [
        Message("user", ["hello"], message_id="1"),
        Message("assistant", ["hi"], message_id="2"),
    ]
    meanwhile(lambda: run(history.save_messages("s", messages)))
    run(history.save_messages("s", messages))
    assert texts(run(history.get_messages("s"))) == ["hello", "hi"]


def test_a_question_that_someone_else_saves_meanwhile_is_there_twice(history, run, meanwhile):
    question = [Message("user", ["hi"])]
    meanwhile(lambda: run(history.save_messages("s", question)))
    run(history.save_messages("s", question))
    assert texts(run(history.get_messages("s"))) == ["hi", "hi"]


def test_a_cancelled_save_is_seen_through(history, run):
    async def cancelled():
        task = asyncio.ensure_future(history.save_messages("s", [Message("user", ["a"])]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await history.get_messages("s")

    assert texts(run(cancelled())) == ["a"]


def test_messages_are_the_same_by_their_ids_or_by_what_they_say(history, run):
    run(
        history.save_messages(
            "s", [Message("user", ["a"]), Message("assistant", ["b"], message_id="1")]
        )
    )
    marked = Message("assistant", ["b"], message_id="1", additional_properties={"_excluded": True})
    transcript = [
        Message("system", ["rules"]),
        Message("user", ["a"]),
        marked,
        Message("user", ["c"]),
    ]
    run(history.save_messages("s", transcript))
    assert texts(run(history.get_messages("s"))) == ["a", "b", "c"]


def test_a_fork_of_nothing_writes_nothing(history, opened):
    with pytest.raises(backstory.AgentNotFound):
        history.fork("nobody", "new")
    assert opened.agents() == []


@pytest.mark.parametrize("value", [1, "text", {"role": "user"}, [None], [{}], [Message]], ids=repr)
def test_what_is_no_message_is_refused_and_writes_nothing(run, value):
    with backstory.open(":memory:") as store:
        history = BackstoryHistory(store)
        with pytest.raises(TypeError):
            run(history.save_messages("s", value))
        with pytest.raises(TypeError):
            run(history.save_messages("s", [Message("user", ["Hello"]), value]))
        assert store.agents() == []


def test_files_of_messages_and_tools_reach_other_formats(history, run):
    pdf = Content.from_data(b"%PDF-1.4 a page", "application/pdf")
    picture = Content.from_data(b"a picture", "image/png")
    call = Content.from_function_call("c", "look", arguments={})
    messages = [
        Message("user", ["read this", pdf]),
        Message("assistant", [call]),
        Message("tool", [Content.from_function_result("c", result=[picture])]),
    ]
    run(history.save_messages("s", messages))
    body = history.agent("s").conversation().to("anthropic")
    assert [block["type"] for block in body["messages"][0]["content"]] == ["text", "document"]
    [result] = body["messages"][2]["content"]
    assert [block["type"] for block in result["content"]] == ["image"]


def test_a_call_that_another_program_left_open_is_interrupted(durable_url, history, run):
    history.agent("s").tool_call("add", {"a": 1}, id="c")
    [_, result] = run(history.get_messages("s"))
    assert (result.role, result.contents[0].call_id) == ("tool", "c")
    open_calls = BackstoryHistory(durable_url, repair=False)
    assert [message.role for message in run(open_calls.get_messages("s"))] == ["assistant"]
    open_calls.close()
