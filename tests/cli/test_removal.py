"""The commands that take things away."""

from click.testing import CliRunner

import backstory
from backstory.cli.commands.removal import expire_command
from tests.cli.conftest import fill


def test_delete_needs_a_yes_where_nobody_can_be_asked(shell):
    fill(shell)
    refused = shell("delete", "main/idea", code=2)
    assert "cannot be undone: repeat it with --yes" in refused.err
    assert "1 agent and 1 event would be removed" in refused.err
    assert shell("delete", "idea", "--dry-run").lines[0] == "1 agent and 1 event would be removed"
    assert len(shell("agents").lines) == 3
    assert shell("delete", "idea", "--yes").lines[0] == "1 agent and 1 event deleted"
    assert len(shell("agents").lines) == 2
    assert "no agent " in shell("delete", "idea", "--yes", code=1).err


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


def test_delete_as_json_lists_the_removed_agents(shell):
    fill(shell)
    [said] = shell("delete", "main", "--below", "--yes", "--json").json
    assert {agent["name"] for agent in said["agents"]} == {"main", "idea", "reviewer"}
    assert said["events"] == 8
    with backstory.open(shell.env["BACKSTORY_STORE"]) as store:
        assert store.agents() == []


def test_delete_takes_an_agent_and_not_a_position(sqlite_shell):
    fill(sqlite_shell)
    assert "not a position" in sqlite_shell("delete", "main@3", "--yes", code=2).err


def test_erase_needs_a_reason_a_position_and_a_yes(shell):
    fill(shell)
    assert "--why" in shell("erase", "main@2", code=2).err
    assert "does not name a position" in shell("erase", "main", "--why", "x", "--yes", code=2).err
    refused = shell("erase", "main@2", "--why", "x", code=2)
    assert "main@2 user Which Python files are here?" in refused.err
    assert "repeat it with --yes" in refused.err
    assert "nothing was changed" in shell("erase", "main@2", "--why", "x", "--dry-run").err
    assert shell("erase", "main@2", "idea@5", "--why", "a secret", "--yes").lines == [
        "main@2",
        "idea@5",
    ]
    assert "(erased: a secret)" in shell("log", "idea").out
    assert shell("verify").code == 0


def test_erase_as_json_prints_what_is_left(sqlite_shell):
    fill(sqlite_shell)
    [event] = sqlite_shell("erase", "main@2", "--why", "x", "--yes", "--json").json
    assert (event["seq"], event["content"], event["data"]["erased"]["why"]) == (2, "", "x")


def test_the_question_shows_the_other_events_that_would_be_erased(sqlite_shell):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    answer = {
        "role": "assistant",
        "content": "I will look.",
        "reasoning_content": "hm",
        "tool_calls": [call],
    }
    with backstory.open(sqlite_shell.env["BACKSTORY_STORE"]) as store:
        store.start("main").record(
            {"choices": [{"message": answer, "finish_reason": "tool_calls"}]}
        )
    refused = sqlite_shell("erase", "main@2", "--why", "x", code=2)
    assert "main@1 assistant I will look." in refused.err


def test_erase_names_the_agent_of_a_copy(sqlite_shell):
    sqlite_shell("new", "main")
    sqlite_shell("append", "main", "secret")
    with backstory.open(sqlite_shell.env["BACKSTORY_STORE"]) as store:
        store.agent("main").fork("fork").compact("a summary", keep=1)
    lines = sqlite_shell("erase", "main@1", "--why", "asked", "--yes").lines
    assert lines[0] == "main@1"
    assert [line.split("@")[0] for line in lines[1:]] == ["fork"]


def test_erase_asks_on_a_terminal(sqlite_shell):
    fill(sqlite_shell)
    sqlite_shell.on_terminal("erase", "main@2", "--why", "x", keys=b"n\n")
    assert "Which Python files" in sqlite_shell("log", "main").out
    sqlite_shell.on_terminal("erase", "main@2", "--why", "x", keys=b"y\n")
    assert "Which Python files" not in sqlite_shell("log", "main").out


def test_expire_lists_what_it_would_remove_and_needs_a_yes(shell):
    fill(shell)
    assert shell("expire", "--before", "2020-01-01", "--yes").lines == [
        "0 agents and 0 events deleted"
    ]
    assert (
        shell("expire", "--before", "2100-01-01", "--dry-run").lines[0]
        == "3 agents and 8 events would be removed"
    )
    assert "--yes" in shell("expire", "--before", "2100-01-01", code=2).err
    [dead] = shell("expire", "--before", "2100-01-01", "--dead", "--yes", "--json").json
    assert dead == {"agents": [], "events": 0, "erased": 1, "skipped": []}
    assert "Delete b.py." not in shell("log", "main").out
    shell("expire", "--before", "2100-01-01", "--yes")
    assert shell("agents").lines == []


def test_expire_names_the_sessions_that_are_in_use(monkeypatch):
    removed = backstory.Removed((), 0, skipped=("first", "second"))
    monkeypatch.setattr(backstory.Store, "expire", lambda *_, **__: removed)
    monkeypatch.setenv("BACKSTORY_STORE", ":memory:")
    ran = CliRunner().invoke(expire_command, ["--before", "2100-01-01", "--yes"])
    assert ran.output == "0 agents and 0 events deleted\n"
    assert isinstance(ran.exception, backstory.Busy)
    assert "were in use, and stay: first, second" in ran.exception.message


def test_expire_takes_a_time_and_nothing_else(sqlite_shell):
    fill(sqlite_shell)
    assert "is not a time" in sqlite_shell("expire", "--before", "soon", code=2).err


def test_a_dry_run_changes_nothing_even_with_a_yes(shell):
    fill(shell)
    said = shell("erase", "main@2", "--why", "x", "--dry-run", "--yes")
    assert "main@2 user Which Python files are here?" in said.err
    [event] = shell("erase", "main@2", "--why", "x", "--dry-run", "--yes", "--json").json
    assert event["content"] == "Which Python files are here?"
    shell("delete", "main", "--below", "--dry-run", "--yes")
    shell("expire", "--before", "2100-01-01", "--dry-run", "--yes")
    assert "Which Python files" in shell("log", "main").out
