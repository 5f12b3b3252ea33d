"""Packed events: the content and the data of an event as one zstd frame, in the column `packed`.

What an intake brings is packed: imported histories are large, and seldom read. What is appended stays as it
is. In a packed row, `content` and `data` are NULL, and `size` has the bytes that both have, so that sizes can
be told without unpacking. Only messages are packed: the indexes need the contents of notes.

Statements read packed rows through the expressions below. They cost nothing for other rows.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import apsw

from backstory.errors import Corrupt, Remedy
from backstory.log.events import EncodedRow, TextAndData, decoded
from backstory.log.kinds import SPOKEN

if TYPE_CHECKING:
    from backstory.storage.zstd import zstd

# What a reader of the log gets: raises Corrupt if the frame is damaged.
CONTENT = "iif(e.packed IS NULL, e.content, unpacked_content(e.packed))"
DATA = "iif(e.packed IS NULL, e.data, unpacked_data(e.packed))"
# For code that must get past a damaged event: both are NULL then.
CONTENT_LEFT = "iif(e.packed IS NULL, e.content, content_left(e.packed))"
DATA_LEFT = "iif(e.packed IS NULL, e.data, data_left(e.packed))"
# SQLite knows the length of a column without reading it, but not the length of an expression.
SIZE = "coalesce(e.size, coalesce(octet_length(e.content), 0) + coalesce(octet_length(e.data), 0))"
DAMAGED = """
    SELECT a.name, a.id, e.seq FROM events e JOIN agents a ON a.no = e.agent
    WHERE e.packed IS NOT NULL AND content_left(e.packed) IS NULL AND data_left(e.packed) IS NULL
    ORDER BY e.id"""

HOLDER = """
    SELECT a.name, e.seq FROM events e JOIN agents a ON a.no = e.agent
    WHERE e.packed = ? ORDER BY e.id LIMIT 1"""

WORTH_PACKING = 100  # bytes
WORTH_KEEPING = 0.9  # of what a frame has packed
LEVEL = 1  # higher ones save little more, and take twice as long

TABLES = "dictionary.tables"

CREATED_US = 4  # the column of a packed row that has its time

_END = b"\0"  # between content and data; no text in a store contains it
_NO_CONTENT = b"\0\0"  # before the data of an event whose content is NULL


def dictionary() -> bytes:
    """What packed events have in common: words, phrases and names of fields that are frequent in transcripts,
    written by hand. What is near the end costs a frame the least. A frame can only be read with the
    dictionary that it was written with, so this one never changes."""
    return _file_beside("dictionary.txt")


def tables() -> bytes:
    """How often which byte, length and distance is seen in frames, as zstd keeps it before a dictionary, with
    the dictionary's number. `tools.tables` made them; they never change either."""
    return _file_beside(TABLES)


def _file_beside(name: str) -> bytes:
    from pathlib import Path

    return Path(__file__).with_name(name).read_bytes()


@cache
def _whole_dictionary() -> "zstd.ZstdDict":
    from backstory.storage.zstd import zstd

    return zstd.ZstdDict(tables() + dictionary())


@cache
def _bare_dictionary() -> "zstd.ZstdDict":
    """The dictionary of frames without a number: they were written before there were tables."""
    from backstory.storage.zstd import zstd

    return zstd.ZstdDict(dictionary(), is_raw=True)


class Packer:
    """Packs rows."""

    def __init__(self) -> None:
        from backstory.storage.zstd import zstd

        # With a checksum, a damaged frame is never read as another text.
        options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: LEVEL,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        shared = _whole_dictionary().as_digested_dict
        self._compressor = zstd.ZstdCompressor(options=options, zstd_dict=shared)

    def packed(self, rows: Sequence[EncodedRow]) -> Iterator[tuple[Any, ...]]:
        """The rows of events, packed where that is worth it."""
        compress = self._compressor.compress
        end: Literal[2] = self._compressor.FLUSH_FRAME
        for seq, kind, content, data, at, key, base, digest in rows:
            plain = _plain(content, data)
            if kind in SPOKEN and len(plain) >= WORTH_PACKING:
                frame = compress(plain, end)
                if len(frame) < len(plain) * WORTH_KEEPING:
                    size = len(content or b"") + len(data or b"")
                    yield seq, kind, None, None, at, key, base, digest, frame, size
                    continue
            texts = decoded(content), decoded(data)
            yield seq, kind, *texts, at, key, base, digest, None, None


def _plain(content: bytes | None, data: bytes | None) -> bytes:
    """What is packed of an event."""
    if data is None:
        return content or b""
    return _NO_CONTENT + data if content is None else content + _END + data


class Unpacker:
    """Unpacks the frames that the statements of one connection meet, one after the other."""

    def __init__(self) -> None:
        self._frame: bytes | None = None
        self._parts: TextAndData = (None, None)

    def register(self, db: apsw.Connection) -> None:
        """Make the functions known that the expressions use."""
        functions: dict[str, Callable[..., Any]] = {
            "unpacked_content": lambda frame: self._unpacked(frame)[0],
            "unpacked_data": lambda frame: self._unpacked(frame)[1],
            "content_left": lambda frame: self._left(frame)[0],
            "data_left": lambda frame: self._left(frame)[1],
        }
        for name, function in functions.items():
            db.create_scalar_function(name, function, 1, deterministic=True)
        self._db = weakref.ref(db)

    def _unpacked(self, frame: bytes) -> TextAndData:
        try:
            return self._both(frame)
        except Corrupt as error:
            db = self._db()
            holder = db.execute(HOLDER, (frame,)).fetchone() if db is not None else None
            raise (
                _damaged(f"event {holder[1]} of agent {holder[0]!r}") if holder else error
            ) from error

    def _both(self, frame: bytes) -> TextAndData:
        # A statement asks for the content and then for the data of the same row.
        if frame != self._frame:
            self._parts = unpacked(frame)
            self._frame = frame
        return self._parts

    def _left(self, frame: bytes) -> TextAndData:
        try:
            return self._both(frame)
        except Corrupt:
            return None, None


def unpacked(frame: bytes) -> TextAndData:
    """The content and the data in a frame; raises Corrupt."""
    from backstory.storage.zstd import zstd

    try:
        is_bare = zstd.get_frame_info(frame).dictionary_id == 0
        decompressor = zstd.ZstdDecompressor(_bare_dictionary() if is_bare else _whole_dictionary())
        text = decompressor.decompress(frame).decode()
    except (zstd.ZstdError, UnicodeDecodeError) as error:
        raise _damaged() from error
    # Bytes behind the end would be the checksum of a frame whose header no longer says that it has one.
    is_whole = decompressor.eof and not decompressor.unused_data
    match text.split("\0", 3) if is_whole else ():
        case [content]:
            return content, None
        case [content, data]:
            return content, data
        case ["", "", data]:
            return None, data
    raise _damaged()


def _damaged(which: str = "a packed event") -> Corrupt:
    return Corrupt(f"{which} is damaged", remedy=Remedy("{} shows everything that is", "verify"))
