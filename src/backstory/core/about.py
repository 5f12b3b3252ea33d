"""What is kept beside an agent: a small JSON object with its title, tags, folder, anything. Pure."""

from typing import Any

from backstory.core.events import parse_object, to_json
from backstory.errors import Invalid

LARGEST = 64 * 1024  # bytes of the whole


def described(before: str | None, change: dict[str, Any]) -> str | None:
    """The object's text after a change of some keys; None takes a key out. Raises Invalid."""
    _check(change)
    about = (parse_object(before) or {}) | change
    kept = {name: value for name, value in about.items() if value is not None}
    if not kept:
        return None
    try:
        text = to_json(kept)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"what is kept beside an agent has to be JSON: {error}") from error
    if "\0" in text or size > LARGEST:
        raise Invalid(
            f"what is kept beside an agent may take {LARGEST:,} bytes, this takes {size:,}: say less"
        )
    return text


def _check(change: dict[str, Any]) -> None:
    title, tags = change.get("title"), change.get("tags")
    if title is not None and (not isinstance(title, str) or not title.strip()):
        raise Invalid(f"a title is a text that is not empty, not {title!r:.60}")
    if tags is not None and (
        not isinstance(tags, list | tuple) or not all(isinstance(tag, str) and tag.strip() for tag in tags)
    ):
        raise Invalid(f"tags are a list of texts that are not empty, not {tags!r:.60}")
