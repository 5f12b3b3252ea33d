"""Files that a prompt names with an @: their text, images and documents are attached.

    What does @src/main.py do with @photo.png?

If there is no such file, the text stays as it was typed: it may be a name.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import Invalid
from backstory.log.events import Event
from backstory.runtime.models import storable
from backstory.runtime.tools.search import PASSED_OVER, is_sensitive

MENTION = re.compile(r"(?<!\S)@(?:\"([^\"\n]+)\"|(\S+))")
PUNCTUATION = ".,;:!?)]}'\""  # removed from the end of a path, if there is no such file
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
DOCUMENTS = frozenset({".pdf"})
INSTRUCTIONS = frozenset({"agents.md", "claude.md"})  # sensitive to change, not to send
MOST_BYTES = 256_000  # of a text
MOST_LISTED = 200  # names that are offered to complete a path
MOST_LOOKED_AT = 20_000  # files that are looked at for them
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
    paths = list(dict.fromkeys([*named, *(_require_file(file, folder) for file in files)]))
    if not paths:
        return Prompt(text, [], [], None)
    images = [path for path in paths if path.suffix.lower() in IMAGES]
    documents = [path for path in paths if path.suffix.lower() in DOCUMENTS]
    texts = [path for path in paths if path not in images and path not in documents]
    blocks = [_block(path, _name(path, folder)) for path in texts]
    data = {TYPED: storable(text), ATTACHED: [storable(_name(path, folder)) for path in paths]}
    return Prompt("\n\n".join([text, *blocks]), images, documents, data)


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


def completions(typed: str, folder: Path) -> Iterable[str]:
    """Paths that begin with what was typed after an @, or else files in folders below whose names
    contain it. Folders end with a slash. Paths with blanks are quoted, a folder without the closing
    quote."""
    typed = typed.removeprefix('"')
    before, slash, begun = typed.rpartition("/")
    try:
        place = folder / Path(before + slash).expanduser()
        names = sorted(one.name + ("/" if one.is_dir() else "") for one in place.iterdir())
    except (OSError, ValueError, RuntimeError):  # not a folder, a NUL, an unknown home folder
        return []
    shown = (name for name in names if begun.startswith(".") or not name.startswith("."))
    found = [name for name in shown if name.startswith(begun)] or _below(place, begun)
    return [_quote(before + slash + name) for name in found[:MOST_LISTED]]


def _below(place: Path, part: str) -> list[str]:
    """Files below a folder whose names contain a text, nearest first."""
    if not part:
        return []
    looked_at, found = 0, []
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in PASSED_OVER
        )
        fitting = (name for name in names if part.lower() in name.lower())
        found += [str(Path(folder, name).relative_to(place)) for name in fitting]
        looked_at += len(names)
        if looked_at > MOST_LOOKED_AT:
            break
    return sorted(found, key=lambda path: (path.count("/"), path))


def _quote(path: str) -> str:
    if " " not in path:
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'


def mention_pasted_file(text: str, folder: Path) -> str:
    """Pasted text, with an @ before it if it is the path of an image or a document. When a file is
    dropped on a terminal, its path is inserted as it is, in quotes, or with backslashes before
    blanks."""
    line = text.strip()
    quoted = len(line) > 1 and line[0] == line[-1] and line[0] in "'\""
    path = line[1:-1] if quoted else line.removeprefix("file://").replace("\\ ", " ")
    suffix = Path(path).suffix.lower()
    if "\n" in line or suffix not in IMAGES | DOCUMENTS or _find(path, folder) is None:
        return text
    return f'@"{path}" ' if " " in path else f"@{path} "
