"""Times, counts and sizes, as people and programs read them."""

from collections.abc import Mapping
from datetime import UTC, datetime


def stamp(moment: datetime) -> str:
    """A time for programs: ISO 8601 in UTC, to the microsecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(moment: datetime) -> str:
    """A time for people, in their own time zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


_UNITS = (
    (31_557_600, "y"),
    (2_629_800, "mo"),
    (604_800, "w"),
    (86_400, "d"),
    (3_600, "h"),
    (60, "min"),
)


def age(moment: datetime) -> str:
    """How long ago a time was, in one unit."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def count(number: int, thing: str) -> str:
    """A number of things: 1 event, 2 events."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """A number of bytes for people."""
    value = float(number)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def counted(numbers: Mapping[str, int]) -> str:
    """Several numbers in a row: {"agents": 1} is "1 agent"."""
    return ", ".join(count(number, things.removesuffix("s")) for things, number in numbers.items())
