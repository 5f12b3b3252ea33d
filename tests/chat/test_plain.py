"""The chat without a terminal: the answer on standard output, everything in the log."""

import json
import os
import shlex
import signal
import stat
import subprocess
import sys

import pytest

from tests import programs
from tests.chat.screen import environment
from tests.runtime.scripted import Refuse, Say, scripted
from tests.wire.stub_server import stub_server

BACKSTORY = [sys.executable, "-m", "backstory"]


@pytest.fixture
def run(tmp_path, folder, address):
    def run(*arguments, given="", cold=False):
        place = {"cwd": folder, "env": environment(tmp_path)}
        return programs.run("--store", address, *arguments, given=given, cold=cold, **place)

    return run


def connected(server):
    return "--base-url", server.url, "--model", "scripted-1"


def test_a_question_in_a_pipe_is_answered_recorded_and_remembered(run, reopened):
    with scripted(
        Say(calls=(("c1", "glob", '{"pattern": "*.md"}'),)), Say("One: notes.md."), Say("Yes.")
    ) as server:
        first = run("chat", *connected(server), given="Which notes?\n", cold=True)
        assert (first.stdout, first.returncode) == ("One: notes.md.\n", 0)
        second = run("ask", "Still there?", *connected(server))
        assert (second.stdout, second.returncode) == ("Yes.\n", 0)
        assert [text for role, text in server.said() if role == "user"] == [
            "Which notes?",
            "Still there?",
        ]
        assert ("tool", "notes.md") in server.said()
        assert server.refused == []
    assert [e.kind for e in reopened().context().messages if e.kind != "note"] == [
        "system", "user", "tool_call", "tool_result", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_nothing_is_written_or_run_without_a_terminal_unless_yes_is_said(run, folder):
    write = Say(calls=(("c1", "write_file", '{"path": "new", "content": "x"}'),))
    with scripted(write, Say("Refused."), write, Say("Written.")) as server:
        assert run("ask", "Write", *connected(server)).stdout == "Refused.\n"
        assert not (folder / "new").exists()
        assert "there was no one to ask" in server.said()[-1][1]
        assert run("ask", "Write", "--yes", *connected(server)).stdout == "Written.\n"
        assert (folder / "new").read_text() == "x"


def test_yes_prints_what_it_allows_and_never_covers_sensitive_files(run, folder):
    """S8: `--yes` overrode the rules that wanted to be asked."""
    (folder / ".env").write_text("KEY=sesame")
    write = Say(calls=(("c1", "write_file", '{"path": "new", "content": "x"}'),))
    steal = Say(calls=(("c2", "read_file", '{"path": ".env"}'),))
    with scripted(write, steal, Say("Done.")) as server:
        done = run("ask", "Go", "--yes", *connected(server))
        assert "there was no one to ask" in server.said()[-1][1]
    assert f"--yes: write_file {folder / 'new'}" in done.stderr.splitlines()
    assert "sesame" not in str(server.bodies)


def test_the_chat_has_no_yes(run):
    assert run("chat", "--yes", given="Hello").returncode == 2


def test_a_link_out_of_the_repository_is_not_read_as_instructions(run, folder, tmp_path):
    """S9: the target of AGENTS.md was sent to the model, wherever it was."""
    (tmp_path / "private.txt").write_text("sesame")
    (folder / "AGENTS.md").symlink_to(tmp_path / "private.txt")
    (folder / "CLAUDE.md").write_text("Be brief.")
    with scripted(Say("Hi.")) as server:
        run("ask", "Hello", *connected(server))
    assert "sesame" not in str(server.bodies)
    assert "Be brief." in str(server.bodies)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model = ", "the config file {} is not TOML: "),
        ("key = 'k'", "the config file {} has key: it takes "),
        ("[params]\ntemperature = 'hot'", "the params of {} are not used: temperature is 'hot'"),
    ],
)
def test_a_config_file_that_cannot_be_used_is_reported_once(run, tmp_path, text, problem):
    path = tmp_path / "config" / "backstory" / "chat.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with scripted(Say("An answer.")) as server:
        ran = run("ask", "Go", *connected(server))
    assert ran.stdout == "An answer.\n"
    [line] = ran.stderr.splitlines()
    assert line.startswith(problem.format(path))


