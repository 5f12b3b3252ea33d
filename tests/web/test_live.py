"""What is being written now: shown at once, without moving what a person reads; lost and found again."""

import subprocess
import sys

import pytest

import backstory
from tests.web.conftest import fill
from tools.site import served

APPEND = "import backstory, sys; backstory.open(sys.argv[1]).agent('main').user(sys.argv[2])"


def another_process_writes(url, text):
    subprocess.run([sys.executable, "-c", APPEND, url, text], check=True)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_what_another_process_appends_is_shown(show, new_url, backend, read_only):
    url = new_url(backend)
    with backstory.open(url) as store:
        fill(store)
    with backstory.open(url, read_only=read_only) as store:
        screen = show(store).ready()
        screen(".status.on").wait_for()
        another_process_writes(url, "Hello from elsewhere")
        screen.row(11).filter(has_text="Hello from elsewhere").wait_for()
        screen.at("main@11")
        screen(".message[data-seq='11']").wait_for()


def test_while_a_person_reads_nothing_moves_and_a_counter_counts(show):
    with backstory.open(":memory:") as store:
        main = store.start("main")
        main.extend([("user", f"line {n}") for n in range(1, 301)])
        screen = show(store).ready()
        screen(".status.on").wait_for()
        screen(".rows").hover()
        screen.page.mouse.wheel(0, -2000)
        screen("button.status").filter(has_text="follow").wait_for()
        screen("#row-200 .text:not(:empty)").wait_for()
        looks = (
            screen(".rows").bounding_box(),
            screen(".row").first.bounding_box(),
            screen.texts(".row"),
        )
        pane = screen(".pane").evaluate("element => element.scrollTop")
        for n in range(5):
            main.extend([("user", f"new {n}-{m}") for m in range(100)])
        screen("button.status").filter(has_text="500 new").wait_for()
        assert (
            screen(".rows").bounding_box(),
            screen(".row").first.bounding_box(),
            screen.texts(".row"),
        ) == looks
        assert screen(".pane").evaluate("element => element.scrollTop") == pane
        screen.at("main@300")
        screen.press("g")
        screen.at("main@800")
        screen(".status.on").wait_for()


def test_a_fork_of_what_stands_above_moves_nothing_that_is_read(show):
    with backstory.open(":memory:") as store:
        main = store.start("main")
        main.extend([("user", f"text {n}") for n in range(300)])
        screen = show(store, f"/s/{main.session}/a/{main.id}@200").ready()
        screen(".status").filter(has_text="follow").wait_for()

        def below_the_top():
            return screen.row(200).bounding_box()["y"] - screen(".rows").bounding_box()["y"]

        before = below_the_top()
        main.fork("above", at=20)
        main.fork("above too", at=3)
        screen(".name").filter(has_text="above too").wait_for()
        assert below_the_top() == before


def test_a_new_branch_appears_by_itself(show, filled):
    screen = show(filled).ready()
    screen(".status.on").wait_for()
    filled.agent("main").fork("a new idea").user("hello")
    screen(".name").filter(has_text="a new idea").wait_for()


def test_when_the_server_comes_back_the_page_catches_up_without_gaps_or_doubles(show, tmp_path):
    url = str(tmp_path / "history.db")
    with backstory.open(url) as store:
        main = fill(store)
        with served(store, key="kept") as site:
            screen = show(store, site=site).ready()
            screen(".status.on").wait_for()
            port = site.port
        screen.expected = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "Failed to load"]
        screen(".status.lost").wait_for()
        main.user("written while it was away")
        main.fork("meanwhile")
        with served(store, port=port, key="kept"):
            screen(".status.on").wait_for(timeout=40_000)
            screen.row(11).filter(has_text="written while it was away").wait_for()
            screen(".name").filter(has_text="meanwhile").wait_for()
            seqs = [int(text.split()[0]) for text in screen.texts(".row")]
            assert seqs == list(range(1, 12))
            screen.page.close()


def test_an_idle_page_asks_for_nothing(show, filled):
    screen = show(filled).ready()
    screen(".status.on").wait_for()
    asked = len(screen.asked)
    screen.page.wait_for_timeout(1_000)
    assert len(screen.asked) == asked
