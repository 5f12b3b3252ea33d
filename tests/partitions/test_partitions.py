"""Silence during some calls, or with BACKSTORY_SLOW=1 at every message of every call."""

from contextlib import closing

import pytest

from tests import databases
from tests.partitions.run import CALLS, list_calls, run_partition
from tests.scheduler.run import PostgresDatabase
from tests.slow import SLOW

EVERY = 1 if SLOW else 4  # call


@pytest.mark.slow
@pytest.mark.skipif(bool(databases.CITUS), reason="the proxy is before one server")
def test_every_call_ends_in_time_and_nothing_acknowledged_is_lost():
    names = list(CALLS)[::EVERY]
    name = databases.take()
    problems = {}
    with closing(PostgresDatabase(databases.url(name))) as database:
        calls = list_calls(database, names)
        for call in calls:
            messages = [1, call.messages] if not SLOW else range(1, call.messages + 1)
            for nth in messages:
                outcome = run_partition(database, call.operation, call.seed, nth)
                if outcome.problems:
                    problems[call.operation, nth] = outcome.problems
    databases.give_back(name)
    assert problems == {}  # python -m tests.partitions --call append --message 2
    assert [call.operation for call in calls] == names
