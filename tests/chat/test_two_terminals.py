"""Two real chats on one store: what they see of each other, and where their answers go."""

import re

from tests.chat.screen import contents, edited
from tests.runtime.scripted import Say, scripted

FORK = re.compile(r"in the fork .(fork-\w+)")


def test_what_the_other_chat_writes_appears_as_it_comes_and_the_draft_stays(start):
    with scripted(Say("Answer 1."), Say("Answer 2.")) as server:
        first = start(server)
        first.send("one")
        first.answered("Answer 1.")
        other = start(server)
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
        other = start(server, columns=120)
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


def test_what_the_chat_itself_notes_is_not_taken_for_someone_elses(start, folder):
    (folder / "photo.png").write_text("not an image")
    with scripted() as server:
        terminal = start(server, columns=120)
        terminal.send("What is on @photo.png ?")
        terminal.wait("'photo.png' is not an image")
        terminal.ready()
        text = terminal.wait(lambda text: edited(text) == "What is on @photo.png ?")
        assert "someone else" not in text
