"""Sources that are files: JSON lines, documents, arrays, texts. Large ones are streamed."""

import codecs
import gzip
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import orjson

from backstory.transcripts.decoding import (
    DECODER,
    ESCAPED,
    TOKEN,
    decode_line,
    escape_value,
)
from backstory.transcripts.format import SourceHead, SourceLine
from backstory.transcripts.model import Data, Fault, ImportReport, ReadWhole, SourceTail, Unreadable

T = TypeVar("T")

HEAD = 64 * 1024  # bytes by which a file is recognized
LONGEST = 64 * 1024 * 1024  # bytes of a line, of a document and of an element of an array
CHUNK = 1024 * 1024
BUFFER = 256 * 1024
AROUND = 4096  # bytes at the beginning and before the end of what was read, which must not change
WINDOW = 256 * 1024  # bytes before the end of what was read, from which a tail is read
FIRST_LINES = 5  # one of them is complete if a file has JSON lines
REPORT_EVERY = 256  # records between two reports of progress
ZSTD, GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # how output redirected by PowerShell 5 begins
MOST_UNPACKED = 200  # times its compressed size: no transcript grows more
CHECKED_FROM = 256 * 1024 * 1024  # bytes of an unpacked file from which on that is checked


def read_safely(values: Iterator[T]) -> Iterator[T]:
    """Yield what a format reads. If it fails on a file, which may contain anything, raise
    Unreadable, so that the other files are still imported."""
    while True:
        try:
            value = next(values)
        except StopIteration:
            return
        except (OSError, Unreadable, ReadWhole):
            raise
        except Exception as error:
            raise Unreadable(f"its content is not as expected: {error!r:.200}") from error
        yield value


class LinePlace(NamedTuple):
    """The bytes of a line, and the number of the record in it."""

    offset: int
    length: int
    part: int


class ReadEnd(NamedTuple):
    """How far the whole lines of a file were read."""

    offset: int = 0
    lines: int = 0  # how many were read
    records: int = 0  # how many distinct records they contain


