"""The stamp of a store: it shows whether the write-ahead log (WAL) beside the file belongs to it.

SQLite itself does not compare the two: a backup that is copied over a store gets the pages in the
WAL of the former file. So the store has a stamp: one row, (own, previous). The first transaction
after a checkpoint replaces it: `own` becomes a new value, and `previous` what `own` was. The first
half of a value counts, and the second half is random. The file and the WAL then contain these
stamps:

| after | file | WAL, oldest first |
| --- | --- | --- |
| the first transaction of a WAL, and later ones | B, A | (C, B) |
| a checkpoint, which writes the WAL into the file | C, B | (C, B) |
| the next transaction, which starts the WAL anew | C, B | (D, C) |
| the next transaction, if a reader still needs the WAL | C, B | (C, B), (D, C) |
| a power cut during the checkpoint of that WAL | B, A or C, B or D, C | (C, B), (D, C) |

SQLite starts a WAL anew only if all of the former one is in the file. So a WAL belongs to a file
whose `own` is the `previous` of the first stamp in the WAL, or the `own` of any of them, and to no
other file. That is checked when a store is opened, before a WAL is written into the file, and
before a transaction if the file has another stamp than before. If the WAL is empty then, the file
belongs to the store if its `own` counts more than before.

A reader that prevents a checkpoint, or another program that runs it, such as Litestream, changes
nothing about that. File and WAL are read without SQL, which would show the newest stamp only.
"""

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import NamedTuple

import apsw

from backstory.errors import CannotOpen, Corrupt, Remedy
from backstory.storage.sqlite.schema import APPLICATION_ID

# A WAL has a header, and a frame for each page (https://sqlite.org/fileformat2.html#walformat).
# Frames that were written before the WAL was started anew have another salt than the header.
WAL_HEADER_BYTES = 32
WAL_SALT = slice(16, 24)
FRAME_HEADER_BYTES = 24
FRAME_PAGE = slice(0, 4)
FRAME_SALT = slice(8, 16)

VALUE_BYTES = 8
COUNT_BYTES = 4
COUNTS = 1 << 8 * COUNT_BYTES  # then the count begins anew
NO_VALUE = bytes(VALUE_BYTES)
# A row in the format of SQLite (https://sqlite.org/fileformat2.html#record_format): the length of
# the record, the number of the row, the length of the header, the types of two blobs, the blobs.
# The type of a blob is 12 plus twice its length. The only row of a table is at the end of the
# table's only page.
HEADER = bytes([3, 12 + 2 * VALUE_BYTES, 12 + 2 * VALUE_BYTES])
ROW_START = bytes([len(HEADER) + 2 * VALUE_BYTES, 1]) + HEADER
ROW_BYTES = len(ROW_START) + 2 * VALUE_BYTES
READINGS = 3  # of file and WAL, because another process may be writing at that moment

READ_OWN = "SELECT own FROM stamp"
WRITE_STAMP = "INSERT OR REPLACE INTO stamp (rowid, own, previous) VALUES (1, ?, ?)"
FIND_PAGE = f"""
    SELECT rootpage, page_size
    FROM sqlite_schema, pragma_page_size, pragma_application_id
    WHERE name = 'stamp' AND application_id = {APPLICATION_ID}"""


# --- the WAL ---


def measure_wal(path: str) -> int:
    """Return the bytes in the WAL of the store at `path`; 0 if there is none."""
    try:
        return os.path.getsize(f"{path}-wal")
    except OSError:
        return 0


def remove_wal(path: str) -> None:
    """Remove the WAL of a store that nobody uses, and its index."""
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + end)


