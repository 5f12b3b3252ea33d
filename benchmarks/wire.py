"""The wire's table: from the log to request bytes, against the loop that people write themselves.

The loop trusts its history blindly: no pairing, no repair, no check. It makes the very same bytes.
"""

import base64
import os
from collections.abc import Iterator
from typing import Any

import orjson

import backstory
from backstory.wire import FORMATS, dump, load, to_bytes
from benchmarks.floors import BareSqlite
from benchmarks.measure import Row, best_by_turns

LIMIT = 4.2  # times the plain loop for OpenAI, for `history`
# Times the plain loop of the same format, for texts of 500 characters.
PLAIN_LIMIT, THINKING_LIMIT = 2.5, 3.5
IMAGE_LIMIT = 4.0

Message = tuple[str, str | None, dict[str, Any] | None]


def wire_table(folder: str) -> list[Row]:
    """Restoring to bytes on SQLite, the growth of a repair, and a large image."""
    return [
        *from_the_log(folder),
        *against_own_loop(folder, has_thinking=False),
        *against_own_loop(folder, has_thinking=True),
        repair_growth(),
        *large_image(),
    ]


def from_the_log(folder: str) -> list[Row]:
    """conversation() to request bytes in each format, against the loop for OpenAI."""
    store, floor = (
        backstory.open(os.path.join(folder, "wire.db")),
        BareSqlite(os.path.join(folder, "bare.db")),
    )
    agent = store.start()
    agent.extend(history(10_000))
    floor.insert_many(
        [
            (1, kind, text, data and orjson.dumps(data).decode(), 0)
            for kind, text, data in history(10_000)
        ]
    )

    def ours(format: str = "openai") -> bytes:
        return agent.conversation().to_bytes(format)

    def plain() -> bytes:
        return orjson.dumps({"messages": openai_messages(floor.fetch_all())})

    assert ours() == plain(), "the loop and backstory have to say the same"
    what, against = "messages from the log to bytes", "a plain loop with orjson"
    return [
        Row(
            f"10,000 {what}, {format}",
            against,
            *best_by_turns(lambda f=format: ours(f), plain, 25),
            LIMIT,
        )
        for format in FORMATS
    ]


def against_own_loop(folder: str, *, has_thinking: bool) -> list[Row]:
    """conversation() to request bytes, against a loop that writes the same format."""
    rows = []
    for format in FORMATS:
        name = f"{format}-{has_thinking}"
        floor = BareSqlite(os.path.join(folder, f"bare-{name}.db"))
        store = backstory.open(os.path.join(folder, f"{name}.db"))
        messages = long_history(10_000, format if has_thinking else None)
        agent = store.start()
        agent.extend(messages)
        floor.insert_many(
            [
                (1, kind, text, data and orjson.dumps(data).decode(), 0)
                for kind, text, data in messages
            ]
        )

        def ours(agent: Any = agent, format: str = format) -> bytes:
            return agent.conversation().to_bytes(format, model="m")

        def plain(floor: BareSqlite = floor, format: str = format) -> bytes:
            return write_plainly(floor.fetch_all(), format)

        assert ours() == plain(), "the loop and backstory have to say the same"
        what = "10,000 messages of 500 characters"
        if has_thinking:
            what += ", thinking in each answer"
        limit = THINKING_LIMIT if has_thinking else PLAIN_LIMIT
        times = best_by_turns(ours, plain, 15)
        rows.append(Row(f"{what}, {format}", "a plain loop of that format", *times, limit))
    return rows


def repair_growth() -> Row:
    """Twice the messages, at most 2.2 times the cost, for histories where every second call is open."""
    twice, once = list(broken(20_000)), list(broken(10_000))
    times = best_by_turns(lambda: dump(twice, "anthropic"), lambda: dump(once, "anthropic"), 15)
    return Row("repair of 20,000 broken messages", "10,000", *times, 2.2)


def large_image() -> list[Row]:
    """An image of 5 MB that goes back to its provider, against one dump of the body that it came in."""
    data = base64.b64encode(os.urandom(5_000_000)).decode()
    return [_image(format, message, data) for format, message in _IMAGES.items()]


def _image(format: str, message: str, data: str) -> Row:
    body = orjson.loads(message.replace("DATA", data))
    [(kind, content, native)] = load(body, format)
    event = [backstory.Event.of(1, kind, content, native)]
    times = best_by_turns(lambda: to_bytes(event, format), lambda: orjson.dumps(body), 15)
    return Row(f"an image of 5 MB to bytes, {format}", "one orjson dump", *times, IMAGE_LIMIT)


