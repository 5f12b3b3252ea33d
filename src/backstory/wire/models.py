"""Names of models: whether two names mean the same model."""

import re
from functools import lru_cache
from typing import NamedTuple

# What providers put behind a model's name: a date, "latest", a revision, Bedrock's version, OpenRouter's
# variant.
_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3}|latest)$")
_VERSION = re.compile(r"-v\d+(:\d+)?$|:(free|extended|thinking|online|nitro|floor|exacto)$")
# And in front of it: Google's collections, Amazon's resource names, regions and vendor. Claude's signatures
# are the same wherever it runs ("Extended thinking" in Anthropic's guide).
_PLACE = re.compile(
    r"^(arn:.*/|(.*/)?models/|openrouter/)?((us|eu|apac|jp|au|ca|global|us-gov)\.)?(anthropic\.)?"
)
_CLAUDE = re.compile(
    r"claude|anthropic|sonnet|opus|haiku|inference-profile/[a-z0-9]*$", re.IGNORECASE
)
_BETWEEN = re.compile(r"[-._ ]")


def is_same_model(one: str | None, other: str | None) -> bool:
    """Whether two names mean the same model: they are equal, or one has a date and the other does not."""
    if one == other:
        return True
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    name, other_name = _taken_apart(one), _taken_apart(other)
    is_dated = name.date == other_name.date or not name.date or not other_name.date
    return is_dated and name[:2] == other_name[:2]


def is_claude(model: str) -> bool:
    """Whether a model is Claude, or may be: the resource name of an inference profile does not say."""
    return _CLAUDE.search(model) is not None


class _Name(NamedTuple):
    words: tuple[str, ...]  # in any order: OpenRouter says claude-haiku-4.5 and claude-4.5-haiku
    numbers: tuple[str, ...]  # in their order; 4.0 is 4
    date: str


@lru_cache(1_000)
def _taken_apart(name: str) -> _Name:
    """A name without its region, vendor and version, and with the date separate."""
    bare = _VERSION.sub("", _PLACE.sub("", name))
    found = _DATE.search(bare)
    date = found[1] if found else ""
    parts = _BETWEEN.split(_DATE.sub("", bare))
    numbers = [part for part in parts if part.isdigit()]
    while len(numbers) > 1 and numbers[-1] == "0":
        del numbers[-1]
    words = sorted(part for part in parts if not part.isdigit())
    return _Name(tuple(words), tuple(numbers), "" if date == "latest" else date)
