"""The context of one request: its format, its options, and the repairs so far. Reading, rules and
translation take it as `request`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypedDict

from backstory.errors import Invalid
from backstory.wire.formats.base import Format
from backstory.wire.turns import Native, Repair

AUTO = "auto"


class RequestOptions(TypedDict, total=False):
    """The options of a request: what only the caller knows.

    `model`: the model to ask; the native content of an answer is sent back only to the model that
    gave it.
    `pending`: the caller is about to run the open calls of the last answer, so they stay open.
    `stored`: the service keeps what it was sent (OpenAI Responses with `store: true`), so its items
    may be named by their ids, which are left out otherwise.
    `pause`: the last message is the model's, which continues it (prefill, `pause_turn`).
    `system_inside`: the model takes system messages between others (some of Anthropic's do).
    `placeholders`: a text replaces a file that the format cannot carry.
    `cache`: "auto" sets the breakpoints of the prompt cache, for Anthropic and Bedrock.
    `strict`: raise Invalid if the request needs a repair.
    """

    model: str | None
    pending: bool
    stored: bool
    pause: bool
    system_inside: bool
    placeholders: bool
    cache: Literal["auto"] | None
    strict: bool


@dataclass(kw_only=True)
class RequestContext:
    """One request: the format, the options, and the repairs so far.

    `any_model`: it is for a file, which keeps the native content of each of a provider's models.
    The other options are those of `RequestOptions`.
    """

    format: Format = field(kw_only=False)
    model: str | None = None
    pending: bool = False
    stored: bool = False
    pause: bool = False
    system_inside: bool = False
    placeholders: bool = False
    cache: Literal["auto"] | None = None
    strict: bool = False
    any_model: bool = False
    repairs: list[Repair] = field(default_factory=list)
    # Are there calls or results, native content, and any that continues a conversation in a
    # service's store? Most rules are about one of them.
    has_tools: bool = False
    has_native: bool = False
    has_stored: bool = False
    # The conversation in the service's store that the request continues.
    continued: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.cache not in (None, AUTO):
            raise Invalid(f"cache={self.cache!r} is not known: use {AUTO!r} or None")

    def report(self, rule: str, position: int | None, why: str) -> None:
        """Record a repair."""
        self.repairs.append(Repair(rule, position, why))

    def comes_from_target(self, native: Native) -> bool:
        """Return True if the request goes to the provider and model that `native` came from."""
        if native.provider != self.format.name:
            return False
        return self.any_model or is_same_model(native.model, self.model)

    def continues(self, after: Mapping[str, Any]) -> bool:
        """Return True if the service's store has what a loaded request continues. A request with
        `store: false` says so itself."""
        if not self.format.stores_conversations:
            return False
        return self.stored or after.get("store") is False


# --- names of models ---

# Providers put after a model's name: a date, "latest", a revision, Bedrock's version,
# OpenRouter's variant.
_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|00\d|latest)$")
_VERSION = re.compile(r"-v\d+:\d+$|-v1$|:(free|extended|thinking|online|nitro|floor|exacto)$")
# And in front of it: Google's collections, Amazon's resource names, regions and vendor. Claude's
# signatures are the same wherever it runs ("Extended thinking" in Anthropic's guide), also at
# OpenRouter, which says anthropic/claude-haiku-4.5.
_PLACE = re.compile(
    r"^(arn:.*/|(.*/)?models/|openrouter/)?((us|eu|apac|jp|au|ca|global|us-gov)\.)?(anthropic[./])?"
)
_BETWEEN = re.compile(r"[-._ ]")


class ModelName(NamedTuple):
    """The parts of a model's name that count."""

    words: tuple[str, ...]  # in any order: OpenRouter says claude-haiku-4.5 and claude-4.5-haiku
    numbers: tuple[str, ...]  # in their order; 4.0 is 4
    date: str


def is_same_model(one: str | None, other: str | None) -> bool:
    """Return True if two names mean one model: they are equal, or only one of them has a date."""
    if one == other:
        return True
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    name, other_name = parse_model_name(one), parse_model_name(other)
    is_same_date = name.date == other_name.date or not name.date or not other_name.date
    return is_same_date and name[:2] == other_name[:2]


@lru_cache(1_000)
def parse_model_name(name: str) -> ModelName:
    """Return a name without its region, vendor and version, and with the date apart."""
    bare = _VERSION.sub("", _PLACE.sub("", name))
    found = _DATE.search(bare)
    date = found[1] if found else ""
    parts = _BETWEEN.split(_DATE.sub("", bare))
    numbers = [part for part in parts if part.isdigit()]
    while len(numbers) > 1 and numbers[-1] == "0":
        del numbers[-1]
    words = sorted(part for part in parts if not part.isdigit())
    return ModelName(tuple(words), tuple(numbers), "" if date == "latest" else date)
