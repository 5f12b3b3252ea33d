"""The details of an agent: a small JSON object with its title, tags, folder or anything else. Pure."""

import re
from typing import Any

from backstory.errors import Invalid
from backstory.log.events import parse_object, to_json

LARGEST = 64 * 1024  # bytes of the whole
# A NUL as JSON escapes it, not an escaped backslash before u0000.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def described(before: str | None, change: dict[str, Any]) -> str | None:
    """The JSON text after some keys were changed; None removes a key. Raises Invalid."""
    _check(change)
    about = (parse_object(before) or {}) | change
    kept = {name: value for name, value in about.items() if value is not None}
    if not kept:
        return None
    try:
        text = to_json(kept)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"an agent's description must be JSON: {error}") from error
    if size > LARGEST:
        raise Invalid(
            f"an agent's description may take {LARGEST:,} bytes, this takes {size:,}",
            remedy="shorten it",
        )
    if _NUL.search(text):  # PostgreSQL's JSON cannot hold it
        raise Invalid("an agent's description has a NUL character (U+0000)", remedy="remove it")
    return text


def wrong_about(text: str | None) -> str | None:
    """What is wrong with an object that came from elsewhere, as a sentence; None if nothing is."""
    if text is None:
        return None
    about = parse_object(text)
    if about is None:
        return "what is kept beside it is not a JSON object"
    try:
        described(None, about)
    except Invalid as error:
        return error.message
    return None


def title_and_tags(about: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Both, as far as they can be shown: a damaged store may have anything in their place."""
    known = parse_object(about) or {}
    title, tags = known.get("title"), known.get("tags")
    return (
        title if isinstance(title, str) else None,
        tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
    )


def told(about: str | None) -> str:
    """The part that a search looks at: the title and the tags."""
    title, tags = title_and_tags(about)
    return "\n".join(tags if title is None else (title, *tags))


def _check(change: dict[str, Any]) -> None:
    title, tags = change.get("title"), change.get("tags")
    if title is not None and (not isinstance(title, str) or not title.strip()):
        raise Invalid(f"a title must be a non-empty string, not {title!r:.60}")
    if tags is not None and (
        not isinstance(tags, list | tuple)
        or not all(isinstance(tag, str) and tag.strip() for tag in tags)
    ):
        raise Invalid(f"tags must be a list of non-empty strings, not {tags!r:.60}")
