"""Reads a JSON array that does not fit into memory, element by element."""

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any

from backstory.transcripts.decode import ESCAPED, clean
from backstory.transcripts.transcript import Fault, Report

CHUNK = 1024 * 1024
LONGEST = 64 * 1024 * 1024  # characters of an element
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda name: name)


def elements(file: IO[bytes], path: str, report: Report) -> Iterator[Any]:
    """The elements of the array in a file; if it is an object, the object itself."""
    buffer = _Buffer(file)
    if not buffer.skip(" \t\r\n\ufeff"):
        return
    if buffer.text[0] != "[":
        yield from _one(buffer, path, report)
        return
    buffer.text = buffer.text[1:]
    while buffer.skip(" \t\r\n,") and buffer.text[0] != "]":
        try:
            value, escaped = clean(buffer.value())
        except (ValueError, RecursionError) as error:
            report.damaged.append(Fault(path, None, f"the rest is not JSON: {error}"))
            return
        report.mended.update([ESCAPED] if escaped else [])
        yield value


def _one(buffer: "_Buffer", path: str, report: Report) -> Iterator[Any]:
    try:
        yield clean(buffer.value())[0]
    except (ValueError, RecursionError) as error:
        report.damaged.append(Fault(path, None, f"not JSON: {error}"))


class _Buffer:
    """The text of a file, starting at the next element."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""

    def more(self, size: int = CHUNK) -> bool:
        """Read more; return False at the end."""
        chunk = self._file.read(size)
        self.text += self._decoder.decode(chunk, final=not chunk)
        return bool(chunk)

    def skip(self, marks: str) -> bool:
        """Skip these characters; return False at the end."""
        while not (text := self.text.lstrip(marks)):
            self.text = ""
            if not self.more():
                return False
        self.text = text
        return True

    def value(self) -> Any:
        """The value that begins here. The longer it is, the more is read at once."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text)
            except ValueError:
                if len(self.text) > LONGEST or not self.more(max(CHUNK, len(self.text))):
                    raise
                continue
            if end == len(self.text) and self.more():  # a number may go on
                continue
            self.text = self.text[end:]
            return value
