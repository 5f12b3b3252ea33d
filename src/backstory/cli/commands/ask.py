"""ask: one question, one answer, both in the log."""

from pathlib import Path
from typing import Any

import click

from backstory.cli.chat_setup import answer_once, chat_options, check_platform
from backstory.cli.input import piped_input
from backstory.cli.options import command
from backstory.errors import Invalid


@command(
    "ask",
    example='backstory ask "Which Python files are here?"\n'
    'git diff | backstory ask "Is anything wrong with this?"\n'
    'backstory ask "What is in the picture?" --file photo.png',
)
@click.argument("question", required=False)
@click.option("--agent", "ref", metavar="REF", help="The agent to ask (default: the latest one).")
@click.option(
    "--file", "files", multiple=True, metavar="FILE", help="Attach a file (may be repeated)."
)
@chat_options
def ask_command(
    url: str | None, question: str | None, ref: str | None, files: tuple[str, ...], **options: Any
) -> int:
    """Both are added to the log. Text from a pipe or a file on standard input comes first, then an empty
    line, then QUESTION; without QUESTION, that text is the question. The store is created if it does not
    exist. The exit code is 1 if there is no answer."""
    check_platform()
    asked = [text for text in (piped_input().strip("\n"), question or "") if text.strip()]
    if not asked:
        raise Invalid("there is no question", remedy="use backstory ask 'a question'")
    return answer_once(url, ref, "\n\n".join(asked), files=_absolute(files), **options)


def _absolute(files: tuple[str, ...]) -> list[str]:
    """The session may belong to another folder."""
    return [str(Path(file).absolute()) for file in files]
