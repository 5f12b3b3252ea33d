"""Bedrock's media: blobs that are bytes for the SDK and base64 in the log, and what the service takes."""

from typing import Any

from backstory.wire.formats.base import Form
from backstory.wire.media import (
    IMAGES,
    SUFFIXES,
    decode_base64,
    encode_base64,
    plain_name,
    standard,
    type_of_suffix,
    words_of,
)
from backstory.wire.turns import Media, Other, Part

BLOBS = ("bytes", "redactedContent")
PDF_START = "JVBERi"  # %PDF, in base64
DOCUMENTS = (
    "input",
    "json",
)  # these hold what a tool was given and gave: a "bytes" in there is a word
# What the service takes, by its own name for it: botocore's model of Converse.
FORMATS = {
    "image": frozenset({"png", "jpeg", "gif", "webp"}),
    "document": frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"}),
    "video": frozenset({"mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"}),
    "audio": frozenset(
        {"mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a"}
    )
    | {"mpeg", "mpga", "pcm", "webm"},
}


def write_media(found: Media, in_result: bool) -> dict[str, Any] | None:
    """A block of media by its data: the service fetches nothing. A tool's result holds no sound."""
    format = _format(found)
    if (
        format is None
        or (found.data is None and found.text is None)
        or (in_result and found.kind == "audio")
    ):
        return None
    block: dict[str, Any] = {"format": format, "source": {"bytes": standard(found)}}
    if found.kind == "document":
        block["name"] = plain_name(found.name)
    return {found.kind: block}


def _format(found: Media) -> str | None:
    """The service's word for a media type; whatever is text is at least plain text."""
    if found.kind == "image":
        return (found.type or "").removeprefix("image/") if found.type in IMAGES else None
    suffix = SUFFIXES.get(found.type or "", "")
    if suffix in FORMATS[found.kind]:
        return suffix
    return "txt" if words_of(found) is not None else None


def read_media(kind: str, value: Any) -> Part:
    """A block of media: its data, its words, or something in a store."""
    match value:
        case {**given} if not _has_format(kind, given.get("format")):
            return Other(kind, complete=False, media=kind)
        case {"format": str(format), "source": {"bytes": str() | bytes() | bytearray() as data}}:
            return _blob(kind, format, data, value.get("name"))
        case {"source": {"bytes": str() | bytes() | bytearray() as data}}:
            found = _blob(kind, "pdf", data, value.get("name"))
            return found if (found.data or "").startswith(PDF_START) else found._replace(type=None)
        case {"source": {"text": str(text)}}:
            return Media(kind, "text/plain", text=text, name=value.get("name"))
        case {"source": {"content": list(pieces)}}:
            texts = (piece.get("text") for piece in pieces if isinstance(piece, dict))
            words = "\n\n".join(text for text in texts if isinstance(text, str))
            return Media(kind, "text/plain", text=words, name=value.get("name"))
        case {"source": dict(source)} if source and "bytes" not in source:
            (by, place), *_ = source.items()
            return Other(f"{kind} by {by}", complete=isinstance(place, dict), media=kind)
        case _:
            return Other(kind, complete=False, media=kind)


def _has_format(kind: str, format: Any) -> bool:
    """Whether a format is one that botocore lists. A document may come without: its DocumentBlock."""
    if format is None:
        return kind == "document"
    return isinstance(format, str) and format.rpartition("/")[2] in FORMATS[kind]


def _blob(kind: str, format: str, data: Any, name: Any) -> Media:
    bare = format.rpartition("/")[2]  # "video/mp4" was accepted, too
    type_ = type_of_suffix(bare) or f"{kind}/{bare}"
    if not type_.startswith(f"{kind}/") and kind != "document":
        type_ = f"{kind}/{bare}"
    text = data if isinstance(data, str) else encode_base64(bytes(data))
    return Media(kind, type_, text, name=name if isinstance(name, str) else None)


def pack(form: Form) -> Form:
    """The form with its blobs as base64, for the log."""
    return _with_blobs(form, (bytes, bytearray), lambda data: encode_base64(bytes(data)))


def unpack(form: Form) -> Form:
    """The form with its blobs as bytes, for the SDK."""
    return _with_blobs(form, (str,), lambda text: decode_base64(text) or b"")


def _with_blobs(form: Any, types: tuple[type, ...], change: Any) -> Any:
    if isinstance(form, list):
        return [_with_blobs(item, types, change) for item in form]
    if not isinstance(form, dict):
        return form
    return {key: _with_blob(key, value, types, change) for key, value in form.items()}


def _with_blob(key: str, value: Any, types: tuple[type, ...], change: Any) -> Any:
    if key in DOCUMENTS:
        return value
    return (
        change(value)
        if key in BLOBS and isinstance(value, types)
        else _with_blobs(value, types, change)
    )
