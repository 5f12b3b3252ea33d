"""Commands that move, in the real program: what the screen shows, what is live and what the server is sent
agree, event by event."""

import re
from itertools import pairwise

import pytest

import backstory
from backstory.log.kinds import TARGETED_KINDS
from tests.chat.screen import kinds, page_of, prompts_on
from tests.runtime.scripted import Say, scripted

GLOB = ("call_1", "glob", '{"pattern": "*.py"}')
# What is on the screen and not of the log.
OWN = re.compile(
    r"; |^restored|comes back here|^/\w|tokens( · ⚑.*)?$|^>$|^someone else|^\d+\.\d s"
)  # not of the log


def drawn(event):
    """The lines that an event should be on the screen, written down here once more."""
    match event.kind:
        case "user":
            return [f"> {event.content}"]
        case "tool_call":
            return [f"● {event.data['name']} {event.data['arguments']['pattern']}"]
        case "tool_result":
            return event.content.split("\n")
        case "mark":
            return [f"⚑ {event.data['label']}  (at {event.seq})"]
        case "system":
            return [f"system: {event.content}"]
        case "assistant":
            return [event.content]
        case "note":
            return []
    if {"undo", "redo"} & event.data.keys():
        return []
    return [f"↩ {event.kind} to {event.data['target_message_id']}"]


def sent(event):
    """The message that an event should be for the model."""
    match event.kind:
        case "tool_call":
            return [("call", event.data["name"])]
        case "tool_result":
            return [("tool", event.content)]
        case "system" | "user" | "assistant":
            return [(event.kind, event.content)]
    return []


def received(server):
    for message in server.last["messages"]:
        if message.get("content"):
            yield message["role"], message["content"]
        for call in message.get("tool_calls", ()):
            yield "call", call["function"]["name"]


class Person:
    """Types, and looks whether all three agree."""

    def __init__(self, terminal, server, reopened):
        self.terminal, self.server, self.reopened = terminal, server, reopened
        self.answers = 0

    def agree(self, ref="@"):
        """The screen has the live events, all of them, in their order, and no others; of moves in a row,
        it leaves out a jump that another move follows."""
        page = page_of(self.terminal.ready())
        lines = [line.strip() for line in page.split("\n")]
        shown = [line for line in lines if line and not OWN.search(line)]
        live = self.reopened(ref).context().messages
        spoken = [event for event in live if event.kind != "note"]
        passed = {
            one.seq
            for one, other in pairwise(spoken)
            if one.kind == "jump" and other.kind in TARGETED_KINDS
        }
        assert shown == [line for event in live if event.seq not in passed for line in drawn(event)]

    def ask(self, text, ref="@"):
        self.answers += 1
        self.terminal.send(text)
        self.terminal.answered(f"Answer {self.answers}.")
        self.terminal.ready()
        agent = self.reopened(ref)
        before = agent.context(agent.head - 1).messages  # what there was to answer
        assert list(received(self.server)) == [
            message for event in before for message in sent(event)
        ]
        assert self.server.refused == []
        self.agree(ref)

    def do(self, command, shown, ref="@"):
        self.terminal.send(command)
        self.terminal.wait(shown)
        self.agree(ref)


