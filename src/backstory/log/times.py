"""Times of events: microseconds since 1970, which normally never drop in a log."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
EARLIEST_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
LATEST_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND

MINUTE_US = 60_000_000

# A time that is further ahead of the clock is that of a wrong clock.
LONGEST_LEAD_US = MINUTE_US


def to_microseconds(moment: datetime) -> int:
    """Return the microseconds from 1970 to an aware datetime, exactly."""
    return (moment - EPOCH) // MICROSECOND


def to_datetime(microseconds: int) -> datetime:
    """Return the datetime this many microseconds after 1970.

    A value out of range, as in a damaged store, becomes the earliest or latest date.
    """
    in_range = min(max(microseconds, EARLIEST_US), LATEST_US)
    return EPOCH + timedelta(microseconds=in_range)


def next_time(previous_us: int, wanted_us: int, clock_us: int) -> int:
    """Return the time of an event that follows one of the time `previous_us`: `wanted_us`, but not
    before the previous event. If that is more than a minute ahead of the clock, the clock was wrong
    then, and its time is not carried forward."""
    is_wrong = previous_us > clock_us + LONGEST_LEAD_US
    if is_wrong and wanted_us <= clock_us:
        return wanted_us
    return max(previous_us, wanted_us)


def has_time_drop(times_us: Iterable[int]) -> bool:
    """Return True if one of these times is before the one that precedes it."""
    return any(later < earlier for earlier, later in pairwise(times_us))
