"""The wire's table: from the log to request bytes, against the loop that people write themselves.

The loop trusts its history blindly: no pairing, no repair, no check. It makes the very same bytes.
"""

import base64
import os
from collections.abc import Iterator
from typing import Any

import orjson

import backstory
from backstory.wire import dump, load, to_bytes
from benchmarks.floors import BareSqlite
from benchmarks.measure import Row, best_by_turns

# At most so many times the plain loop for OpenAI.
LIMITS = {"openai": 1.4, "openai-responses": 2.0, "anthropic": 2.0, "gemini": 2.0, "bedrock": 2.0}

Message = tuple[str, str | None, dict[str, Any] | None]


def wire_table(folder: str) -> list[Row]:
    """Restoring to bytes on SQLite, the growth of a repair, and a large image."""
    return [*from_the_log(folder), repair_growth(), *large_image()]


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
            limit,
        )
        for format, limit in LIMITS.items()
    ]


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
    return Row(f"an image of 5 MB to bytes, {format}", "one orjson dump", *times, 3.0)


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
