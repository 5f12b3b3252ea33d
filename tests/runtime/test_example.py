"""The example of docs/agent-loop.md, started as its reader would, with the real SDKs."""

import subprocess
import sys

import pytest

from backstory.runtime.models.download import VARIABLE, model_file
from tests.chat.screen import environment
from tests.processes import PATIENCE
from tests.programs import ROOT
from tests.runtime.anthropic_stream import anthropic_events, calls, says
from tests.runtime.event_server import event_server
from tests.runtime.scripted import Say, scripted

EXAMPLE = ROOT / "examples" / "agent.py"


@pytest.fixture
def run(tmp_path):
    """Asks one question in a process of its own, in a folder with one file."""
    (tmp_path / "notes.txt").touch()

    def run(question, *arguments, **variables):
        done = subprocess.run(
            [sys.executable, EXAMPLE, *arguments],
            input=f"{question}\n",
            env=environment(tmp_path, **variables),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_page_shows_the_file_as_it_is():
    assert f"```python\n{EXAMPLE.read_text()}```" in (ROOT / "docs" / "agent-loop.md").read_text()


def test_it_uses_its_tool_and_remembers_in_the_next_process_with_openai(run):
    script = (Say(calls=(("c1", "list_files", "{}"),)), Say("One file."), Say("One, as before."))
    with scripted(*script) as server:
        address = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        assert run("Which files are here?", "gpt-x", **address) == "One file.\n"
        assert "notes.txt" in server.said()[-1][1]
        assert run("How many?", "gpt-x", **address) == "One, as before.\n"
        assert [text for role, text in server.said() if role == "user"] == [
            "Which files are here?",
            "How many?",
        ]


def test_it_uses_its_tool_and_remembers_in_the_next_process_with_anthropic(run):
    call = calls("t1", "{}")
    call[0]["name"] = "list_files"
    script = (
        anthropic_events(call, ended="tool_use"),
        anthropic_events(says("One file.")),
        anthropic_events(says("One, as before.")),
    )
    with event_server(*script) as server:
        address = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
        assert run("Which files are here?", "claude-x", **address) == "One file.\n"
        assert "notes.txt" in str(server.bodies[1]["messages"][-1])
        assert run("How many?", "claude-x", **address) == "One, as before.\n"
        assert "Which files are here?" in str(server.bodies[-1]["messages"][0])


@pytest.mark.slow
def test_it_answers_with_the_embedded_model(run):
    assert run("Say hello.", **{VARIABLE: str(model_file())}).strip()
