"""Two real chats on one store: what they see of each other, and where their answers go."""

import re

import backstory
from backstory.chat.presence import OPEN, other_chats
from tests.chat.screen import contents, edited
from tests.runtime.scripted import Say, scripted

SHARE = "Go on in a [f]ork, [s]hare it"
FORK = re.compile(r"in the fork .(fork-\w+)")


def second(start, server, key, **more):
    """Another chat on the agent that is open already."""
    terminal = start(server, **more)
    terminal.wait(SHARE)
    terminal.type(key)
    return terminal


def test_the_second_chat_is_told_before_its_first_prompt_and_may_fork(start, reopened):
    with scripted(Say("Answer 1."), Say("In the fork.")) as server:
        first = start(server)
        first.send("one")
        first.answered("Answer 1.")
        other = second(start, server, "f", columns=120)
        other.ready()
        assert "'main' is open in another chat (process " in other.text
        other.send("two")
        other.answered("In the fork.")
        assert contents(reopened("main"))[1:] == ["one", "Answer 1."]
        assert contents(reopened("@"))[1:] == ["one", "Answer 1.", "two", "In the fork."]
        assert "two" not in first.text


def test_what_the_other_chat_writes_appears_as_it_comes_and_the_draft_stays(start):
    with scripted(Say("Answer 1."), Say("Answer 2.")) as server:
        first = start(server)
        first.send("one")
        first.answered("Answer 1.")
        other = second(start, server, "s")
        other.ready()
        first.type("a draft of min")
        first.wait("> a draft of min")
        other.send("two")
        other.answered("Answer 2.")
        text = first.wait("Answer 2.")
        assert (
            text.index("someone else wrote to this agent:")
            < text.index("> two")
            < text.index("Answer 2.")
        )
        assert text.count("someone else wrote") == 1
        first.type("e")
        first.wait("> a draft of mine")


def test_an_answer_whose_head_has_moved_becomes_a_fork_and_a_line_says_so(start, reopened):
    with scripted(Say("Answer 1."), Say("slow end.", held=True), Say("quick.")) as server:
        first = start(server, columns=120)
        first.send("one")
        first.answered("Answer 1.")
        other = second(start, server, "s", columns=120)
        first.send("a slow one")
        first.wait("slow end.")
        other.wait("> a slow one")
        other.send("a quick one")
        other.answered("quick.")
        server.release()
        first.wait("someone else wrote to 'main' meanwhile: this answer is in the fork 'fork-")
        first.ready()
        said = ["one", "Answer 1.", "a slow one"]
        assert contents(reopened("main"))[1:] == [*said, "a quick one", "quick."]
        fork = reopened(FORK.search(first.text)[1])
        assert contents(fork)[1:] == [*said, "slow end."]
        assert "a quick one" not in first.text


def test_a_chat_that_was_killed_is_not_taken_for_an_open_one(start, reopened):
    with scripted(Say("Answer 1.")) as server:
        first = start(server)
        first.send("one")
        first.answered("Answer 1.")
        assert [key for key in reopened().about if key.startswith(OPEN)]
        first.kill()
        again = start(server)
        assert SHARE not in again.ready()


def test_a_chat_that_was_left_is_not_open_any_more(start, reopened):
    with scripted() as server:
        first = start(server)
        first.ready()
        assert first.leave() == 0
        assert [key for key in reopened().about if key.startswith(OPEN)] == []


def test_a_chat_on_another_host_counts_as_open():
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.describe(
            **{"open:elsewhere:7": {"since": "2030-01-02T03:04:05"}, "open:x": 1, "title": "t"}
        )
        assert [str(one) for one in other_chats(agent)] == [
            "process 7 on elsewhere, since 2030-01-02 03:04 UTC"
        ]


def test_what_the_chat_itself_notes_is_not_taken_for_someone_elses(start, folder):
    (folder / "photo.png").write_text("not an image")
    with scripted() as server:
        terminal = start(server, columns=120)
        terminal.send("What is on @photo.png ?")
        terminal.wait("'photo.png' is not an image")
        terminal.ready()
        text = terminal.wait(lambda text: edited(text) == "What is on @photo.png ?")
        assert "someone else" not in text
