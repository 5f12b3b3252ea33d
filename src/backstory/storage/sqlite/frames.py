"""Compressed events: content and data of an event as one zstd frame, in the column `packed`.

`add_rows` compresses: imported histories are large, and seldom read. Appended events are not
compressed. In a compressed row, `content` and `data` are NULL, and `size` has the bytes of both, so
that sizes can be read without decompressing. Only messages are compressed: the indexes need the
contents of notes.

Statements read compressed rows through the expressions below. For other rows, the expressions are
as fast as the columns.
"""

import os
import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from backstory.errors import Corrupt, Remedy
from backstory.log.events import StoredRow
from backstory.log.kinds import MESSAGE_KINDS

if TYPE_CHECKING:
    from backstory.storage.zstd import zstd

# For readers of the log: raise Corrupt if the frame is damaged.
CONTENT = "iif(e.packed IS NULL, e.content, read_content(e.packed))"
DATA = "iif(e.packed IS NULL, e.data, read_data(e.packed))"
# For code that must get past a damaged event: both are NULL then.
CONTENT_OR_NULL = "iif(e.packed IS NULL, e.content, try_content(e.packed))"
DATA_OR_NULL = "iif(e.packed IS NULL, e.data, try_data(e.packed))"
# SQLite knows the length of a column without reading it, but not the length of an expression.
SIZE = "coalesce(e.size, coalesce(octet_length(e.content), 0) + coalesce(octet_length(e.data), 0))"
DAMAGED_FRAMES = """
    SELECT a.name, a.id, e.seq FROM events e JOIN agents a ON a.no = e.agent
    WHERE e.packed IS NOT NULL AND try_content(e.packed) IS NULL AND try_data(e.packed) IS NULL
    ORDER BY e.id"""
EVENT_OF_FRAME = """
    SELECT a.name, e.seq FROM events e JOIN agents a ON a.no = e.agent
    WHERE e.packed = ? ORDER BY e.id LIMIT 1"""

SMALLEST = 100  # bytes of text that are worth a frame
LARGEST_RATIO = 0.9  # of a frame's bytes to those of its text; a larger frame is not stored
LEVEL = 1  # higher ones save little more, and take twice as long

SEPARATOR = b"\0"  # between content and data; no text in a store contains it
NO_CONTENT = b"\0\0"  # before the data of an event whose content is NULL


class FrameTexts(NamedTuple):
    """The texts of an event that are in a frame."""

    content: str | None
    data_json: str | None


class StoredTexts(NamedTuple):
    """The values of an event's columns that contain its texts, compressed or not."""

    content: str | None
    data_json: str | None
    packed: bytes | None
    size: int | None


class FrameWriter:
    """Compresses the texts of events."""

    def __init__(self) -> None:
        from backstory.storage.zstd import zstd

        # With a checksum, a damaged frame is never read as another text.
        options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: LEVEL,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        self._compressor = zstd.ZstdCompressor(options=options)

    def compress(self, row: StoredRow) -> StoredTexts:
        """Return the texts of `row` as a frame, if that is worth it."""
        plain = StoredTexts(row.content, row.data_json, None, None)
        if row.kind not in MESSAGE_KINDS:
            return plain
        text = join_texts(row.content, row.data_json)
        if len(text) < SMALLEST:
            return plain
        frame = self._compressor.compress(text, self._compressor.FLUSH_FRAME)
        if len(frame) >= len(text) * LARGEST_RATIO:
            return plain
        return StoredTexts(None, None, frame, row.size)


def join_texts(content: str | None, data_json: str | None) -> bytes:
    """Return the bytes that a frame contains."""
    if data_json is None:
        return (content or "").encode()
    if content is None:
        return NO_CONTENT + data_json.encode()
    return content.encode() + SEPARATOR + data_json.encode()


class FrameReader:
    """Decompresses the frames that the statements of one connection read."""

    def __init__(self) -> None:
        self._frame: bytes | None = None
        self._texts = FrameTexts(None, None)

    def register(self, db: apsw.Connection) -> None:
        """Define the SQL functions that the expressions above call."""
        functions: dict[str, Callable[..., Any]] = {
            "read_content": lambda frame: self._read(frame).content,
            "read_data": lambda frame: self._read(frame).data_json,
            "try_content": lambda frame: self._try_read(frame).content,
            "try_data": lambda frame: self._try_read(frame).data_json,
        }
        for name, function in functions.items():
            db.create_scalar_function(name, function, 1, deterministic=True)
        self._db = weakref.ref(db)

    def _read(self, frame: bytes) -> FrameTexts:
        """Return the texts in a frame. The error of a damaged frame names its event."""
        try:
            return self._decompress(frame)
        except Corrupt as error:
            db = self._db()
            event = None if db is None else db.execute(EVENT_OF_FRAME, (frame,)).fetchone()
            if event is None:
                raise
            agent, seq = event
            raise build_frame_error(f"event {seq} of agent {agent!r}") from error

    def _try_read(self, frame: bytes) -> FrameTexts:
        """Return the texts in a frame, or none if it is damaged."""
        try:
            return self._decompress(frame)
        except Corrupt:
            return FrameTexts(None, None)

    def _decompress(self, frame: bytes) -> FrameTexts:
        # A statement reads the content and then the data of the same row.
        if frame != self._frame:
            self._texts = read_frame(frame)
            self._frame = frame
        return self._texts


def read_frame(frame: bytes) -> FrameTexts:
    """Return the content and the data in a frame. Raises Corrupt."""
    from backstory.storage.zstd import zstd

    try:
        has_number = zstd.get_frame_info(frame).dictionary_id != 0
        decompressor = zstd.ZstdDecompressor(load_old_dictionary(with_tables=has_number))
        text = decompressor.decompress(frame).decode()
    except (zstd.ZstdError, UnicodeDecodeError) as error:
        raise build_frame_error() from error
    # Bytes after the end may be the checksum of a frame whose damaged header denies it.
    if not decompressor.eof or decompressor.unused_data:
        raise build_frame_error()
    match text.split("\0", 3):
        case [content]:
            return FrameTexts(content, None)
        case [content, data_json]:
            return FrameTexts(content, data_json)
        case ["", "", data_json]:
            return FrameTexts(None, data_json)
    raise build_frame_error()


@cache
def load_old_dictionary(*, with_tables: bool) -> "zstd.ZstdDict":
    """Return the dictionary of frames that an earlier version wrote. New frames have none, because
    stores are only 18 % larger without it (1,744 KB instead of 1,482; not compressed 2,924).

    A frame can only be read with the dictionary that it was written with, so the files never
    change. Later frames name a dictionary with tables; the first ones name none, like frames
    without a dictionary, which the bare dictionary reads, too, because they do not refer to it.
    """
    from backstory.storage.zstd import zstd

    words = read_neighbour("dictionary.txt")
    if with_tables:
        return zstd.ZstdDict(read_neighbour("dictionary.tables") + words)
    return zstd.ZstdDict(words, is_raw=True)


def read_neighbour(name: str) -> bytes:
    """Return the content of a file in the folder of this module."""
    path = os.path.join(os.path.dirname(__file__), name)
    with open(path, "rb") as file:
        return file.read()


def build_frame_error(event: str = "a packed event") -> Corrupt:
    """Return the error for a frame that cannot be read."""
    return Corrupt(f"{event} is damaged", remedy=Remedy("{} shows everything that is", "verify"))
