"""Finds the images in an event's data, in the form of any provider. Pure.

An image is recognized by its first bytes and never by what the log calls it: only what a browser
draws without running anything comes out of here.
"""

import base64
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

MOST = 32  # of one event
# How the base64 of each format begins.
TYPES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
STARTS = "|".join(TYPES)
IMAGE = re.compile(rf"(?:data:image/[^,]*;base64,)?(?P<data>(?P<start>{STARTS}).{{28,}})", re.S)


class Image(NamedTuple):
    """The media type and the bytes of an image."""

    type: str
    content: bytes


def find_images(data: Any) -> list[Image]:
    """Return the images anywhere in an event's data, in order."""
    images = map(_decode_image, _find_texts(data))
    return list(islice(filter(None, images), MOST))


def _find_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _find_texts(list(value.values()))
    elif isinstance(value, list):
        for inner in value:
            yield from _find_texts(inner)


def _decode_image(text: str) -> Image | None:
    match = IMAGE.fullmatch(text)
    if match is None:
        return None
    try:
        content = base64.b64decode(match["data"], validate=True)
    except ValueError:
        return None
    type_ = TYPES[match["start"]]
    if type_ == "image/webp" and content[8:12] != b"WEBP":
        return None
    return Image(type_, content)
