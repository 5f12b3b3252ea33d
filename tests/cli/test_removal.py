"""The commands that take things away."""

import backstory
from tests.cli.conftest import fill


def test_delete_needs_a_yes_where_nobody_can_be_asked(shell):
    fill(shell)
    refused = shell("delete", "main/idea", code=2)
    assert "cannot be undone: repeat it with --yes" in refused.err
    assert "1 agent and 1 event would go" in refused.err
    assert shell("delete", "idea", "--dry-run").lines[0] == "1 agent and 1 event would go"
    assert len(shell("agents").lines) == 3
    assert shell("delete", "idea", "--yes").lines[0] == "1 agent and 1 event deleted"
    assert len(shell("agents").lines) == 2
    assert "there is no agent" in shell("delete", "idea", "--yes", code=1).err


def test_delete_asks_on_a_terminal(sqlite_shell):
    fill(sqlite_shell)
    asked = sqlite_shell.on_terminal("delete", "main", keys=b"n\n")
    assert "8 events kept" not in asked.out
    assert "4 events kept for its forks" in asked.out
    assert len(sqlite_shell("agents").lines) == 3
    assert sqlite_shell.on_terminal("delete", "main", keys=b"y\n").code == 0
    left = sqlite_shell("agents").rows
    assert len(left) == 2
    tree = sqlite_shell.on_terminal("agents").out
    assert "idea" in tree
    assert "reviewer" in tree


def test_delete_as_json_says_what_went(shell):
    fill(shell)
    [said] = shell("delete", "main", "--below", "--yes", "--json").json
    assert {agent["name"] for agent in said["agents"]} == {"main", "idea", "reviewer"}
    assert said["events"] == 8
    with backstory.open(shell.env["BACKSTORY_STORE"]) as store:
        assert store.agents() == []


def test_delete_takes_an_agent_and_not_a_position(sqlite_shell):
    fill(sqlite_shell)
    assert "not a position" in sqlite_shell("delete", "main@3", "--yes", code=2).err
