"""Input of commands: standard input, JSON and system prompts."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import Timer
from typing import IO, Any

import click

from backstory.cli import output
from backstory.errors import Invalid, InvalidEvent

PATIENCE = 1.0  # seconds without input until a line says that the command is waiting for it


def read_input(what: str) -> str:
    """Return all of standard input as text. On a terminal, the person is asked for `what`."""
    if sys.stdin.isatty():
        output.report(f"Type {what}, then Ctrl-D on a line of its own.")
        return _decode_input()
    hint = "Reading standard input until it ends (</dev/null skips this)."
    timer = Timer(PATIENCE, output.report, (hint,))
    timer.daemon = True
    timer.start()
    try:
        return _decode_input()
    finally:
        timer.cancel()


def read_piped_input() -> str:
    """Return the text of a pipe or a file on standard input. It is empty if standard input is a
    terminal or cannot be read."""
    if sys.stdin.isatty():
        return ""
    with suppress(OSError):
        return read_input("")
    return ""


def _decode_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"standard input is not UTF-8: {error}; nothing was written") from error


def parse_json_option(name: str, text: str | None) -> Any:
    """Return the value of an option that takes JSON."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{name} is not JSON: {error}; nothing was written") from error


def system_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --system and --system-file; the command gets one text."""

    @click.option("--system", metavar="TEXT", help="The system prompt of a new session.")
    @click.option("--system-file", metavar="FILE", type=click.File(), help="The same, from a file.")
    @wraps(function)
    def run(*args: Any, system: str | None, system_file: IO[str] | None, **kwargs: Any) -> Any:
        if system is not None and system_file is not None:
            raise click.UsageError("Give either --system or --system-file, not both.")
        if system_file is not None:
            system = _read_prompt(system_file)
        if system is not None and not system.strip():
            raise Invalid("the system prompt is empty: nothing was written")
        return function(*args, system=system, **kwargs)

    return run


def _read_prompt(file: IO[str]) -> str:
    try:
        return file.read().strip()
    except UnicodeDecodeError as error:
        raise Invalid(f"{file.name!r} is not UTF-8: {error}; nothing was written") from error
