"""A context that never ends in a wall: /compact, by itself when it is nearly full, and after a refusal."""

from tests.chat.screen import kinds
from tests.runtime.scripted import Refuse, Say, scripted


def said(server):
    return [text for _, text in server.said()]


def test_compact_sums_up_and_undo_takes_it_back(start, reopened):
    turns = [Say(f"Answer {number}.") for number in range(1, 5)]
    with scripted(
        *turns, Say("They asked four things."), Say("Answer 5."), Say("Answer 6.")
    ) as server:
        terminal = start(server, columns=120)
        for number in range(1, 5):
            terminal.send(f"question {number}")
            terminal.answered(f"Answer {number}.")
        terminal.send("/compact the third question")
        terminal.wait("/undo takes it back")
        assert "the third question" in said(server)[-1]
        terminal.send("question 5")
        terminal.answered("Answer 5.")
        sent = said(server)
        assert "They asked four things." in sent[1]
        assert sent[2:] == ["question 3", "Answer 3.", "question 4", "Answer 4.", "question 5"]
        for _ in range(2):  # the turn, then the compaction
            terminal.send("/undo")
            terminal.wait("undone")
            terminal.ready()
        terminal.send("question 6")
        terminal.answered("Answer 6.")
        assert said(server)[1:3] == ["question 1", "Answer 1."]
        assert kinds(reopened())[:2] == ["system", "user"]


def test_a_context_that_is_nearly_full_is_compacted_before_the_next_prompt(start):
    long = "many words " * 300
    with scripted(Say(long), Say("Long things were said."), Say("Short.")) as server:
        terminal = start(server, "--window", "700", columns=120)
        terminal.send("question 1")
        terminal.wait("many words")
        terminal.send("question 2")
        terminal.wait("compacted from")
        terminal.answered("Short.")
        assert "Long things were said." in said(server)[1]
        assert said(server)[2:] == ["question 2"]


def test_a_context_that_is_too_long_for_the_model_is_compacted_and_asked_again_once(start):
    too_long = Refuse(400, "maximum context length")
    script = (
        Say("Hi."),
        too_long,
        Say("They greeted."),
        Say("Better."),
        too_long,
        Say("Both."),
        too_long,
    )
    with scripted(*script) as server:
        terminal = start(server, columns=120)
        terminal.send("Hello")
        terminal.answered("Hi.")
        terminal.send("Something else")
        terminal.wait("compacted from")
        terminal.answered("Better.")
        assert "They greeted." in said(server)[1]
        assert said(server)[-1].endswith("Something else")
        terminal.send("More")
        terminal.wait("✗ the context is too long")
        terminal.ready()


def test_what_cannot_be_compacted_is_refused_and_the_prompt_is_in_the_editor_again(start):
    with scripted(Refuse(400, "maximum context length")) as server:
        terminal = start(server, columns=120)
        terminal.send("A prompt that is longer than the model can read")
        terminal.wait("✗ the context is too long for scripted-1")
        terminal.wait("there was no answer: the prompt was taken back, and is in the editor again")
    assert len(server.bodies) == 1