def read_page_ends(path: str, number: int, page_bytes: int, end_bytes: int) -> Iterator[bytes]:
    """Yield the last bytes of a page in the WAL of the store at `path`, oldest version first. The
    last version may be of a transaction that was not committed."""
    frame_bytes = FRAME_HEADER_BYTES + page_bytes
    with open(f"{path}-wal", "rb") as wal:
        salt = wal.read(WAL_HEADER_BYTES)[WAL_SALT]
        for start in range(WAL_HEADER_BYTES, measure_wal(path), frame_bytes):
            wal.seek(start)
            frame = wal.read(FRAME_HEADER_BYTES)
            if frame[FRAME_SALT] != salt:
                return
            if int.from_bytes(frame[FRAME_PAGE]) == number:
                wal.seek(start + frame_bytes - end_bytes)
                yield wal.read(end_bytes)


# --- the stamp ---


class Stamp(NamedTuple):
    """The stamp of a store. A value is NO_VALUE if there is none."""

    own: bytes
    previous: bytes


NO_STAMP = Stamp(NO_VALUE, NO_VALUE)


def parse_stamp(row: bytes) -> Stamp:
    """Return the stamp at the end of its page."""
    if len(row) < ROW_BYTES or not row.startswith(ROW_START):
        return NO_STAMP
    values = row[len(ROW_START) :]
    return Stamp(values[:VALUE_BYTES], values[VALUE_BYTES:])


class StampPage(NamedTuple):
    """The page that contains the stamp."""

    number: int  # the first page of the file has the number 1
    size: int


def find_stamp_page(db: apsw.Connection) -> StampPage | None:
    """Return the page with the stamp, or None: a store before version 4 has none."""
    for number, size in db.execute(FIND_PAGE):
        return StampPage(number, size)
    return None


class StampFile:
    """The file of a store, read without its WAL. It is opened through SQLite, because closing it
    otherwise would release the locks that this process has on the file."""

    def __init__(self, path: str) -> None:
        """Raises apsw.Error."""
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
        self._file = apsw.VFSFile("", path, [flags, 0])

    def read_own(self, page: StampPage) -> bytes:
        """Return `own` of the stamp in the file; NO_VALUE if there is none."""
        row = self._file.xRead(ROW_BYTES, page.number * page.size - ROW_BYTES)
        return parse_stamp(row).own

    def close(self) -> None:
        """Close the file."""
        self._file.xClose()


def list_stamps_in_wal(path: str, page: StampPage) -> list[Stamp]:
    """Return the stamps in the WAL of the store at `path`, oldest first. The last one may be of a
    transaction that was not committed."""
    try:
        stamps = [parse_stamp(row) for row in read_page_ends(path, *page, ROW_BYTES)]
    except FileNotFoundError:  # another process has just written it into the file
        return []
    return [stamp for stamp in stamps if stamp != NO_STAMP]


def belongs_to_wal(own: bytes, stamps: list[Stamp]) -> bool:
    """Return True if a file with the stamp `own` is the one that a WAL with these stamps continues,
    perhaps with a part of the WAL."""
    if own == NO_VALUE or not stamps or own == stamps[0].previous:
        return True
    return any(stamp.own == own for stamp in stamps)


def has_foreign_wal(db: apsw.Connection, path: str) -> bool:
    """Return True if the WAL beside the file does not belong to it. A WAL or a file without a stamp
    is accepted."""
    if measure_wal(path) == 0:
        return False
    db.execute("BEGIN")  # no checkpoint goes beyond what this transaction sees
    try:
        page = find_stamp_page(db)
        return page is not None and not fits_file(path, page)
    finally:
        db.execute("ROLLBACK")


def fits_file(path: str, page: StampPage) -> bool:
    """Return True if the WAL of the store at `path` belongs to its file."""
    with closing(StampFile(path)) as file:
        for _ in range(READINGS):
            own = file.read_own(page)
            if belongs_to_wal(own, list_stamps_in_wal(path, page)):
                return True
    return False


def check_wal(db: apsw.Connection, path: str) -> None:
    """Raise CannotOpen if the WAL beside a store belongs to another file."""
    if has_foreign_wal(db, path):
        raise CannotOpen(
            f"{path + '-wal'!r} contains changes to another file than {path!r}, which was "
            "replaced or restored without its log",
            remedy=make_restore_remedy(path),
        )


