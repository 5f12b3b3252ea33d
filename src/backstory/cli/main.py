"""The table of commands, and how a run of one of them ends.

A command's module is imported when the command is run; the help needs this table only.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, NamedTuple

import click

from backstory import __version__
from backstory.errors import Error, Invalid
from backstory.present.remedies import in_commands
from backstory.present.safe_text import visible

if TYPE_CHECKING:
    from backstory.store import Store


CTRL_C, CLOSED_PIPE = 130, 141  # what a shell says of a process that SIGINT or SIGPIPE ended


class Place(NamedTuple):
    """Where a command is, and what it does in a line."""

    module: str
    help: str


COMMANDS = {
    "chat": Place("chat", "Talk with a model that has tools and remembers."),
    "ask": Place("chat", "One question, one answer, both in the log."),
    "agents": Place("agents", "The tree of every session."),
    "sessions": Place("agents", "The sessions, the latest last."),
    "new": Place("append", "Start a session and its root agent."),
    "rename": Place("append", "Give an agent another name."),
    "log": Place("log", "All events, dead ones dimmed, and why they are dead."),
    "show": Place("log", "One event with everything in it."),
    "marks": Place("log", "The marks to come back to."),
    "explain": Place("log", "Why an event is or is not in the context."),
    "context": Place("log", "What the model sees, to read or as a request."),
    "append": Place("append", "Write an event, or a batch of them."),
    "mark": Place("append", "Set a mark to come back to."),
    "rewind": Place("moves", "Go back to a mark."),
    "clear": Place("moves", "Empty the context."),
    "jump": Place("moves", "Go to the context of any position, dead or alive."),
    "undo": Place("moves", "Take back the last clear, rewind or jump."),
    "fork": Place("append", "A new agent that goes on from a position."),
    "spawn": Place("append", "A new agent below another, with an empty context."),
    "diff": Place("search", "How two branches or two moments differ."),
    "search": Place("search", "Find words in all sessions, dead events included."),
    "export": Place("export", "Write sessions to a file, without loss, or a context to read."),
    "import": Place("export", "Add what another store exported."),
    "backup": Place("export", "A copy of the store, while others write."),
    "verify": Place("verify", "Check the whole store against the law."),
    "stats": Place("verify", "Events live and dead, bytes, tokens, the largest agents."),
    "shell-completion": Place("shell_completion", "The completion script for a shell."),
}


class Ended(Exception):
    """The reader or the person has had enough; `code` is what a shell would say of it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Commands(click.Group):
    """The group that imports a command only to run it."""

    def invoke(self, ctx: click.Context) -> object:
        # Past click, which would exit with 1 for both, and not without a sound.
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise Ended(CLOSED_PIPE) from error
        except KeyboardInterrupt as error:
            raise Ended(CTRL_C) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module = import_module(f"backstory.cli.commands.{place.module}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_") + "_command")
        command.short_help = place.help
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS)
            hint = f" Did you mean {' or '.join(near)}?" if near else " See backstory --help."
            ctx.fail(f"No such command {visible(args[0])!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in COMMANDS.items()])


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A REF is an agent: NAME, SESSION/NAME or the beginning of an id; without one, or as @, the "
    "agent that was written to last. REF@12 is its position 12, REF@-3 three before its head, "
    "REF@LABEL a mark, REF@2026-10-01T12:00 a time.",
)
@click.version_option(__version__, message="backstory %(version)s")
@click.option("--store", metavar="URL", help="The store (default: $BACKSTORY_STORE, then your data folder).")
@click.pass_context
def cli(ctx: click.Context, store: str | None) -> None:
    """The history that an LLM agent can trust: see, rewind, fork and check it."""
    ctx.obj = store


def run(arguments: list[str]) -> int:
    """Run a command and return the exit code: 0; 1 for no; 2 for used wrong."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character gets its number
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(arguments, prog_name="backstory", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except Error as error:
        print(f"backstory: {visible(in_commands(error), keep='')}", file=sys.stderr)
        return 2 if isinstance(error, Invalid) else 1
    except Ended as end:
        return _quietly(end.code)
    except (KeyboardInterrupt, click.Abort):
        return _quietly(CTRL_C)
    except BrokenPipeError:  # of what was still in the buffer
        return _quietly(CLOSED_PIPE)
    except OSError as error:
        print(f"backstory: {visible(str(error), keep='')}", file=sys.stderr)
        return 1


def run_within(store: "Store", arguments: Sequence[str]) -> None:
    """Run a command for another program, as the chat, on the store that it has open. What is wrong with the
    command is raised as an Error."""
    from backstory.cli.options import lending

    try:
        with lending(store):
            cli.main(list(arguments), prog_name="backstory", standalone_mode=False)
    except click.ClickException as error:
        raise Invalid(error.format_message()) from error
    except Ended as end:
        raise (BrokenPipeError if end.code == CLOSED_PIPE else KeyboardInterrupt) from end


def _replace_closed_streams() -> None:
    """A caller may have closed them (>&-). What was written must not fail for want of an answer, and
    no file of the store may get the number of a stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _quietly(code: int) -> int:
    """End without a word: what is still in the buffers must not complain at the very end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    return code
