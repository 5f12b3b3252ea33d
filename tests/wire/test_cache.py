"""`cache="auto"`: what one request put into the prompt cache, the next one finds there."""

import copy
import json
from itertools import pairwise

import pytest

import backstory
from backstory import Invalid
from backstory.log.messages import Message
from backstory.log.settings import Settings
from backstory.wire import FORMATS, dump, load, to_bytes
from backstory.wire.conversation import Conversation
from backstory.wire.formats import get_format
from backstory.wire.formats.blocks import MAX_BREAKPOINTS
from tests.wire.rules import violations

MARK = {"type": "ephemeral"}
POINT = {"cachePoint": {"type": "default"}}
CACHING = ("anthropic", "bedrock")


def grown():
    """A working session, event by event: system text, turns with and without tools, words behind calls."""
    agent = backstory.open(":memory:").start("main", system="Be brief.")
    for turn in range(3):
        agent.user(f"Question {turn}?")
        if turn:
            agent.assistant(f"Looking {turn}.")
        for number in range(turn):
            agent.tool_call("glob", {"n": number}, id=f"call_{turn}_{number}")
        for number in range(turn):
            agent.tool_result(f"call_{turn}_{number}", f"{number} files")
        agent.assistant(f"Answer {turn}.")
    agent.user("Thanks.")
    return list(agent.conversation())


def requests(events, format):
    """The requests that a client would make: one wherever the model is to speak next."""
    for count in range(1, len(events) + 1):
        kinds = [event.kind for event in events[:count]]
        following = events[count].kind if count < len(events) else None
        if kinds[-1] == "user" or (kinds[-1] == "tool_result" and following != "tool_result"):
            yield dump(events[:count], format, cache="auto").body


def blocks_of(body):
    """All blocks in the order in which the service reads them, and which of them end what is kept."""
    content = [
        *body.get("system", ()),
        *(block for message in body["messages"] for block in message["content"]),
    ]
    found, ends = [], []
    for block in content:
        bare = {key: value for key, value in block.items() if key != "cache_control"}
        if block != POINT:
            found.append(json.dumps(bare))
        if block == POINT or "cache_control" in block:
            ends.append(len(found))
    return found, ends


@pytest.mark.parametrize("format", CACHING)
def test_what_a_request_keeps_is_the_beginning_of_the_next_byte_for_byte(format):
    bodies = list(requests(grown(), format))
    assert len(bodies) == 6
    for body, following in pairwise(bodies):
        (blocks, ends), (later, later_ends) = blocks_of(body), blocks_of(following)
        assert ends[-1] == len(blocks)
        assert later[: ends[-1]] == blocks
        assert ends[-1] in later_ends


@pytest.mark.parametrize("format", CACHING)
def test_there_are_never_more_breakpoints_than_the_service_takes(format):
    for body in requests(grown(), format):
        assert 0 < len(blocks_of(body)[1]) <= MAX_BREAKPOINTS - 1  # the tools have one, too
        assert violations(body, format) == []


@pytest.mark.parametrize("format", [format for format in FORMATS if format not in CACHING])
def test_other_formats_are_left_as_they_are(format):
    events = grown()
    assert dump(events, format, cache="auto") == dump(events, format)
    assert to_bytes(events, format, cache="auto") == to_bytes(events, format)


@pytest.mark.parametrize("format", CACHING)
def test_bytes_say_the_same_as_the_dump(format):
    events = grown()
    assert (
        json.loads(to_bytes(events, format, cache="auto"))
        == dump(events, format, cache="auto").body
    )


def test_any_other_way_is_refused():
    with pytest.raises(Invalid, match="cache='always' is not known"):
        dump(grown(), "anthropic", cache="always")


FINE = [{"type": "text", "text": "Fine."}]


def anthropic_history(*contents):
    """Questions with these contents, and an answer behind each but the last."""
    messages = []
    for content in contents:
        messages += [{"role": "user", "content": content}, {"role": "assistant", "content": FINE}]
    return {"messages": messages[:-1]}


def marked(text, **more):
    return {"type": "text", "text": text, "cache_control": MARK, **more}


def marks(body):
    return [json.loads(block)["text"] for block in kept(body)]


def kept(body):
    blocks, ends = blocks_of(body)
    return [blocks[end - 1] for end in ends]


def test_breakpoints_of_loaded_history_are_replaced():
    history = anthropic_history(*([marked(f"Question {number}")] for number in range(4)))
    history["system"] = [marked("Be brief."), {"type": "text", "text": "Be kind."}]
    body = dump(load(history, "anthropic"), "anthropic", cache="auto").body
    assert marks(body) == ["Be kind.", "Question 2", "Question 3"]


