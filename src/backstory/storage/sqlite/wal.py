"""The write-ahead log beside the file of a store, and the stamp that shows whose log it is.

SQLite itself does not compare the two: a backup that is copied over a store gets the pages in the
log of the former file. So the log contains a stamp that names the file.

The stamp is one row, (own, previous). The first transaction after a checkpoint replaces it: `own`
becomes a new random value, and `previous` has the two before it. The file has one of these: usually
the newest or the one before, but after a power cut in the middle of a checkpoint the one before
that, because the stamp in the file was not synced when it was read. The file itself is read without
SQL, because SQL reads through the log. A reader that prevents a checkpoint, or another program that
runs it, such as Litestream, changes nothing about that.
"""

import os
from contextlib import suppress

import apsw

from backstory.errors import CannotOpen, Remedy
from backstory.storage.sqlite.schema import APPLICATION_ID

VALUE_BYTES = 8
NO_VALUE = bytes(VALUE_BYTES)
PREVIOUS_BYTES = 2 * VALUE_BYTES
NOTHING_BEFORE = bytes(PREVIOUS_BYTES)  # in `previous` of the first stamp
# A row in the format of SQLite (https://sqlite.org/fileformat2.html#record_format): the length of
# the record, the number of the row, the length of the header, the types of two blobs, the blobs.
# The type of a blob is 12 plus twice its length. The only row of a table is at the end of the
# table's only page.
HEADER = bytes([3, 12 + 2 * VALUE_BYTES, 12 + 2 * PREVIOUS_BYTES])
RECORD_BYTES = len(HEADER) + VALUE_BYTES + PREVIOUS_BYTES
ROW_START = bytes([RECORD_BYTES, 1]) + HEADER
ROW_BYTES = len(ROW_START) + VALUE_BYTES + PREVIOUS_BYTES
READINGS = 3  # of the file, because another process may be writing the page at that moment

READ_STAMP = "SELECT own, previous FROM stamp"
WRITE_STAMP = "INSERT OR REPLACE INTO stamp (rowid, own, previous) VALUES (1, randomblob(8), ?)"
END_OF_PAGE = f"""
    SELECT rootpage * page_size - {ROW_BYTES}
    FROM sqlite_schema, pragma_page_size, pragma_application_id
    WHERE name = 'stamp' AND application_id = {APPLICATION_ID}"""


def measure_log(path: str) -> int:
    """Return the bytes in the write-ahead log of the store at `path`; 0 if there is no log."""
    try:
        return os.path.getsize(f"{path}-wal")
    except OSError:
        return 0


def empty_log(db: apsw.Connection) -> bool:
    """Write the log into the file and truncate it. Return False if others still use it."""
    [(is_unfinished, _, _)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not is_unfinished


def remove_log(path: str) -> None:
    """Remove the log of a store that nobody uses, and the index of the log."""
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + end)


class StampFile:
    """The file of a store, read without its log. It is opened through SQLite, because closing it
    otherwise would release the locks that this process has on the file."""

    def __init__(self, db: apsw.Connection, path: str) -> None:
        """Raises apsw.Error. `db` is a connection to the store."""
        offsets = [offset for (offset,) in db.execute(END_OF_PAGE)]
        self.has_table = bool(offsets)  # a store before version 4 has no stamp
        self._offset = offsets[0] if offsets else 0
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
        self._file = apsw.VFSFile("", path, [flags, 0])

    def read_own(self) -> bytes:
        """Return `own` of the stamp in the file; NO_VALUE if there is none."""
        start = self._file.xRead(len(ROW_START) + VALUE_BYTES, self._offset)
        if not start.startswith(ROW_START):
            return NO_VALUE
        return start[len(ROW_START) :]

    def close(self) -> None:
        """Close the file."""
        self._file.xClose()


class StampWriter:
    """Writes a new stamp after each checkpoint. Only one thread at a time may use it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: StampFile | None = None
        self._known = b""  # the stamp in the file, if the log is known to have a newer one

    def renew(self, db: apsw.Connection) -> None:
        """Write a new stamp if the last one is in the file. `db` is in a write transaction. The
        log usually has a new stamp already, and then this reads 13 bytes."""
        if self._file is None:
            self._file = StampFile(db, self._path)
        in_file = self._file.read_own()
        if in_file == self._known:
            return
        own, previous = read_stamp(db)
        if in_file == own:
            db.execute(WRITE_STAMP, ((own + previous)[:PREVIOUS_BYTES],))
        else:
            self._known = in_file  # not above: that transaction may be rolled back

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_stamp(db: apsw.Connection) -> tuple[bytes, bytes]:
    """Return `own` and `previous` of the stamp as the log has it."""
    for own, previous in db.execute(READ_STAMP):
        return bytes(own), bytes(previous)
    return NO_VALUE, NOTHING_BEFORE


def check_log(db: apsw.Connection, path: str) -> None:
    """Raise CannotOpen if the write-ahead log beside a store belongs to another file. A log or a
    file without a stamp is accepted. Until this is known, closing `db` must not write the log into
    the file."""
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if measure_log(path) > 0:
        db.execute("BEGIN")  # no checkpoint goes beyond what this transaction sees
        try:
            is_foreign = has_foreign_stamp(db, path)
        finally:
            db.execute("ROLLBACK")
        if is_foreign:
            raise CannotOpen(
                f"{path + '-wal'!r} contains changes to another file than {path!r}, which was "
                "replaced or restored without its log",
                remedy=Remedy(
                    "{} restores a backup, and removes the log; or put the former file back",
                    "restore",
                    ("BACKUP", path),
                ),
            )
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def has_foreign_stamp(db: apsw.Connection, path: str) -> bool:
    """Return True if the file has a stamp, and it is neither the newest one in the log nor one of
    the two before."""
    file = StampFile(db, path)
    try:
        if not file.has_table:
            return False
        own, previous = read_stamp(db)
        if own == NO_VALUE:
            return False
        accepted = (own, previous[:VALUE_BYTES], previous[VALUE_BYTES:], NO_VALUE)
        return all(file.read_own() not in accepted for _ in range(READINGS))
    finally:
        file.close()


def replace_stamp(db: apsw.Connection) -> None:
    """Give a copy of a store a stamp of its own: no log belongs to it."""
    db.execute(WRITE_STAMP, (NOTHING_BEFORE,))
