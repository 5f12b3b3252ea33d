"""The page in a real browser: addresses, panes, keys, find and search."""

import json
import re
import threading

import pytest

import backstory
from backstory.log.kinds import MESSAGE_KINDS
from backstory.present.shapes import comparison_json, explanation_json, preview_json, tokens_json
from backstory.wire import FORMATS
from tests.web.asgi import Client
from tests.web.conftest import fill
from tools import demo


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("web") / "demo.db")
    demo.write(path)
    with backstory.open(path) as store:
        yield store


def seqs_shown(screen):
    return [int(text) for text in screen.texts(".pane.context .message > header > a")]


@pytest.mark.parametrize("at", [2, 5, 9, 10])
def test_the_context_pane_shows_what_is_live_at_the_position(show, filled, at):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@{at}").ready()
    live = [event for event in main.context(at).messages if event.kind in MESSAGE_KINDS]
    assert seqs_shown(screen) == [event.seq for event in live]
    for event in live:
        text = screen(f".message[data-seq='{event.seq}']").inner_text()
        assert (event.content or "glob").split("\n")[0].replace("**", "").split("`")[
            0
        ] in text or event.kind == "tool_call"


@pytest.mark.parametrize("format", FORMATS)
def test_the_request_pane_has_the_messages_that_would_be_sent_byte_for_byte(show, story, format):
    main = story.agent("main")
    client = Client(story)
    at = 40
    raw = client(f"/api/agents/{main.id}/request.json?at={at}&format={format}")
    assert raw.content == main.conversation(at).to_bytes(format)
    page = client(f"/api/agents/{main.id}/request?at={at}&format={format}&limit=200").json
    assert page["messages"] == json.loads(raw.content)[page["key"]]
    screen = show(story, f"/s/{main.session}/a/{main.id}@{at}?pane=request&format={format}")
    screen(".request .message pre").first.wait_for()
    shown = [json.loads(text) for text in screen.texts(".request .message pre")]
    assert shown == page["messages"][: len(shown)]
    assert len(shown) == min(30, page["total"])


def test_explain_preview_tokens_marks_and_diff_are_those_of_the_command_line(filled):
    main, idea = filled.agent("main"), filled.agent("idea")
    client = Client(filled)
    api = f"/api/agents/{main.id}"
    assert client(f"{api}/explain/6").json == explanation_json(main.explain(6))
    assert client(f"{api}/tokens").json.items() >= tokens_json(main.conversation().tokens()).items()
    assert (
        client(f"{api}/preview?move=clear").json.items()
        >= preview_json(main.preview("clear")).items()
    )
    from backstory.log.diff import compare

    sides = [[e for e in one.context().messages if e.kind in MESSAGE_KINDS] for one in (main, idea)]
    found = client(f"/api/diff?left={main.id}&right={idea.id}").json
    assert found.items() >= comparison_json(compare(*sides)).items()
    assert found["parted"] == 4
    agents = client(f"/api/sessions/{main.session}/agents").json["agents"]
    assert [one["marks"] for one in agents if one["name"] == "main"] == [1]


@pytest.mark.parametrize(
    ("agent", "at", "look"),
    [("main", 2, ""), ("main", 6, ""), ("idea", 3, ""), ("idea", 5, ""), ("reviewer", 1, "")],
)
def test_a_link_opens_a_live_dead_inherited_forked_or_spawned_position(
    show, filled, agent, at, look
):
    one = filled.agent(agent)
    screen = show(filled, f"/s/{one.session}/a/{one.id}@{at}?pane=event")
    screen.at(f"{agent}@{at}")
    assert screen.row(at).get_attribute("aria-selected") == "true"
    screen(".name[aria-selected=true]").filter(has_text=agent).wait_for()
    screen(".detail .message .body").first.wait_for()


