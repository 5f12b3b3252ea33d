"""A chat without its screen: how it begins, and what it calls its agents."""

import backstory
from backstory.agent import Agent
from backstory.chat.commands import retyped
from backstory.chat.session import Chat, begin
from backstory.chat.shell import OUTPUT
from tests.runtime.acting import Actor


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
    assert chat.take_back(chat.say("never answered"))
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
    main.user("I ran this", data={"typed": "!ls", OUTPUT: "a.py"})
    for text in ("!important: be brief", "/undo is a command", "/usr/bin is a folder"):
        main.user(text)
    again = [" !important: be brief", " /undo is a command", "/usr/bin is a folder"]
    assert [retyped(event) for event in chat.typed()] == ["!ls", *again]
