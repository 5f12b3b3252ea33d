"""The repository of Strands: the same with ours as with the framework's files."""

import pytest
from strands import Agent, tool
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import backstory
from backstory.adapters.strands import BackstoryRepository


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Scripted(Model):
    """Answers by what it was asked, and keeps what it was given."""

    def __init__(self):
        self.given = []

    def update_config(self, **model_config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, output_model, prompt, system_prompt=None, **kwargs):
        yield {}

    async def stream(self, messages, tool_specs=None, system_prompt=None, **kwargs):
        self.given.append(
            [{"role": each["role"], "content": list(each["content"])} for each in messages]
        )
        last = messages[-1]["content"][-1]
        yield {"messageStart": {"role": "assistant"}}
        if last.get("text") == "add":
            for n in (1, 2):
                start = {"toolUse": {"name": "add", "toolUseId": f"t{len(messages)}-{n}"}}
                yield {"contentBlockStart": {"start": start}}
                yield {
                    "contentBlockDelta": {
                        "delta": {"toolUse": {"input": f'{{"a": {n}, "b": {n}}}'}}
                    }
                }
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
            return
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": f"it is {last.get('text') or 'done'}"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def story(manager):
    """Two processes' worth of turns: the second agent is restored from the session."""
    model = Scripted()
    for prompts in (("hello", "add"), ("and now",)):
        agent = Agent(
            model=model,
            tools=[add],
            agent_id="a",
            session_manager=manager(),
            callback_handler=None,
            state={"n": 1},
        )
        for prompt in prompts:
            agent(prompt)
    return model.given, agent.messages


@pytest.fixture
def repository(durable_url):
    repository = BackstoryRepository(durable_url)
    yield repository
    repository.close()


def begun(repository, *texts):
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    repository.create_agent(
        "s", SessionAgent(agent_id="a", state={"n": 1}, conversation_manager_state={})
    )
    for n, text in enumerate(texts):
        repository.create_message("s", "a", message(n, text))
    return repository


def message(n, text, **more):
    return SessionMessage(
        message={"role": "user", "content": [{"text": text}]}, message_id=n, **more
    )


def texts(repository, **page):
    return [
        each.to_message()["content"][0]["text"]
        for each in repository.list_messages("s", "a", **page)
    ]


def without_metadata(messages):
    return [{"role": each["role"], "content": each["content"]} for each in messages]


def test_the_model_is_given_the_same_as_with_files(repository, tmp_path, sound, opened):
    theirs, their_messages = story(lambda: FileSessionManager("s", storage_dir=str(tmp_path)))
    ours, our_messages = story(lambda: RepositorySessionManager("s", session_repository=repository))
    assert ours == theirs
    assert without_metadata(our_messages) == without_metadata(their_messages)
    kinds = [each.kind for each in repository.agent("s", "a").conversation()]
    assert kinds[:5] == ["user", "assistant", "user", "tool_call", "tool_call"]
    sound(opened)


def test_what_is_not_there_is_none_and_what_is_there_twice_is_an_error(repository):
    assert repository.read_session("s") is None
    assert repository.read_agent("s", "a") is None
    assert repository.read_message("s", "a", 0) is None
    with pytest.raises(SessionException):
        repository.create_agent(
            "s", SessionAgent(agent_id="a", state={}, conversation_manager_state={})
        )
    with pytest.raises(SessionException):
        repository.list_messages("s", "a")
    begun(repository)
    with pytest.raises(SessionException):
        repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    assert repository.read_session("s").session_id == "s"
    with pytest.raises(SessionException):
        repository.update_message("s", "a", message(9, "x"))
    with pytest.raises(SessionException):
        repository.update_agent("s", SessionAgent("b", {}, {}))


def test_messages_come_back_equal_and_in_pages(repository):
    begun(repository, *"abcde")
    blob = SessionMessage(
        message={
            "role": "user",
            "content": [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}],
        },
        message_id=5,
    )
    repository.create_message("s", "a", blob)
    assert repository.read_message("s", "a", 5) == blob
    assert repository.list_messages("s", "a", limit=2, offset=1) == [
        repository.read_message("s", "a", n) for n in (1, 2)
    ]
    assert texts(repository, limit=5) == list("abcde")


