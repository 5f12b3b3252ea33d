"""Files that a prompt names with an @: their text, images and documents are attached.

    What does @src/main.py do with @photo.png?

If there is no such file, the text stays as it was typed: it may be a name.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import Invalid
from backstory.log.events import Event
from backstory.runtime.models import storable
from backstory.runtime.tools.search import is_sensitive

MENTION = re.compile(r"(?<!\S)@(?:\"([^\"\n]+)\"|(\S+))")
PUNCTUATION = ".,;:!?)]}'\""  # removed from the end of a path, if there is no such file
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
DOCUMENTS = frozenset({".pdf"})
INSTRUCTIONS = frozenset({"agents.md", "claude.md"})  # sensitive to change, not to send
MOST_BYTES = 256_000  # of a text
TYPED, ATTACHED = "typed", "attached"  # keys in the data of a prompt with files


class Prompt(NamedTuple):
    """What is written for a prompt."""

    text: str
    images: list[Path]
    files: list[Path]
    data: dict[str, Any] | None


def write(agent: Agent, prompt: Prompt, *, expected: int | None = None) -> Event:
    """Write a prompt with the files that it names, after the expected head."""
    text = storable(prompt.text)
    return agent.user(
        text, images=prompt.images, files=prompt.files, data=prompt.data, expected=expected
    )


def read(text: str, folder: Path, files: Sequence[str] = (), *, typed: str | None = None) -> Prompt:
    """Return a prompt with the files that its typed part names (all of it if that is not given),
    and with `files`, which must exist."""
    folder = folder.resolve()
    named = _find_mentioned(text if typed is None else typed, folder)
    required = [_require_file(file, folder) for file in files]
    whole = text
    images: list[Path] = []
    documents: list[Path] = []
    names: list[str] = []
    for path in dict.fromkeys([*named, *required]):
        name = _name(path, folder)
        names.append(storable(name))
        suffix = path.suffix.lower()
        if suffix in IMAGES:
            images.append(path)
        elif suffix in DOCUMENTS:
            documents.append(path)
        else:
            whole += f"\n\n{_block(path, name)}"
    data = {TYPED: storable(text), ATTACHED: names} if names else None
    return Prompt(whole, images, documents, data)


def _find_mentioned(typed: str, folder: Path) -> list[Path]:
    """Return the files that a text names."""
    files = (_file(match, folder) for match in MENTION.finditer(typed))
    return [path for path in files if path is not None]


def _file(match: re.Match[str], folder: Path) -> Path | None:
    """Return the file that a mention means, if there is one. Raises Invalid if it is sensitive."""
    quoted, plain = match.groups()
    for typed in [quoted] if quoted else [plain, plain.rstrip(PUNCTUATION)]:
        path = _find(typed, folder)
        if path is not None:
            _check_harmless(typed, path, folder)
            return path
    return None


def _find(typed: str, folder: Path) -> Path | None:
    """Return the resolved path of a file, or None if there is none."""
    try:
        path = (folder / Path(typed).expanduser()).resolve()
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, an unknown home folder
        return None


def _check_harmless(typed: str, path: Path, folder: Path) -> None:
    """Raise Invalid if a file may hold secrets."""
    inside = path.relative_to(folder) if path.is_relative_to(folder) else path
    secret = inside.parent if inside.name.casefold() in INSTRUCTIONS else inside
    if is_sensitive(secret):
        raise Invalid(
            f"@{typed} is not attached: {path} may hold secrets",
            remedy="leave out the @, or attach it with backstory ask --file",
        )


def _require_file(file: str, folder: Path) -> Path:
    path = _find(file, folder)
    if path is None:
        raise Invalid(f"{file} is not a file", remedy="give the path of a file")
    return path


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _block(path: Path, name: str) -> str:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise Invalid(f"{name} is too large to send ({size:,} bytes)", remedy="leave out the @")
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise Invalid(
            f"{name} is not text in UTF-8, an image or a PDF", remedy="leave out the @"
        ) from None
    except OSError as error:
        raise Invalid(
            f"{name} cannot be read: {error.strerror}", remedy="leave out the @"
        ) from error
    return f'<file path="{name}">\n{text.rstrip()}\n</file>'


def read_typed_text(event: Event) -> str:
    """What the person typed, without the attached files."""
    typed = (event.data or {}).get(TYPED)
    return typed if isinstance(typed, str) else event.content or ""


def complete_path(begun: str, folder: Path) -> list[str]:
    """Return the paths that begin with what was typed after an @. A folder ends with a slash. A
    path with blanks is quoted; the quote of a folder stays open."""
    begun = begun.removeprefix('"')
    above, slash, beginning = begun.rpartition("/")
    try:
        place = folder / Path(above + slash).expanduser()
        entries = sorted(place.iterdir())
    except (OSError, ValueError, RuntimeError):  # not a folder, a NUL, an unknown home folder
        return []
    paths = []
    for entry in entries:
        is_hidden = entry.name.startswith(".") and not beginning.startswith(".")
        if entry.name.startswith(beginning) and not is_hidden:
            paths.append(_quote(above + slash + entry.name, is_folder=entry.is_dir()))
    return paths


def _quote(path: str, *, is_folder: bool) -> str:
    end = "/" if is_folder else ""
    if " " not in path:
        return f"{path}{end}"
    return f'"{path}{end}' if is_folder else f'"{path}"'
