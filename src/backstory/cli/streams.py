"""Prepares the standard streams before a command runs, and silences them after it was stopped."""

import os
import sys
from io import RawIOBase, TextIOWrapper


def prepare() -> None:
    """Replace closed streams, buffer the output, and accept every character."""
    _replace_closed()
    if isinstance(sys.stdout, TextIOWrapper) and isinstance(sys.stdout.buffer, RawIOBase):
        sys.stdout = _buffered(sys.stdout)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character gets its number
            stream.reconfigure(errors="backslashreplace")


def silence() -> None:
    """Write nothing more: what is still in the buffers must not fail at the very end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def _replace_closed() -> None:
    """A caller may have closed them (>&-). A write must not fail because there is no reader, and no file of
    the store may get the number of a stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _buffered(stream: TextIOWrapper) -> TextIOWrapper:
    """A stream of Python's unbuffered mode (PYTHONUNBUFFERED=1), with a buffer. Without one, Python
    ignores how much of a long text was written: when the reader leaves in the middle of it, there is no
    error."""
    return open(stream.fileno(), "w", encoding=stream.encoding, closefd=False)
