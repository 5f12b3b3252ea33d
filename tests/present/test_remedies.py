"""What to do about an error is data, and each face words it for its own users."""

import pickle
from typing import get_args

import pytest

import backstory
from backstory.chat.commands import COMMANDS as SLASH_COMMANDS
from backstory.cli.main import COMMANDS as SHELL_COMMANDS
from backstory.errors import Operation, Remedy
from backstory.present.remedies import CHAT, COMMANDS, in_chat, in_commands

OPERATIONS = get_args(Operation)


@pytest.fixture
def agent():
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.mark("old")
        agent.clear()
        yield agent


def test_a_remedy_is_worded_for_each_face(agent):
    with pytest.raises(backstory.MarkNotFound) as caught:
        agent.rewind("old")
    error = caught.value
    problem = "agent 'main' has no mark 'old'"
    hint = "it was set at position 1 and left behind;"
    assert error.message == problem
    assert error.remedy == Remedy(f"{hint} {{}} goes back there", "jump", (1,), agent.id)
    assert str(error) == f"{problem}: {hint} jump(1) goes back there"
    assert in_commands(error) == f"{problem}: {hint} `backstory jump {agent.id}@1` goes back there"
    assert in_chat(error) == f"{problem}: {hint} /jump 1 goes back there"


def test_a_remedy_without_an_operation_is_the_same_everywhere():
    error = backstory.NameTaken.of("try")
    assert str(error) == in_commands(error) == in_chat(error)
    assert str(error) == "the session already has an agent named 'try': choose another name"


def test_an_operation_without_a_command_is_said_in_the_words_of_the_library():
    with backstory.open(":memory:") as store, pytest.raises(backstory.AgentNotFound) as caught:
        store.agent(key="work")
    error = caught.value
    assert str(error) == in_commands(error) == in_chat(error)
    assert str(error).endswith(": ensure('work') makes one")


def test_an_error_without_a_remedy_is_its_message():
    error = backstory.Invalid("nothing helps")
    assert error.remedy is None
    assert str(error) == in_commands(error) == in_chat(error) == error.message == "nothing helps"


@pytest.mark.parametrize("foreign", ["verify()", "{}", "{0}", "run agents() now"])
def test_what_came_from_outside_is_never_taken_for_an_operation(foreign):
    agent = backstory.open(":memory:").start("main")
    with pytest.raises(backstory.MarkNotFound) as caught:
        agent.rewind(foreign)
    for text in (str(caught.value), in_commands(caught.value), in_chat(caught.value)):
        assert f"no mark {foreign!r}" in text


def test_every_operation_is_one_of_the_library_and_its_commands_are_there():
    for operation in OPERATIONS:
        owners = (backstory, backstory.Store, backstory.Agent)
        assert any(hasattr(owner, operation) for owner in owners)
    for operation in COMMANDS:
        assert operation in OPERATIONS
        program, command, *_ = COMMANDS[operation].strip("`").split()
        assert (program, command in SHELL_COMMANDS) == ("backstory", True)
        typed = CHAT[operation]
        assert typed == COMMANDS[operation] or typed.removeprefix("/").split()[0] in SLASH_COMMANDS


@pytest.mark.parametrize(
    "error",
    [
        backstory.Conflict.at("main", 3, 5),
        backstory.Ambiguous("two", remedy="say which", matches=["a/x", "b/x"]),
        backstory.Corrupt("broken", remedy=Remedy("{} shows what is wrong", "verify")),
    ],
)
def test_an_error_survives_pickling_with_all_that_it_says(error):
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))
