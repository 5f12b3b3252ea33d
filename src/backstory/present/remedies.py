"""What to do about an error, in the words of the command line or of the chat.

The library names the operation that helps as data (`backstory.errors.Remedy`); here it becomes what a
person would type.
"""

from collections.abc import Mapping

from backstory.errors import Error, Operation, Remedy

# {agent} is the agent's id, which works everywhere; {0} is the first argument. An operation without a command
# is named as in the library.
COMMANDS: Mapping[Operation, str] = {
    "agents": "`backstory agents`",
    "events": "`backstory log`",
    "jump": "`backstory jump {agent}@{0}`",
    "mark": "`backstory mark {agent}`",
    "restore": "`backstory restore {0} --to {1}`",
    "seal": "`backstory seal`",
    "start": "`backstory new`",
    "verify": "`backstory verify`",
}
CHAT: Mapping[Operation, str] = {
    **COMMANDS,
    "agents": "/agents",
    "events": "/log",
    "jump": "/jump {0}",
    "mark": "/mark",
}


def in_commands(error: Error) -> str:
    """The error as the command line says it: verify() is `backstory verify`."""
    return _worded(error, COMMANDS)


def in_chat(error: Error) -> str:
    """The error as the chat says it: mark() is /mark."""
    return _worded(error, CHAT)


def _worded(error: Error, operations: Mapping[Operation, str]) -> str:
    remedy = error.remedy
    if remedy is None or remedy.operation is None or remedy.operation not in operations:
        return str(error)
    return f"{error.message}: {remedy.name_operation(_typed(remedy, operations[remedy.operation]))}"


def _typed(remedy: Remedy, command: str) -> str:
    return command.format(*remedy.arguments, agent=remedy.agent_id)
