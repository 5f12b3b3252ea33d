"""Changes to the contents of events before they are written: secrets and pictures. Pure."""

import re
from collections import Counter
from hashlib import sha256
from typing import Any

from backstory.transcripts.content import as_object

SHAPES = {
    "anthropic": r"sk-ant-[A-Za-z0-9_-]{20,}",
    "openai": r"sk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,}",
    "github": r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "gitlab": r"glpat-[A-Za-z0-9_-]{20,}",
    "aws": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "google": r"AIza[A-Za-z0-9_-]{35}",
    "slack": r"xox[abposr]-[A-Za-z0-9-]{10,}",
    "stripe": r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "huggingface": r"hf_[A-Za-z0-9]{30,}",
    "npm": r"npm_[A-Za-z0-9]{36}",
    "jwt": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
}
SECRET = re.compile("|".join(f"({shape})" for shape in SHAPES.values()), re.DOTALL)
SHAPE_NAMES = tuple(SHAPES)
PICTURE_TYPES = ("image", "input_image", "image_url")
LEFT_OUT = "(image left out)"


class SecretMask:
    """Replaces well-known shapes of tokens by a marked digest, and counts them by shape.

    The same secret gets the same digest everywhere.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def mask_text(self, text: str) -> str:
        """Return a text without its secrets."""
        return SECRET.sub(self._replace, text)

    def _replace(self, match: "re.Match[str]") -> str:
        name = SHAPE_NAMES[(match.lastindex or 1) - 1]
        self.counts[name] += 1
        return f"[{name} secret {sha256(match[0].encode()).hexdigest()[:12]}]"

    def mask_value(self, value: Any) -> Any:
        """Return a JSON value without the secrets in its texts."""
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, dict):
            return {key: self.mask_value(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.mask_value(inner) for inner in value]
        return value


def drop_pictures(value: Any) -> Any:
    """Return a JSON value in which the blocks that are pictures are texts that say so."""
    if isinstance(value, list):
        return [drop_pictures(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in PICTURE_TYPES:
        kind = "input_text" if value["type"] == "input_image" else "text"
        return {"type": kind, "text": LEFT_OUT}
    mime = as_object(value.get("inlineData")).get("mimeType")
    if isinstance(mime, str) and mime.startswith("image/"):
        return {"text": LEFT_OUT}
    return {key: drop_pictures(inner) for key, inner in value.items()}


class ContentFilter:
    """The changes that a user wants: no secrets, no pictures."""

    def __init__(self, mask: SecretMask | None = None, *, keeps_images: bool = True) -> None:
        self.mask = mask
        self._keeps_images = keeps_images

    def copy_without_counts(self) -> "ContentFilter":
        """Return a filter that does the same and counts for itself."""
        mask = None if self.mask is None else SecretMask()
        return ContentFilter(mask, keeps_images=self._keeps_images)

    def filter_text(self, text: str) -> str:
        """Return a text with the changes."""
        return text if self.mask is None else self.mask.mask_text(text)

    def filter_value(self, value: Any) -> Any:
        """Return a JSON value with the changes."""
        if not self._keeps_images:
            value = drop_pictures(value)
        return value if self.mask is None else self.mask.mask_value(value)
