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
# A PostgreSQL URL as libpq divides it: user and password end at the first @, if no slash comes before it.
# libpq would take the rest of a password with an @ or a slash for the host, the port or the database, and
# show it in its errors. So these may have no @, and a port has digits only.
_HOST = r"(?:\[[^\]@/?]*\]|[^\]\[:@/?,]*)(?::\d*)?"
_POSTGRES_URL = re.compile(
    r"(?P<scheme>\w+://)(?:(?P<user>[^:@/]*)(?P<password>:[^@/]*)?@|(?![^/]*@))"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/[^@?]*)?)(?P<query>\?.*)?",
    re.DOTALL,
)
# The name of a parameter may be percent-encoded, and libpq strips blanks around it.
_SECRET_VALUE = re.compile(r"([?&][^=&]*(?:pass|secret|key|token|%)[^=&]*=)[^&]*", re.IGNORECASE | re.DOTALL)
_BEFORE_ANY_SECRET = re.compile(r"[^:@=?]*[:@=?]?/*")
# What is treated as an attempt at a database's address and not as a path, unless it begins with / or ./
_LIKE_AN_ADDRESS = re.compile(
    r"""(?!\.{0,2}/(?!/))(?:
    [^/\\]*://  # a scheme, whatever comes before it
    | \s*(sqlite|file|postgres(ql)?):
    | (\s*postgres(ql)?)?/*(?![a-z]:[/\\])[^/\\]*:(  # user:password@, but C:/ is the beginning of a path
        [^/\\]*@ | .*@(?!.*\.(db|sqlite)\d?$)  # a password with a slash, but not in front of a file's name
    )
    | \s*(\w+\s*=.*\s)?(host|hostaddr|dbname|user|password|pass)\s*=  # the key=value form of libpq
    | .*[?&](password|pass)=
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


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
    if not path or _LIKE_AN_ADDRESS.match(path):
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


def without_password(url: str) -> str:
    """An address that is safe to show. A PostgreSQL URL only lacks its secrets; of anything else, nothing is
    shown that follows the first colon, @, equals or question mark, because it may be a password."""
    found = _POSTGRES_URL.fullmatch(url) if url.startswith(_POSTGRES) else None
    if found is None:
        start = _BEFORE_ANY_SECRET.match(url)
        return url if start is None or start[0] == url else f"{start[0]}…"
    user = "" if found["user"] is None else f"{found['user']}@"
    return _SECRET_VALUE.sub(r"\1…", found["scheme"] + user + found["place"] + (found["query"] or ""))


def split_postgres(url: str) -> tuple[str, str]:
    """A PostgreSQL URL up to its parameters, and these, which begin with a question mark. Raises ValueError
    if a part of its password could be taken for something else."""
    found = _POSTGRES_URL.fullmatch(url)
    if found is None:
        raise ValueError("not an address")
    query = found["query"] or ""
    return url.removesuffix(query), query


def _is_readable(text: str) -> bool:
    """Whether the drivers accept it: no NUL, no half of a surrogate pair."""
    return "\0" not in text and text.encode(errors="replace").decode() == text
