"""The wire: a conversation in a provider's request format, and back.

    dump(messages, "anthropic")   -> Dump(body, repairs)
    load(body, "openai")          -> [(kind, content, data), …], ready for agent.extend

Whatever was cut, rewound, forked, cleared, imported or interrupted, what comes out of `dump` is
accepted, says only what happened and loses no text. Pure: no I/O, no clock, no randomness.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from backstory.core.gc_pause import collector_at_rest
from backstory.errors import Invalid
from backstory.wire.format import Format
from backstory.wire.formats.anthropic import ANTHROPIC
from backstory.wire.formats.bedrock import BEDROCK
from backstory.wire.formats.gemini import GEMINI
from backstory.wire.formats.openai import OPENAI
from backstory.wire.formats.responses import RESPONSES
from backstory.wire.loader import events_of
from backstory.wire.repair import repaired
from backstory.wire.rows import Readable
from backstory.wire.turns import Repair

_FORMATS: Mapping[str, Format] = {
    format.name: format for format in (OPENAI, RESPONSES, ANTHROPIC, GEMINI, BEDROCK)
}
FORMATS = tuple(_FORMATS)

__all__ = ["FORMATS", "Dump", "Repair", "dump", "load"]


class Dump(NamedTuple):
    """A request's body, and what it says otherwise than the log."""

    body: dict[str, Any]
    repairs: list[Repair]


def dump(
    messages: Iterable[Readable],
    format: str,
    *,
    model: str | None = None,
    pending: bool = False,
    stored: bool = False,
) -> Dump:
    """The body that says what the messages say. Messages are events, `Message`s or
    (kind, content, data).

    `model`: who will read it; an answer's native content is replayed only to the model that gave it.
    `pending`: the caller is about to run the open calls of the last step, so they stay open.
    `stored`: the service keeps what it was sent (OpenAI Responses with `store: true`), so its items may
    be named by their ids, which are left out otherwise.
    """
    target = _format(format)
    messages = messages if isinstance(messages, Sequence) else list(messages)
    with collector_at_rest():
        body = target.quick(messages)
        if body is not None:
            return Dump(body, [])
        mended = repaired(messages, target, _FORMATS, model=model, pending=pending, stored=stored)
        return Dump(target.body(mended.system, mended.turns), mended.repairs)


def load(
    body: Mapping[str, Any], format: str, *, model: str | None = None
) -> list[tuple[str, str | None, dict[str, Any] | None]]:
    """The events that a request's body comes to, as (kind, content, data).

    What an event cannot say by itself rides in `data["native"]`, tagged with the format and the
    model (default: the body's own `model`), and comes back when it is dumped to the same.
    """
    source = _format(format)
    if not isinstance(body, Mapping):
        raise Invalid(f"a body of the format {format} is an object, not {type(body).__name__}")
    tag = model if model is not None else body.get("model")
    return list(events_of(source, body, tag if isinstance(tag, str) else None))


def _format(name: str) -> Format:
    try:
        return _FORMATS[name]
    except (KeyError, TypeError):
        raise Invalid(f"no wire format {name!r}: use one of {', '.join(FORMATS)}") from None
