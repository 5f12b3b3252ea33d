"""The write-ahead log (WAL) beside the file of a store.

"Log" alone means the log of events, as everywhere.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

# A WAL has a header, and a frame for each page (https://sqlite.org/fileformat2.html#walformat).
# Frames that were written before the WAL was started anew have another salt than the header.
WAL_HEADER_BYTES = 32
WAL_SALT = slice(16, 24)
FRAME_HEADER_BYTES = 24
FRAME_PAGE = slice(0, 4)
FRAME_SALT = slice(8, 16)


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
