"""The wire: a conversation in a provider's request format, and back.

    dump(messages, "anthropic")      -> Dump(body, repairs)
    load(body, "openai")             -> [(kind, content, data), …], ready for agent.extend
    load_answer(response, "gemini")  -> the same for what the provider answered

Whatever was cut, rewound, forked, cleared, imported or interrupted, providers accept what `dump` returns. It
contains only what happened, and loses no text. Pure: no I/O, no clock, no randomness.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.log.json_text import copy_exactly, encode_exactly
from backstory.wire.answers import assemble_answer
from backstory.wire.formats import FORMATS as FORMATS_BY_NAME
from backstory.wire.formats import get_format
from backstory.wire.holes import filled, holed
from backstory.wire.json_values import encode_body
from backstory.wire.loading import Loaded, load_body, load_response
from backstory.wire.repair import Options, repaired
from backstory.wire.rows import Readable
from backstory.wire.target import Target
from backstory.wire.turns import Repair
from backstory.wire.writer import Written, body_of, forms_of, origins_of

FORMATS = tuple(FORMATS_BY_NAME)
AUTO = "auto"

__all__ = [
    "FORMATS",
    "Dump",
    "Repair",
    "dump",
    "copy_exactly",
    "encode_exactly",
    "filled",
    "holed",
    "load",
    "load_answer",
    "to_bytes",
]


class Dump(NamedTuple):
    """A request's body, and where it differs from the log."""

    body: dict[str, Any]
    repairs: list[Repair]


def dump(
    messages: Iterable[Readable],
    format: str,
    *,
    model: str | None = None,
    pending: bool = False,
    stored: bool = False,
    pause: bool = False,
    system_inside: bool = False,
    placeholders: bool = False,
    cache: str | None = None,
) -> Dump:
    """A request body for the messages, which are events, `Message`s or (kind, content, data).

    `model`: the model to ask; the native content of an answer is sent back only to the model that gave it.
    `pending`: the caller is about to run the open calls of the last step, so they stay open.
    `stored`: the service keeps what it was sent (OpenAI Responses with `store: true`), so its items may
    be named by their ids, which are left out otherwise.
    `pause`: the last message is the model's, which continues it (prefill, Anthropic's `pause_turn`).
    `system_inside`: the model takes system messages between others (some of Anthropic's do).
    `placeholders`: a text stands in place of a file that the format cannot carry, also beside other text.
    `cache`: "auto" sets the breakpoints of the prompt cache, for Anthropic and Bedrock.
    """
    target = _target(format, cache, model=model, stored=stored, placeholders=placeholders)
    return _build(messages, target, Options(pending, pause, system_inside), cache)


def to_bytes(
    messages: Iterable[Readable],
    format: str,
    *,
    model: str | None = None,
    pending: bool = False,
    stored: bool = False,
    pause: bool = False,
    system_inside: bool = False,
    placeholders: bool = False,
    cache: str | None = None,
) -> bytes:
    """The body of `dump` as JSON. Blobs are in base64, and are never decoded on the way."""
    target = _target(
        format, cache, model=model, stored=stored, placeholders=placeholders, packed=True
    )
    options = Options(pending, pause, system_inside)
    return encode_body(_build(messages, target, options, cache).body)


def _target(name: str, cache: str | None, **fields: Any) -> Target:
    if cache not in (None, AUTO):
        raise Invalid(f"cache={cache!r} is not known: use {AUTO!r} or None")
    return Target(get_format(name), FORMATS_BY_NAME, lambda rule, at, why: None, **fields)


def _build(
    messages: Iterable[Readable], target: Target, options: Options, cache: str | None
) -> Dump:
    format = target.format
    mended = repaired(messages, target, options)
    body, repairs = body_of(mended, format), mended.repairs
    if mended.is_native:
        body, changes = format.finish_body(body)
        repairs.extend(Repair("native", None, why) for why in changes)
    if cache == AUTO:
        body = format.mark_cache(body, target.model)
    return Dump(body, repairs)


def origins(
    messages: Iterable[Readable], format: str, *, model: str | None = None
) -> list[list[int]]:
    """For each message of the body that `dump` returns, the positions of its events; none for a message that
    a repair added. System text at the top is not in any message."""
    target = _target(format, None, model=model)
    return origins_of(repaired(list(messages), target, Options()), target.format)


def turn_forms(messages: Iterable[Readable], format: str) -> list[Written]:
    """Each turn of a repaired history in a format's own form, with the position of its first event: for files
    in which every message is separate."""
    target = _target(format, None, any_model=True)
    return list(forms_of(repaired(list(messages), target, Options(pause=True)), target.format))


def load(body: Mapping[str, Any], format: str, *, model: str | None = None) -> list[Loaded]:
    """The events in the body of a request, as (kind, content, data).

    What an event cannot express by itself is kept in `data["native"]`, tagged with the format and the model
    (default: the `model` of the body), and is restored by a dump for the same.
    """
    source = get_format(format)
    if not isinstance(body, Mapping):
        raise Invalid(f"a body of the format {format} is an object, not {type(body).__name__}")
    tag = model if model is not None else body.get("model")
    return load_body(source, body, tag if isinstance(tag, str) else None)


def load_answer(response: Any, format: str, *, model: str | None = None) -> list[Loaded]:
    """The events in a provider's answer, as (kind, content, data), ready to append.

    The answer is a dict, an object of the provider's SDK, or a list of the events of a stream. Opaque content
    (signatures, encrypted reasoning) is kept in `data["native"]`, tagged with `model`, which is the model
    that was asked (default: the one that the answer names). The data of the first event has the model and the
    usage of the answer.
    """
    source = get_format(format)
    return load_response(source, assemble_answer(response, source), model)
