"""Sources that are files: JSON lines, documents, texts. They are streamed; only small files are kept."""

import codecs
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import orjson

from backstory.errors import Error
from backstory.transcripts.arrays import elements
from backstory.transcripts.checkpoints import Reach
from backstory.transcripts.decode import decode, keys_of, shortened
from backstory.transcripts.format import Head, SourceLine
from backstory.transcripts.meter import Heard
from backstory.transcripts.transcript import Fault, Report

HEAD = 64 * 1024
KEPT = 1024 * 1024  # bytes of a file whose records are kept between two passes
HELD = 48 * 1024 * 1024  # bytes of a larger file whose records are held from one pass to the next
LONGEST = 64 * 1024 * 1024  # of a line, and of a document that is one JSON value
CHUNK = 1024 * 1024
BUFFER = 256 * 1024
AROUND = 4096  # bytes before a checkpoint, and at the beginning, that must still be as they were
OFTEN = 512  # records between two progress reports
FIRST = 5  # lines, one of which is complete if a file has JSON lines
ZSTD, GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # how output redirected by PowerShell 5 begins
BLOWN_UP = 200  # times its compressed size: no transcript is like that
ENOUGH = 256 * 1024 * 1024  # bytes from which on that is checked


class Unreadable(Error):
    """A source that cannot be read at all, and why."""


# Where a record is in its file, as one number, because there are very many. The lowest bits say which record
# of its line it is, from 1; 0 means that the line is a single, undamaged record.
_LENGTH_BITS, _PART_BITS = 27, 5
_LENGTH, _PART = (1 << _LENGTH_BITS) - 1, (1 << _PART_BITS) - 1


def _packed(offset: int, length: int, part: int) -> int:
    return (offset << _LENGTH_BITS | length) << _PART_BITS | (min(part, _PART) if part else 0)


