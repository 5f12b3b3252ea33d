"""A store in memory and an agent in it, for what is not about storage."""

import pytest

import backstory


@pytest.fixture
def memory():
    with backstory.open(":memory:") as store:
        yield store


@pytest.fixture
def agent(memory):
    return memory.start("main", system="Be careful.")
