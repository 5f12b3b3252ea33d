"""The formats by name. Each is a class in a module of its own, which reads and writes one provider's API."""

from collections.abc import Mapping

from backstory.errors import Invalid
from backstory.wire.formats.anthropic import ANTHROPIC
from backstory.wire.formats.base import Format
from backstory.wire.formats.bedrock import BEDROCK
from backstory.wire.formats.gemini import GEMINI
from backstory.wire.formats.openai import OPENAI
from backstory.wire.formats.responses import RESPONSES

FORMATS: Mapping[str, Format] = {
    format.name: format for format in (OPENAI, RESPONSES, ANTHROPIC, GEMINI, BEDROCK)
}


def get_format(name: str) -> Format:
    """Return the format of this name. Raises Invalid if there is none."""
    try:
        return FORMATS[name]
    except (KeyError, TypeError):
        raise Invalid(f"no wire format {name!r}: use one of {', '.join(FORMATS)}") from None
