"""The packages that commands need, and the one command that installs all that are missing."""

from collections.abc import Iterable
from importlib.util import find_spec

# The packages that each extra of backstory brings. The extra chat includes cli.
EXTRAS = {
    "cli": ("click", "rich", "platformdirs"),
    "chat": ("prompt_toolkit",),
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "gemini": ("google.genai",),
    "embedded": ("xllamacpp",),
    "web": ("starlette", "uvicorn"),
    "mcp": ("mcp",),
}
TALKS = {"chat": ("cli", "chat", "embedded"), "ask": ("cli", "embedded"), "web": ("cli", "web")}


def missing(what: str, extras: Iterable[str]) -> str | None:
    """What to install before `what` works, in a sentence; None if everything is there."""
    packages = {
        extra: [name for name in EXTRAS[extra] if not _is_installed(name)] for extra in extras
    }
    wanted = [extra for extra, names in packages.items() if names]
    if not wanted:
        return None
    names = ", ".join(name for extra in wanted for name in packages[extra])
    brings_all = wanted[0] if len(wanted) == 1 else "all"
    return f"{what} needs packages that are not installed ({names}): run pip install 'backstory[{brings_all}]'"


def missing_for(arguments: list[str]) -> str | None:
    """The same for a command line, where not even the package that would parse it is installed."""
    name = next((word for word in arguments if word in TALKS), "")
    return missing(name or "the command line", TALKS.get(name, ("cli",)))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (
        ValueError,
        ModuleNotFoundError,
    ):  # it was imported and has no spec, or its parent is missing
        return False