def test_a_text_that_was_a_string_is_a_block_before_and_after_its_mark_moves_on():
    history = load(anthropic_history("One", "Two", "Three"), "anthropic")
    contents = [
        message["content"] for message in dump(history, "anthropic", cache="auto").body["messages"]
    ]
    assert contents[0] == [{"type": "text", "text": "One"}]
    assert contents[2] == [marked("Two")]


def test_a_mark_within_a_result_is_replaced_too():
    result = {
        "type": "tool_result",
        "tool_use_id": "1",
        "content": [marked("3 files"), {"type": "text", "text": "x"}],
    }
    history = {
        "messages": [
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "glob", "input": {}}],
            },
            {"role": "user", "content": [result]},
        ]
    }
    [block] = dump(load(history, "anthropic"), "anthropic", cache="auto").body["messages"][2][
        "content"
    ]
    assert block["cache_control"] == MARK
    assert "cache_control" not in json.dumps(block["content"])


def test_blocks_that_refuse_a_mark_get_none():
    upload = {"type": "container_upload", "file_id": "file_1"}
    history = load(
        anthropic_history([upload], [{"type": "text", "text": "Read."}, upload]), "anthropic"
    )
    first, _, last = dump(history, "anthropic", cache="auto").body["messages"]
    assert first["content"] == [upload]
    assert last["content"] == [marked("Read."), upload]


def test_too_many_of_loaded_history_are_thinned_and_told_without_being_asked():
    history = anthropic_history(*([marked(f"Question {number}")] for number in range(6)))
    body, repairs = dump(load(history, "anthropic"), "anthropic")
    assert marks(body) == ["Question 2", "Question 3", "Question 4", "Question 5"]
    assert [repair.why for repair in repairs] == ["2 cache breakpoints left out: there may be 4"]


def bedrock_history(count):
    messages = []
    for number in range(count):
        messages.append({"role": "user", "content": [{"text": f"Question {number}"}, POINT]})
        messages.append({"role": "assistant", "content": [{"text": "Fine."}]})
    return {"system": [{"text": "Be brief."}, POINT], "messages": messages[:-1]}


def test_bedrock_breakpoints_of_loaded_history_are_replaced_or_thinned():
    history = load(bedrock_history(5), "bedrock")
    assert marks(dump(history, "bedrock", cache="auto").body) == [
        "Be brief.",
        "Question 3",
        "Question 4",
    ]
    body, repairs = dump(history, "bedrock")
    assert marks(body) == [f"Question {number}" for number in range(1, 5)]
    assert [repair.why for repair in repairs] == ["2 cache breakpoints left out: there may be 4"]


def test_as_many_as_there_may_be_stay():
    for format, history in (
        ("bedrock", bedrock_history(3)),
        ("anthropic", anthropic_history([marked("One")])),
    ):
        body, repairs = dump(load(history, format), format)
        assert (body["messages"], repairs) == (history["messages"], [])


def test_bedrock_points_without_system_text_are_thinned_too():
    history = bedrock_history(6)
    del history["system"]
    assert len(marks(dump(load(history, "bedrock"), "bedrock").body)) == MAX_BREAKPOINTS


def test_a_breakpoint_without_system_text_does_not_stay_alone():
    events = [
        ("system", "", {"native": {"provider": "bedrock", "wire": [POINT]}}),
        ("user", "Hello.", None),
    ]
    body = dump(events, "bedrock", cache="auto").body
    assert body == {"messages": [{"role": "user", "content": [{"text": "Hello."}, POINT]}]}


def with_tools():
    agent = backstory.open(":memory:").start("main", system="Be brief.")
    agent.settings(
        tools=[{"name": name, "parameters": {"type": "object"}} for name in ("glob", "grep")]
    )
    agent.user("Look.")
    return agent.conversation()


def test_the_tools_of_a_whole_request_are_kept_as_well():
    body = with_tools().request("anthropic", model="claude-x", cache="auto")
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, MARK]
    body = with_tools().request("bedrock", model="claude-x", cache="auto")
    assert [next(iter(tool)) for tool in body["toolConfig"]["tools"]] == [
        "toolSpec",
        "toolSpec",
        "cachePoint",
    ]
    assert "cachePoint" not in json.dumps(with_tools().request("bedrock", model="claude-x"))


def test_but_not_those_of_nova_which_keeps_none():
    body = with_tools().request("bedrock", model="amazon.nova-pro-v1:0", cache="auto")
    assert [next(iter(tool)) for tool in body["toolConfig"]["tools"]] == ["toolSpec", "toolSpec"]
    assert body["system"][-1] == POINT


