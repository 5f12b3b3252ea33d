"""What the laws of the wire are stated with: how often they are tried, and what a body says.

A few hundred logs in the normal run; with BACKSTORY_SLOW=1 twenty thousand in each format. Each log is drawn
once for all the laws that are about such logs: to draw it takes as long as to judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

from backstory import Event
from backstory.wire import FORMATS, Dump, FormatName, Repair, dump, load
from backstory.wire.conversation import Conversation, conversation_of
from backstory.wire.repair import USER_ENDS
from tests.slow import SLOW, more

laws = settings(
    max_examples=more(200, slow=20_000),
    deadline=None,
    derandomize=not SLOW,
    suppress_health_check=list(HealthCheck),
    database=None,
)


Subject = TypeVar("Subject")
Law = Callable[[Subject], None]


def hold(laws: list[Law[Subject]], subject: Subject) -> None:
    """Fail, with the law's name, unless they all hold."""
    for law in laws:
        try:
            law(subject)
        except BaseException as error:
            error.add_note(f"law: {law.__name__}")
            raise


class Log:
    """A log that was drawn, who is to read it, and what was made of it so far."""

    def __init__(self, events: list[Event], model: str | None) -> None:
        self.events = events
        self.model = model
        self._dumps: dict[Any, Dump] = {}

    def dump(self, format: FormatName, **options: Any) -> Dump:
        """Its dump, made once: nobody changes it."""
        key = (format, *options.items())
        if key not in self._dumps:
            self._dumps[key] = dump(self.events, format, model=self.model, **options)
        return self._dumps[key]

    @cached_property
    def said(self) -> dict[str, str]:
        """By format, all the texts in its dump."""
        return {format: "\n".join(strings(self.dump(format).body)) for format in FORMATS}


def pieces(body: dict[str, Any], format: str) -> list[Any]:
    """What a prompt cache sees, in order: the blocks with their roles, without the breakpoints."""
    body = without_breakpoints(body)
    key = {"openai-responses": "input", "gemini": "contents"}.get(format, "messages")
    found: list[Any] = [body.get(top) for top in ("system", "instructions", "systemInstruction")]
    for message in (
        [{"role": "user", "content": body[key]}] if isinstance(body[key], str) else body[key]
    ):
        content: Any = message.get("parts", message.get("content"))
        if format in ("openai", "openai-responses"):
            found.append(message)
            continue
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.extend((message["role"], block) for block in blocks)
    return found


def without_breakpoints(value: Any) -> Any:
    """A body without its cache breakpoints: a provider takes four, so the oldest go as more are appended."""
    if isinstance(value, dict):
        return {
            key: without_breakpoints(inner)
            for key, inner in value.items()
            if key != "cache_control"
        }
    if isinstance(value, list):
        return [without_breakpoints(inner) for inner in value if not _is_breakpoint(inner)]
    return value


def _is_breakpoint(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"cachePoint"}


def without_last_words(found: list[Any], repairs: list[Repair]) -> list[Any]:
    """What has to stay as it is when the user says more: not the `Continue.` that only gave the model the
    turn, and not Anthropic's system messages at the very end, which may not stand before the user."""
    if any(repair.why == USER_ENDS for repair in repairs):
        return found[:-1]
    while found and isinstance(found[-1], tuple) and found[-1][0] == "system":
        found = found[:-1]
    return found


def strings(value: Any) -> Iterator[str]:
    """All the texts in a body."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


# --- laws of any log, with native content or without ---


def loading_a_dump_and_dumping_it_again_changes_nothing(log: Log) -> None:
    for format in FORMATS:
        body = log.dump(format).body
        again, repairs = dump(load(body, format, model=log.model), format, model=log.model)
        assert again == body
        assert repairs == []


def dumping_twice_gives_the_same_bytes(log: Log) -> None:
    first, second = conversation_of(log.events), Conversation(list(conversation_of(log.events)))
    for format in FORMATS:
        assert first.to_bytes(format, model=log.model) == second.to_bytes(format, model=log.model)
        assert first.repairs(format, model=log.model) == second.repairs(format, model=log.model)