def make_restore_remedy(path: str) -> Remedy:
    """Return what to do about a store whose file was overwritten."""
    return Remedy(
        "{} restores a backup, and removes the log; or put the former file back",
        "restore",
        ("BACKUP", path),
    )


def empty_wal(db: apsw.Connection, path: str) -> bool:
    """Write the WAL into its file and truncate it. Return False if others still use it. Raises
    CannotOpen if it belongs to another file."""
    check_wal(db, path)
    [(is_unfinished, _, _)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not is_unfinished


class StampWriter:
    """Writes a new stamp after each checkpoint. Only one thread at a time may use it."""

    def __init__(self, path: str, db: apsw.Connection) -> None:
        self._path = path
        self._file: StampFile | None = None
        self._page = find_stamp_page(db)
        self._own_in_file = NO_VALUE  # when the file was last checked
        self._own_written = NO_VALUE  # the last one that was written here, perhaps rolled back
        self._own_replaced = b""  # that of the file, if the WAL is known to have a newer one
        if self._page is not None:
            self._own_in_file = self._open_file().read_own(self._page)

    def _open_file(self) -> StampFile:
        if self._file is None:
            self._file = StampFile(self._path)
        return self._file

    def renew(self, db: apsw.Connection) -> None:
        """Write a new stamp if the last one is in the file. `db` is in a write transaction. The
        WAL usually has a new stamp already, and then this reads 21 bytes. Raises Corrupt if the
        file was overwritten with that of another store."""
        file = self._open_file()
        if self._page is not None and file.read_own(self._page) == self._own_replaced:
            return
        self._page = find_stamp_page(db)  # VACUUM of another program may have moved it
        if self._page is None:
            return
        self._check_file(file, self._page)
        own = read_own(db)
        if self._own_in_file == own:
            self._own_written = make_next_value(own)
            db.execute(WRITE_STAMP, (self._own_written, own))
            self._own_replaced = b""  # this transaction may be rolled back
        else:
            self._own_replaced = self._own_in_file

    def _check_file(self, file: StampFile, page: StampPage) -> None:
        """Raise Corrupt if the file does not continue what it was."""
        for _ in range(READINGS):
            own = file.read_own(page)
            if own in (self._own_in_file, self._own_written) or self._continues(own, page):
                self._own_in_file = own
                return
        raise Corrupt(
            f"{self._path!r} was overwritten with another file while it was open; nothing was "
            "written",
            remedy=make_restore_remedy(self._path),
        )

    def _continues(self, own: bytes, page: StampPage) -> bool:
        """Return True if a file with the stamp `own` is what others made of the file."""
        stamps = list_stamps_in_wal(self._path, page)
        if stamps:
            return belongs_to_wal(own, stamps)
        return is_later(own, self._own_in_file)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_own(db: apsw.Connection) -> bytes:
    """Return `own` of the newest stamp, in the WAL or in the file."""
    for (own,) in db.execute(READ_OWN):
        return bytes(own)
    return NO_VALUE


def make_next_value(own: bytes) -> bytes:
    """Return the value of `own` that follows another one."""
    return ((count_value(own) + 1) % COUNTS).to_bytes(COUNT_BYTES) + os.urandom(COUNT_BYTES)


def is_later(own: bytes, other: bytes) -> bool:
    """Return True if a value of `own` counts more than another one."""
    return 0 < (count_value(own) - count_value(other)) % COUNTS < COUNTS // 2


def count_value(own: bytes) -> int:
    """Return how many values came before."""
    return int.from_bytes(own[:COUNT_BYTES])


def replace_stamp(db: apsw.Connection) -> None:
    """Give a copy of a store a stamp of its own: no WAL belongs to it, and it does not count more
    than the original."""
    own = read_own(db)[:COUNT_BYTES] + os.urandom(COUNT_BYTES)
    db.execute(WRITE_STAMP, (own, NO_VALUE))
