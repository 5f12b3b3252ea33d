"""Some faults of each kind, and that a defect would be noticed."""

from unittest import mock

import pytest

from tests.faults.disk import Fault
from tests.faults.run import list_faults, run_script
from tests.scheduler.operations import OPERATIONS
from tests.slow import more

EVERY = {"write": more(53, slow=1), "sync": more(7, slow=1), "truncate": more(5, slow=1), "lock": 1}


def test_without_a_fault_nothing_fails():
    outcome = run_script()
    assert outcome.problems == []
    assert all(count > 0 for count in outcome.counts.values())


@pytest.mark.slow
@pytest.mark.parametrize("call", EVERY)
def test_no_fault_loses_what_was_acknowledged_and_every_error_is_true(call):
    problems = {}
    for fault in list_faults(call)[:: EVERY[call]]:
        outcome = run_script(fault)
        if outcome.problems:
            problems[str(fault)] = outcome.problems
    assert problems == {}  # python -m tests.faults --fault "sync 6 fail"


def test_a_delayed_call_lets_someone_else_read():
    outcome = run_script(Fault("sync", 10, "delay"))
    assert outcome.problems == []
    assert outcome.log.count("someone reads") == 1


def append_in_secret(client, agent):
    """Write an event and say that it was not written."""
    agent.user("<t999>")
    agent.fork(at=999)


def test_an_event_that_was_refused_and_is_there_is_noticed():
    with mock.patch.dict(OPERATIONS, {"append": append_in_secret}):
        outcome = run_script(Fault("write", 1, "full"))
    assert any("its write failed" in problem for problem in outcome.problems)
