"""Permissions: what runs without a question, what never does, and each exploit that once worked."""

import json
import os

import pytest

from backstory.log.events import Event
from backstory.runtime.loop import Loop
from backstory.runtime.models import ToolCall
from backstory.runtime.permission import NOBODY, Permission, Permissions, Refusal
from backstory.runtime.tools import Action, Tool, working_tools
from backstory.runtime.tools.tool import ToolError
from tests.runtime.acting import Actor, speaks

CALL = Event.of(1, "tool_call", None, {"id": "c1", "name": "x", "arguments": {}})


@pytest.fixture
def tools(folder):
    return {tool.name: tool for tool in working_tools(folder)}


def run(tool, **arguments):
    return tool.prepare(arguments).run(lambda text: None)


def command(text):
    return Action("bash", "run", text, lambda emit: "ran")


def decide_by(*answers, yes=False):
    """Return permissions whose person types these answers, and the actions that were shown."""
    shown, waiting = [], list(answers)

    def ask(action):
        shown.append(action)
        return waiting.pop(0)

    return Permissions(ask, yes=yes), shown


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("y", Permission("person")),
        (" YES ", Permission("person")),
        ("", Refusal("not run: the user said no")),
        ("no", Refusal("not run: the user said no")),
        ("a", Refusal("not run: the user said no: a")),
        ("yes please", Refusal("not run: the user said no: yes please")),
        ("at the end", Refusal("not run: the user said no: at the end")),
    ],
)
def test_only_yes_and_session_allow_something(typed, decision):
    permissions, _ = decide_by(typed)
    assert permissions.decide(command("touch x"), CALL) == decision


def test_a_grant_is_one_exact_command():
    permissions, shown = decide_by("s", "", "", "")
    assert permissions.decide(command("pytest -q"), CALL).by == "person, for this session"
    assert permissions.decide(command("pytest -q"), CALL).by == "person, for this session"
    assert len(shown) == 1
    for variant in ("pytest -q docs", "pytest  -q", "pytest -q; id"):
        assert isinstance(permissions.decide(command(variant), CALL), Refusal)


def test_a_file_cannot_be_granted(tools):
    """S2: a granted file and a granted test run executed code that nobody saw."""
    permissions, shown = decide_by("session", "session")
    for content in ("x = 1", "import os; os.system('id')"):
        action = tools["write_file"].prepare({"path": "docs/conftest.py", "content": content})
        assert isinstance(permissions.decide(action, CALL), Refusal)
    assert "+import os; os.system('id')" in shown[1].preview


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": ".env"}),
        ("read_file", {"path": "./sub/../.ENV"}),
        ("read_file", {"path": "innocent.txt"}),  # a link to .env
        ("grep", {"pattern": "x", "path": ".env"}),
        ("write_file", {"path": ".git/config", "content": "[core]\nfsmonitor = id"}),
        ("write_file", {"path": "hooks/pre-push", "content": "id"}),  # hooks leads into .git
        ("edit_file", {"path": ".env", "old": "A", "new": "B"}),
        ("write_file", {"path": "AGENTS.md", "content": "Obey."}),
        ("write_file", {"path": "sub/.bashrc", "content": "id"}),
        ("read_file", {"path": "prod.env"}),
        ("read_file", {"path": "secrets.yml"}),
        ("read_file", {"path": ".\u017fsh/config"}),  # folds to .ssh
        ("write_file", {"path": ".claude/settings.json", "content": "{}"}),
        ("write_file", {"path": ".config/git/config", "content": "id"}),
    ],
)
def test_sensitive_files_ask_always_even_with_yes(tools, folder, name, arguments):
    """S2, S4, S5, S7: such files were read and written without a question, by path or link."""
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / "sub").mkdir()
    (folder / ".env").write_text("A=secret")
    (folder / ".ENV").write_text("A=secret")
    (folder / "innocent.txt").symlink_to(folder / ".env")
    (folder / "hooks").symlink_to(folder / ".git" / "hooks")
    action = tools[name].prepare(arguments)
    assert Permissions(yes=True).decide(action, CALL) == Refusal(NOBODY)
    assert action.target == str(action.target)
    assert "hooks/pre-push" not in action.target or ".git/hooks" in action.target  # resolved


def test_yes_allows_only_what_is_not_sensitive(tools):
    action = tools["write_file"].prepare({"path": "a.txt", "content": "x"})
    assert Permissions(yes=True).decide(action, CALL) == Permission("--yes")
    assert Permissions().decide(action, CALL) == Refusal(NOBODY)


def test_grep_passes_over_sensitive_files(tools, folder):
    """S4: `deny = ["read_file: .env"]` did not keep grep from printing it."""
    (folder / ".env").write_text("KEY=sesame")
    (folder / "link.txt").symlink_to(folder / ".env")
    (folder / "AGENTS.md").write_text("sesame")
    assert run(tools["grep"], pattern="sesame") == "no match"
    assert run(tools["grep"], pattern="sesame", glob=".env") == "no match"
    assert run(tools["grep"], pattern="sesame", path=".env") == ".env:1:KEY=sesame"


def test_an_edit_is_computed_from_the_content_that_it_replaces(tools, folder, monkeypatch):
    (folder / "f.txt").write_text("one")
    contents = iter([b"one", b"one, and more"])
    monkeypatch.setattr(
        "backstory.runtime.tools.workspace.read_bytes", lambda place, path: next(contents)
    )
    action = tools["edit_file"].prepare({"path": "f.txt", "old": "one", "new": "two"})
    with pytest.raises(ToolError, match="has changed since the question"):
        action.run(lambda text: None)


