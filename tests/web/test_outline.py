"""The outline of an agent: what a page is told of every event, at once or page by page."""

import json

import pytest

import backstory
from backstory.log.kinds import MESSAGE_KINDS
from backstory.web import outline as outlines
from backstory.web.outline import outline_json
from tests.web.asgi import Client


@pytest.fixture
def long(filled):
    """An agent with parallel calls, an answer that came late, a compaction and marks without a label."""
    main = filled.agent("main")
    calls = [main.tool_call("glob", {"pattern": "*"}, id=f"p{n}") for n in range(3)]
    for call in reversed(calls):
        main.tool_result(call, "nothing", error=call is calls[1])
    main.mark()
    main.compact("There are two files.", keep=2)
    main.user("Go on.")
    return main


def as_json(found):
    return json.loads(json.dumps(found))


PAIRS = ("bases", "marks", "errors", "calls", "compactions")


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_pages_of_an_outline_are_the_whole_outline(filled, long, limit):
    whole = as_json(outline_json(long, 0))
    kinds, sizes, times, found = "", [], [], {name: [] for name in PAIRS}
    head = 0
    while head < long.head:
        page = as_json(outline_json(long, head, limit))
        assert (page["after"], page["head"], page["last"]) == (
            head,
            min(head + limit, long.head),
            long.head,
        )
        head = page["head"]
        kinds += page["kinds"]
        sizes += page["tokens"]
        page["times"][0] -= sum(
            times
        )  # the first time of a page is a moment, the others are differences
        times += page["times"]
        for name in PAIRS:
            found[name] += page[name]
    assert whole == {**whole, "kinds": kinds, "tokens": sizes, "times": times, **found}
    assert whole["compactions"]
    assert {(3, 4), (7, 8)} < {tuple(pair) for pair in whole["calls"]}


def test_a_result_that_comes_while_the_page_is_open_lights_up_with_its_call(filled):
    main = filled.agent("main")
    call = main.tool_call("glob", {}, id="later")
    seen = main.head
    main.tool_result(call, "a.py")
    found = Client(filled)(f"/api/agents/{main.id}/outline?after={seen}").json
    assert found["calls"] == [[seen, seen + 1]]


def test_a_second_result_does_not_take_the_call_of_the_first_in_a_later_page(filled):
    main = filled.agent("main")
    call = main.tool_call("glob", {}, id="once")
    main.tool_result(call, "a.py")
    seen = main.head
    main.append("tool_result", "a.py, again", {"id": "once"})
    assert outline_json(main, 0)["calls"][-1] == (seen - 1, seen)
    assert outline_json(main, seen)["calls"] == []


def test_an_outline_reads_the_settings_and_each_message_and_mark_once(filled, monkeypatch):
    main = filled.agent("main")
    read_events, kinds = filled._backend.read_events, []

    def record_filter(agent, pieces, where):
        kinds.append(where.kinds)
        return read_events(agent, pieces, where)

    monkeypatch.setattr(filled._backend, "read_events", record_filter)
    found = outline_json(main, 0)
    assert kinds == [frozenset({"note"}), MESSAGE_KINDS | {"mark"}]
    assert (found["errors"], found["calls"]) == ([8], [(3, 4), (7, 8)])
    assert found["marks"] == [(5, "two files")]


def test_data_that_is_no_json_hides_nothing_else(monkeypatch):
    whole = ['{"id": "a"}', None, '{"id": "b"}']
    assert outlines._parsed(whole) == [{"id": "a"}, None, {"id": "b"}]
    for broken in ("{", "1,2", "[" * 100_000, "{}],[{}"):
        assert outlines._parsed([*whole, broken])[:3] == [{"id": "a"}, None, {"id": "b"}], broken


def test_a_page_behind_the_head_is_refused_and_one_at_the_head_is_empty(filled):
    main = filled.agent("main")
    client = Client(filled)
    assert client(f"/api/agents/{main.id}/outline?after={main.head}").json["kinds"] == ""
    refused = client(f"/api/agents/{main.id}/outline?after=5000")
    assert (refused.status, "no position 5000" in refused.json["error"]) == (404, True)


def test_an_empty_agent_has_an_empty_outline():
    with backstory.open(":memory:") as store:
        found = outline_json(store.start("empty"), 0)
    assert (found["head"], found["last"], found["kinds"], found["tokens"]) == (0, 0, "", [])
