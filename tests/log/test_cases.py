"""engine.md's "Cases that decide arguments": each row a test of that name, on every backend.

A log is written as in the table: u a t r s are messages, m:x a mark, w:x a rewind to mark x, C a
clear, j:3 a jump to position 3. Each case is checked three ways: the walk of the store, the pure
fold, and the naive replay.
"""

import logging

import pytest

import backstory
from tests import plain

KIND = {"u": "user", "a": "assistant", "t": "tool_call", "r": "tool_result", "s": "system"}


def write(agent, log):
    for word in log.split():
        sign, _, name = word.partition(":")
        match sign[0]:
            case "m":
                agent.mark(name)
            case "w":
                agent.rewind(name)
            case "C":
                agent.clear()
            case "j":
                agent.jump(int(name))
            case "t":
                agent.append("tool_call", None, {"id": word, "name": "glob", "arguments": {}})
            case "r":
                agent.append("tool_result", word, {"id": word.replace("r", "t")})
            case letter:
                agent.append(KIND[letter], word)


def context_of(agent):
    """Return the context in the table's words; other events are named by their kind."""
    context = agent.context()
    assert context.messages == backstory.replay(agent.events()).messages
    assert context.messages == plain.contexts(agent.events())[agent.head]
    return " ".join(words(event) for event in context.messages)


def words(event):
    match event.kind:
        case "mark":
            return f"m:{event.label}"
        case "rewind":
            return "w"
        case "jump":
            return "j"
        case "tool_call":
            return event.data["id"]
    return event.content


def test_empty_log_has_an_empty_context(agent):
    assert context_of(agent) == ""
    assert agent.context() == backstory.Context([], 0)


@pytest.mark.parametrize(
    ("log", "context"),
    [
        ("u1 a1 C u2", "u2"),
        ("u1 m:x a1 u2 w:x u3", "u1 m:x w u3"),
        ("u1 m:x a1 w:x a2 w:x", "u1 m:x w"),
        ("C s u1", "s u1"),
        ("u1 a1 C u2 j:2 u3", "u1 a1 j u3"),
        ("u1 m:x a1 w:x j:3", "u1 m:x a1 j"),
        ("u1 m:x a1 m:x u2 w:x", "u1 m:x a1 m:x w"),
        ("u1 m:x w:x", "u1 m:x w"),
        ("u1 j:0 u2", "j u2"),
        ("u1 u2 j:2 j:3 j:1", "u1 j"),
    ],
)
def test_log_gives_its_context(agent, log, context):
    write(agent, log)
    assert context_of(agent) == context


def test_rewind_to_a_mark_that_left_the_stack_is_inert(agent, caplog):
    write(agent, "u1 m:x a1 m:y u2 w:x")
    y = 4
    agent.append("rewind", None, {"target_message_id": y})
    assert context_of(agent) == "u1 m:x w"
    assert "position 7: invalid rewind: 4 is not a mark on the mark stack" in caplog.text


def test_rewind_to_a_mark_before_a_clear_is_inert(agent):
    write(agent, "u1 m:x C")
    agent.append("rewind", None, {"target_message_id": 2})
    assert context_of(agent) == ""


def test_undo_puts_the_mark_back_on_the_stack(agent):
    write(agent, "u1 m:x a1 w:x")
    agent.undo()
    assert context_of(agent) == "u1 m:x a1 j"
    assert [mark.label for mark in agent.marks()] == ["x"]


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"target": 1},
        {"target_message_id": None},
        {"target_message_id": "2"},
        {"target_message_id": True},
        {"target_message_id": 2.0},
        {"target_message_id": 99},
        {"target_message_id": -1},
        {"target_message_id": 3},
        {"target_message_id": 1},
    ],
    ids=lambda data: str(data and data.get("target_message_id", "none")),
)
def test_malformed_rewind_is_stored_inert_and_logged_once(agent, data, caplog):
    write(agent, "u1 m:x")
    with caplog.at_level(logging.WARNING, logger="backstory"):
        event = agent.append("rewind", None, data)
        agent.context()
    [line] = [record.getMessage() for record in caplog.records]
    assert (event.seq, event.data) == (3, data)
    assert context_of(agent) == "u1 m:x"
    assert agent.id in line
    assert "position 3" in line