def test_after_each_command_screen_context_and_request_agree(start, folder, reopened):
    (folder / "prompt").write_text("Be brief.")
    answers = [Say(f"Answer {number}.") for number in range(1, 12)]
    with scripted(Say(calls=(GLOB,)), *answers) as server:
        terminal = start(server, "--system-file", "prompt")
        person = Person(terminal, server, reopened)
        terminal.send("/clear")  # from here on the page begins with a rule
        terminal.wait("── the context is empty ──")
        person.agree("@")
        person.ask("one")
        assert kinds(reopened())[1:] == ["user", "tool_call", "tool_result", "assistant"]
        person.do("/mark start", "/rewind start comes back here")
        person.ask("two")
        person.do("/rewind start", "── rewound to start ──")
        assert "two" not in page_of(terminal.text)
        person.ask("three")
        person.do("/undo", "── undone ──")
        assert (
            "undone; 2 messages out of the context, 0 back in; /redo brings it back"
            in terminal.text
        )
        person.do("/undo", "undone; 0 messages out of the context, 2 back in; /redo")
        person.do("/redo", "── done again ──")
        person.do("/undo", "/redo brings it back")
        person.ask("four")
        person.do("/rewind start", "── rewound to start ──")
        person.ask("five")
        person.do("/fork idea", "in 'idea', a fork", ref="idea")
        person.ask("six", ref="idea")
        terminal.send("/back")
        terminal.wait("Back to before which prompt?")
        terminal.type("2\r")
        terminal.wait("before that prompt")
        assert prompts_on(page_of(terminal.ready()))[-1] == "five"
        terminal.type("\x15")
        terminal.wait(lambda text: prompts_on(page_of(text))[-1] != "five")
        person.agree("idea")
        person.ask("seven", ref="idea")
        person.do("/switch main", "── in 'main' ──", ref="main")
        person.ask("eight", ref="main")
        person.do("/clear", "── the context is empty ──", ref="main")
        assert kinds(reopened("main")) == ["system"]
        person.ask("nine", ref="main")
        person.do("/jump 9", "── at the context of 9 ──", ref="main")


def test_a_move_scrolls_away_what_was_on_the_screen_and_erases_nothing(start):
    with scripted(Say("Answer 1."), Say("Answer 2.")) as server:
        terminal = start(server)
        terminal.send("/mark here")
        terminal.send("a question")
        terminal.answered("Answer 1.")
        terminal.send("/rewind")
        text = terminal.wait("── rewound to the last mark ──")
        assert "backstory chat: 'main'" in text
        assert "Answer 1." in text
        assert "Answer 1." not in page_of(text)
        assert b"\x1b[3J" not in terminal.raw


def test_back_is_chosen_with_the_arrows_and_escape_chooses_nothing(start, reopened):
    with scripted(*(Say(f"Answer {number}.") for number in range(1, 5))) as server:
        terminal = start(server)
        for number, text in enumerate(("first", "second", "third"), 1):
            terminal.send(text)
            terminal.answered(f"Answer {number}.")
        terminal.send("/back")
        terminal.wait("1. third")
        terminal.type("\x1b")
        terminal.ready()
        assert [e.content for e in reopened().context().messages if e.kind == "user"] == [
            "first",
            "second",
            "third",
        ]
        terminal.send("/back")
        terminal.wait(lambda text: text.count("1. third") == 2)
        terminal.type("\x1b[B\r")  # down, from the newest
        terminal.wait("before that prompt")
        terminal.ready()
        assert [e.content for e in reopened().context().messages if e.kind == "user"] == ["first"]
        terminal.type(" thought\r")
        terminal.answered("Answer 4.")
        assert [text for role, text in server.said() if role == "user"] == [
            "first",
            "second thought",
        ]


def test_clear_keeps_what_the_system_said_as_it_is_and_invents_nothing(start, address, reopened):
    with backstory.open(address) as store:
        store.start("bare").user("hello")
    with scripted() as server:
        terminal = start(server)
        terminal.send("/clear")
        terminal.wait("── the context is empty ──")
        terminal.ready()
        assert kinds(reopened()) == []
        reopened().system("Speak French.")
        reopened().system("Be brief.")
        terminal.wait("system: Be brief.")
        terminal.send("/clear")
        terminal.wait(lambda text: text.count("the context is empty; /undo") == 2)
        terminal.ready()
        assert [e.content for e in reopened().context().messages] == ["Speak French.", "Be brief."]