# The message of each format that shows an image.
_IMAGES = {
    "openai": """{"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,DATA"}}]}]}""",
    "openai-responses": """{"input": [{"role": "user", "content": [
        {"type": "input_image", "image_url": "data:image/png;base64,DATA"}]}]}""",
    "anthropic": """{"messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "DATA"}}]}]}""",
    "gemini": """{"contents": [{"role": "user", "parts": [
        {"inlineData": {"mimeType": "image/png", "data": "DATA"}}]}]}""",
    "bedrock": """{"messages": [{"role": "user", "content": [
        {"image": {"format": "png", "source": {"bytes": "DATA"}}}]}]}""",
}


def history(count: int) -> list[Message]:
    """A legal history: a question, a thought with a call, its result, an answer."""
    messages: list[Message] = []
    for number in range(count // 5):
        call = {
            "id": f"call_{number}",
            "name": "glob",
            "arguments": {"pattern": f"*.{number}", "depth": 3},
        }
        messages += [
            ("user", f"Question {number}: {'what is there to be found? ' * 4}", None),
            ("assistant", "I shall look.", None),
            ("tool_call", None, call),
            (
                "tool_result",
                f"a{number}.py\nb{number}.py\n{'c.py ' * 20}",
                {"id": f"call_{number}", "name": "glob"},
            ),
            (
                "assistant",
                f"Two files, {number} times. {'And a little more to say about that. ' * 4}",
                None,
            ),
        ]
    return messages


def long_history(count: int, format: str | None) -> list[Message]:
    """Questions and answers of 500 characters; with a format, each answer has a thinking block."""
    messages: list[Message] = []
    for number in range(count // 2):
        answer = f"Answer {number}: {'words ' * 80}"
        data = None
        if format is not None:
            form = THINKING[format](answer)
            data = {"native": {"provider": format, "model": "m", "wire": form}}
        messages.append(("user", f"Question {number}: {'words ' * 80}", None))
        messages.append(("assistant", answer, data))
    messages.append(("user", "And now?", None))
    return messages


SEAL = "c2lnbmF0dXJl" * 20
# An answer with thinking in each format.
THINKING: dict[str, Any] = {
    "openai": lambda text: {"role": "assistant", "content": text, "reasoning_content": text},
    "openai-responses": lambda text: [
        {"type": "reasoning", "summary": [], "encrypted_content": SEAL},
        {"role": "assistant", "content": text},
    ],
    "anthropic": lambda text: [
        {"type": "thinking", "thinking": text, "signature": SEAL},
        {"type": "text", "text": text},
    ],
    "gemini": lambda text: [
        {"text": text, "thought": True},
        {"text": text, "thoughtSignature": SEAL},
    ],
    "bedrock": lambda text: [
        {"reasoningContent": {"reasoningText": {"text": text, "signature": SEAL}}},
        {"text": text},
    ],
}
KEYS = {"openai-responses": "input", "gemini": "contents"}


def write_plainly(rows: list[Any], format: str) -> bytes:
    """The loop for texts and stored forms in each format."""
    messages: list[Any] = []
    for _, role, text, data_json, _ in rows:
        form = None if data_json is None else orjson.loads(data_json)["native"]["wire"]
        if format == "openai":
            messages.append(form or {"role": role, "content": text})
        elif format == "openai-responses":
            messages.extend(form or [{"role": role, "content": text}])
        elif format == "anthropic":
            content = form or [{"type": "text", "text": text}]
            messages.append({"role": role, "content": content})
        elif format == "gemini":
            role = "user" if role == "user" else "model"
            messages.append({"role": role, "parts": form or [{"text": text}]})
        else:
            messages.append({"role": role, "content": form or [{"text": text}]})
    return orjson.dumps({KEYS.get(format, "messages"): messages})


def broken(count: int) -> Iterator[backstory.Event]:
    """The same with every second result gone, and ids that come again."""
    for index, (kind, text, data) in enumerate(history(count)):
        if kind != "tool_result" or index % 2:
            data = data and {**data, "id": f"call {index // 50}"}
            yield backstory.Event.of(index + 1, kind, text, data)


def openai_messages(rows: list[Any]) -> list[dict[str, Any]]:
    """The loop."""
    messages: list[dict[str, Any]] = []
    for _, kind, content, data_json, _ in rows:
        if kind == "tool_call":
            data = orjson.loads(data_json)
            function = {"name": data["name"], "arguments": orjson.dumps(data["arguments"]).decode()}
            call = {"id": data["id"], "type": "function", "function": function}
            last = messages[-1]
            if last["role"] == "assistant":
                last.setdefault("tool_calls", []).append(call)
            else:
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "tool_result":
            data = orjson.loads(data_json)
            messages.append({"role": "tool", "tool_call_id": data["id"], "content": content})
        else:
            messages.append({"role": kind, "content": content})
    return messages
