"""What a service's own tools did (searches, code that it ran), as marked text for other services.

<web_search>
query: high tide today
</web_search>
"""

import re
from collections.abc import Iterator
from typing import Any

from backstory.wire.turns import Other, is_blank

_BLOBS = frozenset({"bytes", "b64_json", "result"})  # files; words have other names everywhere


def ran(what: str, name: Any, *values: Any) -> Other:
    """A part that only its provider understands, and the text for all others: the texts in the values, each
    after the name of its field."""
    lines = [line for value in values for line in _lines(value)]
    tag = re.sub(r"\W+", "_", name) if isinstance(name, str) else "tool"
    return Other(what, told="\n".join([f"<{tag}>", *lines, f"</{tag}>"]) if lines else "")


def is_unread(key: str) -> bool:
    """Whether a field is nothing for a model to read."""
    return key.startswith("encrypted") or key.endswith(("signature", "id", "type"))


def _lines(value: Any, name: str = "") -> Iterator[str]:
    match value:
        case dict():
            is_file = value.get("type") == "base64"
            for key, item in value.items():
                if not (is_unread(key) or key in _BLOBS or (is_file and key == "data")):
                    yield from _lines(item, key)
        case list():
            for item in value:
                yield from _lines(item, name)
        case None | True | False:
            return
        case str() if is_blank(value):
            return
        case _:
            yield f"{name}: {value}" if name else str(value)