def test_the_state_of_an_agent_is_written_only_if_it_changed(repository):
    begun(repository)
    before = repository.agent("s", "a").head
    same = repository.read_agent("s", "a")
    same.updated_at = "later"
    repository.update_agent("s", same)
    assert repository.agent("s", "a").head == before
    same.state = {"n": 2}
    repository.update_agent("s", same)
    assert repository.read_agent("s", "a").state == {"n": 2}


def test_a_redaction_hides_and_keeps_the_rest(repository):
    begun(repository, "a", "the secret", "c")
    changed = repository.read_agent("s", "a")
    changed.state = {"n": 5}
    repository.update_agent("s", changed)
    hidden = repository.read_message("s", "a", 1)
    redacted = message(
        1, "the secret", redact_message={"role": "user", "content": [{"text": "(redacted)"}]}
    )
    repository.update_message("s", "a", redacted)
    assert repository.read_message("s", "a", 1).created_at == hidden.created_at
    assert texts(repository) == ["a", "(redacted)", "c"]
    conversation = repository.agent("s", "a").conversation()
    assert [each.content for each in conversation] == ["a", "(redacted)", "c"]
    assert "secret" not in repr(conversation.to("bedrock"))
    assert repository.read_agent("s", "a").state == {"n": 5}
    assert any(event.content == "the secret" for event in repository.agent("s", "a").events())


def test_a_redaction_keeps_what_someone_else_says_meanwhile(repository, meanwhile):
    begun(repository, "one", "two")
    meanwhile(lambda: repository.create_message("s", "a", message(2, "three")))
    repository.update_message("s", "a", message(0, "redacted"))
    assert texts(repository) == ["redacted", "two", "three"]


def test_an_agent_keeps_the_time_at_which_it_was_created(repository):
    begun(repository)
    before = repository.read_agent("s", "a")
    after = SessionAgent(
        agent_id="a", state={"k": 1}, conversation_manager_state={}, created_at="later"
    )
    repository.update_agent("s", after)
    found = repository.read_agent("s", "a")
    assert (found.created_at, found.state) == (before.created_at, {"k": 1})


def test_what_others_wrote_a_rewind_and_a_fork(repository):
    begun(repository, "a")
    agent = repository.agent("s", "a")
    agent.mark("here")
    call = agent.tool_call("add", {"a": 1}, id="c")
    agent.tool_result(call, "2")
    agent.assistant("Two.")
    found = repository.list_messages("s", "a")
    assert [each.message_id for each in found] == [0, 1, 2, 3]
    assert found[2].message["content"][0]["toolResult"]["status"] == "success"
    repository.create_message("s", "a", message(4, "b"))
    repository.fork("s", "a", "t", at="here")
    assert len(repository.list_messages("t", "a")) == 1
    agent.rewind("here")
    assert texts(repository) == ["a"]


def test_deleting_a_session_erases_its_agents(repository, opened):
    begun(repository, "a")
    repository.delete_session("s")
    assert opened.agents() == []
    assert repository.read_session("s") is None


def test_the_state_of_several_agents_together(repository):
    class Swarm:
        id = "swarm"
        state = {"nodes": ["a"]}  # noqa: RUF012

        def serialize_state(self):
            return self.state

    begun(repository)
    repository.create_multi_agent("s", Swarm())
    assert repository.read_multi_agent("s", "swarm") == {"nodes": ["a"]}
    assert repository.read_multi_agent("s", "nobody") is None


def test_two_processes_lose_nothing(durable_url, two_writers, sound, opened):
    begun(BackstoryRepository(durable_url))
    two_writers("strands", durable_url)
    repository = BackstoryRepository(durable_url)
    found = texts(repository)
    assert sorted(found) == sorted(f"{name} {n}" for name in ("one", "two") for n in range(50))
    sound(opened)


