"""A chat without its screen: how it begins, and what it calls its agents."""

from types import SimpleNamespace

import pytest

import backstory
from backstory.agent import Agent
from backstory.chat.commands import ask_another, restore_typed
from backstory.chat.session import Chat, begin
from backstory.errors import Invalid, NotFound
from backstory.runtime.compaction import REQUEST_HEADING
from backstory.runtime.loop import Stopped
from tests.runtime.acting import Actor, speaks


def test_two_that_begin_at_once_write_the_prompt_once(tmp_path, monkeypatch):
    one, other = (backstory.open(tmp_path / "history.db") for _ in range(2))
    first = one.start("main")
    second = other.agent("main")
    extend = Agent.extend

    def late(self, events, **options):
        if self is second:  # it has looked, and the other is quicker
            assert begin(first, "prompt")
            first.user("a question")
        return extend(self, events, **options)

    monkeypatch.setattr(Agent, "extend", late)
    begin(second, "prompt")
    assert [event.kind for event in first.events()] == ["clear", "system", "user"]
    one.close()
    other.close()


def test_agents_are_called_by_their_names_or_by_their_ids_where_names_are_alike():
    store = backstory.open(":memory:")
    other, work = store.start("other"), store.start("work")
    same = store.start("work")
    chat = Chat(store, work, Actor())
    idea = work.fork("idea")
    assert chat.names()[:3] == ["work", "idea", "other"]
    for agent, name in zip((work, idea, other, same), chat.names(), strict=True):
        assert chat.find(name) == agent
    assert store.agent(chat.ref(same)) == same
    assert store.agent(chat.ref(work)) == work


def test_retry_brings_back_a_prompt_only_where_it_was_taken_back():
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor())
    other = store.start("other")
    other.user("What is left?")
    other.user("given up on purpose")
    assert chat.take_back(chat.write_prompt("never answered"))
    while other.head < chat.agent.head - 1:
        other.note("app.step")
    other.undo(turn=True)
    assert other.head == chat.agent.head
    main = chat.agent
    chat.switch("other")
    chat.retry()
    assert [prompt.content for prompt in chat.prompts()] == ["What is left?"]
    chat.switch(main.name)
    chat.fork("idea")
    chat.retry()
    assert [prompt.content for prompt in chat.prompts()] == ["never answered"]


def test_a_prompt_that_looks_like_a_command_is_a_prompt_when_it_is_sent_again():
    store = backstory.open(":memory:")
    main = store.start("main")
    chat = Chat(store, main, Actor())
    for text in ("/undo is a command", "/usr/bin is a folder"):
        main.user(text)
    again = [" /undo is a command", "/usr/bin is a folder"]
    assert [restore_typed(event) for event in chat.prompts()] == again


def test_only_a_parameter_of_a_format_has_a_dot_in_its_name():
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor())
    chat.set_parameter("effort", "low")
    with pytest.raises(Invalid, match=r"there is no parameter 'effort\.x'"):
        chat.set_parameter("effort.x", None)
    chat.set_parameter("openai.seed", 7)
    assert chat.params() == {"effort": "low", "openai": {"seed": 7}}
    chat.set_parameter("openai.seed", None)
    chat.set_parameter("effort", None)
    assert chat.params() == {}


def test_a_list_of_references_reads_the_agents_once(monkeypatch):
    with backstory.open(":memory:") as store:
        for _ in range(3):
            store.start("other")
        chat = Chat(store, store.start("main"), Actor())
        listed = []
        list_agents = type(store).agents

        def count_calls(self, **options):
            listed.append(options)
            return list_agents(self, **options)

        monkeypatch.setattr(type(store), "agents", count_calls)
        assert len(chat.names()) == 4
        assert len(listed) == 1


def test_parameters_survive_a_clear_and_apply_to_a_new_session():
    """C3: --thinking was in the first request, and not in the one after /clear."""
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor(), params={"thinking": 4000})
    chat.write_prompt("one")
    chat.clear()
    chat.write_prompt("two")
    assert chat.agent.conversation().settings.params == {"thinking": 4000}
    chat.start_new()
    chat.write_prompt("three")
    assert chat.agent.name == "main-2"
    assert chat.agent.conversation().settings.params == {"thinking": 4000}


