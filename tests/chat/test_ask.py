"""One question without a terminal: what is printed."""

import backstory
from backstory.chat.ask import answer_once
from backstory.chat.session import Chat
from backstory.runtime.models import Response, Retrying, TextDelta
from tests.runtime.acting import Actor


def test_an_answer_that_continues_in_a_fork_is_printed_once(capsys):
    with backstory.open(":memory:") as store:
        agent = store.start("main")

        class InterruptedActor(Actor):
            def answer(self, conversation, tools):
                yield TextDelta("Forty two")
                agent.user("from someone else")
                yield Response("Forty two")

        answer_once(Chat(store, agent, InterruptedActor()), "How many?")
    printed = capsys.readouterr()
    assert printed.out == "Forty two\n"
    assert "this answer is in the fork" in printed.err


def test_an_answer_without_parts_is_printed_after_a_failed_attempt(capsys):
    with backstory.open(":memory:") as store:
        model = Actor([TextDelta("For"), Retrying("lost", 0), Response("Forty two")])
        answer_once(Chat(store, store.start("main"), model), "How many?")
    assert capsys.readouterr().out == "For\nForty two\n"
