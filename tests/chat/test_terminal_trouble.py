"""Trouble in the real program: a store that is locked, full or damaged, signals, kills, models that fail."""

import os
import signal
import sqlite3

import pytest

import backstory
from tests.chat.screen import contents, edited, kinds, page_of, prompts_on, wait_for
from tests.processes import wait_until
from tests.runtime.scripted import Refuse, Say, scripted


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            Refuse(401, "bad key"),
            "refused the key (HTTP 401: bad key): it comes from OPENAI_API_KEY, which is",
        ),
        (Refuse(404, "gone"), "has no model scripted-1 (HTTP 404: gone)"),
        (Refuse(400, "no such field"), "refused the request (HTTP 400: no such field)"),
        (
            Refuse(429, "pay", code="insufficient_quota"),
            "the account has no credit left (HTTP 429: pay)",
        ),
    ],
)
def test_a_prompt_that_was_refused_is_in_the_editor_again_and_not_in_the_next_request(
    start, reopened, refusal, said
):
    with scripted(Say("Hi."), refusal, Say("Better.")) as server:
        terminal = start(server, columns=120)
        terminal.send("Hello")
        terminal.answered("Hi.")
        terminal.send("Something else")
        terminal.wait(said)
        terminal.wait("there was no answer: the prompt was taken back, and is in the editor again")
        terminal.wait(lambda text: edited(text) == "Something else")
        terminal.erase()
        terminal.send("Again")
        terminal.answered("Better.")
        assert [text for role, text in server.said() if role == "user"] == ["Hello", "Again"]
        assert [e.content for e in reopened().conversation()][1:] == [
            "Hello",
            "Hi.",
            "Again",
            "Better.",
        ]


def test_a_prompt_that_was_taken_back_is_brought_back_by_redo(start, reopened):
    with scripted(Say("Better."), Refuse(400, "no"), Say("Best.")) as server:
        again = start(server, columns=120)
        again.send("Hello")
        again.answered("Better.")
        again.send("More")
        again.wait(lambda text: edited(text) == "More")
        again.erase()
        again.send("/redo")
        again.wait("this got no answer: /retry asks again")
        again.send("/retry")
        again.answered("Best.")
        assert [text for role, text in server.said() if role == "user"] == ["Hello", "More"]


def test_undo_after_a_prompt_that_failed_takes_back_the_turn_before_it(start, reopened):
    with scripted(Say("Hi."), Say("Well."), Refuse(400, "no"), Say("Fine.")) as server:
        terminal = start(server, columns=120)
        for text, answer in (("One", "Hi."), ("Two", "Well.")):
            terminal.send(text)
            terminal.answered(answer)
        terminal.send("Three")
        terminal.wait(lambda text: edited(text) == "Three")
        terminal.erase()
        terminal.send("/undo")
        terminal.wait("undone; 2 messages out of the context")
        assert prompts_on(page_of(terminal.ready())) == ["One"]
        terminal.send("Four")
        terminal.answered("Fine.")
        assert [text for role, text in server.said() if role == "user"] == ["One", "Four"]


def test_retry_after_a_prompt_that_failed_asks_it_again(start):
    with scripted(Say("Hi."), Refuse(400, "no"), Say("Fine.")) as server:
        terminal = start(server, columns=120)
        terminal.send("One")
        terminal.answered("Hi.")
        terminal.send("Two")
        terminal.wait(lambda text: edited(text) == "Two")
        terminal.erase()
        terminal.send("/retry")
        terminal.answered("Fine.")
        assert [text for role, text in server.said() if role == "user"] == ["One", "Two"]


def test_what_was_typed_meanwhile_is_not_mixed_with_a_prompt_that_comes_back(start):
    with scripted(Say(held=True, drop_after=0), *[Refuse(400, "no")] * 2, Say("Fine.")) as server:
        terminal = start(server, columns=120)
        terminal.send("One")
        terminal.wait("Ctrl-C stops")
        terminal.type("Two\r")
        server.release()
        terminal.wait(lambda text: edited(text) == "Two")
        assert prompts_on(terminal.text)[:2] == ["One", "Two"]


def test_an_answer_that_is_empty_is_none(start, reopened):
    with scripted(Say(" "), Say("Fine.")) as server:
        terminal = start(server, columns=120)
        terminal.send("Hello")
        terminal.wait("the model said nothing")
        terminal.wait(lambda text: edited(text) == "Hello")
        terminal.enter()
        terminal.answered("Fine.")
        assert [text for role, text in server.said() if role == "user"] == ["Hello"]


