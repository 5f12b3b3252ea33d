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
# What is treated as an attempt at a URL and not as a path: a scheme, with or without something before it,
# user:password@ at the beginning, or the key=value form of libpq. A file with such a name can still be given
# as ./name. C:/ is the beginning of a path.
_LIKE_A_URL = re.compile(
    r"[^/\\]*://|\s*postgres(ql)?/|\s*(sqlite|file|postgres(ql)?):|(//|(?![a-z]:[/\\]))[^/\\]*:.*@|"
    r"\s*(host|dbname|user)\s*=|[^/\\]*password\s*=",
    re.IGNORECASE | re.DOTALL,
)
_USER_AND_HOST = re.compile(
    r"((?:[\w+.-]{2,}://|postgres(?:ql)?:/*)?[^:@/]*)(?::.*)?@(.*)", re.DOTALL | re.IGNORECASE
)
_ANYTHING_AND_HOST = re.compile(r".*(@.*)", re.DOTALL)
# In a URL, a password ends where the next parameter begins; elsewhere a space may be a part of it.
_PASSWORD_PARAMETER = re.compile(r"(\w*password\s*=).*?(?=&\w+=|$)", re.IGNORECASE | re.DOTALL)
_PASSWORD_VALUE = re.compile(r"(\w*password\s*=).*", re.IGNORECASE | re.DOTALL)
# To libpq, the user and password end at the first @, if no slash comes before it.
_AFTER_USER = re.compile(r"\w+://(?:[^@/]*@)?([^?]*)", re.DOTALL)


def parse_address(url: str | os.PathLike[str]) -> Address:
    """What a path, ":memory:", "sqlite:///path" or "postgresql://…" stands for. Raises CannotOpen."""
    try:
        text = os.fspath(url)
    except TypeError:
        text = ""
    if not isinstance(text, str) or not _is_readable(text):
        raise CannotOpen(f"{url!r:.60} is not a store", remedy="give its address as a string or a path")
    if text.startswith(_POSTGRES):
        return Address(Database.POSTGRES, text)
    path = text.removeprefix(_SQLITE + "/").removeprefix(_SQLITE)
    if path == _MEMORY:
        return Address(Database.MEMORY, path)
    if path != text and "?" in path:  # a file that is called so can be given as a path
        raise CannotOpen(
            f"{without_password(text)!r} is not a store: a URL of SQLite takes no options",
            remedy="leave out what follows the question mark; read_only=True opens a store for reading",
        )
    if not path or _LIKE_A_URL.match(path):
        raise CannotOpen(
            f"{without_password(text)!r} is not a store",
            remedy="give the path of a file, ':memory:', 'sqlite:///path' or 'postgresql://…'",
        )
    return Address(Database.SQLITE, os.path.expanduser(path))


def without_password(url: str) -> str:
    """An address that is safe to show, valid or not."""
    url = (_PASSWORD_PARAMETER if "://" in url else _PASSWORD_VALUE).sub(r"\1…", url)
    place, mark, query = url.partition("?")
    if "@" in query and "@" not in place:  # the question mark is a part of the password
        place, mark, query = url, "", ""
    if found := _USER_AND_HOST.fullmatch(place):
        place = f"{found[1]}@{found[2]}"
    elif found := _ANYTHING_AND_HOST.fullmatch(place):
        place = f"…{found[1]}"
    return place + mark + query


def split_postgres(url: str) -> tuple[str, str, str]:
    """A PostgreSQL URL, divided as libpq does: up to the password, the host and database, and the
    parameters, which begin with a question mark."""
    found = _AFTER_USER.match(url)
    start, end = found.span(1) if found else (0, len(url))
    return url[:start], url[start:end], url[end:]


def _is_readable(text: str) -> bool:
    """Whether the drivers accept it: no NUL, no half of a surrogate pair."""
    return "\0" not in text and text.encode(errors="replace").decode() == text
