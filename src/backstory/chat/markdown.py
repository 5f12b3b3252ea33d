"""Markdown in which everything that was said can be seen.

What rich would leave out (HTML, pictures, definitions of links) is drawn as the text that it is, and
entities stay as they were typed: `&#x202e;` must not become what `visible` has just made visible.
"""

from markdown_it import MarkdownIt
from rich.markdown import Markdown

from backstory.present.safe_text import visible

_LEFT_OUT = ["html_inline", "html_block", "entity", "image", "reference"]
_PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable(_LEFT_OUT)


class Prose(Markdown):
    """What a model said."""

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)  # a link shows where it leads
        self.markup = visible(text)
        self.parsed = _PARSER.parse(self.markup)
