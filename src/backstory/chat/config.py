"""What the chat's files say beside the model: rules of consent, of the person and of the project.

A file that is broken is not used, and a sentence says what is wrong with it. What a project's file allows
counts only where the person has named the folder as trusted: it comes with whatever was cloned.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from backstory.chat.rules import Rules, rules_of
from backstory.errors import Invalid

PROJECT_FILE = ".backstory.toml"
PROJECT_TABLES = ("consent",)


class Configuration(NamedTuple):
    """The rules, and what was wrong with the files."""

    rules: Rules
    warnings: list[str]


def configuration(folder: Path, person: Path) -> Configuration:
    """What the person's file and the project's say."""
    warnings: list[str] = []
    own = dict(_table(person, warnings).get("consent") or {})
    trusted = own.pop("trusted", [])
    mine = _rules(own, person, warnings)
    file = _project_file(folder)
    if file is None:
        return Configuration(mine, warnings)
    table = _table(file, warnings)
    unknown = sorted(set(table) - set(PROJECT_TABLES))
    if unknown:
        warnings.append(f"{file} has {', '.join(unknown)}, which is not used: it takes {PROJECT_TABLES[0]}")
    theirs = _rules(table.get("consent") or {}, file, warnings)
    if theirs.allow and not _is_trusted(file.parent, trusted):
        shown = ", ".join(map(str, theirs.allow[:5]))
        warnings.append(
            f"{file} would allow {shown}: that is not used. If you trust this folder, write "
            f'trusted = ["{file.parent}"] below [consent] in {person}'
        )
        theirs = theirs._replace(allow=())
    return Configuration(mine | theirs, warnings)


def _project_file(folder: Path) -> Path | None:
    """The project's file: in the folder, or above it up to the repository's."""
    for place in (folder, *folder.parents):
        if (place / PROJECT_FILE).is_file():
            return place / PROJECT_FILE
        if (place / ".git").exists():
            break
    return None


def _table(path: Path, warnings: list[str]) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        pass
    except OSError as error:
        warnings.append(f"{path} cannot be read and is not used: {error.strerror}")
    except ValueError as error:  # not UTF-8, or not TOML
        warnings.append(f"{path} is not TOML and is not used: {error}")
    return {}


def _rules(table: Any, path: Path, warnings: list[str]) -> Rules:
    try:
        return rules_of(table)
    except Invalid as error:
        warnings.append(f"the rules of {path} are not used: {error.message}")
        return Rules()


def _is_trusted(folder: Path, trusted: Any) -> bool:
    places = trusted if isinstance(trusted, list) else []
    return any(Path(place).expanduser() == folder for place in places if isinstance(place, str))
