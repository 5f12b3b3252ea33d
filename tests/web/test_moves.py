"""Moves on the page: a preview first, nothing without a yes, one event with it, and the way back."""

from contextlib import closing

import apsw
import pytest

import backstory
from backstory.wire.tokens import estimate_tokens
from tests.web.conftest import fill

BUTTONS = {
    "clear": ("Clear", "Clear", "clear"),
    "undo": ("Undo", "Undo", "jump"),
    "mark": ("Mark", "Set mark", "mark"),
}


def ask(screen, button):
    screen(".menu > button").click()
    screen(".moves button").filter(has_text=button).first.click()
    screen("dialog.move").wait_for()


def confirm(screen, button):
    screen("dialog .primary:not([disabled])").filter(has_text=button).click()
    screen("dialog").wait_for(state="detached")


@pytest.mark.parametrize("move", BUTTONS)
def test_cancel_writes_nothing_and_yes_writes_one_event(show, filled, move):
    button, yes, kind = BUTTONS[move]
    main = filled.agent("main")
    screen = show(filled, write=True).ready()
    ask(screen, button)
    screen("dialog").filter(has_text="Nothing is deleted").wait_for()
    assert screen.page.evaluate("document.activeElement.textContent") == "Cancel"
    screen.press("Enter")
    screen("dialog").wait_for(state="detached")
    assert main.head == 10
    ask(screen, button)
    confirm(screen, yes)
    screen.at("main@11")
    assert (main.head, main.events([11])[0].kind) == (11, kind)


def test_the_preview_lists_what_would_leave_and_what_would_come_back(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@8", write=True).ready()
    screen.press("b")
    screen("dialog h2").filter(has_text="Go back to this position").wait_for()
    screen("dialog h3").filter(has_text="Would leave the context: 2 events").wait_for()
    screen("dialog h3").filter(has_text="Would come back: 3 events").wait_for()
    screen("dialog .lines").filter(has_text="Delete b.py.").first.wait_for()
    confirm(screen, "Go back")
    assert main.events([11])[0].data == {"target_message_id": 8}


def test_a_row_under_the_pointer_offers_its_moves_and_sizes_are_those_of_the_page(show, filled):
    main = filled.agent("main")
    screen = show(filled, write=True).ready()
    screen.row(4).hover()
    screen.row(4).get_by_text("Back to here").click()
    screen("dialog h2").filter(has_text="Go back to this position").wait_for()
    screen("dialog h3").first.wait_for()
    leaves = main.preview("jump", 4).leaves
    tokens = sum(estimate_tokens(event) for event in leaves)
    screen("dialog h3").filter(has_text=f"≈ {tokens} tokens").wait_for()
    screen.at("main@10")  # nothing was selected


def test_back_to_a_mark_on_the_stack_is_a_rewind_and_the_toast_takes_it_back(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@5", write=True).ready()
    screen.press("b")
    confirm(screen, "Rewind")
    screen(".toast").filter(has_text="Nothing was deleted").wait_for()
    assert main.events([11])[0].kind == "rewind"
    screen(".toast button").filter(has_text="Undo").click()
    confirm(screen, "Undo")
    screen.at("main@12")
    assert [event.seq for event in main.context().messages][-2:] == [10, 12]


def test_back_to_a_mark_that_was_left_behind_is_a_jump(show, filled):
    main = filled.agent("main")
    main.clear()
    screen = show(filled, f"/s/{main.session}/a/{main.id}@5", write=True).ready()
    screen.press("b")
    confirm(screen, "Go back")
    assert main.events([12])[0].kind == "jump"


def test_a_fork_opens_the_new_branch_and_offers_the_chat(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@4", write=True).ready()
    screen.press("f")
    screen("dialog input").fill("another way")
    screen("dialog input").press("Enter")
    assert len(filled.agents()) == 3  # Enter in a field does not confirm
    confirm(screen, "Fork")
    screen.at("another way@4")
    screen(".toast").filter(has_text="backstory chat").wait_for()
    assert filled.agent("another way").fork_seq == 4


def test_an_agent_can_be_renamed(show, filled):
    screen = show(filled, write=True).ready()
    ask(screen, "Rename")
    screen("dialog input").fill("trunk")
    confirm(screen, "Rename")
    screen.at("trunk@10")
    assert filled.agent("trunk").head == 10


def test_if_the_head_has_moved_nothing_is_written_and_the_new_preview_is_shown(show, filled):
    main = filled.agent("main")
    screen = show(filled, write=True).ready()
    ask(screen, "Clear")
    screen("dialog h3").filter(has_text="7 events").wait_for()
    main.user("someone was quicker")
    screen.expected = ["409"]
    screen("dialog .primary").click()
    screen("dialog [role=alert]").filter(has_text="nothing was written").wait_for()
    screen("dialog .lines").filter(has_text="someone was quicker").wait_for()
    assert (main.head, main.events([11])[0].kind) == (11, "user")
    confirm(screen, "Clear")
    assert main.events([12])[0].kind == "clear"


def test_a_page_that_only_reads_has_no_button_and_no_key_for_moves(show, filled):
    screen = show(filled).ready()
    assert screen(".menu").count() == 0
    screen.press("f", "b", "u")
    assert screen("dialog").count() == 0
    assert "read only" in screen("header.top").inner_text()


def test_a_locked_store_is_said_to_be_busy_and_the_same_dialog_writes_when_it_is_free(
    show, tmp_path
):
    path = str(tmp_path / "locked.db")
    with backstory.open(path, timeout=0.2) as store, closing(apsw.Connection(path)) as other:
        main = fill(store)
        screen = show(store, write=True).ready()
        ask(screen, "Clear")
        other.execute("BEGIN IMMEDIATE")  # another program is writing, and does not end
        with screen.page.expect_response("**/move") as answer:
            screen("dialog .primary:not([disabled])").click()
        assert answer.value.status == 503
        screen("dialog [role=alert]").filter(has_text="someone else has been writing").wait_for()
        assert main.head == 10  # reading goes on
        other.execute("ROLLBACK")
        confirm(screen, "Clear")
        screen.at("main@11")
        screen.expected.append("503")
