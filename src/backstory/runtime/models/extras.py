"""The packages that models need: tells which extra installs them, before anything slow is imported."""

from importlib.util import find_spec

from backstory.runtime.models import ModelError


def require(module: str, *, extra: str, what: str) -> None:
    """Raise ModelError, with the command that installs it, if a module is missing."""
    try:
        is_there = find_spec(module) is not None
    except (
        ValueError,
        ModuleNotFoundError,
    ):  # sys.modules has None for it, or its parent is missing
        is_there = False
    if not is_there:
        raise ModelError(f"{what} needs the package {module}: run pip install 'backstory[{extra}]'")
