"""Legal histories as providers make them, with everything in them that only they understand.

A `Maker` draws one body of a format that its service takes: blank parts, reasoning of its own, server tools,
documents, audio, participant names, and sealed parts of every kind. Every text is unique; roles alternate,
and results come first and in the order of their calls, so that the body has to come back as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.wire.histories_openai import Chat, Items
from tests.wire.maker import MOST_BREAKPOINTS, PDF, PIXEL, SEAL, URL, WAV, History, Maker


class Blocks(Maker):
    """Anthropic Messages."""

    format = "anthropic"
    breakpoints = 0

    def turn(self, role: str, content: Any) -> None:
        """One more message."""
        self.body.setdefault("messages", []).append({"role": role, "content": content})

    def words(self) -> dict[str, Any]:
        """A text block."""
        return {"type": "text", "text": self.text(), **self.cached()}

    def cached(self) -> dict[str, Any]:
        """A breakpoint of the cache, of which there may be four."""
        if self.breakpoints == MOST_BREAKPOINTS or self.draw(st.integers(0, 3)):
            return {}
        self.breakpoints += 1
        return {"cache_control": {"type": "ephemeral"}}

    def system(self) -> None:
        if self.draw(st.booleans()):
            self.body["system"] = self.one_of(self.text, lambda: self.some(self.words, most=2))

    def media(self) -> dict[str, Any]:
        """A block of the user's that is no text."""
        pdf = {"type": "base64", "media_type": "application/pdf", "data": PDF}
        return self.one_of(
            lambda: {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
            },
            lambda: {"type": "image", "source": {"type": "url", "url": f"{URL}.png"}},
            lambda: {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            lambda: {
                "type": "document",
                "source": pdf,
                "title": "a.pdf",
                "citations": {"enabled": True},
            },
            lambda: {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": self.text()},
            },
            lambda: {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
            lambda: {
                "type": "search_result",
                "source": URL,
                "title": "a",
                "content": [self.words()],
            },
        )

    def person(self, calls: list[str]) -> None:
        results = [self.result(id) for id in calls]
        said = self.some(self.words, self.media) if not calls or self.draw(st.booleans()) else []
        self.turn("user", results + said if results else self.one_of(self.text, lambda: said))

    def result(self, id: str) -> dict[str, Any]:
        """A tool_result block."""
        failed = self.draw(st.booleans())
        content = self.one_of(
            self.text,
            lambda: self.some(self.words) if failed else self.some(self.words, self.media),
        )
        return {
            "type": "tool_result",
            "tool_use_id": id,
            "content": content,
            **({"is_error": True} if failed else {}),
        }

    def step(self, calls: list[str]) -> None:
        before = self.some(self.think, self.serve, self.white, least=0, most=2)
        blocks = [block for group in before for block in group]
        if not calls or not blocks or self.draw(st.booleans()):
            blocks += [self.words() for _ in range(self.draw(st.integers(1, 2)))]
        uses = [
            {"type": "tool_use", "id": id, "name": "glob", "input": self.one_of({}, {"p": [1.5]})}
            for id in calls
        ]
        self.turn("assistant", blocks + uses)

    def think(self) -> list[dict[str, Any]]:
        """Thinking that can go back."""
        return self.one_of(
            [{"type": "thinking", "thinking": "hm", "signature": SEAL}],
            [{"type": "redacted_thinking", "data": SEAL}],
        )

    def serve(self) -> list[dict[str, Any]]:
        """A tool that the service ran."""
        id = f"srvtoolu_{self.number()}"
        return [
            {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": id, "content": []},
        ]

    def white(self) -> list[dict[str, Any]]:
        """Claude's own blank text, which it takes back beside others."""
        return [{"type": "text", "text": "\n\n"}]


class Contents(Maker):
    """Gemini generateContent."""

    format = "gemini"

    def turn(self, role: str, parts: list[Any]) -> None:
        """One more content."""
        self.body.setdefault("contents", []).append({"role": role, "parts": parts})

    def words(self) -> dict[str, Any]:
        """A text part."""
        return {"text": self.text()}

    def system(self) -> None:
        if self.draw(st.booleans()):
            self.body["systemInstruction"] = {"parts": self.some(self.words, most=2)}

    def media(self) -> dict[str, Any]:
        """A part of the user's that is no text."""
        return self.one_of(
            lambda: {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
            lambda: {"inlineData": {"mimeType": "audio/wav", "data": WAV}},
            lambda: {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
            lambda: {"fileData": {"mimeType": "video/mp4", "fileUri": f"{URL}.mp4"}},
            lambda: {"fileData": {"mimeType": "image/png", "fileUri": f"{URL}.png"}},
        )

    def person(self, calls: list[str]) -> None:
        results = [
            {"functionResponse": {"name": "glob", "response": {"output": self.text()}}}
            for _ in calls
        ]
        said = self.some(self.words, self.media) if not calls or self.draw(st.booleans()) else []
        self.turn("user", results + said)

    def step(self, calls: list[str]) -> None:
        before = self.some(self.think, self.serve, self.white, least=0, most=2)
        parts = [part for group in before for part in group]
        if not calls or self.draw(st.booleans()):
            parts += [{**self.words(), **self.one_of({}, {"thoughtSignature": SEAL})}]
        for index, _ in enumerate(calls):
            seal = {"thoughtSignature": SEAL} if index == 0 else {}
            parts.append(
                {"functionCall": {"name": "glob", "args": self.one_of({}, {"p": 1})}, **seal}
            )
        self.turn("model", parts)

    def think(self) -> list[dict[str, Any]]:
        """A thought that is told, or only sealed."""
        return self.one_of(
            [{"text": "hm", "thought": True}], [{"text": "", "thoughtSignature": SEAL}]
        )

    def serve(self) -> list[dict[str, Any]]:
        """A tool that the service ran."""
        return [
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        ]

    def white(self) -> list[dict[str, Any]]:
        """The empty text of a stream."""
        return [{"text": ""}]


class Converse(Maker):
    """Bedrock Converse, as on the wire: blobs are base64."""

    format = "bedrock"

    turns = 0

    def turn(self, role: str, content: list[Any]) -> None:
        """One more message."""
        self.turns += 1
        self.body.setdefault("messages", []).append({"role": role, "content": content})

    def words(self) -> dict[str, Any]:
        """A text block."""
        return {"text": self.text()}

    def system(self) -> None:
        if self.draw(st.booleans()):
            self.body["system"] = [self.words(), *self.maybe({"cachePoint": {"type": "default"}})]

    def media(self) -> dict[str, Any]:
        """A block of the user's that is no text."""
        return self.one_of(
            lambda: {"image": {"format": "png", "source": {"bytes": PIXEL}}},
            lambda: {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://a/b"}}}},
            lambda: {
                "document": {
                    "format": "pdf",
                    "name": f"a {self.number()}",
                    "source": {"bytes": PDF},
                }
            },
            lambda: {
                "document": {
                    "format": "txt",
                    "name": f"b {self.number()}",
                    "source": {"text": self.text()},
                }
            },
            lambda: {"video": {"format": "mp4", "source": {"bytes": WAV}}},
            lambda: {"guardContent": {"text": {"text": self.text()}}},
        )

    def person(self, calls: list[str]) -> None:
        said = self.some(self.words, self.media) if not calls or self.draw(st.booleans()) else []
        kept = self.maybe({"cachePoint": {"type": "default"}}) if not self.turns else []
        self.turn(
            "user",
            [self.result(id) for id in calls] + ([self.words(), *said, *kept] if said else []),
        )
        if calls:
            tool = {"toolSpec": {"name": "glob", "inputSchema": {"json": {"type": "object"}}}}
            self.body["toolConfig"] = {"tools": [tool]}

    def result(self, id: str) -> dict[str, Any]:
        """A toolResult block."""
        parts = (self.words, lambda: {"json": {"rows": [self.text()]}}, lambda: {"image": IMAGE})
        more = self.one_of({}, {"status": "error"}, {"status": "success"})
        return {"toolResult": {"toolUseId": id, "content": self.some(*parts, most=2), **more}}

    def step(self, calls: list[str]) -> None:
        before = self.some(self.think, self.cite, self.white, least=0, most=2)
        blocks = [block for group in before for block in group]
        if not calls or not blocks or self.draw(st.booleans()):
            blocks.append(self.words())
        self.turn(
            "assistant",
            blocks + [{"toolUse": {"toolUseId": id, "name": "glob", "input": {}}} for id in calls],
        )

    def think(self) -> list[dict[str, Any]]:
        """Thinking that can go back."""
        return self.one_of(
            [{"reasoningContent": {"reasoningText": {"text": "hm", "signature": SEAL}}}],
            [{"reasoningContent": {"redactedContent": SEAL}}],
        )

    def cite(self) -> list[dict[str, Any]]:
        """Text with where it comes from."""
        return [{"citationsContent": {"content": [self.words()], "citations": [{"title": "a"}]}}]

    def white(self) -> list[dict[str, Any]]:
        """A blank text, taken beside others."""
        return [{"text": "\n"}]


IMAGE = {"format": "png", "source": {"bytes": PIXEL}}
MAKERS: tuple[Callable[[st.DrawFn], Maker], ...] = (Chat, Items, Blocks, Contents, Converse)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A legal history of any format."""
    return draw(st.sampled_from(MAKERS))(draw).history()


NUMBERED = re.compile(r'"(call|fc|msg|rs|ws|mcpl?|ci|srvtoolu)_(\d+)"')


def renumbered(body: dict[str, Any], prefix: int, *, ids: bool) -> dict[str, Any]:
    """The same with its texts, and if wanted its ids, unique among several histories."""
    text = json.dumps(body, ensure_ascii=False).replace("«", f"«{prefix}.")
    return json.loads(NUMBERED.sub(rf'"\1_{prefix}_\2"', text) if ids else text)