class FileSource:
    """A file."""

    def __init__(self, path: Path, shown: str) -> None:
        self._path = path
        self.path = shown
        self.tail: SourceTail | None = None
        self.is_changed = True
        self.records = 0
        self._end = ReadEnd()  # set by `lines` when it ends
        self.report_progress: Callable[[int], object] | None = None  # called with bytes read
        self._start = ReadEnd()  # the end of the reading before, if there is a tail
        self._plain: Path | None = None  # a decompressed copy
        self._reader: IO[bytes] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def stem(self) -> str:
        """The name without its suffixes."""
        name = self.path.rsplit("/", 1)[-1]
        for suffix in (".zst", ".gz"):
            name = name.removesuffix(suffix)
        return name.rsplit(".", 1)[0] or name

    @property
    def is_folder(self) -> bool:
        """True for a folder of many small files."""
        return self._path.is_dir()

    def get_size(self) -> int:
        """Return the number of bytes on the disk."""
        return self._path.stat().st_size

    def _open(self) -> IO[bytes]:
        """Open the file, decompressed."""
        file = (self._plain or self._path).open("rb", buffering=BUFFER)
        magic = file.read(4)
        file.seek(0)
        unpack = UNPACKERS.get(magic) or UNPACKERS.get(magic[:2])
        if unpack is None:
            return file
        with file:
            self._plain = write_unpacked(unpack(file), self.get_size())
        weakref.finalize(self, self._plain.unlink, missing_ok=True)
        return self._open()

    # --- recognizing ---

    def read_head(self) -> SourceHead:
        """Return the beginning, by which the file is recognized."""
        with self._open() as file:
            start = file.read(HEAD)
        text = start.decode("utf-8", "replace").lstrip("\ufeff")
        records = read_records(start, is_whole=len(start) < HEAD)
        keys: frozenset[str] = frozenset()
        if not records and text.lstrip()[:1] in ("{", "["):
            keys = find_keys(text)
        return SourceHead(records, text, keys)

    def peek(self) -> Sequence[Any]:
        """Return the first records, as far as they are within 64 KB, but at least one."""
        records = self.read_head().records
        if records:
            return records
        with self._open() as file:
            found = decode_line(file.readline(LONGEST).strip())
        return found.values if found.fault is None else []

    # --- JSON lines ---

    def lines(self, report: ImportReport) -> Iterator[SourceLine]:
        """Yield all records, or those of the tail. Damaged lines are skipped and reported."""
        end = start = self._start
        seen: set[int] = set()
        with self._open() as file:
            skipped_lines = 0  # before those that are read
            if self.tail is not None:
                first_line = read_first_line(file)
                skipped_lines = seek_window(file, start)
                if skipped_lines > 0:
                    yield from first_line
            for number, offset, line in self._read_lines(file, skipped_lines, report):
                for part, value in enumerate(self._decode(line, number, report)):
                    if number > start.lines:
                        seen.add(hash((part, line.rstrip())))
                    yield SourceLine(number, value, LinePlace(offset, len(line), part))
                self.records = start.records + len(seen)
                if number > start.lines and line.endswith(b"\n"):
                    end = ReadEnd(offset + len(line), number, self.records)
                report.records += 1
                if self.report_progress is not None and number % REPORT_EVERY == 0:
                    self.report_progress(offset)
        self._end = end

    def _read_lines(
        self, file: IO[bytes], number: int, report: ImportReport
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and bytes of each line. The line before them has this `number`."""
        offset = file.tell()
        while line := file.readline(LONGEST):
            number += 1
            is_whole = len(line) < LONGEST or line.endswith(b"\n")
            if is_whole:
                yield number, offset, line
                offset += len(line)
            else:
                why = f"a line of more than {LONGEST >> 20} MB"
                report.damaged.append(Fault(self.path, number, why))
                skip_line(file)
                offset = file.tell()

    def _decode(self, line: bytes, number: int, report: ImportReport) -> list[Any]:
        try:
            return [orjson.loads(line)]
        except orjson.JSONDecodeError:
            found = decode_line(line.strip())
        report.mended.update(found.mended)
        if found.fault is not None:
            is_torn = not line.endswith(b"\n")
            faults = report.torn if is_torn else report.damaged
            faults.append(Fault(self.path, number, found.fault))
        return found.values

    def fetch(self, place: Any) -> Any:
        """Return a record again."""
        assert place.length, "a place without bytes"
        if self._reader is None:
            self._reader = self._open()
            weakref.finalize(self, self._reader.close)
        self._reader.seek(place.offset)
        values = decode_line(self._reader.read(place.length).strip()).values
        return values[place.part] if place.part < len(values) else {}

    def search(self, words: bytes) -> Iterator[Any]:
        """Yield the records whose line contains these bytes."""
        with self._open() as file:
            while line := file.readline(LONGEST):
                if words in line:
                    yield from decode_line(line.strip()).values

    # --- tails ---

    def describe_end(self) -> Data:
        """Return where the next import can continue. {} if it has to read the whole file."""
        end = self._end
        if self._plain is not None or end.offset <= WINDOW:
            return {}
        digest = self._compute_digest(end.offset)
        return {} if digest is None else {"end": list(end), "digest": digest}

    def continue_at(self, known: Data) -> None:
        """Let `lines` read the tail, unless the file is not the one that was read before."""
        end = ReadEnd(*known["end"])
        digest = self._compute_digest(end.offset)
        if digest is not None and digest == known["digest"]:
            self._start = end
            self.tail = SourceTail(end.lines, end.records, known["state"])

    def read_whole(self) -> None:
        """Let `lines` read the whole file again."""
        self._start = ReadEnd()
        self.tail = None

    def _compute_digest(self, end: int) -> str | None:
        """Return a digest of the beginning and of the bytes before `end`. None: they are gone."""
        found = blake2b(digest_size=16)
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < end:
                    return None
                found.update(file.read(AROUND))
                file.seek(max(end - AROUND, 0))
                found.update(file.read(min(AROUND, end)))
        except OSError:
            return None  # it is reported when it is read
        return found.hexdigest()

    # --- others ---

    def read_document(self, report: ImportReport) -> Any:
        """Return the whole as one JSON value."""
        with self._open() as file:
            if os.fstat(file.fileno()).st_size > LONGEST:
                raise Unreadable(f"a document of more than {LONGEST >> 20} MB")
            found = decode_line(file.read().strip())
        report.mended.update(found.mended)
        if found.fault is not None:
            report.damaged.append(Fault(self.path, None, found.fault))
        return found.values[0] if found.values else None

    def read_items(self, member: str, report: ImportReport) -> Iterator[Any]:
        """Yield the elements of the array in the file."""
        with self._open() as file:
            yield from read_array(file, self.path, report)

    def read_text(self) -> Iterator[str]:
        """Yield the lines of a text, without their ends."""
        with self._open() as file:
            while line := file.readline(LONGEST):
                yield line.decode("utf-8", "replace").rstrip("\r\n").replace("\x00", "\\u0000")

    def read_sibling(self, name: str, report: ImportReport) -> Any:
        """Return the JSON value in a file beside this one. None if there is none."""
        path = self._path.with_name(name)
        if not path.is_file():
            return None
        folder, slash, _ = self.path.rpartition("/")
        sibling = FileSource(path, f"{folder}{slash}{name}")
        try:
            return sibling.read_document(report)
        except (OSError, Unreadable) as error:
            report.add_unread(sibling.path, error)
            return None

    def read_files(self, under: str, report: ImportReport) -> Iterator[tuple[str, Any]]:
        """Yield nothing: a file has none below it."""
        return iter(())

    def read_rows(self, query: str, arguments: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield nothing: a file is not a database."""
        return iter(())

    def list_columns(self) -> Mapping[str, set[str]]:
        """Return nothing: a file is not a database."""
        return {}


def skip_line(file: IO[bytes]) -> None:
    """Read the rest of a line."""
    while chunk := file.readline(CHUNK):
        if chunk.endswith(b"\n"):
            return


def read_first_line(file: IO[bytes]) -> list[SourceLine]:
    """Return the records in the first line."""
    line = file.readline(LONGEST)
    values = decode_line(line.strip()).values
    return [
        SourceLine(1, value, LinePlace(0, len(line), part)) for part, value in enumerate(values)
    ]


def seek_window(file: IO[bytes], end: ReadEnd) -> int:
    """Go to the line with which a tail begins. Return how many lines are before it."""
    size = WINDOW
    while True:
        start = max(end.offset - size, 0)
        file.seek(start)
        text = file.read(end.offset - start)
        skipped = text.index(b"\n") + 1 if start else 0
        if start == 0 or skipped < len(text):
            file.seek(start + skipped)
            return end.lines - text.count(b"\n", skipped)
        size *= 2  # the last line is longer


# --- the beginning of a file ---


def read_records(start: bytes, *, is_whole: bool) -> Sequence[Any]:
    """Return the values in the beginning of a file: one for each line, or the document."""
    lines = [line.strip() for line in start.split(b"\n")]
    lines = [line for line in lines if line]
    if any(is_record(line) for line in lines[:FIRST_LINES]):
        values: list[Any] = []
        for line in lines if is_whole else lines[:-1]:
            values += decode_line(line).values
        return values
    if not is_whole:
        return []  # the beginning of one document
    document = decode_line(start.strip())
    return document.values if document.fault is None else []


def is_record(line: bytes) -> bool:
    """Return True if a line is a JSON object."""
    if not line.startswith((b"{", b"\xef\xbb\xbf{")):
        return False
    found = decode_line(line)
    return found.fault is None and isinstance(found.values[0], dict)


def find_keys(text: str) -> frozenset[str]:
    """Return the top-level keys in the beginning of a JSON object, or of an array of objects."""
    found: set[str] = set()
    depth = 0
    top = 2 if text.lstrip()[:1] == "[" else 1
    for token in TOKEN.finditer(text):
        mark = token[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
        elif depth == top and token["key"]:
            found.add(token["name"])
    return frozenset(found)


# --- compressed files ---


def open_zstd(file: IO[bytes]) -> IO[bytes]:
    """Return a stream of the unpacked bytes."""
    from backstory.storage.zstd import zstd  # here, because few files need it

    return zstd.ZstdFile(file)  # type: ignore[return-value]


def open_gzip(file: IO[bytes]) -> IO[bytes]:
    """Return a stream of the unpacked bytes."""
    return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]


def open_utf16(file: IO[bytes]) -> IO[bytes]:
    """Return a stream of the bytes in UTF-8."""
    return codecs.EncodedFile(file, "utf-8", "utf-16", "replace")


UNPACKERS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {ZSTD: open_zstd, GZIP: open_gzip}
UNPACKERS |= dict.fromkeys(UTF16, open_utf16)


def write_unpacked(stream: IO[bytes], packed_size: int) -> Path:
    """Write a stream to a temporary file. More than any transcript has is refused."""
    size = 0
    with tempfile.NamedTemporaryFile(prefix="backstory-", delete=False) as file:
        path = Path(file.name)
        try:
            while chunk := stream.read(CHUNK):
                size += len(chunk)
                if size > CHECKED_FROM and size > packed_size * MOST_UNPACKED:
                    raise Unreadable(f"more than {MOST_UNPACKED} times its size when unpacked")
                file.write(chunk)
        except Unreadable:
            path.unlink()
            raise
        except Exception as error:  # each library has its own errors
            path.unlink()
            raise Unreadable(f"cannot be unpacked: {error}") from error
    return path


# --- arrays that do not fit into memory ---


def read_array(file: IO[bytes], path: str, report: ImportReport) -> Iterator[Any]:
    """Yield the elements of the array in a file; if it is an object, the object itself."""
    text = ArrayText(file)
    if not text.skip(" \t\r\n\ufeff"):
        return
    is_array = text.take("[")
    while text.skip(" \t\r\n,") and not text.take("]"):
        try:
            value, is_escaped = escape_value(text.read_value())
        except (ValueError, RecursionError) as error:
            report.damaged.append(Fault(path, None, f"the rest is not JSON: {error}"))
            return
        if is_escaped:
            report.mended[ESCAPED] += 1
        yield value
        if not is_array:
            return


class ArrayText:
    """The text of a file, of which only the next element is in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""

    def skip(self, marks: str) -> bool:
        """Skip these characters. Return False at the end."""
        while True:
            self._text = self._text.lstrip(marks)
            if self._text:
                return True
            if not self._read_more(CHUNK):
                return False

    def take(self, mark: str) -> bool:
        """Remove a character if it is next, and return True then."""
        if not self._text.startswith(mark):
            return False
        self._text = self._text[len(mark) :]
        return True

    def read_value(self) -> Any:
        """Return the next value. The longer it is, the more is read at once."""
        while True:
            try:
                value, end = DECODER.raw_decode(self._text)
            except ValueError:
                is_long = len(self._text) > LONGEST
                if is_long or not self._read_more(max(CHUNK, len(self._text))):
                    raise
                continue
            if end == len(self._text) and self._read_more(CHUNK):
                continue  # a number may go on
            self._text = self._text[end:]
            return value

    def _read_more(self, size: int) -> bool:
        chunk = self._file.read(size)
        self._text += self._decoder.decode(chunk, final=not chunk)
        return bool(chunk)
