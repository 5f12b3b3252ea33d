"""Our own form of what a person says with images and files, which every format is translated from.

[{"type": "text", "text": "…"}, {"type": "image", "media_type": "image/png", "data": "…base64…"},
 {"type": "document", "media_type": "text/markdown", "text": "…", "name": "notes.md"},
 {"type": "image", "url": "https://…"}]
"""

from collections.abc import Iterator
from typing import Any

from backstory.wire.formats.fields import expect, objects, one_of, text_or_none
from backstory.wire.turns import Media, Part, Text

PROVIDER = "backstory"
FIELDS = ("data", "url", "text", "name")


def read(_role: str, form: Any, path: str) -> list[Part]:
    """The parts of a form; raises Invalid for what is not one."""
    return list(_read(form, path))


def _read(form: Any, path: str) -> Iterator[Part]:
    for where, block in objects(form, path):
        kind = one_of(
            block.get("type"), ("text", "image", "document", "audio", "video"), f"{where}.type"
        )
        if kind == "text":
            yield Text(expect(block.get("text"), str, f"{where}.text"))
        else:
            type_ = text_or_none(block.get("media_type"), f"{where}.media_type")
            fields = {name: text_or_none(block.get(name), f"{where}.{name}") for name in FIELDS}
            yield Media(kind, type_, **fields)
