"""What the page says of a whole agent: moves, marks, models, usage, compactions, changes, the time axis."""

from decimal import Decimal

import pytest

import backstory
from backstory.present.usage import read_usage
from backstory.wire import FORMATS
from tests.web.asgi import Client
from tests.web.conftest import fill


def compacted(store):
    main = fill(store)
    main.describe(title="Two files", cwd="/home/ada/project", model="m-1")
    main.assistant(
        "Yes.", data={"model": "m-1", "usage": {"input": 1200, "output": 30, "cost": 0.25}}
    )
    main.compact("There are two files.", keep=1)
    return main


def test_the_overview_lists_moves_marks_folder_models_and_cost(show):
    with backstory.open(":memory:") as store:
        compacted(store)
        screen = show(store).ready()
        screen.press("o")
        screen(".overview").get_by_text("1,200").wait_for()  # what the models took comes last
        text = screen(".overview").inner_text()
        for words in (
            "/home/ada/project",
            "Two files",
            "m-1",
            "1,200",
            "$0.25",
            "back to 5",
            "compaction",
        ):
            assert words in text, words
        screen(".overview a").filter(has_text="9").first.click()
        screen.at("main@9")


def test_usage_is_summed_by_model_and_says_nothing_where_the_log_says_nothing(filled):
    main = filled.agent("main")
    assert Client(filled)(f"/api/agents/{main.id}/usage").json == {"models": []}
    asked = {"model": "x", "usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    main.assistant("a", data={"request": asked})
    main.assistant("a", data={"request": asked, "copy_of": 11})
    main.assistant("b", data={"model": "x", "usage": {"input_tokens": 3, "cost": 0.5}})
    main.assistant("c", data={"model": 3, "usage": "much"})
    (found,) = Client(filled)(f"/api/agents/{main.id}/usage").json["models"]
    assert found == {
        "model": "x",
        "answers": 2,
        "read": 10,
        "cached": 0,
        "cache_written": 0,
        "wrote": 1,
        "cost": 0.5,
        "is_estimate": False,
    }


@pytest.fixture
def prices(monkeypatch):
    """Two dollars for a million tokens of a model that is listed."""

    def price(model, read, said, cached, written):
        return Decimal(read + said) / 500_000 if model == "listed" else Decimal(0)

    monkeypatch.setattr("backstory.present.usage.price", price)


@pytest.mark.parametrize(
    ("data", "cost", "is_estimate"),
    [
        ({"model": "listed", "usage": {"input": 400_000, "output": 100_000}}, 1.0, True),
        ({"model": "listed", "usage": {"input": 400_000, "cost": 0.25}}, 0.25, False),
        ({"model": "unheard of", "usage": {"input": 400_000}}, 0.0, False),
        ({"usage": {"input": 400_000}}, 0.0, False),
        ({"model": "listed"}, 0.0, False),
        (
            {"model": "listed", "usage": {"input": -5, "output": True, "cost": float("inf")}},
            0.0,
            False,
        ),
        ({"model": "listed", "usage": {"cost": -1, "cached": "many"}}, 0.0, False),
    ],
)
@pytest.mark.usefixtures("prices")
def test_a_cost_that_the_log_does_not_say_is_estimated_where_the_price_is_known(
    data, cost, is_estimate
):
    found = read_usage(data)
    assert found is not None
    assert (found.cost, found.is_estimate) == (cost, is_estimate)


@pytest.mark.usefixtures("prices")
def test_an_estimated_cost_says_that_it_is_one(show, filled):
    main = filled.agent("main")
    main.assistant("Yes.", data={"model": "listed", "usage": {"input": 400_000, "output": 100_000}})
    main.assistant("No.", data={"model": "listed", "usage": {"input": 1, "cost": 0.25}})
    screen = show(filled).ready()
    screen(".message[data-seq='11'] .badge").filter(has_text="· ≈ $1.00").wait_for()
    screen(".message[data-seq='12'] .badge").filter(has_text="· $0.25").wait_for()
    screen.press("o")
    screen(".overview td").filter(has_text="≈ $1.25").wait_for()


@pytest.mark.parametrize(
    ("usage", "read", "cached"),
    [
        (
            {"input_tokens": 3, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 50},
            253,
            200,
        ),
        (
            {"input": 3, "cache_read": 200, "cache_write": 50},
            253,
            200,
        ),  # as importers write Anthropic's
        (
            {"input": 3, "cache_read": 200},
            203,
            200,
        ),  # nothing was written: importers leave out what is 0
        ({"inputTokens": 3, "cacheReadInputTokens": 200}, 203, 200),
        ({"input": 300, "cache_read": 200}, 300, 200),  # as importers write OpenAI's
        ({"promptTokenCount": 300, "cachedContentTokenCount": 200}, 300, 200),
        ({"input": 300, "cached": 200, "cache_written": 50}, 300, 200),  # as we write it ourselves
        ({"prompt_tokens": 300, "prompt_tokens_details": {"cached_tokens": 200}}, 300, 200),
        ({"input_tokens": 300, "input_tokens_details": {"cached_tokens": 200}}, 300, 200),
    ],
)
def test_what_was_read_includes_what_came_from_the_cache_however_a_service_counts(
    usage, read, cached
):
    found = read_usage({"model": "m", "usage": usage})
    assert found is not None
    assert (found.read, found.cached) == (read, cached)


def test_a_compaction_shows_its_summary_and_what_it_dropped(show):
    with backstory.open(":memory:") as store:
        main = compacted(store)
        clear = next(event.seq for event in main.events() if event.kind == "clear")
        summary = next(event for event in main.events(after=clear) if event.kind == "user")
        screen = show(store, f"/s/{main.session}/a/{main.id}@{clear}?pane=event")
        screen(".detail .body").filter(has_text="There are two files.").wait_for()
        screen.row(2).filter(has_text=f"left behind by the compaction at {clear}").wait_for()
        screen.press("1", "g")
        screen(f".message[data-seq='{summary.seq}'] .badge").filter(
            has_text="summary of"
        ).wait_for()
        screen(".message button").filter(has_text="What was dropped").click()
        screen(".side.older").filter(has_text="Which Python files are here?").wait_for()


def test_a_compaction_of_another_tool_says_what_it_dropped_too(show):
    with backstory.open(":memory:") as store:
        main = fill(store)
        main.clear()
        main.user("Until now: two files.", data={"compaction": True})  # as importers write it
        screen = show(store).ready()
        screen.row(11).filter(
            has_text="what came before is replaced by the summary at 12"
        ).wait_for()
        screen(".message[data-seq='12'] .badge").filter(has_text="summary of 7 messages").wait_for()
        screen(".message button").filter(has_text="What was dropped").click()
        screen(".side.older").filter(has_text="Which Python files are here?").wait_for()


def test_an_import_without_a_title_is_called_by_its_first_prompt(filled):
    about = {"source": {"tool": "some-tool", "session": "1"}}
    imported = filled.start("some-tool", system="Be careful.")
    imported.describe(**about)
    imported.user("Where is the parser?")
    empty = filled.start("some-tool")
    empty.describe(**about)
    titles = {one["id"]: one["title"] for one in Client(filled)("/api/sessions").json["sessions"]}
    assert (titles[imported.id], titles[empty.id]) == ("Where is the parser?", "some-tool")


def test_a_session_whose_root_is_empty_is_described_by_its_first_agent_that_is_not(filled):
    root = filled.start("some-tool")
    child = root.spawn("some-tool-2")
    child.describe(source={"tool": "some-tool"}, cwd="/home/ada")
    child.user("Review the parser.")
    child.assistant("It is fine.", data={"model": "m-2"})
    sessions = Client(filled)("/api/sessions").json["sessions"]
    found = next(one for one in sessions if one["id"] == root.id)
    assert found["title"] == "Review the parser."
    assert found["about"] == {"tool": "some-tool", "cwd": "/home/ada", "model": "m-2"}


def test_a_session_without_a_title_is_called_by_its_first_prompt_above_the_workbench(show, filled):
    show(filled)(".crumb").filter(has_text="Which Python files are here?").wait_for()


def test_what_came_and_what_left_since_a_pinned_position_is_said(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@8").ready()
    screen(".since button").filter(has_text="Pin").click()
    screen.press("g")
    screen(".since summary").filter(has_text="Changed since 8: 1 came, 3 left").wait_for()
    screen(".message[data-seq='10'] .new").wait_for()
    screen(".since summary").click()
    screen(".since input").check()
    screen(".message[data-seq='2']").wait_for(state="detached")
    assert [int(text) for text in screen.texts(".message > header > a")] == [10]
    screen(".since a").filter(has_text="6\u20138").click()
    screen.at("main@8")


def test_each_message_of_a_request_leads_to_its_events(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}?pane=request&format=anthropic")
    screen(".origins").first.wait_for()
    assert screen.texts(".origins")[:3] == ["from 2", "from 3", "from 4"]
    assert "a repair put it there" in screen.texts(".origins")[-1]
    screen(".origins a").nth(1).click()
    screen.at("main@3")


DRAWN = "(canvas) => canvas.toDataURL()"


def test_the_axis_can_be_time_and_a_click_still_goes_where_it_points(show, filled):
    filled.agent("idea").user("Later.")
    screen = show(filled).ready()
    screen(".status.on").wait_for()
    by_position = screen(".lanes canvas").first.evaluate(DRAWN)
    screen(".position button").filter(has_text="Time axis").click()
    screen(".position button[aria-pressed=true]").wait_for()
    assert screen(".lanes canvas").first.evaluate(DRAWN) != by_position
    box = screen("[role=slider]").bounding_box()
    screen.page.mouse.click(box["x"] + box["width"] - 2, box["y"] + 40)
    screen.at("main@10")
    screen.press("k")
    screen.at("main@9")
    screen.press("t")
    screen(".position button[aria-pressed=false]").wait_for()


AXIS = """async () => {
  const { axis, placeOf, seqAt, whole } = await import("page/axis.js");
  const { log } = await import("page/open_log.js");
  axis.value = "time";
  const { head } = log.value;
  const places = Array.from({ length: head }, (_, n) => placeOf(n + 1));
  return [places, places.map((place) => seqAt(place)), whole.value];
}"""


def test_by_time_long_pauses_are_folded_and_positions_stay_in_order(show, filled):
    screen = show(filled)
    screen.ready()
    places, positions, (low, high) = screen.page.evaluate(AXIS)
    assert places == sorted(places)
    assert low <= places[0]
    assert places[-1] <= high
    assert all(found >= seq for seq, found in enumerate(positions, 1))


def live(agent, at):
    return {event.seq for event in agent.context(at).messages} if at else set()


def test_a_picture_is_in_the_request_of_every_format(filled):
    png = b"\x89PNG\r\n\x1a\n" + bytes(40)
    main = filled.agent("main")
    main.user("Look.", images=[png])
    for format in FORMATS:
        page = Client(filled)(f"/api/agents/{main.id}/request?format={format}")
        assert (page.status, "iVBORw0KGgo" in str(page.json["messages"][-1])) == (200, True), format