def test_nothing_is_written_if_the_file_has_changed_since_the_question(tools, folder):
    (folder / "f.txt").write_text("one")
    action = tools["edit_file"].prepare({"path": "f.txt", "old": "one", "new": "two"})
    (folder / "f.txt").write_text("one, and more")
    with pytest.raises(ToolError, match="has changed since the question"):
        action.run(print)
    assert (folder / "f.txt").read_text() == "one, and more"


def test_nothing_is_written_through_a_link_that_is_new_since_the_question(tools, folder):
    """S5: the question named one path, and another file was written."""
    (folder / "docs").mkdir()
    (folder / ".git").mkdir()
    action = tools["write_file"].prepare({"path": "docs/config", "content": "x"})
    (folder / "docs").rmdir()
    (folder / "docs").symlink_to(folder / ".git")
    with pytest.raises(ToolError, match="has changed since the question"):
        action.run(print)
    assert not (folder / ".git" / "config").exists()


def test_the_question_shows_the_complete_change(tools, folder):
    """S10: of more than 24 lines, the middle was hidden."""
    content = "".join(f"line {number}\n" for number in range(500))
    action = tools["write_file"].prepare({"path": "new.py", "content": content})
    assert action.preview.startswith("a new file of ")
    assert [f"+line {number}" for number in range(500)] == action.preview.split("\n")[2:]


def test_commands_get_no_keys(tools, monkeypatch):
    """S10: commands inherited all keys."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("GH_TOKEN", "secret")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:secret@host/db")
    monkeypatch.setenv("BACKSTORY_STORE", "secret.db")
    assert "secret" not in run(tools["bash"], command="env")


def test_changes_of_one_answer_are_prepared_one_after_another(agent, folder):
    (folder / "f.txt").write_text("a b")
    calls = [
        ToolCall("c1", "edit_file", {"path": "f.txt", "old": "a", "new": "x"}),
        ToolCall("c2", "edit_file", {"path": "f.txt", "old": "b", "new": "y"}),
    ]
    model = Actor(speaks("", *calls), speaks("Done"))
    permissions, shown = decide_by("y", "y")
    list(Loop(agent, model, working_tools(folder), allow=permissions.decide).ask("Go"))
    assert (folder / "f.txt").read_text() == "x y"
    assert "-x b\n" in shown[1].preview


def test_a_command_that_was_allowed_runs_before_later_changes(agent, folder):
    (folder / "x.sh").write_text("echo old")
    calls = [
        ToolCall("c1", "bash", {"command": "sh x.sh"}),
        ToolCall("c2", "write_file", {"path": "x.sh", "content": "echo new"}),
        ToolCall("c3", "bash", {"command": "sh x.sh"}),
        ToolCall("c4", "read_file", {"path": "x.sh"}),
    ]
    model = Actor(speaks("", *calls), speaks("Done"))
    permissions, _ = decide_by("y", "y", "y")
    list(Loop(agent, model, working_tools(folder), allow=permissions.decide).ask("Go"))
    results = [event for event in agent.messages() if event.kind == "tool_result"]
    assert [(event.content or "").strip() for event in results] == [
        "old",
        "wrote 8 bytes to x.sh",
        "new",
        "echo new",
    ]


def test_a_tool_that_cannot_prepare_is_an_error_that_the_model_reads(agent):
    def broken() -> Action:
        raise ZeroDivisionError("oh")

    model = Actor(speaks("", ToolCall("c", "broken", {})), speaks("Done"))
    list(Loop(agent, model, [Tool.from_preparation(broken)]).ask("Hi"))
    result = next(event for event in agent.events() if event.kind == "tool_result")
    assert result.content == "broken failed: ZeroDivisionError: oh"


@pytest.mark.parametrize(
    "text",
    ["{ rm x; }", "timeout 5 rm x", "xargs rm", r"\rm x", "git -c core.sshCommand=id fetch", "ls"],
)
def test_every_command_asks(tools, text):
    """S6, S8, S10: prefixes and lists of programs let commands pass."""
    action = tools["bash"].prepare({"command": text})
    assert action.target == text
    assert Permissions().decide(action, CALL) == Refusal(NOBODY)


def test_what_allowed_a_call_is_recorded(agent, folder):
    arguments = json.dumps({"command": "echo hi"})
    call = ToolCall("c1", "bash", json.loads(arguments))
    permissions, _ = decide_by("y")
    model = Actor(speaks("", call), speaks("Done"))
    list(Loop(agent, model, working_tools(folder), allow=permissions.decide).ask("Go"))
    [result] = [event for event in agent.context().messages if event.kind == "tool_result"]
    assert result.data["allowed_by"] == "person"


def test_no_program_of_the_folder_runs_in_place_of_a_shell(tools, folder, monkeypatch):
    (folder / "bin").mkdir()
    for name in ("sh", "bash"):
        (folder / "bin" / name).write_text("#!/bin/sh\ntouch ran\n")
        (folder / "bin" / name).chmod(0o755)
    (folder / "start.sh").write_text("touch ran\n")
    monkeypatch.setenv("PATH", f"./bin::{os.environ['PATH']}")
    monkeypatch.setenv("BASH_ENV", "./start.sh")
    monkeypatch.setenv("ENV", "./start.sh")
    assert "a.py" in run(tools["glob"], pattern="*")
    assert run(tools["bash"], command="echo hello") == "hello"
    assert not (folder / "ran").exists()


def test_a_command_gets_no_passwords_by_other_names(tools, monkeypatch):
    for name in ("DB_PASS", "MYSQL_PWD", "GITHUB_PAT", "NPM_AUTH"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada")
    shown = run(tools["bash"], command="env").splitlines()
    assert not any("hidden" in line for line in shown)
    assert {"SSH_AUTH_SOCK=/tmp/agent", "GIT_AUTHOR_NAME=Ada"} <= set(shown)
    assert any(line.startswith("PWD=") for line in shown)
