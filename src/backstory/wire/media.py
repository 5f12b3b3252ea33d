"""Images, documents, sounds and films between the formats: data URLs, media types, base64.

Pure: nothing is fetched. What is given by URL stays a URL.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from operator import is_

from backstory.wire.turns import Media, Other, Part, Result

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF = "application/pdf"

_BY_SUFFIX = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": PDF,
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "aac": "audio/aac",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mkv": "video/x-matroska",
    "mpeg": "video/mpeg",
    "mpg": "video/mpeg",
}
SUFFIXES = {type_: suffix for suffix, type_ in reversed(_BY_SUFFIX.items())} | {
    "audio/x-wav": "wav",
    "audio/mp3": "mp3",
    "text/x-markdown": "md",
}
AN = {"image": "an image", "audio": "a sound", "video": "a film", "document": "a document"}
_USUAL = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_TEXT_TYPES = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/x-yaml"}
)
_LEGAL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_STANDARD = bytes.maketrans(b"-_", b"+/")
_CHUNK = 1 << 16  # characters: small enough to stay in the processor's cache
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.")


def media(type_: str | None, **fields: str | None) -> Media:
    """Media of a type; what is not an image, audio or video is a document."""
    type_ = type_ and usual_type(type_)
    family = (type_ or "").partition("/")[0]
    return Media(family if family in ("image", "audio", "video") else "document", type_, **fields)


def usual_type(type_: str) -> str:
    """A media type under its registered name: browsers and tools say "image/jpg", which services refuse
    (hermes-agent#55432), and "image/PNG"."""
    plain = type_.lower()
    return _USUAL.get(plain, plain if plain in IMAGES else type_)


def type_of_suffix(suffix: str) -> str | None:
    """The media type of a file name's suffix."""
    return _BY_SUFFIX.get(suffix.lower())


def from_url(url: str, kind: str, **fields: str | None) -> Media:
    """The media at a URL; a data URL is taken apart."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        type_ = head[len("data:") : -len(";base64")].partition(";")[0]
        return Media(kind, usual_type(type_), data, **fields)
    return Media(kind, None, None, url, **fields)


def data_url(found: Media) -> str:
    """A data URL."""
    return f"data:{found.type};base64,{standard(found)}"


def web_url(found: Media) -> str | None:
    """The URL, if it is one that a service can fetch."""
    url = found.url
    return url if url is not None and url.startswith(("https://", "http://")) else None


def type_of(found: Media) -> str | None:
    """The media type, guessed from the suffix of the URL if it is not given."""
    if found.type or found.url is None:
        return found.type
    path = found.url.partition("?")[0].partition("#")[0]
    return _BY_SUFFIX.get(path.rpartition(".")[2].lower())


def file_name(found: Media) -> str:
    """A name for a file that needs one."""
    return found.name or f"{found.kind}.{SUFFIXES.get(found.type or '', 'bin')}"


def standard(found: Media) -> str:
    """The data in the standard alphabet, without line breaks. Google's services write and read the
    URL-safe one too."""
    if found.data is None:
        return to_base64((found.text or "").encode())
    return _standard("".join(found.data.split()))


def _standard(data: str) -> str:
    if "-" not in data and "_" not in data:
        return data
    return data.encode(errors="replace").translate(_STANDARD).decode()


def is_text_type(type_: str | None) -> bool:
    """Whether media of this type can be read as text."""
    return type_ is not None and (type_.startswith("text/") or type_ in _TEXT_TYPES)


def words_of(found: Media) -> str | None:
    """The text of a text document; None for anything else."""
    if found.text is not None:
        return found.text
    if found.kind != "document" or found.data is None or not is_text_type(found.type):
        return None
    try:
        return (to_bytes(found.data) or b"").decode()
    except UnicodeDecodeError:
        return None


def as_words(found: Media) -> str | None:
    """A text document as marked text, for formats without documents."""
    words = words_of(found)
    if words is None:
        return None
    title = f' name="{found.name}"' if found.name else ""
    return f"<document{title}>\n{words}\n</document>"


def is_base64(data: str) -> bool:
    """Whether a text is whole base64, in either alphabet, with or without line breaks.

    Deleting the legal characters is several times quicker than decoding, and images are large.
    """
    chunks = (data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))
    rest = b"".join(chunk.encode(errors="replace").translate(None, _LEGAL) for chunk in chunks)
    padding = rest.translate(None, b" \t\r\n")
    size = len(data) - len(rest) + len(padding)
    if padding not in (b"", b"=", b"==") or not data.rstrip().endswith(padding.decode()[-1:]):
        return False
    return size > 0 and size % 4 == 0


def padded(data: str) -> str:
    """Base64 with its missing padding, if only that is missing; otherwise unchanged."""
    if "=" in data or (len(data) % 4 == 0 and "\n" not in data):
        return data
    missing = -len("".join(data.split())) % 4
    whole = data + "=" * missing
    return whole if missing and is_base64(whole) else data


def padded_part(part: Part) -> Part:
    """A part with its base64 padded, also in a result; the same object if nothing is missing."""
    match part:
        case Media(data=str(data)) if (whole := padded(data)) is not data:
            return part._replace(data=whole)
        case Result(content=tuple(content)):
            found = tuple(map(padded_part, content))
            return part if all(map(is_, found, content)) else part._replace(content=found)
    return part


def unshown(parts: Iterable[Part]) -> str:
    """The text to send in place of media that a format does not support; "" if there are none."""
    kinds = dict.fromkeys(kind for part in parts if (kind := _kind(part)))
    return (
        f"({' and '.join(AN[kind] for kind in kinds)} that cannot be shown here)" if kinds else ""
    )


def _kind(part: Part) -> str:
    match part:
        case Media(kind=kind) | Other(media=kind):
            return kind
    return ""


def is_sound(found: Media) -> bool:
    """Whether the media is complete: valid base64, or an address."""
    if found.data is not None:
        return is_base64(found.data)
    return found.url is None or _ADDRESS.match(found.url) is not None


def to_bytes(data: str | None) -> bytes | None:
    """The bytes of base64; None if it is not valid."""
    try:
        return binascii.a2b_base64(_standard(padded(data or "")))
    except (binascii.Error, ValueError):
        return None


def to_base64(data: bytes) -> str:
    """Bytes as base64, for JSON."""
    return base64.b64encode(data).decode()


def plain_name(name: str | None) -> str:
    """A document's name as Bedrock takes it: letters, digits, hyphens, brackets and single spaces."""
    stem = re.sub(r"\.[A-Za-z0-9]{1,5}$", "", name or "")
    return re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", stem).strip()[:100] or "document"