def test_what_tools_changed_is_named_when_it_leaves_the_context():
    """C6: after /undo, the files stayed changed, and nothing said so."""
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor())
    agent = chat.agent
    chat.write_prompt("Change things")
    calls = [
        ("c1", "write_file", {"path": "a.py", "content": "x"}, {"allowed_by": "person"}),
        ("c2", "edit_file", {"path": "b.py"}, {"error": True}),
        ("c3", "bash", {"command": "make"}, {"allowed_by": "person"}),
        ("c4", "read_file", {"path": "c.py"}, {}),
    ]
    for id, name, arguments, _ in calls:
        agent.tool_call(name, arguments, id=id)
    for id, name, _, data in calls:
        agent.append("tool_result", "done", {"id": id, "name": name, **data})
    before = agent.context().messages
    assert chat.describe_changes(before) == ""
    agent.undo(turn=True)
    assert chat.describe_changes(before) == "; not restored: a.py, what 1 command did"


def test_a_parameter_of_a_format_is_added_to_those_that_are_set():
    store = backstory.open(":memory:")
    first = Chat(store, store.start("main"), Actor(), params={"openai": {"user": "u"}})
    first.write_prompt("one")
    again = Chat(store, first.agent, Actor(), params={"openai": {"seed": 7}})
    assert again.params() == {"openai": {"user": "u", "seed": 7}}
    again.write_prompt("two")
    assert again.agent.conversation().settings.params == {"openai": {"user": "u", "seed": 7}}
    default_params = {"openai": {"user": "u"}}
    new = Chat(
        store,
        store.start("new"),
        Actor(),
        params={"openai": {"seed": 7}},
        default_params=default_params,
    )
    assert new.params() == {"openai": {"user": "u", "seed": 7}}


def test_a_summary_is_no_prompt_and_needs_no_answer():
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor(speaks("An answer"), speaks("In short")))
    list(chat.ask("A question"))
    list(chat.loop.compact())
    assert chat.agent.context().messages[-1].kind == "user"
    assert not chat.is_unanswered()
    assert chat.prompts() == []
    with pytest.raises(NotFound, match="nothing to answer yet"):
        chat.retry()
    with pytest.raises(NotFound, match="nothing to answer yet"):
        chat.ask_again("other")


def test_a_summary_that_quotes_the_current_request_needs_an_answer():
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor())
    chat.agent.user("Count the files")
    chat.agent.compact(f"In short{REQUEST_HEADING}Count the files")
    assert chat.is_unanswered()
    assert chat.prompts() == []
    chat.retry()
    assert chat.ask_again("other") == "main"


def test_a_kept_prompt_is_a_prompt_after_a_compaction():
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor())
    chat.write_prompt("one")
    chat.agent.assistant("An answer")
    chat.write_prompt("two")
    chat.agent.compact("In short", keep=1)
    assert [prompt.content for prompt in chat.prompts()] == ["two"]
    assert chat.is_unanswered()


def test_ctrl_c_while_a_prompt_is_written_ends_its_turn(monkeypatch):
    """The store was locked: the prompt was answered although it was stopped."""
    store = backstory.open(":memory:")
    model = Actor(speaks("never said"))
    chat = Chat(store, store.start("main"), model)
    write_prompt = Chat.write_prompt

    def wait_for_the_store(self, *arguments, **options):
        self.loop.cancel()
        return write_prompt(self, *arguments, **options)

    monkeypatch.setattr(Chat, "write_prompt", wait_for_the_store)
    *_, last = chat.ask("A question")
    assert isinstance(last, Stopped)
    assert model.heard == []


def test_retry_with_another_model_changes_no_model_if_there_is_nothing_to_answer():
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor())
    changed = []
    worker = SimpleNamespace(chat=chat, change_model=changed.append, wait_aloud=lambda act: act())
    with pytest.raises(NotFound, match="nothing to answer yet"):
        ask_another(worker, "other")
    assert changed == []