@pytest.mark.parametrize("target", [None, "1", True, 1.0, 99, -1, 2])
def test_malformed_jump_is_stored_and_inert(agent, target):
    write(agent, "u1")
    agent.append("jump", None, {"target_message_id": target})
    assert context_of(agent) == "u1"


def test_each_inert_event_is_logged_with_its_reason(caplog):
    events = [
        backstory.Event.of(1, "user", "u1"),
        backstory.Event.of(2, "rewind", None, "{broken"),
        backstory.Event.of(3, "rewind", None, "[1]"),
        backstory.Event.of(4, "telepathy", "?"),
        backstory.Event.of(5, "jump"),
        backstory.Event.of(6, "rewind", None, {"target_message_id": "1"}),
        backstory.Event.of(7, "jump", None, {"target_message_id": 7}),
        backstory.Event.of(8, "rewind", None, {"target_message_id": 1}),
    ]
    assert backstory.replay(events, agent="old").messages == events[:1]
    assert [record.getMessage() for record in caplog.records] == [
        f"agent old, position {reason}; the event is inert"
        for reason in (
            "2: malformed rewind: data is not a JSON object",
            "3: malformed rewind: data is not a JSON object",
            "4: unknown kind 'telepathy'",
            "5: malformed jump: no data",
            "6: malformed rewind: no whole number in target_message_id",
            "7: invalid jump: 7 is not an earlier position",
            "8: invalid rewind: 1 is not a mark on the mark stack",
        )
    ]
    assert {record.name for record in caplog.records} == {"backstory"}


def test_child_may_rewind_past_its_fork_without_changing_the_parent(agent):
    write(agent, "u1 m:x a1")
    child = agent.fork("child")
    write(child, "u2 w:x u3")
    assert context_of(child) == "u1 m:x w u3"
    assert context_of(agent) == "u1 m:x a1"


def test_child_forked_after_a_clear_does_not_see_what_was_cleared(agent):
    write(agent, "u1 C u2")
    child = agent.fork("child", at=3)
    write(child, "u3")
    assert context_of(child) == "u2 u3"


def test_child_keeps_what_its_parent_clears_later(agent):
    write(agent, "u1")
    child = agent.fork("child", at=1)
    write(agent, "C")
    assert context_of(child) == "u1"
    assert context_of(agent) == ""


def test_clear_in_the_child_ends_its_ancestry(agent):
    write(agent, "u1")
    child = agent.fork("child")
    write(child, "C u9")
    assert context_of(child) == "u9"


def test_grandchild_with_rewinds_in_every_generation(agent):
    write(agent, "u1 m:x a1 w:x u2")
    child = agent.fork("child")
    write(child, "m:y u3 w:x m:z u4")
    grandchild = child.fork("grandchild")
    write(grandchild, "u5 w:z u6 w:x u7")
    assert context_of(grandchild) == "u1 m:x w u7"
    assert context_of(child) == "u1 m:x w m:z u4"


def test_fork_of_an_empty_agent_never_inherits_anything(agent):
    child = agent.fork("child")
    write(agent, "u1")
    assert context_of(child) == ""
    write(child, "u2")
    assert context_of(child) == "u2"
    assert child.events()[0].seq == 1


def test_fork_between_a_call_and_its_result_leaves_both_branches_complete(agent):
    write(agent, "u1 t1")
    child = agent.fork("child")
    write(agent, "r1")
    write(child, "u2")
    assert context_of(agent) == "u1 t1 r1"
    assert context_of(child) == "u1 t1 u2"
