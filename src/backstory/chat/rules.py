"""Rules of consent: which calls run without a question, which are asked about, and which never run.

    allow = ["bash: git status", "write_file: docs/*"]
    ask   = ["bash: git push"]
    deny  = ["bash: rm", "edit_file: .env"]

Deny wins over ask, and ask over allow. A rule is a tool and, after a colon, the beginning of a command or a
pattern for a path (with * and ?). Pure. This is a convenience, not a sandbox: a program that is allowed to
run can do anything.
"""

import os.path
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from backstory.errors import Invalid

DENIED = "not run: the rule '{}' denies it"
KEYS = ("allow", "ask", "deny")
# With one of these, a command may run several programs or write a file, which its beginning does not show.
_SHELL = re.compile(r"[;&|`$()<>\n\\]")
_SEPARATORS = re.compile(r"[;&|`()\n]+|\$\(")
_ASSIGNMENT = re.compile(r"\w+=\S*")
_WORD = re.compile(r"[a-z][a-z0-9-]*")
# Programs that only run another one, to which the rule applies.
_WRAPPERS = {"sudo", "env", "command", "exec", "nohup", "time", "nice"}
# Programs whose first argument is a subcommand, and programs that run arbitrary code.
_FAMILIES = {
    "git",
    "gh",
    "npm",
    "pnpm",
    "yarn",
    "pip",
    "uv",
    "poetry",
    "cargo",
    "go",
    "make",
    "docker",
    "kubectl",
}
_INTERPRETERS = {
    "bash",
    "sh",
    "zsh",
    "python",
    "python3",
    "node",
    "perl",
    "ruby",
    "ssh",
    "xargs",
    "eval",
    "find",
}


class Rule(NamedTuple):
    """A rule for some or all calls of a tool."""

    tool: str
    pattern: str = ""  # empty: all of them

    def __str__(self) -> str:
        return f"{self.tool}: {self.pattern}" if self.pattern else self.tool


class Rules(NamedTuple):
    """What is allowed, asked about and denied."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    def __or__(self, other: "Rules") -> "Rules":
        return Rules(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def decide(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, Rule] | None:
        """The decision about a call ("deny", "ask" or "allow") and its rule; None if no rule applies."""
        for verdict in reversed(KEYS):
            for rule in getattr(self, verdict):
                if fits(rule, tool, arguments, strictly=verdict == "allow"):
                    return verdict, rule
        return None


def rules_of(table: Any) -> Rules:
    """The rules of a [consent] table; raises Invalid."""
    if not isinstance(table, Mapping):
        raise Invalid("[consent] is not a table")
    unknown = sorted(set(table) - set(KEYS))
    if unknown:
        raise Invalid(f"[consent] has {', '.join(unknown)}: it takes {', '.join(KEYS)}")
    return Rules(*(tuple(_parsed(key, table.get(key, []))) for key in KEYS))


def _parsed(key: str, texts: Any) -> Iterable[Rule]:
    if not isinstance(texts, list):
        raise Invalid(f'{key} of [consent] is not a list: write {key} = ["bash: git status"]')
    for text in texts:
        tool, _, pattern = (part.strip() for part in str(text).partition(":"))
        if not isinstance(text, str) or not tool:
            raise Invalid(
                f'{text!r:.80} in {key} of [consent] is not a rule: write "bash: git status"'
            )
        yield Rule(tool, pattern)


def fits(rule: Rule, tool: str, arguments: Mapping[str, Any], *, strictly: bool) -> bool:
    """Whether a rule applies to a call. `strictly`: to everything that it does, not only to a part."""
    if rule.tool != tool:
        return False
    if not rule.pattern:
        return True
    match tool, arguments:
        case "bash", {"command": str(command)}:
            return _fits_command(rule.pattern, command, strictly=strictly)
        case _, {"path": str(path)}:
            return fnmatchcase(os.path.normpath(path), rule.pattern)
    values = (value for value in arguments.values() if isinstance(value, str))
    return any(fnmatchcase(value, rule.pattern) for value in values)


def _fits_command(pattern: str, command: str, *, strictly: bool) -> bool:
    if strictly:
        return not _SHELL.search(command) and _begins_with(command.split(), pattern)
    return any(_begins_with(words, pattern) for words in _programs(command))


def _programs(command: str) -> Iterable[list[str]]:
    """The words of each program that a command line may run."""
    for part in _SEPARATORS.split(command):
        words = part.split()
        while words and (words[0] in _WRAPPERS or _ASSIGNMENT.fullmatch(words[0])):
            words = words[1:]
        if words:
            yield [os.path.basename(words[0]), *words[1:]]


def _begins_with(words: list[str], pattern: str) -> bool:
    wanted = pattern.split()
    return len(words) >= len(wanted) and all(map(fnmatchcase, words, wanted))


def suggested(tool: str, arguments: Mapping[str, Any]) -> Rule | None:
    """The rule that would allow a call and similar ones: the beginning of a simple command, or a file."""
    match tool, arguments:
        case "bash", {"command": str(command)}:
            words = command.split()
            if not words or _SHELL.search(command) or words[0] in _INTERPRETERS | _WRAPPERS:
                return None
            is_family = words[0] in _FAMILIES and len(words) > 1 and _WORD.fullmatch(words[1])
            return Rule("bash", " ".join(words[: 2 if is_family else 1]))
        case _, {"path": str(path)}:
            return Rule(tool, _literal(os.path.normpath(path)))
    return None


def _literal(path: str) -> str:
    """A pattern that matches only this path."""
    return re.sub(r"([*?[])", r"[\1]", path)
