"""The group of all commands, and how a run of one of them ends.

A command's module is imported when the command is run; the help needs only the table of commands.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from io import RawIOBase, TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

import click

from backstory import __version__
from backstory.cli.commands import (
    ALIASES,
    COMMANDS,
    FAMILIES,
    HINTS,
    SHELL_ONLY,
    get_module,
    list_names,
)
from backstory.errors import Error, Invalid
from backstory.present.text import in_commands, visible

if TYPE_CHECKING:
    from backstory.agent import Agent
    from backstory.store import Store

FAILED, MISUSED = 1, 2
CTRL_C, CLOSED_PIPE = 130, 141  # what a shell reports for a process that SIGINT or SIGPIPE ended


class CommandEnd(Exception):
    """The person or the reader ended the command; `code` is what a shell would report."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class CommandGroup(click.Group):
    """The group that imports a command only to run it."""

    def invoke(self, ctx: click.Context) -> object:
        # Before click sees them: it would exit with 1 for both, and print a line.
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise CommandEnd(CLOSED_PIPE) from error
        except KeyboardInterrupt as error:
            raise CommandEnd(CTRL_C) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *ALIASES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module = import_module(f"backstory.cli.commands.{get_module(name)}")
        command: click.Command = getattr(module, name.replace("-", "_") + "_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            self.refuse_name(ctx, args[0])
        return super().resolve_command(ctx, args)

    def refuse_name(self, ctx: click.Context, name: str) -> NoReturn:
        """Raise the error for a name that is not a command, with the names that may be meant."""
        from difflib import get_close_matches

        meant = HINTS.get(name) or " or ".join(get_close_matches(name, self.list_commands(ctx)))
        hint = f"Did you mean {meant}?" if meant else "See backstory --help."
        ctx.fail(f"No such command {visible(name)!r}. {hint}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(list_names(name)) for name in COMMANDS)
        for family in FAMILIES:
            rows = [
                (list_names(name).ljust(width), text) for name, text in family.summaries.items()
            ]
            with formatter.section(family.title):
                formatter.write_dl(rows)


@click.command(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="REF names an agent: NAME, SESSION/NAME, or the beginning of an id. Without REF, or "
    "with @, a command works on the agent that was written to last. REF@12 is position 12 of the "
    "agent, REF@-3 is three positions before its head, REF@LABEL is a mark, and "
    "REF@2026-10-01T12:00 or REF@yesterday is a time.",
)
@click.version_option(__version__, message="backstory %(version)s")
@click.option(
    "--store",
    metavar="URL",
    help="The store to use (default: $BACKSTORY_STORE, or a file in your data folder).",
)
@click.pass_context
def cli(ctx: click.Context, store: str | None) -> None:
    """Keep the history of LLM conversations: look at it, rewind, fork, search and check it."""
    ctx.obj = store


def run(arguments: list[str]) -> int:
    """Run a command and return the exit code: 0 for success, 1 for a failure, 2 for a usage
    error."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            code = cli.main(arguments, prog_name="backstory", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except Error as error:
        print(f"backstory: {visible(in_commands(error), keep='')}", file=sys.stderr)
        return MISUSED if isinstance(error, Invalid) else FAILED
    except CommandEnd as end:
        return _end_silently(end.code)
    except (KeyboardInterrupt, click.Abort):
        return _end_silently(CTRL_C)
    except BrokenPipeError:  # of what was still in the buffer
        return _end_silently(CLOSED_PIPE)
    except OSError as error:
        print(f"backstory: {visible(str(error), keep='')}", file=sys.stderr)
        return FAILED


def _print_warning(message: Warning | str, *_place: object, **_more: object) -> None:
    """Print a warning on one line, without the place in the code."""
    print(f"backstory: warning: {visible(str(message), keep='')}", file=sys.stderr)


def run_command(store: "Store", agent: "Agent", arguments: Sequence[str]) -> None:
    """Run a command for another program, such as the chat, on its open `store`.

    Without a reference, or with `@`, the command works on `agent`. Nothing goes through a pager.
    Raises Error for whatever is wrong, and for commands that only a shell runs, such as `delete`.
    """
    from backstory.cli.stores import lend_store

    name = next(iter(arguments), "")
    if name in SHELL_ONLY:
        raise Invalid(f"{name} does not run here", remedy=f"use `backstory {name}` in a shell")
    try:
        with lend_store(store, agent):
            cli.main(list(arguments), prog_name="backstory", standalone_mode=False)
    except click.ClickException as error:
        raise Invalid(error.format_message()) from error
    except CommandEnd as end:
        raise (BrokenPipeError if end.code == CLOSED_PIPE else KeyboardInterrupt) from end


# --- the standard streams ---


def prepare_streams() -> None:
    """Replace closed streams, buffer the output, and accept every character."""
    _replace_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper) and isinstance(sys.stdout.buffer, RawIOBase):
        sys.stdout = _add_buffer(sys.stdout)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character gets its number
            stream.reconfigure(errors="backslashreplace")


def _replace_closed_streams() -> None:
    """Open streams that the caller has closed (>&-). A write must not fail because nobody reads,
    and no file of the store may get the number of a stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _add_buffer(stream: TextIOWrapper) -> TextIOWrapper:
    """Return the unbuffered stream (PYTHONUNBUFFERED=1) with a buffer. Without one, Python ignores
    how much of a long text was written: there is no error when the reader leaves in its middle."""
    return open(stream.fileno(), "w", encoding=stream.encoding, closefd=False)


def _end_silently(code: int) -> int:
    """Write nothing more, and return `code`: the buffers must not fail at the very end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    return code
