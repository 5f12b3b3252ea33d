"""Turns the page's templates into calls: html`<p class="hint">…</p>` becomes html("p.hint", null, …).

The page then needs no parser of templates. Only what the sources use is understood: elements, components,
attributes that are text, an expression or both, and children. `tools/bundle` runs it before the minifier.
"""

import json
import re
from typing import NamedTuple

BEFORE_REGEX = set("(,=:[!&|?{};+\n")
NAME = re.compile(r"[^\s/>=\"'$]+")
AROUND = re.compile(
    r"^\s*\n\s*|\s*\n\s*$"
)  # blank space with a line break at an end of a text means nothing


class Code(NamedTuple):
    """An expression within a template."""

    text: str


Part = str | Code


def compiled(source: str) -> str:
    """A module with calls in the place of templates."""
    text, end = _code(source, 0)
    assert end == len(source), f"an unmatched brace at {end}"
    return text


def _code(source: str, at: int) -> tuple[str, int]:
    """Code up to the brace that closes it, or to the end."""
    found, depth = [], 0
    while at < len(source):
        char = source[at]
        if char == "}" and not depth:
            break
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "`":
            parts, at = _parts(source, at + 1)
            if "".join(found[-4:]) == "html":
                del found[-4:]
                found += _call(parts)
            else:
                found += _literal(parts)
            continue
        end = _skipped(source, at, "".join(found[-8:]).rstrip())
        found += source[at:end]
        at = end
    return "".join(found), at


def _skipped(source: str, at: int, before: str) -> int:
    """The end of a string, comment or regular expression that begins here; else of this character."""
    char, two = source[at], source[at : at + 2]
    if two == "//":
        return (source + "\n").index("\n", at)
    if two == "/*":
        return source.index("*/", at) + 2
    if char in "\"'" or (
        char == "/" and (not before or before[-1] in BEFORE_REGEX or before.endswith("return"))
    ):
        found = re.compile(
            r"(?:\\.|\[(?:\\.|[^\]])*\]|[^\\/])*/"
            if char == "/"
            else rf"(?:\\.|[^\\{char}])*{char}"
        )
        match = found.match(source, at + 1)
        assert match, source[at : at + 40]
        return match.end()
    return at + 1


def _parts(source: str, at: int) -> tuple[list[Part], int]:
    """The texts and expressions of a template, and where it ends."""
    parts: list[Part] = [""]
    while source[at] != "`":
        if source.startswith("${", at):
            text, at = _code(source, at + 2)
            parts += [Code(text), ""]
            at += 1
            continue
        step = 2 if source[at] == "\\" else 1
        parts[-1] = f"{parts[-1]}{source[at : at + step]}"
        at += step
    return parts, at + 1


def _literal(parts: list[Part]) -> str:
    """A template that is no markup, as it was."""
    return (
        "`"
        + "".join(part if isinstance(part, str) else f"${{{part.text}}}" for part in parts)
        + "`"
    )


def _call(parts: list[Part]) -> str:
    """The calls that make the elements of a template."""
    markup = _Markup(parts)
    children = markup.children()
    return children[0] if len(children) == 1 else f"[{', '.join(children)}]"


class _Markup:
    """Reads a template from left to right. A place for an expression is one character: \\0."""

    def __init__(self, parts: list[Part]) -> None:
        self._codes = [part.text for part in parts if isinstance(part, Code)]
        self._text = "\0".join(part for part in parts if isinstance(part, str))
        self._at = 0

    def children(self) -> list[str]:
        """Everything up to a closing tag or the end."""
        found: list[str] = []
        while self._at < len(self._text) and not self._takes(r"</[^>]*>"):
            if self._text[self._at] == "<":
                found.append(self._element())
            else:
                found += self._texts(self._taken(r"[^<]+"))
        return found

    def _element(self) -> str:
        tag = self._value(self._taken(r"<[^\s/>]+")[1:])
        given = self._attributes()
        name = given.get("class", "")
        if tag[0] == name[:1] == '"':  # an element with a fixed class
            tag = f"{tag[:-1]}.{given.pop('class')[1:]}"
        attributes = ", ".join(f"{json.dumps(name)}: {value}" for name, value in given.items())
        children = [] if self._text[self._at - 2] == "/" else self.children()
        return f"html({', '.join([tag, f'{{ {attributes} }}' if given else 'null', *children])})"

    def _attributes(self) -> dict[str, str]:
        """Up to the end of the tag: their names, and code for what they are."""
        found = {}
        while not self._takes(r"\s*/?>"):
            self._takes(r"\s+")
            name = self._taken(NAME.pattern)
            value = self._taken(r"\"[^\"]*\"|'[^']*'|\0") if self._takes("=") else ""
            found[name] = self._value(value) if value else "true"
        return found

    def _value(self, text: str) -> str:
        """A tag's name or an attribute: a text, an expression, or a text with expressions in it."""
        text = text.strip("\"'")
        if text == "\0":
            return self._codes.pop(0)
        return " + ".join(self._pieces(text)) or '""'

    def _texts(self, text: str) -> list[str]:
        return self._pieces(text, AROUND)

    def _pieces(self, text: str, trimmed: re.Pattern[str] | None = None) -> list[str]:
        found = []
        for piece in re.split("(\0)", text):
            said = trimmed.sub("", piece) if trimmed and piece != "\0" else piece
            if said:
                found.append(
                    f"({self._codes.pop(0)})"
                    if piece == "\0"
                    else json.dumps(said, ensure_ascii=False)
                )
        return found

    def _takes(self, pattern: str) -> bool:
        match = re.compile(pattern).match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match is not None

    def _taken(self, pattern: str) -> str:
        start = self._at
        assert self._takes(pattern), f"not understood: {self._text[start : start + 60]!r}"
        return self._text[start : self._at]
