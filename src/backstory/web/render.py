"""Renders events as trees of elements: `[tag, attributes, child, …]`; a child is a text or a tree.

Text from a log is hostile. What becomes an element is decided here, by a fixed list of tags. The
attributes are class, title and href and nothing else; a link leads to http, https or mailto and
shows where. HTML in Markdown is text, and so is an image in it. Pure.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from backstory.log.erasure import is_erased
from backstory.log.events import Event
from backstory.log.messages import read_call
from backstory.present.event_text import body, gist
from backstory.present.text import one_line, visible
from backstory.present.tools import ToolView, describe_call
from backstory.wire.reading import find_thinking

Tree = list[Any]

MOST_COLOURED = 16 * 1024  # characters; a longer text is folded, and neither coloured nor parsed
LONGEST_LINE = 240
MOST_LOADED = 256 * 1024  # characters; a longer event is only sent on request
TAGS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"}
TAGS |= {"em", "strong", "s", "a", "br", "hr", "table", "thead", "tbody", "tr", "th", "td", "div"}
SCHEMES = frozenset({"http", "https", "mailto"})
DIFF_CLASSES = {"+": "plus", "-": "minus"}

# As in the chat: entities, references and images stay what was typed.
_PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["html_inline", "html_block", "entity", "image", "reference"])
)


def render_event(event: Event, *, full: bool = False) -> dict[str, Any]:
    """Return the trees of an event, and whether to fold it or to leave it out for its size. A call
    also has its heading, an answer its thinking."""
    size = len(event.content or "") + len(event.data_json or "")
    if size > MOST_LOADED and not full:
        return {"tree": [], "folded": True, "left_out": size}
    view: dict[str, Any] = {"folded": size > MOST_COLOURED}
    if is_erased(event.data_json):
        return view | {"tree": [["p", {}, gist(event)]]}
    thinking = find_thinking(event) if event.data else ""
    if thinking:
        view["thinking"] = render_markdown(thinking)
        view["thought"] = len(thinking)
    if event.kind == "tool_call":
        return view | _render_call(event)
    return view | {"tree": _render_text(event)}


def _render_text(event: Event) -> list[Tree]:
    if event.kind in ("assistant", "user", "system"):
        return render_markdown(event.content or "")
    if event.kind == "note":
        trees: list[Tree] = [["p", {}, visible(event.content or "")]]
        return [*trees, _render_json(event.data)] if event.data else trees
    text = body(event)
    return [["pre", {}, visible(text)]] if text else []


def _render_call(event: Event) -> dict[str, Any]:
    """Return the tree of a call, with what it is and what it is about."""
    shown = describe_event(event)
    # JSON of one argument has three lines.
    has_only_subject = shown.kind == "read" and shown.text.count("\n") == 2
    tree = [] if has_only_subject else [_render_part(shown)]
    if event.content:
        tree += render_markdown(event.content)
    return {"tree": tree, "tool": shown.kind, "subject": visible(shown.subject)}


def describe_event(event: Event) -> ToolView:
    """Describe the call of an event for a reader."""
    call = read_call(event.data or {})
    arguments = call.arguments
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return describe_call(call.name if isinstance(call.name, str) else "", arguments)


def _render_part(shown: ToolView) -> Tree:
    match shown.shape:
        case "diff":
            return render_diff(shown.text)
        case "command":
            return render_code(shown.text, "bash")
        case "json":
            return render_code(shown.text, "json")
    return ["pre", {}, visible(shown.text)]


def write_line(event: Event) -> str:
    """Return the beginning of an event on one line: a call as its tool and what it is about."""
    if event.kind != "tool_call" or is_erased(event.data_json):
        return gist(event)[:LONGEST_LINE]
    shown = describe_event(event)
    line = one_line(f"{shown.name} {shown.subject} {event.content or ''}")
    return line.strip()[:LONGEST_LINE]


def render_diff(text: str) -> Tree:
    """Return the lines of a diff, with those that came and went marked."""
    lines: list[Any] = []
    for line in visible(text).split("\n"):
        look = DIFF_CLASSES.get(line[:1])
        lines.append(["span", {"class": look}, line + "\n"] if look else line + "\n")
    return ["pre", {"class": "diff"}, *lines]


def _render_json(value: Any) -> Tree:
    return render_code(json.dumps(value, indent=2, ensure_ascii=False), "json")


@lru_cache(maxsize=512)
def _parse_markdown(text: str) -> str:
    return json.dumps(list(_build_nodes(_PARSER.parse(visible(text)))), ensure_ascii=False)


def render_markdown(text: str) -> list[Tree]:
    """Return the trees of a Markdown text."""
    if len(text) > MOST_COLOURED:
        return [["pre", {}, visible(text)]]
    trees: list[Tree] = json.loads(_parse_markdown(text))
    return trees


def render_code(text: str, language: str = "") -> Tree:
    """Return a block of code, coloured if its language is known and it is not too long."""
    if len(text) > MOST_COLOURED or not language:
        return ["pre", {}, ["code", {}, visible(text)]]
    return ["pre", {}, ["code", {}, *_colour(visible(text), language)]]


def _colour(text: str, language: str) -> Iterator[Any]:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        yield text
        return
    for kind, part in lexer.get_tokens(text):
        while kind not in STANDARD_TYPES and kind.parent:
            kind = kind.parent
        letter = STANDARD_TYPES.get(kind, "")[:1]  # keyword, string, m: number, comment, operator
        is_coloured = letter in ("k", "s", "m", "c", "o")
        yield ["span", {"class": f"c-{letter}"}, part] if is_coloured else part


def _build_nodes(tokens: Sequence[Token]) -> Iterator[Any]:
    """Yield the trees of some tokens, in which elements open and close."""
    stack: list[Tree] = []
    for token in tokens:
        if token.hidden:  # the paragraphs of a list whose items stand close together
            continue
        if token.nesting == 1:
            stack.append(_open_element(token))
            continue
        nodes: list[Any] = [stack.pop()] if token.nesting == -1 else list(_build_leaf(token))
        if stack:
            stack[-1].extend(nodes)
        else:
            yield from nodes


def _open_element(token: Token) -> Tree:
    if token.tag == "a":
        return _open_link(str(token.attrs.get("href", "")))
    return [token.tag if token.tag in TAGS else "div", {}]


def _open_link(href: str) -> Tree:
    if _find_scheme(href) in SCHEMES:
        return ["a", {"href": href, "title": href}]
    return ["span", {"title": href}]


def _find_scheme(href: str) -> str:
    """Return the scheme of an address; "" if it has none, or is no address."""
    if any(ord(letter) < 0x21 for letter in href):
        return ""
    try:
        return urlsplit(href).scheme
    except ValueError:
        return ""


def _build_leaf(token: Token) -> Iterator[Any]:
    match token.type:
        case "inline":
            yield from _build_nodes(token.children or [])
        case "text":
            yield token.content
        case "code_inline":
            yield ["code", {}, token.content]
        case "fence" | "code_block":
            words = token.info.split()
            yield render_code(token.content, words[0] if words else "")
        case "softbreak" | "hardbreak":
            yield ["br", {}]
        case "hr":
            yield ["hr", {}]
        case _:
            yield token.content
