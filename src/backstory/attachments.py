"""Images and files of a user message: converts paths, bytes and URLs to one form that all wire
formats understand. Files are read here; a URL stays a URL."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backstory.errors import Invalid
from backstory.log.checks import check_content, check_data
from backstory.wire.media import (
    IMAGES,
    OWN,
    PDF,
    encode_base64,
    is_text_type,
    media,
    type_of,
    type_of_suffix,
    write_own_block,
)
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


def add_attachments(
    content: str,
    images: Iterable[Attachment],
    files: Iterable[Attachment],
    data: dict[str, Any] | None,
) -> dict[str, Any] | None:
    """Return the data of a message with its images and files. Raises InvalidEvent."""
    check_content("user", content)
    if data is not None:
        check_data("user", data)
    blocks = [_build_image(image) for image in _check_list(images, "images")]
    blocks += [write_own_block(read_attachment(file)) for file in _check_list(files, "files")]
    if not blocks:
        return data
    if data and "native" in data:
        raise Invalid(
            "native data and attachments do not go together", remedy="put them into the native form"
        )
    if content.strip():
        blocks.insert(0, {"type": "text", "text": content})
    return {**(data or {}), "native": {"provider": OWN, "wire": blocks}}


def _check_list(attachments: Any, name: str) -> list[Attachment]:
    if isinstance(attachments, str | bytes | os.PathLike) or not isinstance(attachments, Iterable):
        raise Invalid(f"{name} must be a list, not {attachments!r:.60}", remedy=f"pass {name}=[…]")
    return list(attachments)


def _build_image(attachment: Attachment) -> dict[str, Any]:
    """Return the block of an image. Raises Invalid if the attachment is something else."""
    found = read_attachment(attachment)
    if found.kind != "image":
        shown = found.name or found.url or "these bytes"
        raise Invalid(
            f"{shown!r} is not an image ({found.type or 'unknown type'})",
            remedy="pass it in files=",
        )
    return write_own_block(found)


def read_attachment(attachment: Attachment) -> Media:
    """Return the content and type of a path, of bytes, or of a URL, which is not read."""
    if isinstance(attachment, str) and attachment.startswith(WEB):
        known = type_of(media(None, url=attachment))
        return media(known, url=attachment) if known else Media("image", None, url=attachment)
    if isinstance(attachment, bytes):
        return _read_bytes(attachment, None)
    if not isinstance(attachment, str | os.PathLike):
        raise Invalid(
            f"{attachment!r:.60} is not an attachment", remedy="pass a path, bytes or a URL"
        )
    path = Path(attachment)
    try:
        return _read_bytes(path.read_bytes(), path.name)
    except (OSError, ValueError) as error:  # a path may have a NUL or a lone surrogate
        raise Invalid(
            f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}"
        ) from error


def _read_bytes(data: bytes, name: str | None) -> Media:
    """Return bytes with their type, which the first bytes tell, or else the name of their file."""
    type_ = _find_type(data)
    if type_ is None and name is not None:
        type_ = type_of_suffix(name.rpartition(".")[2])
        if type_ in IMAGES:
            raise Invalid(
                f"{name!r} is not an image: nothing in it says so", remedy="check the file"
            )
    if type_ is None or is_text_type(type_):
        text = _decode_text(data)
        if text is not None:
            return media(type_ or "text/plain", text=text, name=name)
    if type_ is None:
        raise Invalid(
            f"cannot tell what is in {name or 'these bytes'!r}",
            remedy="pass a path with the usual ending of its type",
        )
    return media(type_, data=encode_base64(data), name=name)


def _find_type(data: bytes) -> str | None:
    """Return the type that the first bytes of a file tell."""
    if data.startswith(b"RIFF"):
        return IN_A_CONTAINER.get(data[8:12])
    for beginning, type_ in BEGINNINGS:
        if data.startswith(beginning):
            return type_
    return None


def _decode_text(data: bytes) -> str | None:
    """Return the bytes as text, or None if they are not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
