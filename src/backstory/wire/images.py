"""Images between the formats: data URLs, media types, base64.

Pure: nothing is fetched. An image by URL stays a URL.
"""

import base64
import binascii

from backstory.wire.turns import Image

COMMON_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_BY_SUFFIX = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
}


def from_url(url: str) -> Image:
    """The image behind a URL, taken apart if the URL carries the data itself."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Image(head[len("data:") : -len(";base64")], data, None)
    return Image(None, None, url)


def to_url(image: Image) -> str:
    """A URL for an image, carrying the data where there is no other."""
    return image.url if image.url is not None else f"data:{image.media_type};base64,{image.data}"


def type_of(image: Image) -> str | None:
    """The media type, guessed from the URL's ending where nothing else says it."""
    if image.media_type or image.url is None:
        return image.media_type
    path = image.url.partition("?")[0].partition("#")[0]
    return _BY_SUFFIX.get(path.rpartition(".")[2].lower())


def is_sound(image: Image, types: frozenset[str], urls: bool) -> bool:
    """Whether a format that takes these media types, and URLs or not, can carry the image."""
    if image.url is not None:
        return urls and image.url.startswith(("https://", "http://"))
    return image.media_type in types and bool(image.data) and to_bytes(image.data) is not None


def to_bytes(data: str | None) -> bytes | None:
    """What base64 stands for; None where it stands for nothing."""
    try:
        return base64.b64decode(data or "", validate=True)
    except (binascii.Error, ValueError):
        return None


def to_base64(data: bytes) -> str:
    """Bytes as JSON can carry them."""
    return base64.b64encode(data).decode()
