"""What the library advises, in the words of the command line."""

import re

_CALL = re.compile(r"(?<![\w'.])(agents|mark|verify)\(\)")


def in_commands(text: str) -> str:
    """What the library says, with its calls as commands: verify() is backstory verify."""
    return _CALL.sub(r"`backstory \1`", text)
