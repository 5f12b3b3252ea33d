"""Images and files of a user message: turns paths, bytes and URLs into one form that all wire formats
understand. Files are read here; a URL stays a URL."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backstory.errors import Invalid
from backstory.wire.holes import holed
from backstory.wire.media import IMAGES, PDF, media, to_base64, type_of, type_of_suffix
from backstory.wire.media import is_text_type as is_text
from backstory.wire.own import PROVIDER
from backstory.wire.turns import Media

Attachment = str | bytes | os.PathLike[str]

WEB = ("https://", "http://")
# The first bytes of some file types.
BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", PDF),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
IN_A_CONTAINER = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}  # after RIFF and a size


def with_attachments(
    content: str,
    images: Iterable[Attachment],
    files: Iterable[Attachment],
    data: dict[str, Any] | None,
) -> dict[str, Any] | None:
    """The data of a message with images and files."""
    blocks = [_block(one, images=True) for one in _given(images, "images")]
    blocks += [_block(one, images=False) for one in _given(files, "files")]
    if not blocks:
        return data
    if data and "native" in data:
        raise Invalid(
            "native data and attachments do not go together", remedy="put them into the native form"
        )
    said = [{"type": "text", "text": content}] if content.strip() else []
    form = holed([*said, *blocks], content=content)
    return {**(data or {}), "native": {"provider": PROVIDER, "wire": form}}


def _given(attachments: Any, name: str) -> list[Attachment]:
    if isinstance(attachments, str | bytes | os.PathLike) or not isinstance(attachments, Iterable):
        raise Invalid(f"{name} must be a list, not {attachments!r:.60}", remedy=f"pass {name}=[…]")
    return list(attachments)


def _block(attachment: Attachment, *, images: bool) -> dict[str, Any]:
    found = _media(attachment)
    if images and found.kind != "image":
        shown = found.name or found.url or "these bytes"
        raise Invalid(
            f"{shown!r} is not an image ({found.type or 'unknown type'})",
            remedy="pass it in files=",
        )
    fields = {"media_type": found.type, "data": found.data, "url": found.url, "text": found.text}
    fields["name"] = found.name
    return {
        "type": found.kind,
        **{name: value for name, value in fields.items() if value is not None},
    }


def _media(attachment: Attachment) -> Media:
    if isinstance(attachment, str) and attachment.startswith(WEB):
        found = media(None, url=attachment)
        known = type_of(found)
        return media(known, url=attachment) if known else Media("image", None, url=attachment)
    if isinstance(attachment, bytes):
        return _held(attachment, None)
    if not isinstance(attachment, str | os.PathLike):
        raise Invalid(
            f"{attachment!r:.60} is not an attachment", remedy="pass a path, bytes or a URL"
        )
    path = Path(attachment)
    try:
        return _held(path.read_bytes(), path.name)
    except (OSError, ValueError) as error:  # a path may have a NUL, or half of a surrogate pair
        raise Invalid(
            f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}"
        ) from error


def _held(data: bytes, name: str | None) -> Media:
    """The type of some bytes, by their first bytes, or else by the name of their file."""
    known = _type_of_bytes(data)
    type_ = known or (type_of_suffix(name.rpartition(".")[2]) if name else None)
    if known is None and type_ in IMAGES:
        raise Invalid(f"{name!r} is not an image: nothing in it says so", remedy="check the file")
    words = _words(data) if type_ is None or is_text(type_) else None
    if words is not None:
        return media(type_ or "text/plain", text=words, name=name)
    if type_ is None:
        raise Invalid(
            f"cannot tell what is in {name or 'these bytes'!r}",
            remedy="pass a path with the usual ending of its type",
        )
    return media(type_, data=to_base64(data), name=name)


def _type_of_bytes(data: bytes) -> str | None:
    if data.startswith(b"RIFF"):
        return IN_A_CONTAINER.get(data[8:12])
    return next((type_ for beginning, type_ in BEGINNINGS if data.startswith(beginning)), None)


def _words(data: bytes) -> str | None:
    """The bytes as text, if they are text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
