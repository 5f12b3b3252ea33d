"""Images, documents, sounds and films: media types, data URLs, base64, and our own form of them.

Pure: nothing is fetched. Media given by a URL stay a URL. Our own form of a message with
attachments, from which every format is translated, is a list of blocks:

    [{"type": "text", "text": "…"}, {"type": "image", "media_type": "image/png", "data": "…"},
     {"type": "document", "media_type": "text/markdown", "text": "…", "name": "notes.md"},
     {"type": "image", "url": "https://…"}]
"""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any

from backstory.wire.fields import field, one_in, read_each, text_or_none
from backstory.wire.turns import Media, Other, Part, Result, Text

OWN = "backstory"  # the provider of our own form
OWN_FIELDS = ("media_type", "data", "url", "text", "name")
KINDS = ("image", "document", "audio", "video")
_OWN_KEYS = frozenset({"type", *OWN_FIELDS})
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
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_CHUNK = 1 << 16  # characters: small enough to stay in the processor's cache
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.")


# --- our own form ---


def read_own_form(form: Any) -> list[Part]:
    """Return the parts of our own form. Raises Invalid if `form` is not one."""
    return read_each(form, _read_own_block)


def _read_own_block(block: dict[str, Any]) -> list[Part]:
    kind = one_in(block, "type", ("text", *KINDS))
    type_, data, url, text, name = [text_or_none(block, key) for key in OWN_FIELDS]
    part: Part = Media(kind, type_, data, url, text, name)
    if kind == "text":
        part = Text(field(block, "text", str))
    others = [Other(key) for key, value in block.items() if value and key not in _OWN_KEYS]
    return [part, *others]


def write_own_block(part: Text | Media) -> dict[str, Any]:
    """Return text or media as a block of our own form."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    block = {
        "type": part.kind,
        "media_type": part.type,
        "data": part.data,
        "url": part.url,
        "text": part.text,
        "name": part.name,
    }
    return {name: value for name, value in block.items() if value is not None}


# --- media types and addresses ---


def media(type_: str | None, **fields: str | None) -> Media:
    """Return media of a type. A type that is no image, audio or video is a document."""
    if type_:
        type_ = usual_type(type_)
    family = (type_ or "").partition("/")[0]
    kind = family if family in KINDS else "document"
    return Media(kind, type_, **fields)


def usual_type(type_: str) -> str:
    """Return the registered name of a media type. Browsers and tools write "image/jpg", which
    services refuse (hermes-agent#55432), and "image/PNG"."""
    plain = type_.lower()
    if plain in IMAGES:
        return plain
    return _USUAL.get(plain, type_)


def type_of_suffix(suffix: str) -> str | None:
    """Return the media type of a file name's suffix, or None if it is unknown."""
    return _BY_SUFFIX.get(suffix.lower())


def from_url(url: str, kind: str, **fields: str | None) -> Media:
    """Return the media at a URL. The data of a data URL become the data of the media."""
    head, comma, data = url.partition(",")
    is_data = head.startswith("data:") and head.endswith(";base64")
    if not comma or not is_data:
        return Media(kind, None, None, url, **fields)
    types = head.removeprefix("data:").removesuffix(";base64")
    type_ = types.partition(";")[0]
    return Media(kind, usual_type(type_), data, **fields)


def data_url(found: Media) -> str:
    """Return the data of `found` as a data URL."""
    return f"data:{found.type};base64,{write_standard_base64(found)}"


def web_url(found: Media) -> str | None:
    """Return the URL if a service can fetch it, else None."""
    url = found.url
    if url is not None and url.startswith(("https://", "http://")):
        return url
    return None


def type_of(found: Media) -> str | None:
    """Return the media type. If it is not given, guess it from the suffix of the URL."""
    if found.type or found.url is None:
        return found.type
    path = found.url.partition("?")[0]
    path = path.partition("#")[0]
    suffix = path.rpartition(".")[2]
    return type_of_suffix(suffix)


def file_name(found: Media) -> str:
    """Return the name of `found`, or one made of its kind."""
    return found.name or f"{found.kind}.{SUFFIXES.get(found.type or '', 'bin')}"


def write_standard_base64(found: Media) -> str:
    """Return the data in the standard alphabet of base64, without line breaks. Google's services
    write and read the URL-safe alphabet too."""
    if found.data is None:
        text = found.text or ""
        return encode_base64(text.encode())
    data = "".join(found.data.split())
    return _to_standard(data)


def _to_standard(data: str) -> str:
    if "-" not in data and "_" not in data:
        return data
    return data.encode(errors="replace").translate(_TO_STANDARD).decode()


def is_text_type(type_: str | None) -> bool:
    """Return True if media of this type can be read as text."""
    return type_ is not None and (type_.startswith("text/") or type_ in _TEXT_TYPES)


def words_of(found: Media) -> str | None:
    """Return the text of a text document, and None for other media."""
    if found.text is not None:
        return found.text
    if found.kind != "document" or found.data is None or not is_text_type(found.type):
        return None
    try:
        return (decode_base64(found.data) or b"").decode()
    except UnicodeDecodeError:
        return None


def as_words(found: Media) -> str | None:
    """Return a text document as marked text, for formats without documents, and None for other
    media."""
    words = words_of(found)
    if words is None:
        return None
    title = f' name="{found.name}"' if found.name else ""
    return f"<document{title}>\n{words}\n</document>"


def is_base64(data: str) -> bool:
    """Return True if `data` is complete base64, in either alphabet, with or without line breaks.

    Deleting the legal characters is several times quicker than decoding, and images are large.
    """
    rest = b""
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK]
        rest += chunk.encode(errors="replace").translate(None, _LEGAL)
    padding = rest.translate(None, b" \t\r\n")
    if padding not in (b"", b"=", b"=="):
        return False
    if padding and not data.rstrip().endswith("="):
        return False
    size = len(data) - len(rest) + len(padding)
    return size > 0 and size % 4 == 0


