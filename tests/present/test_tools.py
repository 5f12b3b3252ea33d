"""What the calls of common agents mean to a reader."""

import pytest

from backstory.present.tools import describe_call

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "subject", "shape", "text"),
    [
        # Claude Code
        (
            "Edit",
            {"file_path": "/a.py", "old_string": "x\ny", "new_string": "x\nz"},
            "edit",
            "/a.py",
            "diff",
            " x\n-y\n+z",
        ),
        (
            "MultiEdit",
            {
                "file_path": "a",
                "edits": [
                    {"old_string": "b", "new_string": ""},
                    {"old_string": "c", "new_string": "d"},
                ],
            },
            "edit",
            "a",
            "diff",
            "-b\n-c\n+d",
        ),
        ("Write", {"file_path": "a", "content": "x\n"}, "write", "a", "text", "x\n"),
        (
            "Bash",
            {"command": "ls\npwd", "description": "look"},
            "run",
            "ls … (2 lines)",
            "command",
            "ls\npwd",
        ),
        ("Read", {"file_path": "a", "limit": 3}, "read", "a", "json", None),
        ("Grep", {"pattern": "x+", "path": "src"}, "search", "x+ in src", "json", None),
        ("WebFetch", {"url": "http://a", "prompt": "p"}, "read", "http://a", "json", None),
        # Codex
        ("shell", {"command": ["bash", "-lc", "ls -a"]}, "run", "ls -a", "command", "ls -a"),
        ("shell", {"command": ["ls", "-a"]}, "run", "ls -a", "command", "ls -a"),
        ("exec_command", {"cmd": "ls"}, "run", "ls", "command", "ls"),
        ("apply_patch", PATCH, "edit", "a.py", "diff", PATCH),
        ("apply_patch", {"input": PATCH}, "edit", "a.py", "diff", PATCH),
        # Gemini CLI, opencode, pi, Anthropic's editor, our own
        ("read_file", {"absolute_path": "a"}, "read", "a", "json", None),
        (
            "edit",
            {"filePath": "a", "oldString": "", "newString": "b"},
            "edit",
            "a",
            "diff",
            "+b",
        ),
        ("edit", {"path": "a", "oldText": "b", "newText": "c"}, "edit", "a", "diff", "-b\n+c"),
        (
            "str_replace_based_edit_tool",
            {"command": "view", "path": "a"},
            "read",
            "a",
            "json",
            None,
        ),
        ("edit_file", {"path": "a", "old": "b", "new": "c"}, "edit", "a", "diff", "-b\n+c"),
        # Unknown tools
        ("add", {"number": 3}, "other", "3", "json", None),
        ("add", {"a": 3, "b": "x"}, "other", "a=3, b=x", "json", None),
        ("add", "not JSON", "other", "not JSON", "text", "not JSON"),
        ("add", [1], "other", "", "json", "[\n  1\n]"),
    ],
)
def test_a_call_is_described(name, arguments, kind, subject, shape, text):
    view = describe_call(name, arguments)
    assert (view.kind, view.subject, view.shape) == (kind, subject, shape)
    if text is not None:
        assert view.text == text


def test_a_subject_is_one_short_line():
    view = describe_call("x", {"a": "line\nline\x1b" * 1000})
    assert len(view.subject) == 200
    assert view.subject.endswith("…")
    assert "\n" not in view.subject
    assert "\x1b" not in view.subject


def test_a_long_replacement_is_not_compared():
    text = "\n".join(["x"] * 3000)
    view = describe_call("Edit", {"file_path": "a", "old_string": text, "new_string": text})
    assert view.text.count("\n-x") == 2999