class FileSource:
    """A file."""

    def __init__(self, path: Path, shown: str) -> None:
        self._path = path
        self.path = shown
        self._plain: Path | None = None  # a decompressed copy
        self._reader: IO[bytes] | None = None
        self._room = HELD  # bytes of records that may still be held for the next pass
        self.heard: Heard | None = None  # called with how far it was read
        self._fetched = 0
        self._start = Reach(0, 0)
        self._reached: tuple[int, int] = (0, 0)

    @property
    def reach(self) -> Reach:
        """How far its whole lines were read; `lines` sets it at its end."""
        return Reach(*self._reached)

    @property
    def stem(self) -> str:
        """The name without its suffixes."""
        name = self.path.rsplit("/", 1)[-1]
        for suffix in (".zst", ".gz"):
            name = name.removesuffix(suffix)
        return name.rsplit(".", 1)[0] or name

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of many small files."""
        return self._path.is_dir()

    def size(self) -> int:
        """Its bytes, as they are on the disk."""
        return self._path.stat().st_size

    def __repr__(self) -> str:
        return f"FileSource({self.path!r})"

    # -------------------------------------------------------------- bytes

    def _open(self) -> IO[bytes]:
        """The bytes, decompressed, from the beginning."""
        file = (self._plain or self._path).open("rb", buffering=BUFFER)
        magic = file.read(4)
        file.seek(0)
        unpack = _UNPACKERS.get(magic) or _UNPACKERS.get(magic[:2])
        if unpack is None:
            return file
        with file:
            self._plain = _unpacked(unpack(file), self.size())
        weakref.finalize(self, self._plain.unlink, missing_ok=True)
        return self._open()

    def head(self) -> Head:
        """The beginning, for recognising it."""
        with self._open() as file:
            start = file.read(HEAD)
        text = start.decode("utf-8", "replace").lstrip("\ufeff")
        records = _records(start, len(start) < HEAD)
        keys = keys_of(text) if not records and text.lstrip()[:1] in ("{", "[") else frozenset()
        return Head(records, text, keys, {}, frozenset())

    def peek(self) -> Sequence[Any]:
        """The first records; where the first line alone is longer than a head, that line."""
        records = self.head().records
        if records:
            return records
        with self._open() as file:
            found = decode(file.readline(LONGEST).strip())
        return found.values if found.fault is None else []

    # -------------------------------------------------------------- JSON lines

    def lines(self, report: Report) -> Iterator[SourceLine]:
        """All records. A damaged line is skipped; an incomplete last line is left for the next time."""
        with self._open() as file:
            offset, number = self._reached = self._start
            length = 0
            keep = os.fstat(file.fileno()).st_size - offset <= KEPT and not offset
            file.seek(offset)
            readline, loads, heard = file.readline, orjson.loads, self.heard
            while line := readline(LONGEST):
                number += 1
                length = len(line)
                if heard is not None and number % OFTEN == 0:
                    heard(offset, False)
                try:
                    value = loads(line)
                except orjson.JSONDecodeError:
                    pass
                else:
                    place = value if keep else (offset << _LENGTH_BITS | length) << _PART_BITS
                    yield number, 0, value, place
                    offset += length
                    continue
                cut = length >= LONGEST and not line.endswith(b"\n")
                if cut:
                    line, length = self._shorten(file, line, number, report)
                found = decode(line.strip())
                report.mended.update(found.mended)
                for part, value in enumerate(found.values):
                    place = value if keep or cut else _packed(offset, length, part + 1)
                    yield number, part, value, place
                if found.fault is not None:
                    is_last = not line.endswith(b"\n")
                    (report.torn if is_last else report.damaged).append(
                        Fault(self.path, number, found.fault)
                    )
                offset += length
            self._reached = offset, number
            if length:
                file.seek(-1, os.SEEK_CUR)
                if file.read(1) != b"\n":
                    self._reached = offset - length, number - 1

    def _shorten(
        self, file: IO[bytes], start: bytes, number: int, report: Report
    ) -> tuple[bytes, int]:
        """A line that is too long for memory, with its longest texts shortened."""
        read = [len(start)]

        def chunks() -> Iterator[bytes]:
            yield start
            while chunk := file.readline(CHUNK):
                read[0] += len(chunk)
                yield chunk
                if chunk.endswith(b"\n"):
                    return

        line = shortened(chunks())
        size = read[0]
        report.notes.append(
            Fault(self.path, number, f"a line of {size:,} bytes: its longest texts were shortened")
        )
        return line, size

    def start_at(self, start: Reach) -> None:
        """Let `lines` start after this many bytes and lines."""
        self._start = start

    def offset_of(self, place: Any) -> int | None:
        """Where the line of a record begins; None if that is unknown: it was kept, it is one of several in
        its line, or the file is compressed."""
        if type(place) is not int or place & _PART or self._plain is not None:
            return None
        return place >> _PART_BITS + _LENGTH_BITS

    def digest(self, offset: int, end: int) -> str | None:
        """A digest of the beginning and of what is around a checkpoint, up to the last line that was read, to
        see whether they have changed. None if the file is shorter now."""
        found = blake2b(digest_size=16)
        with self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < end:
                return None
            found.update(file.read(AROUND))
            file.seek(max(offset - AROUND, 0))
            while (left := end - file.tell()) > 0 and (chunk := file.read(min(left, CHUNK))):
                found.update(chunk)
        return found.hexdigest()

    def hold(self, place: Any) -> bool:
        """Whether there is room to hold what is needed of a record until it is told."""
        if type(place) is not int:
            return True
        if self._room <= 0:
            return False
        self._room -= place >> _PART_BITS & _LENGTH
        return True

    def release(self, place: Any) -> bool:
        """Make room: what was held of a record is told. False if its record is kept anyway."""
        if type(place) is not int:
            return False
        self._room += place >> _PART_BITS & _LENGTH
        self._fetched += 1
        if self._fetched % OFTEN == 0:
            self._pass(place)
        return True

    def _pass(self, place: int) -> None:
        """Report how far the second pass is."""
        if self.heard is not None:
            self.heard(place >> _PART_BITS + _LENGTH_BITS, True)

    def fetch(self, place: Any) -> Any:
        """A record again, read from the file if it was not kept."""
        if type(place) is not int:
            return place
        self._fetched += 1
        if self._fetched % OFTEN == 0:
            self._pass(place)
        if self._reader is None:
            self._reader = self._open()
            weakref.finalize(self, self._reader.close)
        where, part = place >> _PART_BITS, place & _PART
        self._reader.seek(where >> _LENGTH_BITS)
        line = self._reader.read(where & _LENGTH)
        if part == 0:
            return orjson.loads(line)
        values = decode(line.strip()).values
        return values[part - 1] if part <= len(values) else {}

    def having(self, words: bytes) -> Iterator[Any]:
        """The records whose line has these bytes."""
        with self._open() as file:
            while line := file.readline(LONGEST):
                if words in line:
                    yield from decode(line.strip()).values

    # -------------------------------------------------------------- others

    def document(self, report: Report) -> Any:
        """The whole as one JSON value."""
        with self._open() as file:
            if os.fstat(file.fileno()).st_size > LONGEST:
                raise Unreadable(f"a document of more than {LONGEST >> 20} MB")
            found = decode(file.read().strip())
        report.mended.update(found.mended)
        if found.fault is not None:
            report.damaged.append(Fault(self.path, None, found.fault))
        return found.values[0] if found.values else None

    def items(self, name: str, report: Report) -> Iterator[Any]:
        """The elements of the array in the file."""
        with self._open() as file:
            yield from elements(file, self.path, report)

    def text_lines(self) -> Iterator[str]:
        """The lines of a text."""
        with self._open() as file:
            while line := file.readline(LONGEST):
                yield line.decode("utf-8", "replace").rstrip("\r\n").replace("\x00", "\\u0000")

    def sibling(self, name: str, report: Report) -> Any:
        """The JSON value in a file beside this one."""
        path = self._path.with_name(name)
        if not path.is_file():
            return None
        beside = FileSource(
            path, f"{self.path.rsplit('/', 1)[0]}/{name}" if "/" in self.path else name
        )
        try:
            return beside.document(report)
        except (OSError, Unreadable) as error:
            report.unread.append(Fault(beside.path, None, str(error)))
            return None

    def files(self, under: str, report: Report) -> Iterator[tuple[str, Any]]:
        """A file has none below it."""
        return iter(())

    def rows(self, query: str, arguments: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """A file is not a database."""
        return iter(())

    def columns(self) -> Mapping[str, set[str]]:
        """A file is not a database."""
        return {}


class Beginning(Sequence[Any]):
    """The values in the first lines of a file, each decoded on demand."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = iter(lines)
        self._values: list[Any] = []

    def _reach(self, count: int | None) -> None:
        while count is None or len(self._values) < count:
            line = next(self._lines, None)
            if line is None:
                return
            self._values.extend(decode(line).values)

    def __getitem__(self, index: Any) -> Any:
        stop = index.stop if isinstance(index, slice) else index + 1
        self._reach(stop if stop is not None and stop > 0 else None)
        return self._values[index]

    def __len__(self) -> int:
        self._reach(None)
        return len(self._values)

    def __bool__(self) -> bool:
        self._reach(1)
        return bool(self._values)


