"""Finding a session: a filter over all of them, hits with their session, and a search that takes long."""

import threading

import pytest

import backstory
from tests.web.asgi import Client
from tests.web.conftest import fill


@pytest.fixture
def library():
    """120 sessions of two tools; what is looked for is the oldest."""
    with backstory.open(":memory:") as store:
        oldest = store.start("claude-code", system="Be careful.")
        about = {"source": {"tool": "claude-code"}, "cwd": "/home/ada/JSSoundRecorder"}
        oldest.describe(**about, model="opus-9", tags=["sound"])
        oldest.user("Why does the microphone crackle?")
        for n in range(119):
            agent = store.start("codex")
            agent.describe(source={"tool": "codex"}, cwd="/home/ada/other")
            agent.user(f"Prompt {n}")
        yield store


@pytest.mark.parametrize("words", ["crackle", "JSSoundRecorder", "claude-code", "opus-9", "sound"])
def test_the_filter_finds_a_session_that_was_not_loaded(library, words):
    found = Client(library)(f"/api/sessions?q={words}").json
    assert [one["title"] for one in found["sessions"]] == ["Why does the microphone crackle?"]
    assert (found["matching"], found["total"]) == (1, 120)
    assert Client(library)("/api/tools").json["tools"] == {"codex": 119, "claude-code": 1}


def test_all_words_must_match_and_tool_and_time_choose_too(library):
    client = Client(library)

    def count(query):
        return client(f"/api/sessions?{query}").json["matching"]

    assert count("q=crackle+opus-9") == 1
    assert count("q=crackle+codex") == 0
    assert count("tool=codex") == 119
    assert count("since=1&until=9999999999") == 120
    assert count("until=1000") == 0


def test_a_filter_that_is_no_number_is_refused_where_there_are_no_sessions():
    with backstory.open(":memory:") as store:
        assert Client(store)("/api/sessions?since=yesterday").status == 400


def test_a_session_that_was_written_to_is_compared_anew_and_one_that_was_deleted_is_gone(library):
    client = Client(library)
    [row] = client("/api/sessions?q=crackle").json["sessions"]
    library.agent(row["id"]).describe(title="Noise in the recording")
    library.agent(row["id"]).user("Again.")
    assert client("/api/sessions?q=noise").json["matching"] == 1
    library.delete(row["id"])
    assert client("/api/sessions?q=noise").json["matching"] == 0


def test_a_person_filters_by_folder_and_clears_the_filter_that_finds_nothing(show, library):
    screen = show(library, "/")
    screen(".sessions li").first.wait_for()
    screen(".filter").fill("soundrec")
    screen(".finding [role=status]").filter(has_text="1 of 120").wait_for()
    assert screen(".sessions li").count() == 1
    screen(".filter").fill("retyr")
    screen(".hint").filter(has_text="No session matches “retyr”.").wait_for()
    screen("button").filter(has_text="Clear the filter").click()
    screen(".sessions li").nth(49).wait_for()
    screen(".chip").filter(has_text="claude-code").click()
    screen(".finding [role=status]").filter(has_text="1 of 120").wait_for()
    assert "20" in screen(".sessions time").get_attribute("title")


def test_hits_stand_below_their_session_with_title_folder_and_date(show, library):
    fill(library)
    screen = show(library, "/")
    screen(".sessions li").first.wait_for()
    screen.press("Control+k")
    screen(".search-box input").fill("microphone")
    head = screen(".hit-session")
    head.filter(has_text="Why does the microphone crackle?").wait_for()
    assert "/home/ada/JSSoundRecorder · claude-code" in head.inner_text()
    screen(".search-box input").fill("delete")
    screen(".result").filter(has_text="left behind").first.wait_for()


def test_a_search_that_takes_long_says_so_and_enter_waits_for_its_first_hit(
    show, filled, monkeypatch
):
    search, waiting = type(filled).search, threading.Event()

    def search_later(*arguments, **options):
        assert waiting.wait(20)
        return search(*arguments, **options)

    monkeypatch.setattr(type(filled), "search", search_later)
    screen = show(filled).ready()
    screen.press("/")
    screen(".search-box input").fill("Delete b.py")
    screen.press("Enter")
    screen(".search-box [role=status]").filter(has_text="Searching").wait_for()
    assert screen(".result").filter(has_text="Open the reference").count() == 0
    waiting.set()
    screen.at("main@6")
