"""Measures pictures, recordings and documents by the first bytes of their files.

Nothing is decoded and nothing raises: a file that cannot be read has no size.
"""

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

# As much of a file as is looked at: the header of a picture, or all of a usual document.
HEADER = 1 << 18
DOCUMENT = 1 << 24

SMALLEST_HEADER = 30
PNG = b"\x89PNG\r\n\x1a\n"
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_STREAM = re.compile(rb"stream\r?\n")
_STREAM_END = b"endstream"
_LITERAL = re.compile(rb"\(((?:[^()\\]|\\.)*)\)", re.DOTALL)
_HEXADECIMAL = re.compile(rb"<([0-9A-Fa-f]+)>")
STREAMS = 500  # of a PDF that are looked into
_NO_SIZE_MARKERS = frozenset(
    {0xC4, 0xC8, 0xCC}
)  # Huffman tables and the like, among the frame headers


class Size(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


class Pdf(NamedTuple):
    """A document in pages."""

    pages: int
    letters: int


def decode_start(data: str, most: int) -> bytes:
    """Return the first bytes of base64 in either alphabet, or none if it is not base64."""
    characters = most * 4 // 3 // 4 * 4
    text = data[:characters].translate(_TO_STANDARD)
    if len(text) % 4 == 1:  # line breaks were cut out of the middle
        text = text[:-1]
    padding = "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text + padding)
    except (binascii.Error, ValueError):
        return b""


_TO_STANDARD = str.maketrans("-_", "+/", " \r\n=")


def measure_image(data: str) -> Size | None:
    """Return the size of a PNG, GIF, JPEG or WebP picture, or None."""
    size = _read_size(decode_start(data, HEADER))
    return size if size and all(size) else None


def _read_size(head: bytes) -> Size | None:
    if len(head) < SMALLEST_HEADER:
        return None
    if head.startswith(PNG):
        return Size(*struct.unpack(">II", head[16:24]))
    if head.startswith(b"GIF8"):
        return Size(*struct.unpack("<HH", head[6:10]))
    if head.startswith(b"\xff\xd8"):
        return _read_jpeg_size(head)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _read_webp_size(head)
    return None


def _read_jpeg_size(head: bytes) -> Size | None:
    """Read the segments one by one; that which begins the frame has the size."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        is_frame = 0xC0 <= marker <= 0xCF
        if is_frame and marker not in _NO_SIZE_MARKERS:
            numbers = head[at + 5 : at + 9]
            height, width = struct.unpack(">HH", numbers)
            return Size(width, height)
        length = int.from_bytes(head[at + 2 : at + 4], "big")
        at += 2 + length
    return None


def _read_webp_size(head: bytes) -> Size | None:
    chunk = head[12:16]
    if chunk == b"VP8X":
        width = int.from_bytes(head[24:27], "little")
        height = int.from_bytes(head[27:30], "little")
        return Size(width + 1, height + 1)
    if chunk == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        width = bits & 0x3FFF
        height = bits >> 14 & 0x3FFF
        return Size(width + 1, height + 1)
    if chunk == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return Size(width & 0x3FFF, height & 0x3FFF)
    return None


def measure_seconds(data: str, bits_per_second: int) -> float:
    """Return the length of a recording. A WAV file has its rate in its header; others are taken to
    have the rate `bits_per_second`."""
    head = decode_start(data, 64)
    size = len(data) * 3 // 4
    is_wav = head.startswith(b"RIFF") and head[8:12] == b"WAVE"
    if is_wav and len(head) >= 32:
        bytes_per_second = int.from_bytes(head[28:32], "little")
        return size / (bytes_per_second or 1)
    return size * 8 / bits_per_second


def measure_pdf(data: str) -> Pdf | None:
    """Return the pages of a PDF and the letters on them, or None if it is not one."""
    file = decode_start(data, DOCUMENT)
    if not file.startswith(b"%PDF"):
        return None
    pages = len(_PAGE.findall(file))
    letters = 0
    for stream in _find_streams(file):
        text = _decompress(stream)
        pages += len(_PAGE.findall(text))
        if b"BT" in text:
            letters += _count_letters(text)
    return Pdf(max(1, pages), letters)


def _find_streams(file: bytes) -> Iterator[bytes]:
    """Yield the first streams of a PDF. No byte is searched twice: the file may be anything."""
    position = 0
    for _ in range(STREAMS):
        beginning = _STREAM.search(file, position)
        if beginning is None:
            return
        end = file.find(_STREAM_END, beginning.end())
        if end < 0:
            return
        yield file[beginning.end() : end]
        position = end + len(_STREAM_END)


def _decompress(stream: bytes) -> bytes:
    """Decompress a stream. Nearly all are compressed, and pictures do not matter here."""
    try:
        return zlib.decompressobj().decompress(stream, HEADER)
    except zlib.error:
        return b""


def _count_letters(page: bytes) -> int:
    """Count the letters of a page: texts stand in parentheses, a byte for each letter, or in
    hexadecimal, two bytes for each."""
    letters = 0
    for text in _LITERAL.findall(page):
        letters += len(text)
    for text in _HEXADECIMAL.findall(page):
        letters += len(text) // 4
    return letters


def read_text_file(data: str) -> str:
    """Return the text of a file that is nothing but text, else an empty text."""
    try:
        return decode_start(data, DOCUMENT).decode()
    except UnicodeDecodeError:
        return ""