def pad_base64(data: str) -> str:
    """Return base64 with its padding if only that is missing, otherwise unchanged."""
    if "=" in data or (len(data) % 4 == 0 and "\n" not in data):
        return data
    missing = -len("".join(data.split())) % 4
    whole = data + "=" * missing
    if missing and is_base64(whole):
        return whole
    return data


def pad_part(part: Part) -> Part:
    """Pad the base64 of a part, also in a result. Return the same object if nothing is missing."""
    match part:
        case Media(data=str(data)):
            whole = pad_base64(data)
            return part if whole is data else part._replace(data=whole)
        case Result(content=tuple(content)):
            found = tuple(map(pad_part, content))
            return part if found == content else part._replace(content=found)
    return part


def describe_lost_media(parts: Iterable[Part]) -> str:
    """Return the text to send in place of media that a format does not support, or "" without
    any."""
    names: list[str] = []
    for part in parts:
        kind = _kind(part)
        if kind and AN[kind] not in names:
            names.append(AN[kind])
    if not names:
        return ""
    return f"({' and '.join(names)} that cannot be shown here)"


def _kind(part: Part) -> str:
    match part:
        case Media(kind=kind) | Other(media=kind):
            return kind
    return ""


def is_sound(found: Media) -> bool:
    """Return True if the media are complete: valid base64, or an address."""
    if found.data is not None:
        return is_base64(found.data)
    if found.url is None:
        return True
    return _ADDRESS.match(found.url) is not None


def decode_base64(data: str | None) -> bytes | None:
    """Return the bytes of base64, or None if it is not valid."""
    try:
        return binascii.a2b_base64(_to_standard(pad_base64(data or "")))
    except (binascii.Error, ValueError):
        return None


def encode_base64(data: bytes) -> str:
    """Return bytes as base64, for JSON."""
    return base64.b64encode(data).decode()


def plain_name(name: str | None) -> str:
    """Return a document's name as Bedrock takes it: letters, digits, hyphens, brackets, single
    spaces."""
    stem = re.sub(r"\.[A-Za-z0-9]{1,5}$", "", name or "")
    return re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", stem).strip()[:100] or "document"