def test_a_link_may_be_the_beginning_of_an_id_and_a_future_position_is_said_to_be_one(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@99")
    screen("[role=alert]").filter(has_text="after the head").wait_for()
    screen.open(f"/s/{main.session}/a/{main.id[:35]}@3")
    screen.at("main@3")


@pytest.mark.parametrize(
    ("ref", "place"), [("main@two files", "main@5"), ("idea", "idea@5"), ("main@-2", "main@8")]
)
def test_a_reference_of_the_command_line_leads_to_the_canonical_address(show, filled, ref, place):
    from urllib.parse import quote

    screen = show(filled, f"/r/{quote(ref, safe='')}")
    screen.at(place)
    assert re.search(r"/s/[0-9a-f-]{36}/a/[0-9a-f-]{36}", screen.page.url)


def test_back_goes_to_where_one_jumped_from_and_steps_leave_no_trace(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@4").ready()
    screen.press("k", "k")
    screen.at("main@2")
    screen(".message header a").first.click()  # a jump to event 1
    screen.at("main@1")
    screen.page.wait_for_url(re.compile("@1$"))
    screen.page.go_back()
    screen.at("main@2")
    screen.page.go_forward()
    screen.at("main@1")


def test_a_row_that_was_left_behind_says_so_in_words(show, filled):
    screen = show(filled).ready()
    assert screen.row(6).text_content().strip().endswith("(left behind by the rewind at 9)")
    assert "left" in screen.row(6).get_attribute("class")
    screen.press("k", "k")
    screen.at("main@8")
    assert screen.row(6).text_content().strip().endswith("Delete b.py.")
    assert screen.row(10).text_content().strip().endswith("(after the cursor)")


def test_every_key_of_the_walk_goes_where_it_says(show, filled):
    screen = show(filled).ready()
    screen.press("k")
    screen.at("main@9")
    for key, place in [
        ("[", 6),
        ("[", 2),
        ("]", 6),
        ("}", 9),
        ("Home", 1),
        ("m", 5),
        ("j", 6),
        ("End", 10),
        ("{", 9),
    ]:
        screen.press(key)
        screen.at(f"main@{place}")
    screen.press("g")
    screen(".status.on").wait_for()
    for key, pane in [("2", "event"), ("3", "request"), ("4", "diff"), ("1", "context")]:
        screen.press(key)
        screen(f".pane.{pane}").wait_for()
    screen.press("l")
    screen.at("reviewer@1")
    screen.press("h")
    screen.at("main@10")


def test_a_branch_that_is_folded_away_is_unfolded_when_it_is_opened(show, filled):
    screen = show(filled).ready()
    screen(".name").filter(has_text="idea").wait_for()
    screen.press("ArrowLeft")
    screen(".name").filter(has_text="idea").wait_for(state="detached")
    screen.press("/")
    screen(".search-box input").fill("idea")
    screen(".result").filter(has_text="branch").click()
    screen.at("idea@5")
    screen(".name[aria-selected=true]").filter(has_text="idea").wait_for()


def test_letters_are_text_in_a_field_and_can_be_switched_off(show, filled):
    screen = show(filled).ready()
    screen.press("/")
    screen(".search-box input").fill("k")
    screen.press("k", "Escape", "?")
    screen("dialog label").click()
    screen.press("Escape", "k")
    screen.press("ArrowUp")
    screen.at("main@9")


def test_find_reaches_what_was_never_on_the_screen_and_wraps(show):
    with backstory.open(":memory:") as store:
        main = store.start("main")
        main.extend(
            [
                ("user", f"line {n}" + (" with a needle" if n in (3, 700, 1_500) else ""))
                for n in range(1, 2_001)
            ]
        )
        main.mark("here")
        main.clear()
        screen = show(store, f"/s/{main.session}/a/{main.id}@100")
        screen.at("main@100")
        screen.press("Control+f")
        screen(".find input").fill("NEEDLE")
        screen(".find [role=status]").filter(has_text="of 3").wait_for()
        screen.at("main@700")
        for place in (1_500, 3, 700):
            screen(".find input").press("Enter")
            screen.at(f"main@{place:,}")
        screen.row(700).filter(has_text="needle").wait_for()
        screen(".find input").press("Escape")
        assert screen(".find").count() == 0


def test_search_finds_dead_events_phrases_and_beginnings(show, filled):
    screen = show(filled).ready()
    for asked, snippet, place in [
        ("delete", "Delete b.py.", "main@6"),
        ('"Python files"', "Which Python files are here?", "main@2"),
        ("renam*", "Rename a.py", "idea@5"),
    ]:
        screen.press("/")
        screen(".search-box input").fill(asked)
        hit = screen(".result").filter(has_text=snippet)
        hit.wait_for()
        assert ("left behind" in hit.inner_text()) == (place == "main@6")
        hit.click()
        screen.at(place)


def test_search_shows_what_an_index_that_is_behind_has_and_says_how_far_it_is(
    monkeypatch, show, tmp_path
):
    monkeypatch.setattr("backstory.maintenance.indexing.AT_ONCE", 3)
    indexing = threading.Event()
    monkeypatch.setattr(
        "backstory.maintenance.indexing.start_indexing", lambda backend: indexing.set()
    )
    with backstory.open(tmp_path / "history.db") as store:
        main = fill(store)
        store.search("files", wait=True)
        main.extend([("user", f"More files {n}.") for n in range(5)])
        screen = show(store).ready()
        screen.press("/")
        screen(".search-box input").fill("files")
        screen(".search-box [role=status]").filter(has_text="Searching … 70 %").wait_for()
        assert indexing.is_set()
        assert screen(".result .snippet").count() == 3
        store.search("files", wait=True)
        screen(".result").filter(has_text="More files 4.").wait_for()
        screen(".search-box [role=status]").filter(has_text="Searching").wait_for(state="detached")


def test_search_comes_in_pages(show, tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        store.start("main").extend([("user", f"needle {n}") for n in range(120)])
        client = Client(store)
        seqs, after = [], 0
        while after is not None:
            page = client(f"/api/search?q=needle&after={after}").json
            assert page["behind"] == 0
            seqs += [hit["seq"] for group in page["groups"] for hit in group["hits"]]
            after = page["next"]
        assert sorted(seqs) == list(range(1, 121))
        screen = show(store).ready()
        screen.press("/")
        screen(".search-box input").fill("needle")
        screen(".search-box .more").click()
        screen(".result .snippet").nth(99).wait_for()


def test_the_diff_pane_says_where_two_branches_part(show, filled):
    main, idea = filled.agent("main"), filled.agent("idea")
    screen = show(filled, f"/s/{main.session}/a/{main.id}?pane=diff&with={idea.id}@5")
    screen(".diff p").filter(has_text="part after 4").wait_for()
    screen(".side.newer").filter(has_text="Rename a.py").wait_for()
    screen(".side.older").filter(has_text="two").wait_for()


def test_two_positions_of_one_history_part_at_the_earlier_one(filled):
    main = filled.agent("main").id
    assert Client(filled)(f"/api/diff?left={main}@9&right={main}@4").json["parted"] == 4


def test_the_sessions_are_listed_with_title_and_first_prompt_and_lead_to_the_agent(show, story):
    screen = show(story, "/")
    screen(".sessions li").first.wait_for()
    assert screen(".sessions li").count() == 2
    screen(".filter").fill("empty input")
    screen(".sessions a").filter(has_text="Parser fails on empty input").click()
    screen(".position b").wait_for()


def test_a_session_says_where_it_came_from(show, filled):
    filled.agent("main").describe(
        title="Two files", source={"tool": "claude-code", "session": "x"}, cwd="/home/ada/project"
    )
    screen = show(filled, "/")
    screen(".sessions small").filter(has_text="claude-code · ~/project").wait_for()
    screen(".sessions a").filter(has_text="Two files").click()
    screen(".crumb").filter(has_text="Two files").wait_for()


def test_what_was_erased_says_so(show, filled):
    main = filled.agent("main")
    main.erase([2, 3], why="a secret")
    screen = show(filled).ready()
    for seq in (2, 3):
        screen.row(seq).filter(has_text="(erased: a secret)").wait_for()
        screen(f".message[data-seq='{seq}']").filter(has_text="(erased: a secret)").wait_for()


def test_no_answer_is_kept_so_that_what_is_erased_is_gone_when_the_page_is_opened_again(
    show, filled
):
    main = filled.agent("main")
    client = Client(filled)
    paths = [
        f"/api/agents/{main.id}/{rest}" for rest in ("lines", "events?seqs=2", "request", "outline")
    ]
    answers = [client(path) for path in paths]
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
    screen = show(filled, f"/s/{main.session}/a/{main.id}?pane=request")
    screen(".request pre").filter(has_text="Which Python files").wait_for()
    main.erase([2], why="a secret")
    screen.page.reload()
    screen(".request pre").filter(has_text="There are **two** files").wait_for()
    assert "Which Python files" not in screen.page.content()


def test_the_list_of_sessions_leads_to_the_check(show, filled):
    screen = show(filled, "/")
    screen("a").filter(has_text="Check the store").click()
    screen(".good").wait_for()


def test_check_says_that_the_store_is_sound(show, filled):
    screen = show(filled, "/check")
    screen(".good").wait_for()
    screen("th").filter(has_text="events").first.wait_for()


def test_the_tape_can_be_filtered(show, filled):
    screen = show(filled).ready()
    screen(".filters button").filter(has_text="prompts").click()
    screen(".filters .hint").filter(has_text="2 of 10").wait_for()
    assert [text.split()[0] for text in screen.texts(".row")] == ["2", "6"]
    screen(".filters button").filter(has_text="live only").click()
    screen(".filters .hint").filter(has_text="1 of 10").wait_for()


def test_a_store_with_nothing_in_it_says_how_to_start(show):
    with backstory.open(":memory:") as store:
        screen = show(store, "/")
        screen(".hint").filter(has_text="backstory chat").wait_for()


def test_leaving_the_workbench_at_once_leaves_nothing_behind_that_fails(show, filled):
    screen = show(filled).ready()
    assert screen.page.title() == "Which Python files are here? · backstory"
    screen.page.set_viewport_size({"width": 1300, "height": 700})  # its parts are measured again
    screen(".brand").click()
    screen(".sessions li").first.wait_for()
    assert screen.page.title() == "backstory"


@pytest.mark.parametrize(
    "path", ["/r/%zz", "/r/%ff", "/s/x/a/y", "/s/abcd/a/0000@7", "/s/{session}/a/0000"]
)
def test_an_address_of_nothing_says_so_and_shows_no_empty_workbench(show, filled, path):
    screen = show(filled, path.format(session=filled.agent("main").session), write=True)
    screen.expected.append("status of 404")
    screen("h1").filter(has_text="There is nothing at this address").wait_for()
    screen(".status.on").wait_for()
    assert screen(".bench").count() == 0


def test_a_reference_to_nothing_says_so_and_leads_to_the_sessions(show, filled):
    screen = show(filled, "/r/nobody@3")
    screen("[role=alert]").filter(has_text="no agent 'nobody'").wait_for()
    screen.expected.append("404")
    screen("main a").filter(has_text="All sessions").click()
    screen(".sessions li").first.wait_for()


def test_a_fork_whose_root_was_deleted_is_shown_with_what_it_inherited(show, filled):
    session = filled.agent("main").session
    filled.delete("main")
    idea = filled.agent("idea")
    later = idea.fork("later")
    later.assistant("Renamed.")
    screen = show(filled, "/")
    screen(".sessions a").filter(has_text="Which Python files are here?").click()
    screen(".row .text").filter(has_text="Renamed.").wait_for()
    screen = show(filled, f"/s/{session}/a/{idea.id}").ready()
    screen.row(2).filter(has_text="Which Python files are here?").wait_for()
    assert screen.texts(".name > span") == ["reviewer", "idea", "later"]


def test_forks_and_sub_agents_stand_below_the_event_where_they_were_born_and_are_one_click_away(
    show, filled
):
    main = filled.agent("main")
    for n in range(4):
        main.fork(f"more {n}", at=4)
    screen = show(filled).ready()
    lines = screen.page.locator(".row, .born").all_inner_texts()
    words = [" ".join(line.split()) for line in lines]
    place = next(index for index, line in enumerate(words) if line.startswith("4 result"))
    assert words[place + 1 : place + 5] == [
        "forked idea 1 event",
        "forked more 0 0 events",
        "forked more 1 0 events",
        "and 2 more",
    ]
    assert words[-2] == "spawned reviewer 1 event"
    screen(".born").filter(has_text="and 2 more").click()
    screen.at("main@4")
    screen(".detail li").filter(has_text="more 3").wait_for()
    screen(".born").filter(has_text="idea").click()
    screen.at("idea@5")
    assert "forked idea" not in " ".join(screen.texts(".born"))
    screen(".filters button").filter(has_text="prompts").click()
    screen(".born").first.wait_for(state="detached")


def test_what_each_side_of_a_diff_has_of_its_own_stands_side_by_side(show, filled):
    main, idea = filled.agent("main"), filled.agent("idea")
    idea.user("And b.py?")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@6?pane=diff&with={idea.id}@6")
    screen(".pair").first.wait_for()
    _, *words = screen(".pair").first.inner_text().split("\n")
    assert words == ["Delete b.py.", "5 user", "Rename a.py to main.py."]
    assert screen(".pair").count() == 2


CURSOR = """async () => (await import("page/open_log.js")).cursor.value"""


@pytest.mark.parametrize(
    ("at", "key", "place"), [(1, "k", 1), (1, "j", 2), (4, "k", 2), (4, "j", 6), (8, "j", 8)]
)
def test_a_step_through_filtered_rows_never_goes_the_other_way(show, filled, at, key, place):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@{at}").ready()
    screen(".filters button").filter(has_text="prompts").click()
    screen(".filters .hint").filter(has_text="2 of 10").wait_for()
    screen.press(key)
    assert screen.page.evaluate(CURSOR) == place


SCROLL_UP = """() => {
  const box = document.querySelector(".pane.context");
  box.scrollTop = box.scrollTop ? 0 : 1;
  return document.querySelector(".message[data-seq='1']") !== null;
}"""
SCROLL_DOWN = """() => {
  const box = document.querySelector(".pane.context");
  const bottom = box.scrollHeight - box.clientHeight;
  box.scrollTop = box.scrollTop < bottom ? bottom : bottom - 1;
  return document.querySelector(".message[data-seq='60']") !== null;
}"""


def test_the_later_messages_of_a_context_end_where_none_is_left(show):
    with backstory.open(":memory:") as store:
        store.start("main").extend([("user", f"line {n}") for n in range(1, 61)])
        screen = show(store).ready()
        screen.page.wait_for_function(SCROLL_UP)
        later = screen("button.more").filter(has_text="Show later messages")
        later.wait_for()
        screen.page.wait_for_function(SCROLL_DOWN)
        later.wait_for(state="detached")


def test_a_pane_that_is_a_property_of_every_object_is_no_pane(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}?pane=toString").ready()
    screen(".pane.context").wait_for()