def test_what_another_process_writes_is_drawn_before_the_next_prompt(start, reopened):
    with scripted(Say("Answer 1."), Say("Answer 2.")) as server:
        terminal = start(server)
        terminal.send("one")
        terminal.answered("Answer 1.")
        reopened().user("from elsewhere")
        terminal.send("two")
        terminal.answered("Answer 2.")
        text = terminal.ready()
        assert prompts_on(text) == ["one", "from elsewhere", "two"]
        assert text.index("someone else wrote to this agent:") < text.index("> from elsewhere")
        assert [text for role, text in server.said() if role == "user"] == [
            "one",
            "from elsewhere",
            "two",
        ]


def test_what_another_process_takes_out_of_the_context_is_not_on_the_page(start, reopened):
    with scripted(Say("Answer 1."), Say("Answer 2.")) as server:
        terminal = start(server)
        terminal.send("one")
        terminal.answered("Answer 1.")
        reopened().clear()
        terminal.send("two")
        terminal.answered("Answer 2.")
        assert prompts_on(page_of(terminal.ready())) == ["two"]
        assert "── someone else has moved this agent ──" in terminal.text
        assert server.said() == [("user", "two")]


def test_the_agents_of_all_sessions_are_listed_and_can_be_switched_to(start, address, reopened):
    with backstory.open(address) as store:
        store.start("other").user("in another session")
        store.start("other").user("the same name")
        work = store.start("work", system="s")
        work.fork("idea")
        work.user("here")
    with scripted() as server:
        terminal = start(server, columns=100)
        terminal.send("/agents")
        terminal.wait("the same name")
        terminal.ready()
        terminal.type("/switch ide\t")
        terminal.wait("> /switch idea")
        terminal.type("\r")
        terminal.wait("── in 'idea' ──")
        terminal.send("/switch other")
        terminal.wait("fits 2 agents")
        id = next(agent.id for agent in backstory.open(address).agents() if agent.name == "other")
        terminal.send(f"/switch {id}")
        terminal.wait("> in another session")


def test_leaving_an_agent_that_was_only_switched_to_says_how_to_come_back(start, address):
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server, columns=120)
        terminal.send("hello")
        terminal.answered("Answer 1.")
        terminal.send("/fork idea")
        terminal.wait("── in 'idea', a fork ──")
        terminal.send("/switch main")
        terminal.wait("── in 'main' ──")
        assert terminal.leave() == 0
        assert "backstory chat main comes back here; without a name it is 'idea'" in terminal.text


def test_two_names_alike_are_told_apart_by_their_ids(start, address):
    with backstory.open(address) as store:
        one, other = (store.start("work", system="s") for _ in range(2))
        one.user("in the other session")
        other.user("here")
    with scripted() as server:
        terminal = start(server, columns=120)
        terminal.ready()
        terminal.type(f"/diff {one.id[:5]}\t")
        terminal.wait(f"> /diff {one.id[:8]}")
        terminal.type("\r")
        text = terminal.wait("in common;")
        assert "1 message in common" in text
        assert other.id not in text


@pytest.mark.parametrize("store", [":memory:", None])
def test_lists_are_of_the_store_that_the_chat_has_open(start, store):
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server, *(("--store", store) if store else ()))
        terminal.send("hello there")
        terminal.answered("Answer 1.")
        for command, shown in [
            ("/marks", "no marks"),
            ("/log -n 2", "assistant"),
            ("/log", "system"),
            ("/search hello", "main@"),
            ("/diff @2", "in common"),
        ]:
            terminal.send(command)
            terminal.wait(shown)


def test_a_long_context_says_how_much_of_it_is_not_drawn(start, address):
    with backstory.open(address) as store:
        store.start(system="s").extend([("user", f"prompt {n}") for n in range(210)])
    with scripted() as server:
        terminal = start(server, columns=120)
        text = terminal.ready()
        assert "… 11 earlier events of the context not drawn: /context lists them, /show" in text
        assert prompts_on(text) == [f"prompt {n}" for n in range(10, 210)]
