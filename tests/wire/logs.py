"""Random logs, made by the engine's own operations, and then made worse: what the laws are tried on.

An operation is a small tuple, so that a failing log reads like a story. Every text is unique: a law can
then say that it was lost, or that it came twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

import backstory
from backstory import Agent, Event, EventKind, InvalidEvent, NotFound
from backstory.wire import load
from tests.wire.histories import histories, renumbered
from tests.wire.maker import History

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
MODELS = (None, "m1", "m2")

TEXTS = st.sampled_from(["hello", "Größe 🎈", "a\nb", " padded ", "", " ", "\n\t"])
IDS = st.sampled_from(
    ["a", "b", "c", "call_1", "x.y:z", "ü b", "q" * 41, "q" * 70, "f.f:0", "f_f_0"]
)
NAMES = st.sampled_from(["glob", "read-file", "mcp.server/tool", "9lives", "ü", "n" * 80])
JSON = st.sampled_from(
    [
        {},
        {"p": 1},
        {"n": {"x": [1, None, True, 1.5]}},
        {"bytes": "aGk="},
        {"_value": 1},
        {"ü": "🎈"},
    ]
)
ARGUMENTS = st.one_of(
    JSON, st.sampled_from(['{"a": 1}', "{broken", "", "[1]", "7", [1, 2], "NaN", 5, None, 2**70])
)


def function_call(call: str, name: str, arguments: str) -> dict[str, Any]:
    """A call in the older of the old shapes."""
    return {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}


def named_call(call: str, name: str, arguments: Any) -> dict[str, Any]:
    """A call in the younger of the old shapes."""
    return {"tool_call_id": call, "tool_name": name, "tool_args": arguments}


def named_result(call: str, output: Any, success: bool) -> dict[str, Any]:
    """A result in the old shape."""
    return {"tool_call_id": call, "name": "glob", "output": output, "success": success}


OLD_CALLS = st.one_of(
    st.builds(function_call, IDS, NAMES, st.sampled_from(['{"a": 1}', "{broken", ""])),
    st.builds(named_call, IDS, NAMES, JSON),
)
OLD_RESULTS = st.builds(named_result, IDS, st.sampled_from(["", "out", None, 5]), st.booleans())

OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["user", "assistant", "system"]), TEXTS),
    st.tuples(st.sampled_from(["user", "assistant", "assistant"]), TEXTS),
    st.tuples(st.just("call"), IDS, NAMES, ARGUMENTS),
    st.tuples(st.just("call"), IDS, st.just("glob"), JSON),
    st.tuples(st.just("result"), IDS, TEXTS, st.booleans()),
    st.tuples(st.just("answer"), TEXTS, st.booleans()),
    st.tuples(st.just("old call"), OLD_CALLS),
    st.tuples(st.just("old result"), OLD_RESULTS),
    st.tuples(st.just("mark"), st.sampled_from(["m", "n", None])),
    st.tuples(st.sampled_from(["rewind", "clear", "undo", "fork"])),
    st.tuples(st.sampled_from(["jump", "fork at"]), st.integers(0, 20)),
    st.tuples(st.just("native"), st.integers(0, 50), st.sampled_from(MODELS)),
)

GARBAGE = st.sampled_from(
    [
        "null",
        "[]",
        "{}",
        "{broken",
        '{"id": 5, "name": 7, "arguments": NaN}',
        '{"id": "", "name": ""}',
        '{"id": ["a"], "name": {}, "arguments": {"x": Infinity}}',
        '{"id": "\\ud800", "name": "\\udfff", "arguments": {"\\ud800": "\\ud800"}}',
        '{"id": "a", "name": "glob", "arguments": {"x": 1e999}}',
        '{"id": "a", "name": "glob", "arguments": "{\\"x\\": 1e999}"}',
        '{"id": true}',
        '{"native": 5}',
        '{"native": {"provider": 7, "wire": 5}}',
        '{"native": {"provider": "anthropic", "wire": [5]}}',
        '{"native": {"provider": "openai", "wire": {"role": "system", "content": "x"}}}',
        '{"native": {"provider": "bedrock", "wire": [{"image": {}}]}}',
        '{"native": {"provider": "gemini", "wire": [{"functionCall": {}}]}}',
        '{"id": "a", "name": "glob", "arguments": {"deep": ' + "[" * 300 + "]" * 300 + "}}",
    ]
)

# What may stand anywhere in a native form that did not survive.
GARBAGE_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 7, 1.5, "", " ", "?", [], {}, [None], [[]]]
)

OPERATION_LISTS = st.lists(OPERATIONS, max_size=24)
# A provider's history, cut at any place; with ids of its own, or with those of the others.
CUT_HISTORIES = st.tuples(st.just("history"), histories(), st.integers(0, 12), st.booleans())
NATIVE_LISTS = st.lists(st.one_of(OPERATIONS, CUT_HISTORIES, CUT_HISTORIES), max_size=8)
DAMAGE = st.lists(st.tuples(st.integers(0, 30), GARBAGE), max_size=3)


def native_forms(text: str, n: int) -> list[tuple[EventKind, str, str, Any]]:
    """Messages with native content, as providers make them: kind, content, provider, its own form."""
    call: dict[str, Any] = {"id": f"toolu_{n}", "name": "glob", "arguments": {"p": n}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    link = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    blob = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
    inline = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "c2Vjcg=="}
    item = {
        "type": "function_call",
        "call_id": call["id"],
        "name": "glob",
        "arguments": json.dumps({"p": n}),
    }
    use = {"type": "tool_use", "id": call["id"], "name": "glob", "input": {"p": n}}
    asked: dict[str, Any] = {
        "functionCall": {"name": "glob", "args": {"p": n}},
        "thoughtSignature": "c2ln",
    }
    reasoning = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
    thought = {"text": "hm", "thought": True}
    words = {"type": "text", "text": text}
    return [
        ("user", text, "anthropic", [image, words]),
        ("user", text, "anthropic", [words, link]),
        ("user", text, "anthropic", text),
        ("user", "", "anthropic", [image]),
        ("user", text, "bedrock", [{"text": text}, blob]),
        ("user", text, "gemini", [inline, {"text": text}]),
        ("user", text, "openai", {"role": "user", "content": [words, shown]}),
        ("user", text + " changed", "openai", {"role": "user", "content": [words, shown]}),
        ("user", text, "nobody", [words]),
        ("system", text, "openai", {"role": "developer", "content": text}),
        ("system", text, "openai-responses", [{"role": "developer", "content": text}]),
        ("assistant", text, "anthropic", [thinking, words]),
        ("assistant", "", "anthropic", [thinking]),
        ("assistant", text, "anthropic", [{"type": "thinking", "thinking": "hm"}, words]),
        ("assistant", text, "openai-responses", [sealed, {"role": "assistant", "content": text}]),
        ("assistant", "", "openai-responses", [sealed]),
        (
            "assistant",
            text,
            "gemini",
            [thought, {"text": text, "thoughtSignature": "c2ln"}],
        ),
        ("assistant", text, "bedrock", [reasoning, {"text": text}]),
        ("assistant", text, "openai", {"role": "assistant", "content": text, "refusal": None}),
        ("tool_call", "", "anthropic", [thinking, use]),
        ("tool_call", "", "anthropic", [use, words]),
        ("tool_call", "", "gemini", [asked]),
        (
            "tool_call",
            "",
            "gemini",
            [asked | {"functionCall": {"id": call["id"], **asked["functionCall"]}}],
        ),
        ("tool_call", "", "openai-responses", [sealed, item]),
        (
            "tool_call",
            "",
            "openai-responses",
            [{"type": "reasoning", "id": "rs_1", "summary": []}, item],
        ),
        ("tool_result", text, "anthropic", [_anthropic_result(call["id"], [words, image])]),
        ("tool_result", text, "gemini", [_gemini_result({"rows": [text]})]),
        *EMPTY,
    ]


LISTS = ("anthropic", "openai-responses", "gemini", "bedrock")
EMPTY: list[tuple[EventKind, str, str, Any]] = [
    *((kind, "", provider, []) for kind in ("user", "assistant") for provider in LISTS),
    *((kind, "", "openai", {"role": kind, "content": []}) for kind in ("user", "assistant")),
    ("assistant", "", "openai", {"role": "assistant", "content": None}),
]


def _anthropic_result(id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def _gemini_result(response: dict[str, Any]) -> dict[str, Any]:
    return {"functionResponse": {"name": "glob", "response": response}}


class Writer:
    """Applies operations to an agent; what the engine refuses is simply not written."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.count = 0

    def write(self, operation: tuple[Any, ...]) -> None:
        with suppress(InvalidEvent, NotFound):
            self._write(operation)

    def _write(self, operation: tuple[Any, ...]) -> None:
        self.count += 1
        agent = self.agent
        match operation:
            case ("user" | "assistant" | "system" as kind, text):
                agent.append(kind, self._unique(text))
            case ("call", id, name, arguments):
                agent.tool_call(name, arguments, id=id)
            case ("result", id, text, error):
                agent.tool_result(id, self._unique(text), error=error)
            case ("answer", text, error):
                self._answer(text, error)
            case ("old call", data):
                agent.append("tool_call", None, data)
            case ("old result", data):
                agent.append("tool_result", self._unique("old"), data)
            case ("mark", label):
                agent.mark(label)
            case ("rewind",):
                agent.rewind()
            case ("clear",):
                agent.clear()
            case ("undo",):
                agent.undo()
            case ("fork",):
                self.agent = agent.fork()
            case ("fork at", position):
                self.agent = agent.fork(at=min(position, agent.head))
            case ("jump", position):
                agent.jump(min(position, agent.head))
            case ("native", which, model):
                self._native(which, model)
            case ("history", history, cut, fresh):
                self._history(history, cut, fresh)

    def _unique(self, text: str) -> str:
        return f"{text}#{self.count}#" if text.strip() else text

    def _answer(self, text: str, error: bool) -> None:
        """Answer the newest call of the context, the way an agent loop does."""
        for event in reversed(self.agent.context().messages):
            if event.kind == "tool_call":
                self.agent.tool_result(event, self._unique(text), error=error)
                return

    def _history(self, history: History, cut: int, fresh: bool) -> None:
        body = renumbered(history.body, self.count, ids=fresh)
        events = load(body, history.format, model=history.model)
        self.agent.extend(events[: len(events) - cut] or events)

    def _native(self, which: int, model: str | None) -> None:
        forms = native_forms(self._unique("native"), self.count)
        kind, content, provider, wire = forms[which % len(forms)]
        native = {"provider": provider, "wire": wire} | ({"model": model} if model else {})
        data: dict[str, Any] = {"native": native}
        if kind in ("tool_call", "tool_result"):
            data |= {"id": f"toolu_{self.count}", "name": "glob", "arguments": {"p": self.count}}
        self.agent.append(kind, content, data)


