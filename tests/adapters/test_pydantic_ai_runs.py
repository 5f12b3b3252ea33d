"""Runs of an agent of pydantic-ai: the same with our conversations as with the framework's own in memory."""

import dataclasses
from datetime import datetime

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    InMemoryConversationStore,
)
from pydantic_ai.messages import (
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel

import backstory
from backstory.adapters.pydantic_ai import BackstoryConversations


def agent():
    """An agent whose model answers by what it was asked."""
    given = []

    async def model(messages, info):
        given.append(messages)
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"done: {last.content}")])
        match last.content:
            case "add":
                calls = [
                    ToolCallPart("add", {"a": n, "b": n}, tool_call_id=f"c{n}") for n in (1, 2)
                ]
                return ModelResponse(parts=[ThinkingPart("hm"), *calls])
            case "delete":
                return ModelResponse(
                    parts=[ToolCallPart("delete", {"name": "b.py"}, tool_call_id="d1")]
                )
            case "retry":
                return ModelResponse(parts=[ToolCallPart("fail", {}, tool_call_id="r1")])
        return ModelResponse(parts=[TextPart(f"you said {last.content}")])

    made = Agent(
        FunctionModel(model), output_type=[str, DeferredToolRequests], system_prompt="Be brief."
    )
    made.tool_plain(lambda a, b: {"sum": a + b}, name="add")
    made.tool_plain(lambda name: f"deleted {name}", name="delete", requires_approval=True)

    @made.tool_plain(retries=2)
    def fail() -> str:
        raise ModelRetry("not like this")

    return made, given


async def story(store, given_back=lambda store: store):
    """Several turns with tools, an approval, a branch and back, a fork and a deletion."""
    made, given = agent()
    conversation = Conversation(conversation_id="c")
    for prompt in ("hello", "add", "retry"):
        result = await made.run(prompt, conversation=conversation)
        await store.save(result, scope="me")
        conversation = await store.load("c")
    paused = await made.run("delete", conversation=conversation)
    await store.save(paused)
    store = given_back(store)
    conversation = await store.load("c")
    requests = conversation.deferred_tool_requests
    results = requests.build_results(approve_all=True)
    result = await made.run(conversation=conversation, deferred_tool_results=results)
    await store.save(result)
    whole = await store.load("c")
    entries = await store.load_entries("c")
    branched = await store.branch("c", at=6, expected_revision=whole.revision)
    result = await made.run("another way", conversation=branched)
    await store.save(result)
    other = await store.load("c")
    tip = (await store.read_record("c")).branches[0]
    back = await store.branch("c", from_entry=tip, expected_revision=other.revision)
    fork = await store.fork("c", at=2, new_conversation_id="f")
    window = await store.load("c", limit=2)
    result = await made.run("and so on", conversation=window)
    await store.save(result)
    await store.delete("c")
    survived = await store.load("f")
    found = [
        requests.approvals,
        len(entries),
        len(whole.messages),
        other.messages,
        back.messages,
        fork.messages,
    ]
    listed = [(each.conversation_id, each.scope) for each in await store.list_conversations()]
    return [*found, window.messages, survived.messages, await store.load("c"), listed], given


def plain(value):
    """Without what differs from run to run."""
    match value:
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case datetime():
            return "time"
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        values = {
            name: getattr(value, name)
            for name in names
            if name not in ("run_id", "usage", "metadata")
        }
        return {type(value).__name__: plain(values)}
    return value


def test_the_same_happens_as_with_the_store_in_memory(durable_url, run, sound):
    def reopened(store):
        store.close()
        return BackstoryConversations(durable_url)

    theirs = run(story(InMemoryConversationStore()))
    store = BackstoryConversations(durable_url)
    ours = run(story(store, reopened))
    assert plain(ours) == plain(theirs)
    with backstory.open(durable_url) as opened:
        sound(opened)


def test_a_message_history_is_that_of_any_agent(run):
    with backstory.open(":memory:") as opened:
        opened.ensure("mine").user("hello")
        history = BackstoryConversations(opened).history("mine")
        made, _ = agent()
        result = run(made.run("add", message_history=run(history.load())))
        run(history.save(result.new_messages()))
        again = run(history.load())
        assert again[1:] == result.new_messages()
        assert run(history.load(1)) == again[-1:]
        assert history.agent.messages(limit=1)[0].content.startswith("done:")