def test_what_a_project_file_says_is_not_read(run, folder, tmp_path):
    """S3, S7: rules and servers of a folder counted, which a model could write itself."""
    (tmp_path / "config" / "backstory").mkdir(parents=True)
    trust = f'[consent]\ntrusted = ["{folder}"]\n'
    (tmp_path / "config" / "backstory" / "chat.toml").write_text(trust)
    (folder / ".backstory.toml").write_text(
        '[consent]\nallow = ["bash"]\n[mcp.x]\ncommand = "sh"\nargs = ["-c", "touch started"]\n'
    )
    bash = Say(calls=(("c1", "bash", '{"command": "touch ran"}'),))
    with scripted(bash, Say("Done.")) as server:
        run("ask", "Go", *connected(server))
    assert not (folder / "ran").exists()
    assert not (folder / "started").exists()


def test_what_goes_wrong_is_one_line_and_exit_code_one(run):
    with scripted(Refuse(401, "bad key")) as server:
        done = run("ask", "Hello", *connected(server))
    assert done.returncode == 1
    assert done.stdout == ""
    taken_back, line = done.stderr.splitlines()
    assert taken_back == "there was no answer: the question was taken back"
    assert line.startswith("backstory: 127.0.0.1")
    assert "refused the key (HTTP 401: bad key)" in line


def test_a_question_without_an_answer_is_not_in_the_next_request(run):
    with scripted(
        Refuse(500, "oh", (("Retry-After", "0"),)), *[Refuse(400, "no")], Say("Fine.")
    ) as server:
        assert run("ask", "one", *connected(server)).returncode == 1
        assert run("ask", "two", *connected(server)).returncode == 0
        assert [text for role, text in server.said() if role == "user"] == ["two"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("chat", "--model", "gpt-x"), "no key for OpenAI"),
        (("chat", "--model", "claude-x"), "no key for Anthropic"),
        (("chat", "nobody", "--model", "gpt-x"), "no store at"),
    ],
)
def test_what_cannot_begin_says_why(run, arguments, said):
    done = run(*arguments, given="Hello")
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_agent_that_does_not_exist_is_noticed_before_a_model_is_looked_for(run):
    run("new", "main")
    for arguments in (("chat", "nobody"), ("ask", "Hello", "--agent", "nobody")):
        assert "no agent 'nobody'" in run(*arguments, "--model", "gpt-x", given="Hello").stderr


def test_anthropic_is_asked_through_its_own_sdk(run, reopened):
    with stub_server() as server:
        done = run("ask", "Hello", "--model", "anthropic:claude-x", "--base-url", server.url)
        assert (done.stdout, done.returncode) == ("ok\n", 0)
        assert server.last.refused_for == []
    assert reopened().context().messages[-1].data["model"] == "claude-x"


def test_what_is_piped_to_ask_belongs_to_the_question(run):
    with scripted(Say("A."), Say("B."), Say("C.")) as server:
        run("ask", "How many lines?", *connected(server), given="one\ntwo\n")
        assert server.said()[-1] == ("user", "one\ntwo\n\nHow many lines?")
        run("ask", *connected(server), given="What is this?\n")
        assert server.said()[-1] == ("user", "What is this?")
        run("ask", "Nothing is piped?", *connected(server), given="")
        assert server.said()[-1] == ("user", "Nothing is piped?")


@pytest.mark.parametrize("stdin", ["<&-", "0>/dev/null", "</dev/null"])
def test_ask_without_standard_input_asks_the_question_alone(tmp_path, folder, address, stdin):
    with scripted(Say("A.")) as server:
        line = shlex.join([*BACKSTORY, "--store", address, "ask", "Hello?", *connected(server)])
        env = environment(tmp_path)
        done = subprocess.run(
            ["bash", "-c", f"{line} {stdin}"], cwd=folder, env=env, capture_output=True
        )
        assert (done.stdout, done.stderr) == (b"A.\n", b"")
        assert server.said()[-1] == ("user", "Hello?")


def test_ask_says_what_it_waits_for_while_standard_input_stays_open(tmp_path, folder, address):
    with scripted(Say("A.")) as server:
        command = [*BACKSTORY, "--store", address, "ask", "Hello?", *connected(server)]
        place = {"cwd": folder, "env": environment(tmp_path)}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(command, **place, **pipes) as process:
            assert b"Reading standard input until it ends" in process.stderr.readline()
            process.stdin.close()
            assert process.stdout.read() == b"A.\n"


def test_an_empty_question_is_refused(run):
    assert run("chat", given="  \n").returncode == 2
    assert run("ask", " ").returncode == 2
    assert run("ask", given=" \n").returncode == 2


@pytest.mark.parametrize("act", [Say(""), Say(" ")])
def test_no_answer_is_exit_code_one(run, act):
    with scripted(act) as server:
        done = run("ask", "Hello", *connected(server))
    assert (done.stdout.strip(), done.returncode) == ("", 1)
    assert done.stderr


