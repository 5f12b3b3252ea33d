"""Times: how they are converted, which one an event gets, and where they drop."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.log.times import (
    EARLIEST_US,
    LATEST_US,
    LONGEST_LEAD_US,
    has_time_drop,
    next_time,
    to_datetime,
    to_microseconds,
)


@given(st.datetimes(timezones=st.just(UTC)) | st.just(datetime.max.replace(tzinfo=UTC)))
def test_times_are_exact(moment):
    assert to_datetime(to_microseconds(moment)) == moment


def test_times_of_other_zones_are_converted():
    moment = datetime(1970, 1, 1, 1, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    assert to_microseconds(moment) == 1


def test_times_out_of_range_become_the_earliest_or_latest_date():
    assert to_datetime(2**62) == to_datetime(LATEST_US)
    assert to_datetime(-(2**62)) == to_datetime(EARLIEST_US)


@pytest.mark.parametrize(
    ("previous", "wanted", "time"),
    [
        (10, 20, 20),  # time passes
        (20, 10, 20),  # the clock went back a little
        (10 + LONGEST_LEAD_US, 10, 10 + LONGEST_LEAD_US),
        (11 + LONGEST_LEAD_US, 10, 10),  # the clock had been wrong: not carried forward
    ],
)
def test_time_of_an_event_follows_the_one_before_unless_that_was_wrong(previous, wanted, time):
    assert next_time(previous, wanted, wanted) == time


def test_times_that_drop_are_noticed():
    assert has_time_drop([5, 5, 7, 6])
    assert has_time_drop([6, 5])
    assert not has_time_drop([5, 5, 7])
    assert not has_time_drop([5])
    assert not has_time_drop([])
