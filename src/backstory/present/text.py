"""Text for people: safe for a terminal, with times, counts and sizes, and with the command that
mends an error.

All text from a log goes through `visible` or `one_line` before it is printed.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from backstory.errors import Error, Operation
from backstory.log.json_text import UNSEEN

# --- what a terminal may be shown ---

# In many scripts and in emoji, they join or separate letters. Elsewhere they are only invisible.
LETTER = "[^\x00-\xad\u2000-\u206f\ufeff]"
JOINERS = re.compile(f"(?<={LETTER})([\u200c\u200d])(?={LETTER})")

PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
NUMBERS = {code: f"<U+{code:04X}>" for code in UNSEEN}
TABLE = NUMBERS | PICTURES
TABLES = {
    keep: {code: shown for code, shown in TABLE.items() if chr(code) not in keep}
    for keep in ("", "\n", "\n\t")
}


def visible(text: str, keep: str = "\n\t") -> str:
    """Return the text with every character that would control a terminal made visible. `keep` has
    the line ends and tabs that stay."""
    table = TABLES[keep]
    if "\u200c" not in text and "\u200d" not in text:
        return text.translate(table)
    parts = JOINERS.split(text)  # every second part is a joiner between letters
    return "".join(part if index % 2 else part.translate(table) for index, part in enumerate(parts))


def one_line(text: str) -> str:
    """Return the text on one line: line ends and tabs become spaces, everything else visible."""
    return visible(" ".join(text.split()), keep="")


# --- times, counts and sizes ---

AGE_UNITS = (
    (31_557_600, "y"),
    (2_629_800, "mo"),
    (604_800, "w"),
    (86_400, "d"),
    (3_600, "h"),
    (60, "min"),
)


def stamp(moment: datetime) -> str:
    """Return a time for programs: ISO 8601 in UTC, to the microsecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(moment: datetime) -> str:
    """Return a time for people, in their own time zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def age(moment: datetime) -> str:
    """Return how long ago a time was, in one unit."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for length, unit in AGE_UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"


def count(number: int, thing: str) -> str:
    """Return a number of things: 1 event, 2 events."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def list_counts(numbers: Mapping[str, int]) -> str:
    """Return several numbers in a row: {"agents": 1} is "1 agent"."""
    return ", ".join(count(number, things.removesuffix("s")) for things, number in numbers.items())


def size(number: int) -> str:
    """Return a number of bytes for people."""
    if number < 1000:
        return f"{number} B"
    value = float(number)
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        if value < 1000:
            return f"{value:,.1f} {unit}"
    return f"{value / 1000:,.1f} TB"


# --- what to do about an error ---

# The library names the operation that helps (`backstory.errors.Remedy`). These are the words that a
# person types for it: {agent} is the agent's id, {0} the first argument. An operation that is not
# here is named as in the library.
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
    """Return the error in the words of the command line: verify() is `backstory verify`."""
    return _word_error(error, COMMANDS)


def in_chat(error: Error) -> str:
    """Return the error in the words of the chat: mark() is /mark."""
    return _word_error(error, CHAT)


def _word_error(error: Error, operations: Mapping[Operation, str]) -> str:
    remedy = error.remedy
    if remedy is None or remedy.operation is None or remedy.operation not in operations:
        return str(error)
    command = operations[remedy.operation].format(*remedy.arguments, agent=remedy.agent_id)
    return f"{error.message}: {remedy.name_operation(command)}"
