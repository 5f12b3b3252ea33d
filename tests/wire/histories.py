"""Legal histories as providers make them, with everything in them that only they understand.

A `Maker` draws one body of a format that its service takes: blank parts, reasoning of its own, server tools,
documents, audio, participant names, and sealed parts of every kind. Every text is unique; roles alternate,
and results come first and in the order of their calls, so that the body has to come back as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
PDF = "JVBERi0xLjQgL1R5cGUgL1BhZ2U="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEA"
SEAL = "c2VhbGVk"
URL = "https://example.org/a"


MOST_BREAKPOINTS = 4


class History(NamedTuple):
    """One body, whose it is, and whether the service keeps its items."""

    format: str
    model: str
    stored: bool
    body: dict[str, Any]


class Maker:
    """Draws the turns of one history; each format draws its own blocks."""

    format: str
    model = "m1"

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.count = 0
        self.stored = False
        self.body: dict[str, Any] = {}

    def number(self) -> int:
        """A number that nothing else here has."""
        self.count += 1
        return self.count

    def text(self) -> str:
        """A text that is nowhere else."""
        return self.one_of("words", "Größe 🎈", " padded ", "a\nb") + f" «{self.number()}»"

    def one_of(self, *choices: Any) -> Any:
        """Any of these; what can be called is made now."""
        choice = self.draw(st.sampled_from(choices))
        return choice() if callable(choice) else choice

    def maybe(self, value: Any) -> list[Any]:
        """It, or nothing."""
        return [self.one_of(value)] if self.draw(st.booleans()) else []

    def some(self, *choices: Any, least: int = 1, most: int = 3) -> list[Any]:
        """A few of these."""
        return [self.one_of(*choices) for _ in range(self.draw(st.integers(least, most)))]

    def history(self) -> History:
        """The whole of it: what a person says, steps of calls and their results, and answers between."""
        self.system()
        rounds = self.draw(st.integers(1, 3))
        for index in range(rounds):
            self.person([])
            for _ in range(self.draw(st.integers(0, 2))):
                calls = [f"call_{self.number()}" for _ in range(self.draw(st.integers(1, 2)))]
                self.step(calls)
                self.person(calls)
            if index < rounds - 1:
                self.step([])
        return History(self.format, self.model, self.stored, self.body)

    def system(self) -> None:
        """System text, or none."""
        raise NotImplementedError

    def person(self, calls: list[str]) -> None:
        """The results of calls, and what a person says: one of both at least."""
        raise NotImplementedError

    def step(self, calls: list[str]) -> None:
        """One answer of the model; without calls, it says something."""
        raise NotImplementedError


class Chat(Maker):
    """OpenAI Chat Completions, and what DeepSeek, Qwen and OpenRouter add to it."""

    format = "openai"

    def add(self, **message: Any) -> None:
        """One more message."""
        self.body.setdefault("messages", []).append(message)

    def words(self) -> dict[str, Any]:
        """A text part."""
        return {"type": "text", "text": self.text()}

    def media(self) -> dict[str, Any]:
        """A part that is no text."""
        return self.one_of(
            lambda: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            lambda: {"type": "image_url", "image_url": {"url": f"{URL}.png", "detail": "low"}},
            lambda: {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
            lambda: {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            },
            lambda: {"type": "file", "file": {"file_id": "file-1"}},
        )

    def named(self) -> dict[str, Any]:
        """A participant's name, or none."""
        return self.one_of({}, {}, {"name": "ann"})

    def system(self) -> None:
        for role in self.some("system", "developer", least=0, most=2):
            self.add(role=role, content=self.one_of(self.text, lambda: [self.words()]), **self.named())

    def person(self, calls: list[str]) -> None:
        for id in calls:
            self.add(
                role="tool",
                tool_call_id=id,
                content=self.one_of(self.text, lambda: [self.words(), self.words()]),
            )
        if not calls or self.draw(st.booleans()):
            parts = lambda: self.some(self.words, self.media)  # noqa: E731
            self.add(role="user", content=self.one_of(self.text, parts), **self.named())

    def step(self, calls: list[str]) -> None:
        texts = (self.text, lambda: [self.words(), self.words()])
        content = self.one_of(*texts, None, "") if calls else self.one_of(*texts)
        made = [{"id": id, "type": "function", "function": self.function()} for id in calls]
        self.add(
            role="assistant", content=content, **self.reasoning(), **({"tool_calls": made} if made else {})
        )

    def function(self) -> dict[str, Any]:
        """A function's name and its arguments as the model spelled them."""
        return {"name": "glob", "arguments": self.one_of('{"p": 1}', "{}", '{"n":1.0,"a":{"b":[]}}')}

    def reasoning(self) -> dict[str, Any]:
        """What compatible servers say beside the content, and want back."""
        sealed = {"type": "reasoning.encrypted", "data": SEAL, "format": "anthropic-claude-v1", "index": 0}
        return self.one_of(
            {},
            {"reasoning_content": "hm"},
            {"reasoning": "hm", "reasoning_details": [sealed]},
            {"refusal": None, "annotations": []},
        )


