"""Times as people write them: 2026-11, 2026-11-05T12:00, yesterday, 7d."""

import re
from datetime import date, datetime, time, timedelta

from backstory.errors import Invalid

DAYS_AGO = {"today": 0, "yesterday": 1}
AGO = re.compile(r"(\d{1,5})([hdw])")
UNITS = {"h": "hours", "d": "days", "w": "weeks"}
YEAR_OR_MONTH = re.compile(r"\d{4}(-\d{2})?")


def parse_time(text: str) -> datetime:
    """Return the time that `text` means: a time or a date, the beginning of a month or a year, a
    day by name, or how long ago. Without a time zone, it is local time."""
    try:
        if text in DAYS_AGO:
            day = date.today() - timedelta(days=DAYS_AGO[text])
            return datetime.combine(day, time.min).astimezone()
        ago = AGO.fullmatch(text)
        if ago:
            return datetime.now().astimezone() - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        if YEAR_OR_MONTH.fullmatch(text):
            return datetime.fromisoformat(f"{text}-01-01"[:10]).astimezone()
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise Invalid(
            f"{text!r:.60} is not a time",
            remedy="write 2026-11, 2026-11-05, 2026-11-05T12:00, yesterday, 7d, 12h or 2w",
        ) from None
