"""What a dump is for: the format and the model, and what the caller said about them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from backstory.wire.formats.base import Format
from backstory.wire.models import is_same_model
from backstory.wire.origin import Native
from backstory.wire.rows import Report


class Target(NamedTuple):
    """What a dump is for."""

    format: Format
    formats: Mapping[str, Format]
    report: Report
    model: str | None = None
    stored: bool = False  # does the service keep what it was sent?
    placeholders: bool = False  # does a text stand in place of media that cannot be sent?
    packed: bool = False  # are blobs wanted as base64?
    any_model: bool = False  # is it a file, which keeps what each of a provider's models said?

    def continues(self, after: Mapping[str, Any]) -> bool:
        """Whether the service's store has what a loaded request continues. A request with `store: false` says
        so itself."""
        return self.format.name == "openai-responses" and (
            self.stored or after.get("store") is False
        )

    def is_home_of(self, native: Native) -> bool:
        """Whether native content came from this provider and model."""
        if native.provider != self.format.name:
            return False
        return self.any_model or is_same_model(native.model, self.model)
