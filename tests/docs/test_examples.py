"""The example of docs/agent-loop.md, started as its reader would, with the real SDKs."""

import subprocess
import sys

import pytest

import backstory
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


def test_it_asks_for_the_name_of_a_model():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("name a model: ")


def test_a_sub_agent_has_its_own_log_and_reports(tmp_path):
    (tmp_path / "notes.txt").write_text("All is well.")
    script = (
        Say(calls=(("c1", "task", '{"prompt": "Read notes.txt"}'),)),
        Say(calls=(("c2", "read_file", '{"path": "notes.txt"}'),)),
        Say("It says that all is well."),
        Say("The helper read it: all is well."),
    )
    with scripted(*script) as server:
        address = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / "subagent.py", "gpt-x"],
            input="How are things?",
            env=environment(tmp_path, **address),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.stdout.startswith("The helper read it: all is well.\n"), done.stderr
        assert "All is well." in str(server.bodies[2])
        assert "notes.txt" not in str(server.bodies[3]["messages"][-1])


# --- own_loop.py ---

OWN_LOOP = ROOT / "examples" / "own_loop.py"


def ask_own_loop(folder, server, *arguments, code=0):
    """Run examples/own_loop.py in a process of its own, and return what it printed."""
    variables = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
    done = subprocess.run(
        [sys.executable, OWN_LOOP, *arguments],
        env=environment(folder, **variables),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def call_list_files(id):
    """Return the events of an answer that calls the tool of the example."""
    call = calls(id, "{}")
    call[0]["name"] = "list_files"
    return list(anthropic_events(call, ended="tool_use"))


def test_the_page_about_own_loops_shows_its_program_as_it_is():
    page = (ROOT / "docs" / "own-loop.md").read_text()
    assert f"```python\n{OWN_LOOP.read_text()}```" in page


def test_own_loop_continues_an_interrupted_turn_and_asks_no_question_twice(tmp_path):
    refusal = (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}})
    answer = list(anthropic_events(says("One file.")))
    with event_server(call_list_files("t1"), refusal, answer) as server:
        ask_own_loop(tmp_path, server, "q1", "Which files are here?", code=1)
        assert ask_own_loop(tmp_path, server, "q1", "Which files are here?") == "One file."
        assert ask_own_loop(tmp_path, server, "q1", "Which files are here?") == ""
        messages = server.bodies[-1]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert "agent.db" in str(messages[-1])


def write_long_conversation(folder):
    with backstory.open(folder / "agent.db") as store:
        agent = store.ensure("main", system="Be brief.")
        for number in range(4):
            agent.user(f"{number} " + "rain " * 20_000)
            agent.assistant("Noted.")


def test_own_loop_answers_although_the_summary_is_empty(tmp_path):
    write_long_conversation(tmp_path)
    script = (list(anthropic_events(says(text))) for text in ("", "Hello!"))
    with event_server(*script) as server:
        assert ask_own_loop(tmp_path, server, "q1", "Hello?") == "Hello!"
        assert "Noted." in str(server.bodies[1])


def test_own_loop_compacts_a_long_conversation(tmp_path):
    write_long_conversation(tmp_path)
    script = (list(anthropic_events(says(text))) for text in ("It rained a lot.", "Hello!"))
    with event_server(*script) as server:
        assert ask_own_loop(tmp_path, server, "q1", "Hello?") == "It rained a lot.Hello!"
        assert len(str(server.bodies[1])) < len(str(server.bodies[0])) / 1.5
        assert "It rained a lot." in str(server.bodies[1])
        assert "Summarize" not in str(server.bodies[1])
    with backstory.open(tmp_path / "agent.db") as store:
        assert store.verify(requests=True) == []
