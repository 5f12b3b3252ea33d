"""Legal histories of OpenAI's two formats."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.wire.maker import PDF, PIXEL, SEAL, URL, WAV, Maker


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
            self.add(
                role=role, content=self.one_of(self.text, lambda: [self.words()]), **self.named()
            )

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
            role="assistant",
            content=content,
            **self.reasoning(),
            **({"tool_calls": made} if made else {}),
        )

    def function(self) -> dict[str, Any]:
        """A function's name and its arguments as the model spelled them."""
        return {
            "name": "glob",
            "arguments": self.one_of('{"p": 1}', "{}", '{"n":1.0,"a":{"b":[]}}'),
        }

    def reasoning(self) -> dict[str, Any]:
        """What compatible servers say beside the content, and want back."""
        sealed = {
            "type": "reasoning.encrypted",
            "data": SEAL,
            "format": "anthropic-claude-v1",
            "index": 0,
        }
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
            lambda: {
                "type": "input_image",
                "image_url": f"data:image/png;base64,{PIXEL}",
                "detail": "auto",
            },
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
            {
                "type": "mcp_call",
                "id": f"mcp_{number}",
                "server_label": "s",
                "name": "f",
                "arguments": "{}",
            },
            {
                "type": "code_interpreter_call",
                "id": f"ci_{number}",
                "code": "1",
                "container_id": "c",
            },
        )