def test_a_tool_that_ran_is_not_taken_back(start, reopened):
    with scripted(Say(calls=(("c1", "glob", '{"pattern": "*"}'),)), Refuse(400, "no")) as server:
        terminal = start(server, columns=120)
        terminal.send("Hello")
        terminal.wait("this got no answer: /retry asks again")
        assert edited(terminal.ready()) == ""
    assert kinds(reopened()) == ["system", "user", "tool_call", "tool_result"]


def test_no_model_reachable_is_one_line_and_the_prompt_comes_back(start, reopened):
    with scripted() as server:
        pass  # it is gone, nobody listens at its address
    terminal = start(server, columns=120)
    terminal.send("Hello?")
    terminal.wait("cannot be reached")  # and it tries again for two minutes
    terminal.type("\x03")
    terminal.wait(lambda text: edited(text) == "Hello?")
    terminal.erase()
    assert terminal.leave() == 0
    assert [message.kind for message in reopened().conversation()] == ["system"]


def test_killed_in_mid_answer_it_goes_on_with_everything_that_had_happened(start, reopened):
    with scripted(Say("Hi."), Say("never more", held=True), Say("Here I am.")) as server:
        terminal = start(server)
        terminal.send("First")
        terminal.answered("Hi.")
        terminal.send("Second")
        terminal.wait("never more")
        terminal.kill()
        again = start(server)
        again.wait("⚠ this got no answer: /retry asks again")
        again.wait("restored 4 messages")
        again.send("Third")
        again.answered("Here I am.")
        assert [text for role, text in server.said() if role == "user"] == [
            "First",
            "Second",
            "Third",
        ]
        assert server.refused == []


def test_killed_in_mid_tool_the_call_is_shown_as_interrupted_and_not_run_again(
    start, folder, reopened
):
    command = ("call_1", "bash", '{"command": "echo x >> ran; sleep 30"}')
    with scripted(Say(calls=(command,)), Say("I see.")) as server:
        terminal = start(server)
        terminal.send("Run it")
        terminal.allow()
        wait_for(folder / "ran")
        terminal.kill()
        again = start(server)
        again.wait("interrupted: no result was recorded")
        again.send("What happened?")
        again.answered("I see.")
        assert (folder / "ran").read_text() == "x\n"
        assert ("tool", "interrupted: no result was recorded") in server.said()
        assert server.refused == []


def test_a_full_disk_is_one_line_and_the_chat_goes_on(start, folder, reopened):
    (folder / "large.txt").write_text("x" * 80 + "\n")
    with open(folder / "large.txt", "a") as file:
        file.writelines("y" * 80 + "\n" for _ in range(60_000))
    read = ("call_1", "read_file", '{"path": "large.txt", "lines": 60000}')
    with scripted(Say("Hello."), Say(calls=(read,)), Say("I am here.")) as server:
        terminal = start(server, largest_file=2_000_000)
        terminal.send("Hello")
        terminal.answered("Hello.")
        terminal.send("Read it all")
        text = terminal.wait("⚠ this could not be recorded")
        assert text.count("y" * 80) < 20
        terminal.send("Still there?")
        terminal.answered("I am here.")
        assert server.refused == []
        assert ("tool", "interrupted: no result was recorded") in server.said()
        assert terminal.leave() == 0
    assert kinds(reopened())[-2:] == ["user", "assistant"]


def test_a_damaged_store_is_one_line_at_the_start(start, address):
    backstory.open(address).close()
    with open(address, "r+b") as file:
        file.write(b"not a database at all")
    with scripted() as server:
        terminal = start(server, columns=140)
        assert terminal.ended() == 1
    assert len(terminal.text.split("backstory:")) == 2


def test_retry_asks_again_where_there_is_no_answer(start, reopened):
    cut = Say("half an answer", held=True)
    with scripted(Refuse(400, "too long"), Say("Better."), cut, Say("Whole.")) as server:
        terminal = start(server)
        terminal.send("/retry")
        terminal.wait("there is nothing to answer yet")
        terminal.send("Hello")
        terminal.wait(lambda text: edited(text) == "Hello")
        terminal.erase()
        terminal.send("/retry")
        terminal.answered("Better.")
        assert [text for role, text in server.said() if role == "user"] == ["Hello"]
        terminal.send("/retry")
        terminal.wait("the last answer is complete")
        terminal.send("More")
        terminal.wait("half an answer")
        terminal.type("\x03")
        terminal.wait("⚠ interrupted")
        terminal.send("/retry")
        terminal.answered("Whole.")
        assert [text for role, text in server.said()][1:] == ["Hello", "Better.", "More"]
        assert server.refused == []
    spoken = [content for content in contents(reopened()) if content]
    assert spoken[1:] == ["Hello", "Better.", "More", "Whole."]


