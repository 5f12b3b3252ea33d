"""Files that a prompt names with an @: their text goes along, and images and documents with it.

    What does @src/main.py do with @photo.png?

What stands behind an @ and is not a file stays as it was typed: it may be a name.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.core.events import Event
from backstory.errors import Invalid
from backstory.runtime.models.arguments import storable

MENTION = re.compile(r"(?<!\S)@(?:\"([^\"\n]+)\"|(\S+))")
PUNCTUATION = ".,;:!?)]}'\""  # behind a path, if the path is not there with it
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
DOCUMENTS = frozenset({".pdf"})
MOST_BYTES = 256_000  # of a text
MOST_LISTED = 200  # names that are offered to complete a path
TYPED, ATTACHED = "typed", "attached"  # keys of the data of a prompt that files go with


class Prompt(NamedTuple):
    """What is written of a prompt."""

    text: str
    images: list[Path]
    files: list[Path]
    data: dict[str, Any] | None


def write(agent: Agent, prompt: Prompt, *, expected: int | None = None) -> Event:
    """Write a prompt, with the files that it names, behind the head that is expected."""
    text = storable(prompt.text)
    return agent.user(text, images=prompt.images, files=prompt.files, data=prompt.data, expected=expected)


def read(text: str, folder: Path, files: Sequence[str] = ()) -> Prompt:
    """A prompt with what it names. `files`: more of them, which must be there."""
    named = [path for match in MENTION.finditer(text) if (path := _file(match, folder)) is not None]
    paths = list(dict.fromkeys([*named, *(_required(file, folder) for file in files)]))
    if not paths:
        return Prompt(text, [], [], None)
    images = [path for path in paths if path.suffix.lower() in IMAGES]
    documents = [path for path in paths if path.suffix.lower() in DOCUMENTS]
    texts = [path for path in paths if path not in images and path not in documents]
    blocks = [_block(path, _name(path, folder)) for path in texts]
    data = {TYPED: storable(text), ATTACHED: [storable(_name(path, folder)) for path in paths]}
    return Prompt("\n\n".join([text, *blocks]), images, documents, data)


def _file(match: re.Match[str], folder: Path) -> Path | None:
    """The file that a mention means, if there is one."""
    quoted, plain = match.groups()
    for typed in [quoted] if quoted else [plain, plain.rstrip(PUNCTUATION)]:
        if typed and _is_file(path := folder / Path(typed).expanduser()):
            return path
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or has a NUL
        return False


def _required(file: str, folder: Path) -> Path:
    path = folder / Path(file).expanduser()
    if not _is_file(path):
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
        raise Invalid(f"{name} is not text in UTF-8, an image or a PDF", remedy="leave out the @") from None
    except OSError as error:
        raise Invalid(f"{name} cannot be read: {error.strerror}", remedy="leave out the @") from error
    return f'<file path="{name}">\n{text.rstrip()}\n</file>'


def typed_text(event: Event) -> str:
    """What the person typed, without the files that went along."""
    typed = (event.data or {}).get(TYPED)
    return typed if isinstance(typed, str) else event.content or ""


def completions(typed: str, folder: Path) -> Iterable[str]:
    """Paths that begin with what was typed behind an @; folders end with a slash."""
    before, slash, begun = typed.rpartition("/")
    try:
        place = folder / Path(before + slash).expanduser()
        names = sorted(one.name + ("/" if one.is_dir() else "") for one in place.iterdir())
    except (OSError, ValueError, RuntimeError):  # not a folder, a NUL, a home that nobody has
        return []
    shown = (name for name in names if begun.startswith(".") or not name.startswith("."))
    return [before + slash + name for name in shown if name.startswith(begun)][:MOST_LISTED]
