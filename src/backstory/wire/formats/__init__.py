"""The formats by name. Each is a class in a module of its own, which reads and writes one
provider's API."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

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


def check_parameters(names: Iterable[str]) -> None:
    """Raise Invalid for a parameter that no format knows. The error names the closest one."""
    known = {*FORMATS, "tool_choice"}
    for format in FORMATS.values():
        known.update(format.parameters, format.own_parameters)
    for name in names:
        if name in known:
            continue
        closest = get_close_matches(name, sorted(known), n=1)
        problem = f"there is no parameter {name!r}"
        if closest:
            problem += f": do you mean {closest[0]!r}?"
        remedy = f'pass a field that only your server knows as {{"openai": {{{name!r}: …}}}}'
        raise Invalid(problem, remedy=remedy)
