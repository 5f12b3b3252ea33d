"""Addresses of stores: parses them, and makes them safe to show.

Pure: nothing is opened here. A password is never shown, not even that of a mistyped address.
"""

import os
import re
from enum import Enum
from typing import NamedTuple

from backstory.errors import CannotOpen


class Database(Enum):
    """Which backend an address is for."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Address(NamedTuple):
    """A database, and where it is: the path of an SQLite file, or a PostgreSQL URL, password included."""

    database: Database
    place: str


_POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite://"
_MEMORY = ":memory:"
_HOST = re.compile(r"(\[[^\]]*\]|[^\]\[:]*)(:[0-9]*)?")  # a name or [an IPv6 address], and a port
# The name of a parameter may be percent-encoded, and libpq strips blanks around it.
_SECRET_VALUE = re.compile(
    r"([?&][^=&]*(?:pass|secret|key|token|%)[^=&]*=)[^&]*", re.IGNORECASE | re.DOTALL
)
_BEFORE_ANY_SECRET = re.compile(r"[^:@=?]*[:@=?]?/*")
_SCHEMES = ("sqlite", "file", "postgres", "postgresql")
# The key=value form of libpq.
_KEYWORD = re.compile(
    r"\s*(\w+\s*=.*\s)?(host|hostaddr|dbname|user|password|pass)\s*=", re.IGNORECASE | re.DOTALL
)
_SLASH = re.compile(r"[/\\]")
_FILE = re.compile(r"\.(db|sqlite)[0-9]?$", re.IGNORECASE)


def parse_address(url: str | os.PathLike[str]) -> Address:
    """What a path, ":memory:", "sqlite:///path" or "postgresql://…" stands for. Raises CannotOpen."""
    try:
        text = os.fspath(url)
    except TypeError:
        text = ""
    if not isinstance(text, str) or not _is_readable(text):
        raise CannotOpen(
            f"{url!r:.60} is not a store", remedy="give its address as a string or a path"
        )
    if text.startswith(_POSTGRES):
        return Address(Database.POSTGRES, text)
    path = text.removeprefix(_SQLITE + "/").removeprefix(_SQLITE)
    if path == _MEMORY:
        return Address(Database.MEMORY, path)
    if not path or _is_like_an_address(path):
        raise CannotOpen(
            f"{without_password(text)!r} is not a store",
            remedy="give the path of a file (./NAME if the name looks like an address), ':memory:', "
            "'sqlite:///path' or 'postgresql://user:password@host:port/database'",
        )
    if path != text and "?" in path:  # a file that is called so can be given as a path
        raise CannotOpen(
            f"{text[: text.index('?')] + '?…'!r} is not a store: a URL of SQLite takes no options",
            remedy="leave out what follows the question mark; read_only=True opens a store for reading",
        )
    return Address(Database.SQLITE, os.path.expanduser(path))


def _is_like_an_address(path: str) -> bool:
    """Whether this is an attempt at a database's address. It may contain a password, so it is not taken for a
    path, which errors show. What begins with / or ./ is always a path."""
    if path.startswith(("/", "./", "../")) and not path.startswith("//"):
        return False
    scheme, colon, _ = path.partition(":")
    return (
        "://" in path[: _end_of_first_part(path) + 2]
        or (colon != "" and scheme.strip().lower() in _SCHEMES)
        or _KEYWORD.match(path) is not None
        or any(one.lower().startswith(("password=", "pass=")) for one in re.split("[?&]", path)[1:])
        or _has_user_and_password(path)
    )


def _has_user_and_password(path: str) -> bool:
    """Whether it begins like user:password@, perhaps behind what is left of postgresql://.

    A password may have a slash in it. `10:30/me@home.db` and `notes: a/me@home.db` are still paths, because a
    user's name does not begin with a digit, nor a password with a blank; and C:/ is a drive.
    """
    rest = re.sub(r"(?i)^\s*(postgres(ql)?)?/*", "", path)
    user, colon, password = rest.partition(":")
    is_drive = len(user) == 1 and user.isalpha() and password.startswith(("/", "\\"))
    if not colon or "@" not in password or _SLASH.search(user) or is_drive:
        return False
    if "@" in password[: _end_of_first_part(password)]:
        return True
    is_plain = user[:1].isdecimal() or password[0].isspace()
    return not (is_plain and _FILE.search(path))


def _end_of_first_part(path: str) -> int:
    """The place of the first slash."""
    found = _SLASH.search(path)
    return found.start() if found else len(path)


class _Parts(NamedTuple):
    """The parts of a PostgreSQL URL. Joined, all but the password are the URL as it is shown."""

    scheme: str
    user: str  # with its @
    password: str  # with its colon
    place: str
    query: str  # with its question mark


def _divided(url: str) -> _Parts | None:
    """A PostgreSQL URL as libpq divides it, or None if a part of the password could be taken for something
    else: libpq would show the host, the port and the database in its errors.

    User and password end at the first @, unless a slash comes before it. What follows may have no @, and a
    port has digits only.
    """
    scheme, _, rest = url.partition("://")
    user = password = ""
    if "@" in rest.partition("/")[0]:
        login, _, rest = rest.partition("@")
        user, colon, password = login.partition(":")
        user, password = f"{user}@", colon + password
    place, mark, query = rest.partition("?")
    hosts, _, _ = place.partition("/")
    if "@" in place or not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        return None
    return _Parts(f"{scheme}://", user, password, place, mark + query)


def without_password(url: str) -> str:
    """An address that is safe to show. A PostgreSQL URL only lacks its secrets; of anything else, nothing is
    shown that follows the first colon, @, equals or question mark, because it may be a password."""
    parts = _divided(url) if url.startswith(_POSTGRES) else None
    if parts is not None:
        return _SECRET_VALUE.sub(r"\1…", "".join(parts._replace(password="")))
    start = _BEFORE_ANY_SECRET.match(url)
    return url if start is None or start[0] == url else f"{start[0]}…"


def split_postgres(url: str) -> tuple[str, str]:
    """A PostgreSQL URL up to its parameters, and these, which begin with a question mark. Raises ValueError
    if a part of its password could be taken for something else."""
    parts = _divided(url)
    if parts is None:
        raise ValueError("not an address")
    return url.removesuffix(parts.query), parts.query


def _is_readable(text: str) -> bool:
    """Whether the drivers accept it: no NUL, no half of a surrogate pair."""
    return "\0" not in text and text.encode(errors="replace").decode() == text
