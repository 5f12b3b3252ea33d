"""A run of an agent of Google's ADK: the same with our sessions as with the framework's own in memory."""

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types
from pydantic import Field

from backstory.adapters.adk import BackstorySessionService

IDS = {"app_name": "app", "user_id": "me"}


class Model(BaseLlm):
    """Answers by what it was asked, and keeps what it was given."""

    model: str = "gemini-x"
    given: list = Field(default_factory=list)

    async def generate_content_async(self, llm_request, stream=False):
        self.given.append(
            [content.model_dump(exclude_none=True) for content in llm_request.contents]
        )
        last = llm_request.contents[-1].parts[-1]
        if last.text == "add":
            calls = [types.FunctionCall(name="add", args={"a": n, "b": n}) for n in (1, 2)]
            parts = [types.Part(function_call=call) for call in calls]
        else:
            said = last.text or f"it is {last.function_response.response}"
            parts = [
                types.Part(text="hm", thought=True, thought_signature=b"\x01seal"),
                types.Part(text=said),
            ]
        yield LlmResponse(
            content=types.Content(role="model", parts=parts), model_version="gemini-x"
        )


def add(a: int, b: int, tool_context) -> dict:
    """Add two numbers."""
    tool_context.state["sum"] = a + b
    tool_context.state["user:sums"] = tool_context.state.get("user:sums", 0) + 1
    tool_context.state["temp:gone"] = True
    return {"sum": a + b}


async def story(service):
    model = Model(given=[])
    agent = LlmAgent(name="calc", model=model, tools=[add])
    runner = Runner(app_name="app", agent=agent, session_service=service)
    await service.create_session(
        **IDS, session_id="s", state={"begun": 1, "app:all": 2, "user:mine": 3}
    )
    invocations = []
    for prompt in ("hello", "add", "a mistake"):
        content = types.Content(role="user", parts=[types.Part(text=prompt)])
        async for event in runner.run_async(user_id="me", session_id="s", new_message=content):
            invocations.append(event.invocation_id)
    await runner.rewind_async(
        user_id="me", session_id="s", rewind_before_invocation_id=invocations[-1]
    )
    content = types.Content(role="user", parts=[types.Part(text="instead")])
    async for _ in runner.run_async(user_id="me", session_id="s", new_message=content):
        pass
    session = await service.get_session(**IDS, session_id="s")
    return model.given, session


def plain(session):
    events = [
        event.model_dump(
            exclude={"id", "timestamp", "invocation_id", "long_running_tool_ids"}, exclude_none=True
        )
        for event in session.events
    ]
    for event in events:
        event.get("actions", {}).pop("rewind_before_invocation_id", None)
    return without_ids([session.state, events])


def without_ids(value):
    match value:
        case dict():
            return {key: without_ids(each) for key, each in value.items() if key != "id"}
        case list():
            return [without_ids(each) for each in value]
    return value


def test_the_same_happens_as_with_the_service_in_memory(durable_url, run, sound, opened):
    theirs, their_session = run(story(InMemorySessionService()))
    service = BackstorySessionService(durable_url)
    ours, our_session = run(story(service))
    assert without_ids(ours) == without_ids(theirs)
    assert plain(our_session) == plain(their_session)
    effective = BackstorySessionService(durable_url, effective=True)
    found = run(effective.get_session(**IDS, session_id="s"))
    assert 0 < len(found.events) < len(our_session.events)
    kinds = [
        message.content
        for message in service.agent("app", "me", "s").conversation()
        if message.content
    ]
    assert "a mistake" not in kinds
    assert "instead" in kinds
    sound(opened)


async def continue_in_adk(service, app):
    """One turn of the agent "calc"; returns what its model was given."""
    model = Model(given=[])
    agent = LlmAgent(name="calc", model=model, tools=[add])
    runner = Runner(app_name=app, agent=agent, session_service=service)
    content = types.Content(role="user", parts=[types.Part(text="Thanks.")])
    async for _ in runner.run_async(user_id="me", session_id="s", new_message=content):
        pass
    return model.given[0]


def begin_elsewhere(service, app):
    agent = service.agent(app, "me", "s")
    agent.user("What is 1 + 1?")
    agent.tool_call("add", {"a": 1, "b": 1}, id="c1")
    agent.tool_result("c1", "2")
    agent.assistant("Two.")


BEGUN = [
    ("user", "text", "What is 1 + 1?"),
    ("model", "function_call", "add"),
    ("user", "function_response", "add"),
    ("model", "text", "Two."),
]


def summarize(contents):
    found = []
    for content in contents:
        for part in content["parts"]:
            [(name, value)] = part.items()
            found.append((content["role"], name, value if name == "text" else value["name"]))
    return found


def test_what_others_answered_is_an_answer_of_the_agent_that_runs(durable_url, run):
    service = BackstorySessionService(durable_url, agent_name="calc")
    begin_elsewhere(service, "app")
    given = run(continue_in_adk(service, "app"))
    assert summarize(given) == [*BEGUN, ("user", "text", "Thanks.")]
    service.close()


def test_without_a_name_others_answered_as_the_last_author_or_as_the_app(durable_url, run):
    service = BackstorySessionService(durable_url)
    begin_elsewhere(service, "calc")
    thanks = ("user", "text", "Thanks.")
    assert summarize(run(continue_in_adk(service, "calc"))) == [*BEGUN, thanks]
    run(service.create_session(**IDS, session_id="s"))
    run(continue_in_adk(service, "app"))
    begin_elsewhere(service, "app")
    given = run(continue_in_adk(service, "app"))
    assert summarize(given[-5:]) == [*BEGUN, thanks]
    service.close()
