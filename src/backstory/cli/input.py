"""Input for commands: text on standard input, and system prompts."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import Timer
from typing import IO, Any

import click

from backstory.cli import output as screen
from backstory.errors import Invalid, InvalidEvent

PATIENCE = 1.0  # seconds without input until a line says what is being waited for


def standard_input(what: str) -> str:
    """All of standard input as text. On a terminal, the person is asked for it."""
    if sys.stdin.isatty():
        screen.say(f"Type {what}, then Ctrl-D on a line of its own.")
        return _read()
    told = Timer(
        PATIENCE, screen.say, ("Reading standard input until it ends (</dev/null skips this).",)
    )
    told.daemon = True
    told.start()
    try:
        return _read()
    finally:
        told.cancel()


def piped_input() -> str:
    """Text from a pipe or a file on standard input; empty if it is a terminal or cannot be read."""
    if sys.stdin.isatty():
        return ""
    with suppress(OSError):
        return standard_input("")
    return ""


def _read() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"standard input is not UTF-8: {error}; nothing was written") from error


def json_option(name: str, text: str | None) -> Any:
    """The value of an option that takes JSON."""
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
        prompt = system if system_file is None else _text_of(system_file)
        if prompt is not None and not prompt.strip():
            raise Invalid("the system prompt is empty: nothing was written")
        return function(*args, system=prompt, **kwargs)

    return run


def _text_of(file: IO[str]) -> str:
    try:
        return file.read().strip()
    except UnicodeDecodeError as error:
        raise Invalid(f"{file.name!r} is not UTF-8: {error}; nothing was written") from error
