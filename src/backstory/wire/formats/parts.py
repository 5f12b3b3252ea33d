"""The parts of a message of Chat Completions, as OpenAI has them and the servers that speak its language."""

from typing import Any

from backstory.wire.formats.blocks import unread
from backstory.wire.formats.fields import field, objects
from backstory.wire.media import PDF, from_url, is_base64, type_of_suffix, web_url
from backstory.wire.turns import Media, Other, Part, Text

# Parts that only other formats have: here they are a mistake, and refused.
FOREIGN = frozenset(
    {"input_text", "output_text", "input_image", "input_file", "tool_use", "tool_result"}
)
# What is read of a part of text, and of a link.
TEXT = frozenset({"text", "refusal"})
NAMED = ("file_name", "document_name")  # Perplexity's word for a file's name, and Mistral's


def read_content(content: Any, path: str) -> list[Part]:
    """The parts of a content: text, or a list of parts."""
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    return [found for where, part in objects(content, path) for found in _read_part(part, where)]


def _read_part(part: dict[str, Any], path: str) -> list[Part]:
    match field(part, "type", str, path):
        case "text" | "refusal" as type_:
            return [Text(field(part, type_, str, path)), *unread(part, TEXT)]
        case "image_url" | "video_url" | "file_url" | "document_url" as type_:
            return [_read_link(type_, part), *unread(part, frozenset((*NAMED, type_)))]
        case "file":
            return [_read_file(part.get("file")), *unread(part, frozenset({"file"}))]
        case "input_audio":
            return [read_sound(part.get("input_audio")), *unread(part, frozenset({"input_audio"}))]
        case other:
            return [Other(other, complete=other not in FOREIGN)]


def _read_link(type_: str, part: dict[str, Any]) -> Part:
    """A link to media: an object with its URL, or, with Mistral, the URL alone."""
    kind = {"image_url": "image", "video_url": "video"}.get(type_, "document")
    name = next((part[key] for key in NAMED if isinstance(part.get(key), str)), None)
    match link := part.get(type_):
        case str(url) | {"url": str(url)}:
            detail = detail_of(link) if isinstance(link, dict) else None
            found = from_url(url, kind, detail=detail, name=name)
            if found.url is None or not is_base64(url):
                return found
            # Perplexity takes a file's bare base64 for its URL, and Zhipu an image's.
            return found._replace(
                type=type_of_suffix((name or "").rpartition(".")[2]), data=url, url=None
            )
        case _:
            return Other(type_, complete=False, media=kind)


def detail_of(image: dict[str, Any]) -> str | None:
    """How closely to look at an image, where that was said."""
    detail = image.get("detail")
    return detail if isinstance(detail, str) and detail != "auto" else None


def _read_file(file: Any) -> Part:
    match file:
        case {"file_data": str(data)}:
            name = file.get("filename")
            found = from_url(data, "document", name=name if isinstance(name, str) else None)
            return found if found.data is not None else bare(found, data)
        case {"file_id": str()}:
            return Other("a file in the service's store", media="document")
        case dict():
            return Other("file", media="document")
        case _:
            return Other("file", complete=False, media="document")


def bare(found: Media, data: str) -> Media:
    """A file's data that came without its type: the name says it."""
    type_ = type_of_suffix((found.name or "").rpartition(".")[2]) or PDF
    # OpenRouter takes an address here ("PDF inputs" in its guide).
    return (
        found._replace(type=type_)
        if web_url(found)
        else found._replace(type=type_, data=data, url=None)
    )


def read_sound(sound: Any) -> Part:
    """A sound: its data or its address."""
    match sound:
        case str(data):  # Mistral takes the data alone, or its address, and finds out what it is
            found = from_url(data, "audio")
            return found if found.data or web_url(found) else found._replace(data=data, url=None)
        case {"data": str(data), "format": str(format)}:
            # Alibaba's servers take a URL here, too, with data in it or not ("Qwen-Omni" in its guide).
            found = from_url(data, "audio")._replace(
                type=type_of_suffix(format) or f"audio/{format}"
            )
            return found if found.data or web_url(found) else found._replace(data=data, url=None)
        case _:
            return Other("input_audio", complete=False, media="audio")
