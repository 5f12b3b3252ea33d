"""The outline of an agent: what a page is told of every event, at once or page by page."""

import json

import pytest

import backstory
from backstory.log.kinds import MESSAGE_KINDS
from backstory.web.outline import build_block, build_frame
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


PAIRS = ("marks", "errors", "calls", "compactions", "reads")


@pytest.mark.parametrize("size", [1, 3, 7])
def test_blocks_are_the_whole_outline(long, size):
    whole = as_json(build_block(long, 0, long.head))
    kinds, tokens, times = "", [], []
    found = {name: [] for name in PAIRS}
    for after in range(0, long.head, size):
        block = as_json(build_block(long, after, after + size))
        kinds += block["kinds"]
        tokens += block["tokens"]
        # The first time of a block is a moment, the others are differences.
        block["times"][0] -= sum(times)
        times += block["times"]
        for name in PAIRS:
            found[name] += block[name]
    assert whole == {"after": 0, "kinds": kinds, "tokens": tokens, "times": times, **found}
    assert whole["compactions"]
    assert {(3, 4), (7, 8)} < {tuple(pair) for pair in whole["calls"]}


def test_the_frame_has_head_pieces_and_moves(long):
    frame = build_frame(long)
    assert frame["head"] == long.head
    assert frame["pieces"] == [[long.id, 1, long.head]]
    assert frame["moves"] == [[seq, base] for seq, base, _ in long.moves()]
    assert build_frame(long, after=9)["moves"] == frame["moves"][1:]


def test_a_block_knows_what_nobody_typed_and_what_providers_counted(filled):
    main = filled.agent("main")
    main.user("<command>", data={"meta": "command"})
    main.assistant("Yes.", data={"usage": {"input": 900, "output": 2}})
    block = build_block(main, main.head - 2, main.head)
    assert (block["kinds"], block["reads"]) == ("ia", [(main.head, 900)])


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
    assert build_block(main, 0, main.head)["calls"][-1] == (seen - 1, seen)
    assert build_block(main, seen, main.head)["calls"] == []


def test_an_outline_reads_the_settings_and_each_message_and_mark_once(filled, monkeypatch):
    main = filled.agent("main")
    read_events, kinds = filled._backend.read_events, []

    def record_filter(agent, pieces, where):
        kinds.append(where.kinds)
        return read_events(agent, pieces, where)

    monkeypatch.setattr(filled._backend, "read_events", record_filter)
    found = build_block(main, 0, main.head)
    assert kinds == [frozenset({"note"}), MESSAGE_KINDS | {"mark"}]
    assert (found["errors"], found["calls"]) == ([8], [(3, 4), (7, 8)])
    assert found["marks"] == [(5, "two files")]


def test_a_block_after_the_head_is_empty(filled):
    main = filled.agent("main")
    assert Client(filled)(f"/api/agents/{main.id}/outline?after={main.head}").json["kinds"] == ""


def test_an_empty_agent_has_an_empty_outline():
    with backstory.open(":memory:") as store:
        agent = store.start("empty")
        frame, block = build_frame(agent), build_block(agent, 0, 0)
    assert (frame["head"], frame["moves"], block["kinds"], block["tokens"]) == (0, [], "", [])
