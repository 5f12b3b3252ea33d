"""How things look: all that a model said is there, open calls say so, joined letters stay joined."""

import io

import pytest
from rich.console import Console

import backstory
from backstory.chat.commands import is_command, unescape
from backstory.chat.draw import Prose, draw_events
from backstory.present.text import visible


def printed(*things, width=200):
    out = io.StringIO()
    Console(file=out, width=width, emoji=False, markup=False).print(*things)
    return out.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "Use List<String> and vec<T> here",
        "<div>hidden words</div>",
        "<!-- a comment -->",
        "a picture: ![alt](http://example.org/x.png)",
        "[1]: http://example.org/somewhere",
        "&lt;b&gt; &amp; &nbsp;",
    ],
)
def test_everything_that_was_said_is_drawn(text):
    shown = printed(Prose(text))
    for word in (
        "List<String>",
        "vec<T>",
        "<div>",
        "</div>",
        "comment",
        "x.png",
        "somewhere",
        "&lt;b&gt;",
    ):
        assert (word in shown) == (word in text), word


@pytest.mark.parametrize(
    "text", ["&#x202e;abc", "&rlm;abc", "`&#27;[2J`", "[a&#x202e;](x&#x202e;y)", "\u202eabc"]
)
def test_no_entity_smuggles_what_steers_a_terminal(text):
    shown = printed(Prose(text))
    assert not any(hidden in shown for hidden in ("\u202e", "\u200f", "\x1b[2J"))


def interrupted(agent):
    lines = printed(*draw_events(agent.context().messages)).splitlines()
    return [
        lines[i - 1].strip() for i, line in enumerate(lines) if "no result was recorded" in line
    ]


def test_a_call_without_a_result_says_so_even_if_its_id_was_used_before():
    agent = backstory.open(":memory:").start(system="s")
    agent.user("one")
    agent.tool_result(agent.tool_call("glob", {"pattern": "*"}, id="c1"), "a.py")
    agent.user("two")
    agent.tool_call("bash", {"command": "make"}, id="c1")
    assert interrupted(agent) == ["● bash make"]
    agent.user("three")
    agent.tool_result(agent.tool_call("glob", {"pattern": "b"}, id="c1"), "b.py")
    assert interrupted(agent) == ["● bash make"]


def test_parallel_calls_with_one_id_are_answered_in_their_order():
    agent = backstory.open(":memory:").start(system="s")
    for pattern in ("a", "b"):
        agent.tool_call("glob", {"pattern": pattern}, id="c1")
    agent.tool_result("c1", "first")
    assert interrupted(agent) == ["● glob b"]


def test_of_jumps_in_a_row_only_the_last_is_drawn():
    agent = backstory.open(":memory:").start(system="s")
    for text in ("one", "two", "three"):
        agent.user(text)
    agent.jump(3)
    agent.note("x")
    agent.jump(4)
    text = printed(*draw_events(agent.context().messages))
    assert text.count("↩") == 1
    assert "↩ jump to 4" in text


def test_what_undo_and_redo_wrote_is_not_drawn():
    agent = backstory.open(":memory:").start(system="s")
    agent.user("one")
    agent.assistant("1")
    agent.user("two")
    agent.assistant("2")
    agent.undo(turn=True)
    agent.redo()
    agent.note("x")
    agent.undo(turn=True)
    text = printed(*draw_events(agent.context().messages))
    assert "↩" not in text
    assert "> one" in text
    assert "> two" not in text


def test_an_empty_context_draws_nothing():
    assert list(draw_events([])) == []


def test_joined_letters_stay_joined_and_nothing_else_hides():
    family, hindi = "👩\u200d👧 ❤\ufe0f\u200d🔥", "क्\u200dष"
    assert visible(family) == family
    assert visible(hindi) == hindi
    assert visible("pass\u200dword") == "pass<U+200D>word"
    assert visible("é\u200d\u200dé\u202e") == "é<U+200D><U+200D>é<U+202E>"
    assert visible("\u200dé\u200d") == "<U+200D>é<U+200D>"


@pytest.mark.parametrize(
    ("text", "is_one", "sent"),
    [
        ("/mark x", True, None),
        ("/nonsense", True, None),
        ("/", True, None),
        ("/usr/bin/python fails, why?", False, "/usr/bin/python fails, why?"),
        ("//tmp is full", False, "/tmp is full"),
        (" /tmp is full", False, " /tmp is full"),
        ("/2 is a half?", False, "/2 is a half?"),
    ],
)
def test_a_path_is_no_command(text, is_one, sent):
    assert is_command(text) == is_one
    assert sent is None or unescape(text) == sent
