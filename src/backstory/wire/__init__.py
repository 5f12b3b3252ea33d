"""The wire: a conversation in a provider's request format, and back.

    dump(messages, "anthropic")      -> Dump(body, repairs)
    load(body, "openai")             -> [(kind, content, data), …], ready for agent.extend
    load_answer(response, "gemini")  -> the same for what the provider answered

Whatever was cut, rewound, forked, cleared, imported or interrupted, providers accept what `dump`
returns. It loses no text, and what it adds or changes is reported. Pure: no I/O, no clock, no
randomness.

The way of a request:

- `conversation` has the events of a context,
- `request` builds the body; a `RequestContext` (`context`) carries format, options and repairs,
- `reading` groups events into `turns`,
- `repair` has the rules in their order,
- `native` chooses forms: of messages in `reading`, of answers and results in `complete_answers`,
- `translation` writes the others as text and media,
- `formats/` has a class for each provider (`base`: all; `blocks`: Anthropic, Bedrock and Gemini).

The way back: `answers` assembles a response or a stream, `loading` makes events of its units, which
the classes in `formats/` read (`fields` checks each field and names its path in errors).

`neutral` gives turns in no provider's format, `tokens` and `file_sizes` count, and `media`,
`json_values`, `fields` and `holes` are tools of these.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from backstory.errors import Invalid
from backstory.wire.answers import assemble_answer
from backstory.wire.context import RequestOptions
from backstory.wire.formats import get_format
from backstory.wire.formats.base import FORMATS, FormatName
from backstory.wire.json_values import encode_body
from backstory.wire.loading import Loaded, load_body, load_response
from backstory.wire.reading import Readable
from backstory.wire.request import Dump, build_request, create_context
from backstory.wire.tokens import Tokens, count_tokens, estimate_tokens
from backstory.wire.turns import Repair

__all__ = [
    "FORMATS",
    "Dump",
    "FormatName",
    "Repair",
    "Tokens",
    "count_tokens",
    "dump",
    "estimate_tokens",
    "load",
    "load_answer",
    "to_bytes",
]


def dump(
    messages: Iterable[Readable], format: FormatName, **options: Unpack[RequestOptions]
) -> Dump:
    """Return the body of a request for `messages`: events, `Message`s or (kind, content, data).

    The options are described in `RequestOptions`.
    """
    request = create_context(format, options)
    built = build_request(messages, request)
    return Dump(request.format.convert_for_sdk(built.body), built.repairs)


def to_bytes(
    messages: Iterable[Readable], format: FormatName, **options: Unpack[RequestOptions]
) -> bytes:
    """Return the body of `dump` as JSON. Blobs are in base64, and are never decoded on the way."""
    request = create_context(format, options)
    return encode_body(build_request(messages, request).body)


def load(body: Mapping[str, Any], format: FormatName, *, model: str | None = None) -> list[Loaded]:
    """Return the events in the body of a request, as (kind, content, data).

    What an event cannot express by itself is kept in `data["native"]`, tagged with the format and
    the model (default: the `model` of the body), and is restored by a dump for the same.
    """
    source = get_format(format)
    if not isinstance(body, Mapping):
        raise Invalid(f"a body of the format {format} is an object, not {type(body).__name__}")
    tag = model if model is not None else body.get("model")
    return load_body(source, body, tag if isinstance(tag, str) else None)


def load_answer(response: Any, format: FormatName, *, model: str | None = None) -> list[Loaded]:
    """Return the events in a provider's answer, as (kind, content, data), ready to append.

    The answer is a dict, an object of the provider's SDK, or a list of the events of a stream.
    Opaque content (signatures, encrypted reasoning) is kept in `data["native"]`, tagged with
    `model`, which is the model that was asked (default: the one that the answer names). The data of
    the first event has the model and the usage of the answer.
    """
    source = get_format(format)
    return load_response(source, assemble_answer(response, source), model)
