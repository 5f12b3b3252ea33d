"""Some schedules on each database, and that the scheduler would notice a defect."""

from contextlib import closing
from unittest import mock

import pytest

from tests import databases
from tests.scheduler.operations import OPERATIONS
from tests.scheduler.run import PostgresDatabase, open_sqlite, run_schedule
from tests.slow import more

SCHEDULES = {"sqlite": more(150, slow=20_000), "postgres": more(40, slow=20_000)}


@pytest.fixture(params=SCHEDULES)
def database(request):
    if request.param == "sqlite":
        with open_sqlite() as database:
            yield database
        return
    if databases.CITUS:
        pytest.skip("a lock on another server is not noticed")
    name = databases.take()
    with closing(PostgresDatabase(databases.url(name))) as database:
        yield database
    databases.give_back(name)


@pytest.mark.slow
def test_clients_at_once_leave_a_sound_store(database, request):
    count = SCHEDULES[request.node.callspec.params["database"]]
    for seed in range(count):
        outcome = run_schedule(database, seed)
        assert outcome.problems == [], f"python -m tests.scheduler --seed {seed}"


def test_a_seed_is_a_schedule_that_can_be_replayed(database):
    for seed in range(3):
        first = run_schedule(database, seed)
        again = run_schedule(database, seed)
        assert again == first
        assert len(first.trace) > len(first.log)


def copy_without_lock(client, agent):
    """Write messages again that may have been erased since they were read."""
    copies = []
    for event in agent.context().messages:
        original = (event.data or {}).get("copy_of", event.seq)
        copies.append((event.kind, event.content, {"copy_of": original}))
    agent.extend(copies)


def test_a_defect_that_only_a_race_shows_is_found():
    with open_sqlite() as database, mock.patch.dict(OPERATIONS, {"compact": copy_without_lock}):
        for seed in range(5_000):
            outcome = run_schedule(database, seed)
            if outcome.problems:
                break
    assert "was erased, but is stored" in outcome.problems[0]
