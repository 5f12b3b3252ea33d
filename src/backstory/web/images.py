"""Finds the images in an event's data, in the form of any provider. Pure.

An image is recognized by its first bytes and never by what the log calls it: only what a browser
draws without running anything comes out of here.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any, NamedTuple

MOST = 32  # of one event
# How the base64 of each format begins.
TYPES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}


class Image(NamedTuple):
    """The media type and the bytes of an image."""

    type: str
    content: bytes


def find_images(data: Any) -> list[Image]:
    """Return the images anywhere in an event's data, in order."""
    found: list[Image] = []
    for text in _find_texts(data):
        image = _decode_image(text)
        if image and len(found) < MOST:
            found.append(image)
    return found


def _find_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _find_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _find_texts(inner)


def _decode_image(text: str) -> Image | None:
    head, _, rest = text.partition(";base64,") if text.startswith("data:") else ("", "", text)
    type_ = next((type_ for start, type_ in TYPES.items() if rest.startswith(start)), None)
    if type_ is None or len(rest) < 32 or (head and not head.startswith("data:image/")):
        return None
    try:
        content = base64.b64decode(rest, validate=True)
    except (binascii.Error, ValueError):
        return None
    if type_ == "image/webp" and content[8:12] != b"WEBP":
        return None
    return Image(type_, content)