def _records(start: bytes, whole: bool) -> Sequence[Any]:
    """The values in the beginning of a file: one a line, or the whole."""
    lines = [line for line in (line.strip() for line in start.split(b"\n")) if line]
    if not any(
        _is_record(line) for line in lines[:FIRST]
    ):  # then it is one document, of which this is the start
        document = decode(start.strip()) if whole else None
        return document.values if document is not None and document.fault is None else []
    return Beginning(lines if whole else lines[:-1])


def _is_record(line: bytes) -> bool:
    found = decode(line) if line.startswith((b"{", b"\xef\xbb\xbf{")) else None
    return found is not None and found.fault is None and isinstance(found.values[0], dict)


def _zstd(file: IO[bytes]) -> IO[bytes]:
    from backstory.storage.zstd import zstd

    return zstd.ZstdFile(file)  # type: ignore[return-value]


def _gzip(file: IO[bytes]) -> IO[bytes]:
    import gzip

    return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]


def _utf16(file: IO[bytes]) -> IO[bytes]:
    return codecs.EncodedFile(file, "utf-8", "utf-16", "replace")


_UNPACKERS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {ZSTD: _zstd, GZIP: _gzip}
_UNPACKERS |= dict.fromkeys(UTF16, _utf16)


def _unpacked(stream: IO[bytes], packed: int) -> Path:
    """The contents of a stream in a temporary file; more than any transcript has is refused."""
    size = 0
    with tempfile.NamedTemporaryFile(prefix="backstory-", delete=False) as file:
        path = Path(file.name)
        try:
            while chunk := stream.read(CHUNK):
                size += len(chunk)
                if size > ENOUGH and size > packed * BLOWN_UP:
                    raise Unreadable(f"more than {BLOWN_UP} times its size when it is unpacked")
                file.write(chunk)
        except Exception as error:  # each library has its own errors
            path.unlink()
            raise (
                error
                if isinstance(error, Unreadable)
                else Unreadable(f"cannot be unpacked: {error}")
            ) from error
    return path
