"""Pictures in what a provider was given or gave: left out where nobody wants to keep them. Pure."""

from typing import Any

from backstory.transcripts.words import Words

LEFT_OUT = "(image left out)"
_KINDS = Words({"image", "input_image", "image_url"})


def without_pictures(value: Any) -> Any:
    """A JSON value in which blocks that are pictures are texts that say so."""
    match value:
        case {"type": str(kind)} if kind in _KINDS:
            return {"type": "input_text" if kind == "input_image" else "text", "text": LEFT_OUT}
        case {"inlineData": {"mimeType": str(type_)}} if type_.startswith("image/"):
            return {"text": LEFT_OUT}
        case dict():
            return {key: without_pictures(item) for key, item in value.items()}
        case list():
            return [without_pictures(item) for item in value]
    return value
