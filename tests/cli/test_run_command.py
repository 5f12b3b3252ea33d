"""A command that another program runs on the store that it has open, as the chat does."""

import pytest

import backstory
from backstory.cli.commands import SHELL_ONLY
from backstory.cli.main import run_command


@pytest.fixture
def store():
    with backstory.open(":memory:") as store:
        store.start("main").user("Hello!")
        store.start("latest").user("Goodbye!")
        yield store


@pytest.fixture
def run(store):
    """Run a command on the agent `main`, which is not the latest one."""
    return lambda *arguments: run_command(store, store.agent("main"), arguments)


def test_a_command_runs_on_the_open_store_and_leaves_it_open(store, run, capsys):
    run("show", "latest@1", "--content")
    assert capsys.readouterr().out == "Goodbye!"
    assert store.agent("main").head == 1


@pytest.mark.parametrize("ref", [(), ("@",), ("@1",), ("@-0",)])
def test_without_a_name_the_command_works_on_the_lent_agent(run, capsys, ref):
    run("show", *ref, "--content")
    assert capsys.readouterr().out == "Hello!"


def test_diff_with_one_reference_compares_it_with_the_lent_agent(run, capsys):
    run("diff", "latest")
    assert capsys.readouterr().out == (
        "0 messages in common; 1 only in latest, 1 only in main\n"
        "~ 1→1 user\n    [-Goodbye-]{+Hello+}!\n"
    )


def test_commands_that_need_a_shell_are_refused(run):
    for name in SHELL_ONLY:
        with pytest.raises(backstory.Invalid, match=f"use `backstory {name}` in a shell"):
            run(name)
    with pytest.raises(backstory.Invalid, match="run it in a shell"):
        run("log", "--follow")
    with pytest.raises(backstory.Invalid, match="leave out --store"):
        run("log", "--store", "other.db")


def test_a_wrong_command_raises_an_error_of_backstory(run):
    with pytest.raises(backstory.Invalid, match="--poem"):
        run("log", "--poem")
    with pytest.raises(backstory.AgentNotFound):
        run("log", "nobody")


@pytest.mark.parametrize("end", [KeyboardInterrupt, BrokenPipeError])
def test_ctrl_c_and_a_closed_pipe_reach_the_program(store, end):
    class Stopped:
        def resolve(self, ref):
            raise end

    with pytest.raises(end):
        run_command(Stopped(), store.agent("main"), ["log", "main"])
