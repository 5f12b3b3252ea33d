"""Events as trees of elements: `[tag, attributes, child, …]`, where a child is a text or a tree. Pure.

Text from a log is hostile. What becomes an element is decided here, by a fixed list of tags; the attributes
are class, title and href and nothing else; a link leads to http, https or mailto and shows where. HTML in
Markdown is text, and so is an image in it.
"""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from backstory.log.erasure import is_erased
from backstory.log.events import Event
from backstory.log.messages import read_call
from backstory.present.event_text import body, gist
from backstory.present.safe_text import visible

Tree = list[Any]

MOST_COLOURED = (
    16 * 1024
)  # characters; beyond, a text is neither coloured nor parsed, and is folded
MOST_LOADED = 256 * 1024  # beyond, it is only sent on request
TAGS = frozenset(
    {
        "p",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "blockquote",
        "pre",
        "code",
        "em",
        "strong",
    }
    | {"s", "a", "br", "hr", "table", "thead", "tbody", "tr", "th", "td", "div"}
)
SCHEMES = frozenset({"http", "https", "mailto"})

# As in the chat: entities, references and images stay what was typed.
_PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["html_inline", "html_block", "entity", "image", "reference"])
)


def view(event: Event, *, full: bool = False) -> dict[str, Any]:
    """An event for reading: its tree, and whether it should be folded or was left out for its size."""
    size = len(event.content or "") + len(event.data_json or "")
    if size > MOST_LOADED and not full:
        return {"tree": [], "folded": True, "left_out": size}
    return {"tree": _tree(event), "folded": size > MOST_COLOURED}


def _tree(event: Event) -> list[Tree]:
    if is_erased(event.data_json):
        return [["p", {}, gist(event)]]
    match event.kind:
        case "assistant" | "user" | "system":
            return markdown(event.content or "")
        case "tool_call":
            return _call(event)
        case "note":
            said: list[Tree] = [["p", {}, visible(event.content or "")]]
            return said + ([_json(event.data)] if event.data else [])
    text = body(event)
    return [["pre", {}, visible(text)]] if text else []


def _call(event: Event) -> list[Tree]:
    arguments = read_call(event.data or {}).arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return [["pre", {}, visible(arguments)]]
    found = [_json(arguments)]
    return found + (markdown(event.content) if event.content else [])


def _json(value: Any) -> Tree:
    return code(json.dumps(value, indent=2, ensure_ascii=False), "json")


@lru_cache(maxsize=512)
def _parsed(text: str) -> str:
    return json.dumps(list(_nodes(_PARSER.parse(visible(text)))), ensure_ascii=False)


def markdown(text: str) -> list[Tree]:
    """What a Markdown text shows."""
    if len(text) > MOST_COLOURED:
        return [["pre", {}, visible(text)]]
    found: list[Tree] = json.loads(_parsed(text))
    return found


def code(text: str, language: str = "") -> Tree:
    """A block of code, coloured if its language is known and it is not too long."""
    if len(text) > MOST_COLOURED or not language:
        return ["pre", {}, ["code", {}, visible(text)]]
    return ["pre", {}, ["code", {}, *_coloured(visible(text), language)]]


def _coloured(text: str, language: str) -> Iterator[Any]:
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
        name = STANDARD_TYPES.get(kind, "")[
            :1
        ]  # k: keyword, s: string, m: number, c: comment, n: name
        yield ["span", {"class": f"c-{name}"}, part] if name in ("k", "s", "m", "c", "o") else part


def _nodes(tokens: Sequence[Token]) -> Iterator[Any]:
    """The trees of a run of tokens, in which elements open and close."""
    stack: list[Tree] = []
    for token in tokens:
        if token.hidden:  # the paragraphs of a list whose items stand close together
            continue
        if token.nesting == 1:
            stack.append(_opened(token))
            continue
        nodes: list[Any] = [stack.pop()] if token.nesting == -1 else list(_leaf(token))
        if stack:
            stack[-1].extend(nodes)
        else:
            yield from nodes


def _opened(token: Token) -> Tree:
    if token.tag == "a":
        return _link(str(token.attrs.get("href", "")))
    return [token.tag if token.tag in TAGS else "div", {}]


def _link(href: str) -> Tree:
    scheme = urlsplit(href).scheme.lower() if _is_address(href) else ""
    return ["a", {"href": href, "title": href}] if scheme in SCHEMES else ["span", {"title": href}]


def _is_address(href: str) -> bool:
    try:
        urlsplit(href)
    except ValueError:
        return False
    return not any(ord(letter) < 0x21 for letter in href)


def _leaf(token: Token) -> Iterator[Any]:
    match token.type:
        case "inline":
            yield from _nodes(token.children or [])
        case "text":
            yield token.content
        case "code_inline":
            yield ["code", {}, token.content]
        case "fence" | "code_block":
            yield code(token.content, token.info.split()[0] if token.info.split() else "")
        case "softbreak" | "hardbreak":
            yield ["br", {}]
        case "hr":
            yield ["hr", {}]
        case _:
            yield token.content
