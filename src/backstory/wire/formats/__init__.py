"""The formats by name. Each is a class in a module of its own, which reads and writes one
provider's API."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from backstory.errors import Invalid
from backstory.wire.formats.anthropic import ANTHROPIC
from backstory.wire.formats.base import Format, drop_absent, find_expected_value
from backstory.wire.formats.bedrock import BEDROCK
from backstory.wire.formats.gemini import GEMINI
from backstory.wire.formats.openai import OPENAI
from backstory.wire.formats.responses import RESPONSES
from backstory.wire.media import OWN, read_own_form
from backstory.wire.turns import Form, Part

FORMATS_BY_NAME: Mapping[str, Format] = {
    format.name: format for format in (OPENAI, RESPONSES, ANTHROPIC, GEMINI, BEDROCK)
}


def get_format(name: str) -> Format:
    """Return the format of this name. Raises Invalid if there is none."""
    try:
        return FORMATS_BY_NAME[name]
    except (KeyError, TypeError):
        raise Invalid(f"no wire format {name!r}: use one of {', '.join(FORMATS_BY_NAME)}") from None


def read_native_form(provider: str, role: str, form: Form) -> list[Part] | None:
    """Return the parts of a provider's form, or of our own; None if the provider is unknown."""
    if provider == OWN:
        return read_own_form(form)
    format = FORMATS_BY_NAME.get(provider)
    return None if format is None else format.read_form(role, form)


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise Invalid for a parameter that no format knows, and for a value that none takes."""
    known = {*FORMATS_BY_NAME, "tool_choice"}
    for format in FORMATS_BY_NAME.values():
        known.update(format.parameters, format.own_parameters)
    for name, value in drop_absent(parameters).items():
        if name not in known:
            raise _build_unknown_error(name, known)
        expected = find_expected_value(name, value)
        if expected:
            raise Invalid(f"{name}={value!r:.60} is not {expected}")
        if name in FORMATS_BY_NAME:
            _check_own_fields(FORMATS_BY_NAME[name], value)


def _check_own_fields(format: Format, fields: Any) -> None:
    """Raise Invalid for fields of one format that are not its parameters."""
    if not isinstance(fields, Mapping):
        raise Invalid(f"{format.name}={fields!r:.60} is not an object of fields for that format")
    for name in fields:
        if name in format.conversation_fields:
            raise Invalid(
                f"{name!r} would replace the conversation in requests to {format.name}",
                remedy="append messages to the agent instead",
            )


def _build_unknown_error(name: str, known: Iterable[str]) -> Invalid:
    closest = get_close_matches(name, sorted(known), n=1)
    problem = f"there is no parameter {name!r}"
    if closest:
        problem += f": do you mean {closest[0]!r}?"
    remedy = f'pass a field that only your server knows as {{"openai": {{{name!r}: …}}}}'
    return Invalid(problem, remedy=remedy)