def test_marks_of_tools_are_not_piled_up_and_not_set_where_tools_are_looked_up_later():
    tools = [
        {"name": "a", "cache_control": MARK},
        {"name": "b"},
        {"name": "c", "defer_loading": True},
    ]
    given = copy.deepcopy(tools)
    body = {"tools": tools, "messages": []}
    found = get_format("anthropic").mark_cache(body, None)["tools"]
    assert found == [{"name": "a"}, {"name": "b", "cache_control": MARK}, tools[2]]
    assert tools == given
    deferred = {"tools": tools[2:], "messages": []}
    assert get_format("anthropic").mark_cache(deferred, None) == deferred
    assert get_format("openai").mark_cache(body, None) == body


def test_breakpoints_within_documents_and_search_results_count_too():
    mark = {"cache_control": {"type": "ephemeral"}}
    words = {"type": "text", "text": "The sea.", **mark}
    found = {
        "type": "search_result",
        "source": "https://example.org",
        "title": "Sea",
        "content": [words],
    }
    paper = {"type": "document", "source": {"type": "content", "content": [words]}}
    blocks = [found, paper, {"type": "text", "text": "Read.", **mark}]
    said = {"role": "user", "content": blocks}
    events = load({"messages": [said, {"role": "assistant", "content": "Yes."}, said]}, "anthropic")
    body, repairs = dump(events, "anthropic")
    assert json.dumps(body).count("cache_control") == 4
    assert [repair.why for repair in repairs] == ["2 cache breakpoints left out: there may be 4"]


# --- breakpoints on tools ---


def mark_tools(format, count):
    """Settings with tools of one format that have breakpoints of their own."""
    tools = []
    for number in range(count):
        if format == "anthropic":
            form = {"name": f"t{number}", "input_schema": {"type": "object"}, "cache_control": MARK}
        else:
            form = POINT
        tools.append({"name": f"t{number}", "native": {"format": format, "wire": form}})
    return Settings("m", tuple(tools))


@pytest.mark.parametrize("format", CACHING)
def test_breakpoints_on_tools_count_too_and_are_the_first_to_go(format):
    turns = [[marked(f"Question {number}")] for number in range(4)]
    history = bedrock_history(3) if format == "bedrock" else anthropic_history(*turns)
    messages = [Message(*event) for event in load(history, format)]
    conversation = Conversation(messages, mark_tools(format, 2))
    body = conversation.request(format)
    key = "cache_control" if format == "anthropic" else "cachePoint"
    assert json.dumps(body).count(key) == MAX_BREAKPOINTS
    assert key not in json.dumps(body.get("tools", body.get("toolConfig")))
    assert body["messages"] == history["messages"]
    whys = [repair.why for repair in conversation.repairs(format)]
    assert whys == ["2 cache breakpoints left out: there may be 4"]


@pytest.mark.parametrize("format", CACHING)
def test_tools_alone_may_have_four_breakpoints(format):
    for count in (4, 5):
        conversation = Conversation([Message("user", "Hi.")], mark_tools(format, count))
        body = conversation.request(format)
        key = "cache_control" if format == "anthropic" else "cachePoint"
        assert json.dumps(body).count(key) == MAX_BREAKPOINTS
        assert len(conversation.repairs(format)) == count - 4


def test_the_breakpoint_of_a_whole_request_is_one_of_the_four():
    turns = [[marked(f"Question {number}")] for number in range(4)]
    messages = [Message(*event) for event in load(anthropic_history(*turns), "anthropic")]
    tool = {"name": "glob", "parameters": {"type": "object"}}
    settings = Settings("m", (tool,), {"anthropic": {"cache_control": MARK}})
    body = Conversation(messages, settings).request("anthropic")
    assert json.dumps(body).count("cache_control") == MAX_BREAKPOINTS
    assert body["cache_control"] == MARK
    messages.insert(0, Message("system", "Be brief."))
    automatic = Conversation(messages, settings).request("anthropic", cache="auto")
    assert json.dumps(automatic).count("cache_control") == MAX_BREAKPOINTS
    assert "cache_control" not in automatic["tools"][0]


def test_breakpoints_that_are_replaced_are_not_reported_as_left_out():
    messages = [Message(*event) for event in load(bedrock_history(6), "bedrock")]
    conversation = Conversation(messages)
    assert conversation.repairs("bedrock", cache="auto") == []
    assert len(marks(conversation.to("bedrock", cache="auto"))) <= MAX_BREAKPOINTS
