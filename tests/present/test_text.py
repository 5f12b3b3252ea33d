"""Text for people: visible characters, counts and sizes, and the remedies of errors."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

import backstory
from backstory.chat.commands import COMMANDS as SLASH_COMMANDS
from backstory.cli.main import COMMANDS as SHELL_COMMANDS
from backstory.errors import Operation, Remedy
from backstory.present.text import (
    CHAT,
    COMMANDS,
    age,
    count,
    in_chat,
    in_commands,
    list_counts,
    one_line,
    size,
    visible,
)

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


def test_an_operation_without_a_command_is_named_as_in_the_library():
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
def test_text_from_outside_is_never_taken_for_an_operation(foreign):
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
        if typed != COMMANDS[operation]:  # the chat runs the command of the same name, too
            assert typed.removeprefix("/").split()[0] in {*SLASH_COMMANDS, *SHELL_COMMANDS}


@pytest.mark.parametrize(
    "error",
    [
        backstory.Conflict.at("main", 3, 5),
        backstory.Ambiguous("two", remedy="say which", matches=["a/x", "b/x"]),
        backstory.Corrupt("broken", remedy=Remedy("{} shows what is wrong", "verify")),
    ],
)
def test_an_error_survives_pickling_with_all_its_attributes(error):
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))


def test_visible_characters():
    assert visible("a\x1b[0m\x9b\u202e\nb\tc\r") == "a␛[0m<U+009B><U+202E>\nb\tc␍"
    assert one_line(" a\n\tb\x07 ") == "a b␇"
    assert visible("é 日本 👩‍💻"[:5]) == "é 日本 "


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 KB"),
        (1_500_000, "1.5 MB"),
        (2_000_000_000, "2.0 GB"),
        (5_000_000_000_000_000, "5,000.0 TB"),
    ],
)
def test_sizes(number, text):
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "just now"), (90, "1 min ago"), (86_400 * 8, "1 w ago"), (86_400 * 800, "2 y ago")],
)
def test_ages(seconds, text):
    assert age(datetime.now(UTC) - timedelta(seconds=seconds)) == text


def test_counts():
    assert (count(1, "event"), count(1_000, "event")) == ("1 event", "1,000 events")
    assert list_counts({"agents": 1, "events": 2}) == "1 agent, 2 events"
