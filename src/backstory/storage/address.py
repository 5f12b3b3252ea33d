"""Parses the addresses of stores, and makes them safe to show.

Pure: nothing is opened here. A password is never shown, not even that of a mistyped address.
"""

import os
import re
from enum import Enum
from typing import NamedTuple

from backstory.errors import CannotOpen


class Database(Enum):
    """The database that an address is for."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Address(NamedTuple):
    """A database, and its location: the path of an SQLite file, or a PostgreSQL URL with its
    password."""

    database: Database
    location: str


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
# user:password@, perhaps after what is left of postgresql://. A password may contain a slash, and
# C:/ is a drive.
_LOGIN = re.compile(r"\s*(postgres(ql)?)?/*(?![a-z]:[/\\])[^:/\\]*:.*@", re.IGNORECASE | re.DOTALL)


def parse_address(url: str | os.PathLike[str]) -> Address:
    """Return the address that a path, ":memory:", "sqlite:///path" or "postgresql://…" means.
    Raises CannotOpen."""
    text = _read_text(url)
    if text.startswith(_POSTGRES):
        return Address(Database.POSTGRES, text)
    path = text.removeprefix(_SQLITE + "/").removeprefix(_SQLITE)
    if path == _MEMORY:
        return Address(Database.MEMORY, path)
    if not path or _is_like_an_address(path):
        raise CannotOpen(
            f"{without_password(text)!r} is not a store",
            remedy="give the path of a file (./NAME if the name looks like an address), "
            "':memory:', 'sqlite:///path' or 'postgresql://user:password@host:port/database'",
        )
    if path != text and "?" in path:  # a file with such a name can be given as a path
        shown = text[: text.index("?")] + "?…"
        raise CannotOpen(
            f"{shown!r} is not a store: a URL of SQLite takes no options",
            remedy="leave out what follows the question mark; read_only=True opens a store for "
            "reading",
        )
    return Address(Database.SQLITE, os.path.expanduser(path))


def _read_text(url: str | os.PathLike[str]) -> str:
    """Return an address as a string. Raises CannotOpen if the drivers do not accept it."""
    try:
        text = os.fspath(url)
    except TypeError:
        text = ""
    if not isinstance(text, str) or not _is_readable(text):
        raise CannotOpen(
            f"{url!r:.60} is not a store", remedy="give its address as a string or a path"
        )
    return text


def _is_readable(text: str) -> bool:
    """Return True if the drivers accept `text`: it has no NUL and no lone surrogate."""
    return "\0" not in text and text.encode(errors="replace").decode() == text


def _is_like_an_address(path: str) -> bool:
    """Return True if this is an attempt at a database's address. It may contain a password, so it
    is not used as a path, which errors show. Text that begins with / or ./ is always a path."""
    if path.startswith(("/", "./", "../")) and not path.startswith("//"):
        return False
    scheme, colon, _ = path.partition(":")
    if "://" in path or (colon and scheme.strip().lower() in _SCHEMES):
        return True
    if _KEYWORD.match(path) or _LOGIN.match(path):
        return True
    parameters = re.split("[?&]", path)[1:]
    return any(one.lower().startswith(("password=", "pass=")) for one in parameters)


class _UrlParts(NamedTuple):
    """The parts of a PostgreSQL URL. Joined, all but the password are the URL as it is shown."""

    scheme: str
    user: str  # with its @
    password: str  # with its colon
    location: str  # hosts and database
    query: str  # with its question mark


def _split_url(url: str) -> _UrlParts | None:
    """Return a PostgreSQL URL as libpq divides it, or None if a part of the password could be
    mistaken for something else: libpq shows the host, the port and the database in its errors.

    User and password end at the first @, unless a slash comes before it. The rest may have no @,
    and a port has digits only.
    """
    scheme, _, rest = url.partition("://")
    user = password = ""
    if "@" in rest.partition("/")[0]:
        login, _, rest = rest.partition("@")
        user, colon, password = login.partition(":")
        user = f"{user}@"
        password = colon + password
    location, mark, query = rest.partition("?")
    hosts, _, _ = location.partition("/")
    if "@" in location or not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        return None
    return _UrlParts(f"{scheme}://", user, password, location, mark + query)


def without_password(url: str) -> str:
    """Return an address that is safe to show. A PostgreSQL URL only lacks its secrets. Of anything
    else, nothing is shown after the first colon, @, equals or question mark, because it may be a
    password."""
    parts = _split_url(url) if url.startswith(_POSTGRES) else None
    if parts is not None:
        return _SECRET_VALUE.sub(r"\1…", "".join(parts._replace(password="")))
    start = _BEFORE_ANY_SECRET.match(url)
    return url if start is None or start[0] == url else f"{start[0]}…"


def split_postgres(url: str) -> tuple[str, str]:
    """Return a PostgreSQL URL up to its parameters, and these, which begin with a question mark.
    Raises ValueError if a part of its password could be mistaken for something else."""
    parts = _split_url(url)
    if parts is None:
        raise ValueError("not an address")
    return url.removesuffix(parts.query), parts.query
