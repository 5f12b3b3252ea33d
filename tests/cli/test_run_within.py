"""A command that another program runs on the store that it has open, as the chat does."""

import pytest

import backstory
from backstory.cli.main import run_within


@pytest.fixture
def store():
    with backstory.open(":memory:") as store:
        store.start("main").user("Hello!")
        yield store


def test_a_command_runs_on_the_open_store_and_leaves_it_open(store, capsys):
    run_within(store, ["show", "main@1", "--content"])
    assert capsys.readouterr().out == "Hello!"
    assert store.agent("main").head == 1


def test_what_is_wrong_with_a_command_is_an_error_of_backstory(store):
    with pytest.raises(backstory.Invalid, match="--poem"):
        run_within(store, ["log", "--poem"])
    with pytest.raises(backstory.AgentNotFound):
        run_within(store, ["log", "nobody"])


@pytest.mark.parametrize("end", [KeyboardInterrupt, BrokenPipeError])
def test_what_ends_a_command_reaches_the_program_as_it_was(store, end):
    class Stopped:
        def resolve(self, ref):
            raise end

    with pytest.raises(end):
        run_within(Stopped(), ["log", "main"])
