"""Secrets: well-known shapes of tokens, replaced by a marked digest before anything is written. Pure."""

import re
from collections import Counter
from hashlib import sha256
from typing import Any

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
_ANY = re.compile("|".join(f"({shape})" for shape in SHAPES.values()), re.DOTALL)
_NAMES = tuple(SHAPES)


class Mask:
    """Replaces secrets, and counts them by shape. The same secret gets the same digest everywhere."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """A text without its secrets."""
        return _ANY.sub(self._replaced, text)

    def rest(self, text: str, beginning: str) -> str | None:
        """What follows in a text behind its beginning, which is given without its secrets."""
        length = len(beginning)  # of the beginning as it was, once all secrets in it are known
        for match in _ANY.finditer(text):
            if match.start() >= length:
                break
            length += len(match[0]) - len(self._replaced(match))
        return text[length:] if self.text(text[:length]) == beginning else None

    def _replaced(self, match: "re.Match[str]") -> str:
        name = _NAMES[(match.lastindex or 1) - 1]
        self.found[name] += 1
        return f"[{name} secret {sha256(match[0].encode()).hexdigest()[:12]}]"

    def value(self, value: Any) -> Any:
        """A JSON value without the secrets in its texts."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {key: self.value(item) for key, item in value.items()}
            case list():
                return [self.value(item) for item in value]
        return value
