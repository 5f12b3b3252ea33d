"""The group of all commands, and how a run of one of them ends.

A command's module is imported when the command is run; the help needs only the table of commands.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from backstory import __version__
from backstory.cli import streams
from backstory.cli.commands import ALIASES, COMMANDS, SECTIONS, module_of, names_of
from backstory.errors import Error, Invalid
from backstory.present.remedies import in_commands
from backstory.present.safe_text import visible

if TYPE_CHECKING:
    from backstory.store import Store

FAILED, MISUSED = 1, 2
CTRL_C, CLOSED_PIPE = 130, 141  # what a shell reports for a process that SIGINT or SIGPIPE ended


class Ended(Exception):
    """The person or the reader ended the command; `code` is what a shell would report."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Commands(click.Group):
    """The group that imports a command only to run it."""

    def invoke(self, ctx: click.Context) -> object:
        # Before click sees them: it would exit with 1 for both, and print a line.
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise Ended(CLOSED_PIPE) from error
        except KeyboardInterrupt as error:
            raise Ended(CTRL_C) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *ALIASES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module = import_module(f"backstory.cli.commands.{module_of(name)}")
        command: click.Command = getattr(module, name.replace("-", "_") + "_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], known)
            hint = f" Did you mean {' or '.join(near)}?" if near else " See backstory --help."
            ctx.fail(f"No such command {visible(args[0])!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, map(names_of, COMMANDS)))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{names_of(name):<{width}}", text) for name, text in section.items()]
                )


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="REF names an agent: NAME, SESSION/NAME, or the beginning of an id. Without REF, or with @, "
    "a command works on the agent that was written to last. REF@12 is position 12 of the agent, REF@-3 is "
    "three positions before its head, REF@LABEL is a mark, and REF@2026-10-01T12:00 is a time.",
)
@click.version_option(__version__, message="backstory %(version)s")
@click.option(
    "--store",
    metavar="URL",
    help="The store to use (default: $BACKSTORY_STORE, or a file in your data folder).",
)
@click.pass_context
def cli(ctx: click.Context, store: str | None) -> None:
    """Keep the history of LLM conversations: look at it, rewind it, fork it, search it, check it."""
    ctx.obj = store


def run(arguments: list[str]) -> int:
    """Run a command and return the exit code: 0 for success, 1 if it failed, 2 if it was called wrongly."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = cli.main(arguments, prog_name="backstory", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except Error as error:
        print(f"backstory: {visible(in_commands(error), keep='')}", file=sys.stderr)
        return MISUSED if isinstance(error, Invalid) else FAILED
    except Ended as end:
        return _quietly(end.code)
    except (KeyboardInterrupt, click.Abort):
        return _quietly(CTRL_C)
    except BrokenPipeError:  # of what was still in the buffer
        return _quietly(CLOSED_PIPE)
    except ModuleNotFoundError:
        from backstory.cli.requirements import missing_for

        advice = missing_for(arguments)
        if advice is None:
            raise
        print(f"backstory: {advice}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"backstory: {visible(str(error), keep='')}", file=sys.stderr)
        return FAILED


def _warn(message: Warning | str, *_place: object, **_more: object) -> None:
    """One line for people, without the place in the code."""
    print(f"backstory: warning: {visible(str(message), keep='')}", file=sys.stderr)


def _quietly(code: int) -> int:
    streams.silence()
    return code


def run_within(store: "Store", arguments: Sequence[str]) -> None:
    """Run a command for another program, such as the chat, on its open store. Errors are raised as Error."""
    from backstory.cli.stores import lending

    try:
        with lending(store):
            cli.main(list(arguments), prog_name="backstory", standalone_mode=False)
    except click.ClickException as error:
        raise Invalid(error.format_message()) from error
    except Ended as end:
        raise (BrokenPipeError if end.code == CLOSED_PIPE else KeyboardInterrupt) from end