class Items(Maker):
    """OpenAI Responses, stored or not."""

    format = "openai-responses"

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__(draw)
        self.stored = draw(st.booleans())

    def add(self, **item: Any) -> None:
        """One more item."""
        self.body.setdefault("input", []).append(item)

    def id(self, prefix: str) -> dict[str, Any]:
        """An id, where items have one."""
        return {"id": f"{prefix}_{self.number()}"} if self.stored else {}

    def system(self) -> None:
        if self.draw(st.booleans()):
            self.body["instructions"] = self.text()
        for role in self.some("system", "developer", least=0, most=1):
            self.add(role=role, content=self.text())

    def part(self) -> dict[str, Any]:
        """A part of what a person says or a tool gives."""
        return self.one_of(
            lambda: {"type": "input_text", "text": self.text()},
            lambda: {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
            lambda: {"type": "input_image", "file_id": "file-1", "detail": "low"},
            lambda: {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": f"data:application/pdf;base64,{PDF}",
            },
            lambda: {"type": "input_file", "file_url": f"{URL}.pdf"},
        )

    def person(self, calls: list[str]) -> None:
        for id in calls:
            kind = "custom_tool_call_output" if id in self.custom else "function_call_output"
            output = self.one_of(self.text, lambda: self.some(self.part))
            self.add(type=kind, call_id=id, output=output)
        if not calls or self.draw(st.booleans()):
            self.add(role="user", content=self.one_of(self.text, lambda: self.some(self.part)))

    def step(self, calls: list[str]) -> None:
        self.custom = {id for id in calls if self.draw(st.integers(0, 3)) == 0}
        for make in self.some(self.think, self.serve, least=0, most=2):
            self.add(**make) if isinstance(make, dict) else None
        if not calls or self.draw(st.booleans()):
            self.say()
        for id in calls:
            more = {"call_id": id, "name": "glob", **self.id("fc")}
            if id in self.custom:
                self.add(type="custom_tool_call", input="x", **more)
            else:
                self.add(type="function_call", arguments=self.one_of('{"p": 1}', "{}"), **more)

    def say(self) -> None:
        """The message of an answer."""
        part = {"type": "output_text", "text": self.text(), "annotations": []}
        full = {
            "type": "message",
            "status": "completed",
            **self.id("msg"),
            "role": "assistant",
            "content": [part],
        }
        plain = {"role": "assistant", "content": self.text()}
        self.add(**(full if self.stored else self.one_of(full, plain)))

    def think(self) -> dict[str, Any]:
        """A reasoning item that the service can read again."""
        sealed = {"encrypted_content": SEAL} if not self.stored or self.draw(st.booleans()) else {}
        summary = self.one_of([], [{"type": "summary_text", "text": "hm"}])
        return {"type": "reasoning", "summary": summary, **self.id("rs"), **sealed}

    def serve(self) -> dict[str, Any]:
        """What the service did itself."""
        number = self.number()
        return self.one_of(
            {
                "type": "web_search_call",
                "id": f"ws_{number}",
                "status": "completed",
                "action": {"type": "search"},
            },
            {"type": "mcp_list_tools", "id": f"mcpl_{number}", "server_label": "s", "tools": []},
            {"type": "mcp_call", "id": f"mcp_{number}", "server_label": "s", "name": "f", "arguments": "{}"},
            {"type": "code_interpreter_call", "id": f"ci_{number}", "code": "1", "container_id": "c"},
        )


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
            lambda: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            lambda: {"type": "image", "source": {"type": "url", "url": f"{URL}.png"}},
            lambda: {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            lambda: {"type": "document", "source": pdf, "title": "a.pdf", "citations": {"enabled": True}},
            lambda: {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": self.text()},
            },
            lambda: {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
            lambda: {"type": "search_result", "source": URL, "title": "a", "content": [self.words()]},
        )

    def person(self, calls: list[str]) -> None:
        results = [self.result(id) for id in calls]
        said = self.some(self.words, self.media) if not calls or self.draw(st.booleans()) else []
        self.turn("user", results + said if results else self.one_of(self.text, lambda: said))

    def result(self, id: str) -> dict[str, Any]:
        """A tool_result block."""
        failed = self.draw(st.booleans())
        content = self.one_of(
            self.text, lambda: self.some(self.words) if failed else self.some(self.words, self.media)
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
        results = [{"functionResponse": {"name": "glob", "response": {"output": self.text()}}} for _ in calls]
        said = self.some(self.words, self.media) if not calls or self.draw(st.booleans()) else []
        self.turn("user", results + said)

    def step(self, calls: list[str]) -> None:
        before = self.some(self.think, self.serve, self.white, least=0, most=2)
        parts = [part for group in before for part in group]
        if not calls or self.draw(st.booleans()):
            parts += [{**self.words(), **self.one_of({}, {"thoughtSignature": SEAL})}]
        for index, _ in enumerate(calls):
            seal = {"thoughtSignature": SEAL} if index == 0 else {}
            parts.append({"functionCall": {"name": "glob", "args": self.one_of({}, {"p": 1})}, **seal})
        self.turn("model", parts)

    def think(self) -> list[dict[str, Any]]:
        """A thought that is told, or only sealed."""
        return self.one_of([{"text": "hm", "thought": True}], [{"text": "", "thoughtSignature": SEAL}])

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
            lambda: {"document": {"format": "pdf", "name": f"a {self.number()}", "source": {"bytes": PDF}}},
            lambda: {
                "document": {"format": "txt", "name": f"b {self.number()}", "source": {"text": self.text()}}
            },
            lambda: {"video": {"format": "mp4", "source": {"bytes": WAV}}},
            lambda: {"guardContent": {"text": {"text": self.text()}}},
        )

    def person(self, calls: list[str]) -> None:
        said = self.some(self.words, self.media) if not calls or self.draw(st.booleans()) else []
        kept = self.maybe({"cachePoint": {"type": "default"}}) if not self.turns else []
        self.turn("user", [self.result(id) for id in calls] + ([self.words(), *said, *kept] if said else []))
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
