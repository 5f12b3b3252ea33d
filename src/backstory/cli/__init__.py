"""The command `backstory`: everything the library can do, from the shell.

Only the entry point. Slow imports happen later, command by command, so that `backstory --version`
takes hardly longer than Python itself.
"""

import sys

from backstory import __version__


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.argv[1:] == ["--version"]:
        print(f"backstory {__version__}")
        return
    try:
        from backstory.cli.main import prepare_streams, run

        prepare_streams()
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:  # before there is a handler for it
        sys.exit(130)
