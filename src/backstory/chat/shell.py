"""`!command`: runs a command in the folder. The model reads its output with the next prompt.

The person typed it, so it needs no consent. It becomes a user message, and `/undo` takes it back like a turn.
"""

from backstory.chat.mentions import TYPED
from backstory.errors import Error, Invalid, NotFound
from backstory.log.events import Event
from backstory.runtime.loop import EventWritten, Loop, Updates, shortened
from backstory.runtime.models.arguments import storable
from backstory.runtime.signals import defer_signals
from backstory.runtime.tools import Tool, ToolError

SIGN = "!"
OUTPUT = "output"  # the key in the message's data with the whole output
SECONDS = 600


def command_of(typed: str) -> str:
    """The command in what was typed."""
    command = typed.strip().removeprefix(SIGN).strip()
    if not command:
        raise Invalid(
            "which command? !COMMAND runs one in this folder, and the model reads its output"
        )
    return command


def ran(loop: Loop, typed: str) -> Updates:
    """Run a command, and write it with its output."""
    command = command_of(typed)
    bash = next((tool for tool in loop.tools if tool.name == "bash"), None)
    if bash is None:
        raise NotFound("there is no shell here")
    output = _output(bash, command)
    said = storable(f"I ran this command:\n\n$ {command}\n{shortened(output, loop.longest_result)}")
    try:
        with defer_signals():
            event = loop.agent.user(said, data={TYPED: storable(typed.strip()), OUTPUT: output})
    except Error as error:
        error.unsaved = output
        raise
    yield EventWritten(event)


def _output(bash: Tool, command: str) -> str:
    try:
        return storable(str(bash.run(command=command, seconds=SECONDS)))
    except ToolError as error:  # it failed, and its output is worth reading, too
        return storable(str(error))


def is_command_output(event: Event) -> bool:
    """Whether a user message is the output of a command, which needs no answer."""
    return event.kind == "user" and OUTPUT in (event.data or {})