def test_ctrl_c_before_anything_was_said_brings_the_prompt_back(start, reopened):
    with scripted(Say(held=True), Say("Better.")) as server:
        terminal = start(server)
        terminal.send("Hello")
        terminal.wait("Ctrl-C stops")
        wait_until(lambda: server.bodies, "the request")
        terminal.type("\x03")
        terminal.wait(lambda text: edited(text) == "Hello")
        terminal.enter()
        terminal.answered("Better.")
        assert [text for role, text in server.said() if role == "user"] == ["Hello"]


def test_a_locked_store_is_waited_for_aloud(start, address, reopened):
    with scripted(Say("Answer 1."), Say("Answer 2.")) as server:
        terminal = start(server)
        terminal.send("Hello")
        terminal.answered("Answer 1.")
        lock = sqlite3.connect(address, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        terminal.send("a carefully typed prompt")
        terminal.wait("waiting for the store: someone else is writing")
        lock.execute("ROLLBACK")
        lock.close()
        terminal.answered("Answer 2.")
        assert kinds(reopened()) == ["system", "user", "assistant", "user", "assistant"]


def test_a_prompt_that_a_full_disk_refuses_is_in_the_editor_again(start, address, reopened):
    with backstory.open(address) as store:
        store.start(system="s")
    size = os.path.getsize(address)
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server, largest_file=size + 20_000)
        terminal.ready()
        long = "word " * 25_000 + "end"
        terminal.type(f"\x1b[200~{long}\x1b[201~")
        terminal.wait("word end")
        terminal.type("\r")
        terminal.wait("✗")
        terminal.ready()
        assert terminal.text.rstrip().split("\n")[-2].endswith("word end")
        terminal.type("\x03")
        terminal.send("short")
        terminal.answered("Answer 1.")
    assert contents(reopened())[1:] == ["short", "Answer 1."]


def test_an_answer_that_the_store_does_not_take_is_to_be_read(start, address, reopened):
    with backstory.open(address) as store:
        store.start(system="s")
    size = os.path.getsize(address)
    with scripted(Say("precious\n" * 20_000), Say("Answer 2.")) as server:
        terminal = start(server, largest_file=size + 60_000)
        terminal.send("Hello")
        terminal.wait("⚠ this answer could not be recorded")
        assert terminal.text.count("precious") > 1000
        terminal.send("again")
        terminal.answered("Answer 2.")
    assert kinds(reopened()) == ["system", "user", "user", "assistant"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_keeps_what_was_said_and_ends(start, reopened, number):
    with scripted(Say("one two three", held=True)) as server:
        terminal = start(server)
        terminal.send("Hello")
        terminal.wait("one two three")
        terminal.signal(number)
        assert terminal.ended() == 128 + number
    last = reopened().context().messages[-1]
    assert last.data["interrupted"] is True
    assert last.content.startswith("one two three")


def test_told_to_end_while_it_waits_for_the_person_it_ends(start):
    with scripted() as server:
        terminal = start(server)
        terminal.ready()
        terminal.signal(signal.SIGTERM)
        assert terminal.ended() == 143


def test_without_its_terminal_it_ends_wherever_it_is(start, reopened):
    with scripted(Say(calls=(("c1", "bash", '{"command": "true"}'),))) as server:
        terminal = start(server)
        terminal.send("Run it")
        terminal.wait("Allow bash?")
        terminal.hang_up()
        assert terminal.ended() == 128 + signal.SIGHUP
        assert reopened().context().messages[-1].content == "interrupted: it was not run"
        again = start(server)
        again.ready()
        again.hang_up()
        assert again.ended() == 128 + signal.SIGHUP


def test_ctrl_c_while_the_context_is_drawn_does_not_end_the_chat(start, address):
    with backstory.open(address) as store:
        pairs = (
            pair
            for n in range(300)
            for pair in (("user", f"q {n} " * 9), ("assistant", "a *b* " * 60))
        )
        store.start(system="s").extend(pairs)
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server)
        terminal.wait(lambda _: terminal.is_open())  # it draws, or has just done so
        terminal.type("\x03")
        terminal.ready()
        terminal.type("\x0f")
        terminal.wait("── results in full")
        terminal.type("\x03")
        terminal.send("still there?")
        terminal.answered("Answer 1.")


def test_a_mark_without_a_prompt_comes_back(start):
    with scripted() as server:
        terminal = start(server)
        terminal.send("/mark before anything")
        terminal.wait("comes back here")
        terminal.leave()
        again = start(server)
        again.wait("restored 1 message, 1 mark")
        assert "⚑ before anything  (at 3)" in again.text
