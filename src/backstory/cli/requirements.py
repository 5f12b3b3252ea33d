"""The packages that commands need, and the one command that installs all that are missing."""

from collections.abc import Iterable
from importlib.util import find_spec

from backstory.errors import CannotOpen

# The packages that each extra of backstory installs.
EXTRAS = {
    "chat": ("prompt_toolkit",),
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "gemini": ("google.genai",),
    "embedded": ("xllamacpp", "openai"),
    "web": ("starlette", "uvicorn"),
    "mcp": ("mcp",),
}


def check_installed(what: str, extras: Iterable[str]) -> None:
    """Raise an error that names all packages that `what` needs and that are not installed."""
    missing: dict[str, list[str]] = {}
    for extra in extras:
        names = [name for name in EXTRAS[extra] if not _is_installed(name)]
        if names:
            missing[extra] = names
    if not missing:
        return
    packages = ", ".join(name for names in missing.values() for name in names)
    extra = next(iter(missing)) if len(missing) == 1 else "all"
    raise CannotOpen(
        f"{what} needs packages that are not installed ({packages})",
        remedy=f"run pip install 'backstory[{extra}]'",
    )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ValueError, ModuleNotFoundError):  # it has no spec, or its parent is missing
        return False
