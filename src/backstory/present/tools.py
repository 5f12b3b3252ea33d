"""Describes tool calls for a reader: an edit, a new file, a command, something read or searched.

The tools of Claude Code, Codex, Gemini CLI and others have different names for the same things.
Their arguments decide, because they say more than the names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Literal

from backstory.present.text import one_line

PATHS = ("file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file")
OLD = ("old_string", "oldString", "old_str", "oldText", "old")
NEW = ("new_string", "newString", "new_str", "newText", "new")
CONTENTS = ("content", "contents", "file_text", "new_source")
COMMANDS = ("command", "cmd", "script")
SEARCHES = ("pattern", "query", "regex", "search_term")
SOURCES = (*PATHS, "url", "dir_path", "paths")
EDITORS = ("str_replace_editor", "str_replace_based_edit_tool")  # their "command" is no command
PATCH = "*** Begin Patch"
MOST_COMPARED = 2_000  # lines of a text; the lines of a longer one are shown as replaced
MOST_SUBJECT = 200  # characters

CallKind = Literal["edit", "write", "run", "read", "search", "other"]
PartKind = Literal["diff", "command", "text", "json"]


@dataclass(frozen=True)
class ToolView:
    """A tool call for a reader.

    `subject` is the path, the command or the pattern, on one line. `text` is the rest of the call,
    to be drawn as `shape` says: the lines of a diff begin with "+", "-" or a blank.
    """

    name: str
    kind: CallKind
    subject: str
    shape: PartKind
    text: str


def describe_call(name: str, arguments: Any) -> ToolView:
    """Describe a call of the tool `name` for a reader."""
    if isinstance(arguments, Mapping):
        view = _describe_object(name, arguments)
    elif isinstance(arguments, str):
        view = _describe_text(name, arguments)
    else:
        view = ToolView(name, "other", "", "json", _format_json(arguments))
    return ToolView(view.name, view.kind, _shorten(view.subject), view.shape, view.text)


def _describe_text(name: str, text: str) -> ToolView:
    """Describe a call whose argument is a text, such as Codex's patches."""
    if text.lstrip().startswith(PATCH):
        return ToolView(name, "edit", _list_patch_paths(text), "diff", text)
    return ToolView(name, "other", text, "text", text)


def _list_patch_paths(patch: str) -> str:
    paths = []
    for line in patch.splitlines():
        verb, colon, path = line.partition(" File: ")
        if colon and verb in ("*** Add", "*** Update", "*** Delete"):
            paths.append(path.strip())
    return ", ".join(paths)


def _describe_object(name: str, arguments: Mapping[str, Any]) -> ToolView:
    patch = _find_text(arguments, ("input", "patch"))
    if patch is not None and patch.lstrip().startswith(PATCH):
        return _describe_text(name, patch)
    path = _find_text(arguments, PATHS)
    if path is not None:
        change = _describe_change(name, path, arguments)
        if change is not None:
            return change
    command = None if name in EDITORS else _find_command(arguments)
    if command is not None:
        return ToolView(name, "run", _shorten_command(command), "command", command)
    return _describe_reading(name, arguments)


def _describe_change(name: str, path: str, arguments: Mapping[str, Any]) -> ToolView | None:
    """Describe a call that changes or writes the file at `path`; None if it does neither."""
    edits = arguments.get("edits")
    changes = edits if isinstance(edits, list) else [arguments]
    diffs = [_build_diff(change) for change in changes if isinstance(change, Mapping)]
    found = [diff for diff in diffs if diff is not None]
    if found:
        return ToolView(name, "edit", path, "diff", "\n".join(found))
    content = _find_text(arguments, CONTENTS)
    if content is not None:
        return ToolView(name, "write", path, "text", content)
    return None


def _build_diff(change: Mapping[str, Any]) -> str | None:
    """Return the lines of a replacement with their signs; None if it does not replace text."""
    old, new = _find_text(change, OLD), _find_text(change, NEW)
    if old is None and new is None:
        return None
    before, after = _split_lines(old), _split_lines(new)
    if len(before) + len(after) > MOST_COMPARED:
        return "\n".join([*(f"-{line}" for line in before), *(f"+{line}" for line in after)])
    lines = list(unified_diff(before, after, lineterm=""))
    return "\n".join(line for line in lines[2:] if not line.startswith("@@"))


def _split_lines(text: str | None) -> list[str]:
    return text.split("\n") if text else []


def _find_command(arguments: Mapping[str, Any]) -> str | None:
    for name in COMMANDS:
        command = arguments.get(name)
        if isinstance(command, str):
            return command
        if isinstance(command, list):  # Codex: ["bash", "-lc", "ls"]
            words = [str(word) for word in command]
            is_script = len(words) == 3 and words[1] in ("-c", "-lc")
            return words[2] if is_script else " ".join(words)
    return None


def _shorten_command(command: str) -> str:
    lines = command.strip().splitlines()
    if len(lines) < 2:
        return command
    return f"{lines[0]} … ({len(lines):,} lines)"


def _describe_reading(name: str, arguments: Mapping[str, Any]) -> ToolView:
    """Describe a call that searches or reads, or does what is not known."""
    text = _format_json(arguments)
    pattern = _find_text(arguments, SEARCHES)
    if pattern is not None:
        place = _find_text(arguments, PATHS)
        subject = pattern if place is None else f"{pattern} in {place}"
        return ToolView(name, "search", subject, "json", text)
    source = _find_text(arguments, SOURCES)
    if source is not None:
        return ToolView(name, "read", source, "json", text)
    return ToolView(name, "other", _list_arguments(arguments), "json", text)


def _list_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the arguments on one line: the value of a single one, or all with their names."""
    values = [value if isinstance(value, str) else _dump(value) for value in arguments.values()]
    if len(values) == 1:
        return values[0]
    return ", ".join(f"{key}={value}" for key, value in zip(arguments, values, strict=True))


def _find_text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str):
            return value
    return None


def _shorten(text: str) -> str:
    line = one_line(text[: 4 * MOST_SUBJECT])
    return line if len(line) <= MOST_SUBJECT else line[: MOST_SUBJECT - 1] + "…"


def _format_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
