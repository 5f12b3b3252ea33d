"""Times as people write them on the command line."""

from datetime import datetime

from backstory.errors import Invalid


def moment(text: str) -> datetime:
    """The time that a text means, in the time zone of this machine unless it names another."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise Invalid(
            f"{text!r} is not a time", remedy="write 2026-01-31 or 2026-01-31T12:00"
        ) from None