def test_it_can_be_handed_an_open_store():
    with backstory.open(":memory:") as store:
        repository = begun(BackstoryRepository(store), "a")
        repository.close()
        assert len(store.agents()) == 2


LONG = "a/b@é " * 900


def test_ids_of_any_length_are_erased_with_their_session(repository, opened):
    repository.create_session(Session(session_id=LONG, session_type=SessionType.AGENT))
    state = SessionAgent(agent_id=LONG, state={}, conversation_manager_state={})
    repository.create_agent(LONG, state)
    repository.delete_session(LONG)
    assert (repository.read_session(LONG), repository.read_agent(LONG, LONG)) == (None, None)
    assert opened.agents() == []


def test_a_fork_of_nothing_writes_nothing(repository, opened):
    begun(repository)
    before = len(opened.agents())
    for session, agent in (("nobody", "a"), ("s", "nobody")):
        with pytest.raises(SessionException):
            repository.fork(session, agent, "new")
    assert len(opened.agents()) == before


def test_an_agent_that_another_repository_deleted_is_not_forked(repository, durable_url):
    repository.agent("s", "a")
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    with backstory.open(durable_url) as store:
        BackstoryRepository(store).delete_session("s")
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    with pytest.raises(SessionException, match="Agent a in session s does not exist"):
        repository.fork("s", "a", "new")


def test_a_fork_that_fails_leaves_no_session(repository):
    begun(repository)
    with pytest.raises(backstory.PositionNotFound):
        repository.fork("s", "a", "new", at=999)
    repository.agent("taken", "a")
    with pytest.raises(backstory.KeyTaken):
        repository.fork("s", "a", "taken")
    assert (repository.read_session("new"), repository.read_session("taken")) == (None, None)
    with pytest.raises(SessionException, match="already exists"):
        repository.fork("s", "a", "s")


WRITES = {
    "create_session": (),
    "create_agent": ("s",),
    "update_agent": ("s",),
    "create_multi_agent": ("s",),
    "update_multi_agent": ("s",),
    "create_message": ("s", "a"),
    "update_message": ("s", "a"),
}


class Nameless:
    """Something with an id that has no state."""

    id = "n"


STRANGE = (None, 1, "text", {"agent_id": "a"}, ["a"], Nameless())


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("method", WRITES)
def test_what_strands_would_not_pass_is_refused_and_writes_nothing(method, value):
    with backstory.open(":memory:") as store:
        repository = BackstoryRepository(store)
        repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
        repository.create_agent(
            "s", SessionAgent(agent_id="a", state={}, conversation_manager_state={})
        )
        before = [(agent, agent.listed_head, agent.updated_at) for agent in store.agents()]
        with pytest.raises(TypeError):
            getattr(repository, method)(*WRITES[method], value)
        assert [(agent, agent.listed_head, agent.updated_at) for agent in store.agents()] == before


def test_a_message_without_content_is_kept_as_it_is(repository):
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    repository.create_agent(
        "s", SessionAgent(agent_id="a", state={}, conversation_manager_state={})
    )
    message = SessionMessage({"role": "user"}, 0)
    repository.create_message("s", "a", message)
    assert repository.read_message("s", "a", 0) == message


def test_a_session_has_the_first_text_as_its_title(repository, opened):
    begun(repository, "What is\nthe weather?", "And tomorrow?")
    [session] = opened.sessions()
    assert session.title == "What is the weather?"


def test_small_changes_of_a_large_state_are_small(repository):
    state = {f"k{n}": "x" * 1_000 for n in range(200)}
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    repository.create_agent("s", SessionAgent("a", state, {}))
    for n in range(50):
        changed = SessionAgent("a", state | {"n": n}, {})
        repository.update_agent("s", changed)
    agent = repository.agent("s", "a")
    written = sum(len(event.data_json) for event in agent.events())
    assert written < 2 * len(repr(state))
    assert repository.read_agent("s", "a").state == state | {"n": 49}
    smaller = SessionAgent("a", {"n": 49}, {})
    repository.update_agent("s", smaller)
    assert repository.read_agent("s", "a").state == {"n": 49}
