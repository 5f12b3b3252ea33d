"""The command `backstory`: everything the library can do, from the shell.

Only the entry point. Slow imports happen later, command by command, so that `backstory --version` takes
hardly longer than Python itself.
"""

import sys

from backstory import __version__


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.argv[1:] == ["--version"]:
        print(f"backstory {__version__}")
        return
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:  # before there is a handler for it
        sys.exit(130)


def _run(arguments: list[str]) -> int:
    try:
        import click  # noqa: F401
    except ImportError as error:
        from backstory.cli.requirements import missing_for

        print(f"backstory: {missing_for(arguments) or error}", file=sys.stderr)
        return 1
    from backstory.cli import streams
    from backstory.cli.main import run

    streams.prepare()
    return run(arguments)
