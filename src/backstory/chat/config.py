"""Reads the chat's config files: parameters, rules of consent, and MCP servers.

A broken file is not used, and a sentence says what is wrong with it. What a project's file allows counts only
if the person trusts the folder, because the file comes with whatever was cloned.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backstory.chat.rules import Rules, rules_of
from backstory.errors import Invalid
from backstory.runtime.parameters import parameters
from backstory.runtime.tools.mcp_servers import Server, servers_of

PROJECT_FILE = ".backstory.toml"
PROJECT_TABLES = ("consent", "mcp")


class Configuration(NamedTuple):
    """The rules, the parameters for models, and what was wrong with the files."""

    rules: Rules
    warnings: list[str]
    params: Mapping[str, Any] = {}  # from the person's file
    servers: tuple[Server, ...] = ()  # whose tools the model gets


def configuration(folder: Path, person: Path) -> Configuration:
    """The configuration from the person's file and the project's."""
    warnings: list[str] = []
    said = _table(person, warnings)
    consent = said.get("consent", {})
    own = dict(consent) if isinstance(consent, Mapping) else consent
    params = _params(said.get("params"), person, warnings)
    trusted = own.pop("trusted", []) if isinstance(own, dict) else []
    mine = _rules(own, person, warnings)
    servers = _servers(said.get("mcp"), person, warnings)
    file = _project_file(folder)
    if file is None:
        return Configuration(mine, warnings, params, servers)
    table = _table(file, warnings)
    unknown = sorted(set(table) - set(PROJECT_TABLES))
    if unknown:
        takes = " and ".join(PROJECT_TABLES)
        warnings.append(f"{file} has {', '.join(unknown)}, which is not used: it takes {takes}")
    theirs = _rules(table.get("consent", {}), file, warnings)
    started = _servers(table.get("mcp"), file, warnings)
    if (theirs.allow or started) and not _is_trusted(file.parent, trusted):
        warnings.append(_not_trusted(file, theirs, started, person))
        theirs, started = theirs._replace(allow=()), ()
    own_names = {server.name for server in servers}
    more = tuple(server for server in started if server.name not in own_names)
    return Configuration(mine | theirs, warnings, params, servers + more)


def _not_trusted(file: Path, rules: Rules, servers: Sequence[Server], person: Path) -> str:
    """What a project's file asks for, and how to allow it."""
    wants = [f"allow {', '.join(map(str, rules.allow[:5]))}"] if rules.allow else []
    wants += [f"start {', '.join(server.name for server in servers[:5])}"] if servers else []
    return (
        f"{file} would {' and '.join(wants)}: that is not used. If you trust this folder, write "
        f'trusted = ["{file.parent}"] below [consent] in {person}'
    )


def _project_file(folder: Path) -> Path | None:
    """The project's file: in the folder, or in one above it, up to that of the repository."""
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
        where = _place(path, "consent", error.message)
        warnings.append(f"the rules of {where} are not used: {error.message}")
        return Rules()


def _params(table: Any, path: Path, warnings: list[str]) -> dict[str, Any]:
    try:
        return {} if table is None else parameters(table)
    except Invalid as error:
        warnings.append(
            f"the params of {_place(path, 'params', error.message)} are not used: {error}"
        )
        return {}


def _servers(table: Any, path: Path, warnings: list[str]) -> tuple[Server, ...]:
    try:
        return () if table is None else tuple(servers_of(table))
    except Invalid as error:
        warnings.append(
            f"the MCP servers of {_place(path, 'mcp', error.message)} are not used: {error}"
        )
        return ()


def _place(path: Path, table: str, problem: str) -> str:
    """The path, and the line with the problem: the first one in the table that has a word of the problem, or
    else the table's first. The parser keeps no line numbers, so they are searched for."""
    lines = path.read_text(errors="replace").splitlines()
    header = re.compile(rf"\s*(\[\[?{table}\b|{table}\s*[.=])")
    first = next((number for number, line in enumerate(lines, 1) if header.match(line)), None)
    if first is None:
        return str(path)
    words = [word for word in re.findall(r"[\w.-]+", problem) if word != table]
    named = re.compile(rf"\s*(\[{table}\.)?({'|'.join(map(re.escape, words)) or '$'})\s*[\]=]")
    found = (number for number, line in enumerate(lines[first:], first + 1) if named.match(line))
    return f"{path} (line {next(found, first)})"


def _is_trusted(folder: Path, trusted: Any) -> bool:
    places = trusted if isinstance(trusted, list) else []
    return any(Path(place).expanduser() == folder for place in places if isinstance(place, str))