def context_of(
    operations: list[tuple[Any, ...]], damage: Sequence[tuple[int, str]] = ()
) -> list[Event]:
    """The live events that the operations come to, some of them with data from a worse time."""
    with backstory.open(":memory:") as store:
        writer = Writer(store.start("main"))
        for operation in operations:
            writer.write(operation)
        events = list(writer.agent.context().messages)
    for index, data in damage:
        if events:
            event = events[index % len(events)]
            events[index % len(events)] = Event.of(event.seq, event.kind, event.content, data)
    return events


@st.composite
def legal_histories(draw: st.DrawFn) -> list[tuple[str, str | None, dict[str, Any] | None]]:
    """Histories as a well-behaved agent writes them, legal in all formats."""
    ids = (f"call_{n}" for n in range(1000))
    texts = (f"text #{n}#" for n in range(1000))
    events: list[tuple[str, str | None, dict[str, Any] | None]] = []
    events += [("system", next(texts), None) for _ in range(draw(st.integers(0, 2)))]
    for last in [False] * draw(st.integers(0, 4)) + [True]:
        events += [("user", next(texts), None) for _ in range(draw(st.integers(1, 2)))]
        for _ in range(draw(st.integers(0, 3))):
            events += _step(draw, ids, texts)
        if not last:
            events.append(("assistant", next(texts), None))
    return events


def _step(
    draw: st.DrawFn, ids: Any, texts: Any
) -> list[tuple[str, str | None, dict[str, Any] | None]]:
    said = [("assistant", next(texts), None)] if draw(st.booleans()) else []
    calls = [next(ids) for _ in range(draw(st.integers(1, 3)))]
    asked = [
        ("tool_call", None, {"id": id, "name": "glob", "arguments": draw(JSON)}) for id in calls
    ]
    got = [("tool_result", next(texts), {"id": id, "error": draw(st.booleans())}) for id in calls]
    return [*said, *asked, *got]