def test_a_model_that_goes_round_in_circles_has_not_answered(run):
    rounds = [Say(calls=((f"c{n}", "fly", "{}"),)) for n in range(101)]
    with scripted(*rounds) as server:
        done = run("ask", "Hello", *connected(server))
    assert done.returncode == 1
    assert "stopped after 100 steps" in done.stderr


def test_the_answer_as_json(run, reopened):
    with scripted(
        Say("Looking.", calls=(("c1", "glob", '{"pattern": "*.md"}'),)), Say("One."), Say("")
    ) as server:
        done = run("ask", "How many?", "--json", *connected(server))
        found = json.loads(done.stdout)
        agent = reopened()
        assert (found["answer"], found["seq"], done.returncode) == ("One.", agent.head, 0)
        assert (found["agent"], found["name"], found["model"]) == (agent.id, "main", "scripted-1")
        assert found["tokens"] > 10
        nothing = run("ask", "And?", "--json", *connected(server))
        assert (json.loads(nothing.stdout)["answer"], nothing.returncode) == (None, 1)


def test_a_pipe_gets_the_answer_as_it_comes_and_a_signal_keeps_what_was_said(
    tmp_path, folder, address, reopened
):
    with scripted(Say("one two three", held=True)) as server:
        mine, theirs = os.pipe()
        command = ("--store", address, "ask", "Hello", *connected(server))
        place = {"cwd": folder, "env": environment(tmp_path)}
        program = programs.start(*command, files=(theirs, theirs, theirs), **place)
        os.close(theirs)
        with open(mine, "rb") as pipe:
            assert pipe.read(7) == b"one two"
            assert len(server.bodies) == 1
            program.send_signal(signal.SIGTERM)
            assert program.wait() == 128 + signal.SIGTERM
    last = reopened().context().messages[-1]
    assert last.content.startswith("one two")
    assert last.data["interrupted"] is True


def test_a_system_prompt_for_an_agent_that_has_one_is_told_to_be_of_no_use(run, folder):
    (folder / "prompt.txt").write_text("Be brief.\n")
    with scripted(Say("A."), Say("B.")) as server:
        assert run("ask", "one", "--system-file", "prompt.txt", *connected(server)).stderr == ""
        done = run("ask", "two", "--system", "Be brief.", *connected(server))
    assert done.stdout == "B.\n"
    assert done.stderr.splitlines() == [
        "the system prompt was not used: 'main' is not new (--new starts a new session)"
    ]


def test_the_store_in_the_data_folder_is_nobody_else_s_business(tmp_path, folder):
    with scripted(Say("A", held=True)) as server:
        command = [
            sys.executable,
            "-c",
            "import os; os.umask(0); from backstory.cli import main; main()",
        ]
        env = environment(tmp_path)
        arguments = ["ask", "Hello", *connected(server)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        with subprocess.Popen([*command, *arguments], cwd=folder, env=env, **streams) as process:
            assert process.stdout.read(1) == b"A"
            data = tmp_path / "data" / "backstory"
            assert stat.S_IMODE(data.stat().st_mode) == 0o700
            files = sorted(data.iterdir())
            assert [file.name for file in files] == [
                "history.db",
                "history.db-shm",
                "history.db-wal",
            ]
            assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3
            process.kill()


def test_new_begins_another_session_with_its_own_prompt(run, folder, reopened):
    (folder / "prompt.txt").write_text("Be brief.\n")
    with scripted(Say("A."), Say("B.")) as server:
        run("ask", "one", *connected(server))
        run("ask", "two", "--new", "--system-file", "prompt.txt", *connected(server))
        assert server.said() == [("system", "Be brief."), ("user", "two")]
    assert reopened().name == "main-2"


def test_a_damaged_store_is_one_line(run, address):
    with open(address, "wb") as file:
        file.write(b"this is no database" * 100)
    with scripted() as server:
        done = run("ask", "Hello", *connected(server))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_in_a_folder_that_is_gone_it_says_so(tmp_path, address, command):
    gone = tmp_path / "gone"
    gone.mkdir()
    program = shlex.join([*BACKSTORY, "--store", address, command])
    script = f"cd {shlex.quote(str(gone))} && rmdir {shlex.quote(str(gone))} && echo Hi | {program}"
    ended = subprocess.run(
        ["sh", "-c", script + (" Hi" if command == "ask" else "")],
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == "backstory: the folder you are in is gone: change to another one\n"
