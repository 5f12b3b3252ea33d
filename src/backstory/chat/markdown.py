"""Markdown that hides nothing and keeps line breaks.

What rich would leave out (HTML, images, link definitions) is drawn as text. Entities stay as they were typed:
`&#x202e;` must not become the character that `visible` protects against.
"""

import os
from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.markdown import Markdown

from backstory.present.safe_text import visible

_WITHOUT_LINKS = ("linux", "dumb", "vt100")  # terminals without hyperlinks
_LEFT_OUT = ["html_inline", "html_block", "entity", "image", "reference"]
_PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable(_LEFT_OUT)


class Prose(Markdown):
    """The text of an answer."""

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=os.environ.get("TERM") not in _WITHOUT_LINKS)
        self.markup = visible(text)
        self.parsed = _PARSER.parse(self.markup)
        _keep_line_breaks(self.parsed)
        if self.hyperlinks:
            _show_targets(self.parsed)


def _keep_line_breaks(tokens: Iterable[Token]) -> None:
    """Keep line breaks. Markdown would join the lines of a paragraph, but models mean theirs: in lists,
    addresses, poems."""
    for token in tokens:
        if token.type == "softbreak":
            token.type = "hardbreak"
        _keep_line_breaks(token.children or ())


def _show_targets(tokens: Iterable[Token]) -> None:
    """Show the address of a link. Without hyperlinks, rich does that itself."""
    for token in tokens:
        said, target = "", ""
        for child in token.children or ():
            if child.type == "link_open":
                said, target = "", str(child.attrs.get("href", ""))
            elif child.type == "link_close" and said != target:
                child.meta["target"] = target
            said += child.content
        if token.children:
            token.children = [one for child in token.children for one in _with_target(child)]


def _with_target(token: Token) -> list[Token]:
    target = token.meta.get("target")
    return [Token("text", "", 0, content=f" ({target})"), token] if target else [token]


def last_block(text: str) -> tuple[int, bool]:
    """The line at which the last block of a text begins, and whether it is a table, which changes by row."""
    blocks = [token for token in _PARSER.parse(text) if token.level == 0 and token.map]
    if not blocks or not blocks[-1].map:
        return 0, False
    return blocks[-1].map[0], blocks[-1].type == "table_open"
