"""How the command behaves: references, streams, exit codes, signals and completion."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import backstory
from backstory.cli.commands import COMMANDS
from backstory.storage.positions import count_positions
from tests.cli.conftest import COMMAND, Shell, fill
from tests.processes import PATIENCE, wait_until


@pytest.fixture
def story(sqlite_shell):
    fill(sqlite_shell)
    return sqlite_shell


# --- references ---


def test_references(story):
    id = story("agents", "--json").json[1]["id"]
    for ref in ("idea", "main/idea", id, id[:20], f"{id[:20]}@5", "idea@-0", "main/idea@5"):
        assert story("show", ref, "--json").json[0]["content"] == "Rename a.py to main.py.", ref
    assert story("show", "main@two files", "--json").json[0]["seq"] == 5
    assert story("show", "main@-2", "--json").json[0]["seq"] == 5


def test_a_bare_command_works_on_the_latest_agent(story):
    story("append", "idea", "the latest")
    assert story("log", "-n", "1").rows[0][4] == "the latest"
    assert story("show", "--json").json[0]["content"] == "the latest"
    assert story("show", "@-1", "--json").json[0]["seq"] == 5
    assert story("append", "@", "to the latest").out == "7\n"
    assert story("mark").out == "8\n"
    story("append", "main", "main is the latest now")
    assert story("context", "--json").json[-1]["content"] == "main is the latest now"


def test_a_time_is_a_reference(story):
    moment = story("log", "main", "--json").json[2]["created_at"]
    assert story("show", f"main@{moment}", "--json").json[0]["seq"] == 3


def test_unknown_things_suggest_near_ones(story):
    assert "did you mean 'main'?" in story("log", "mian", code=1).err
    assert "did you mean 'two files'?" in story("rewind", "main@two file", code=1).err
    assert "Did you mean context?" in story("contxt", code=2).err


def test_a_name_that_fits_several_lists_them(story):
    with backstory.open(story.env["BACKSTORY_STORE"]) as store:
        store.start("main")
    assert "fits 2 agents: use one of" in story("log", "main", code=1).err


def test_an_empty_store_has_no_agent_to_show(sqlite_shell):
    backstory.open(sqlite_shell.env["BACKSTORY_STORE"]).close()
    assert "no agent " in sqlite_shell("log", code=1).err
    assert sqlite_shell("agents").out == ""


# --- the store ---


def test_the_store_is_an_option_before_or_after_the_command_or_the_platforms(story, tmp_path):
    elsewhere = str(tmp_path / "elsewhere.db")
    story("--store", elsewhere, "new", "one")
    story("new", "two", "--store", elsewhere)
    assert [row[1] for row in story("sessions", "--store", elsewhere).rows] == ["one", "two"]
    home = Shell("", tmp_path)
    del home.env["BACKSTORY_STORE"]
    home.env.pop("XDG_DATA_HOME", None)
    assert "no store at" in home("agents", code=1).err
    home("new", "mine")
    assert [row[1] for row in home("agents").rows] == ["mine/mine"]
    if sys.platform == "linux":
        assert (tmp_path / ".local" / "share" / "backstory" / "history.db").exists()


def test_looking_at_an_empty_file_does_not_make_it_a_store(sqlite_shell, tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    assert "no store at" in sqlite_shell("agents", "--store", path, code=1).err
    assert path.stat().st_size == 0


# --- exit codes and streams ---


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("append main zz >&-", 0),
        ("append main zz >&- 2>&-", 0),
        ("log main >&-", 0),
        ("agents --json >&-", 0),
        ("append main <&-", 2),
        ("log nobody 2>&-", 1),
    ],
)
def test_a_closed_stream_is_not_a_failure(story, line, code):
    ran = subprocess.run(
        ["bash", "-c", f"{COMMAND} {line}"],
        env=story.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, "Traceback" in ran.stderr) == (code, False)
    assert len(story("log", "main").lines) == (8 if "zz" in line else 7)


def test_errors_speak_of_commands(story):
    assert "`backstory agents` lists the agents" in story("log", "nobody", code=1).err
    assert re.search(
        "`backstory mark [-0-9a-f]{36}` sets one", story("rewind", "reviewer", code=1).err
    )
    assert "of the batch" not in story("append", "main", "x", "--data", "[1]", code=2).err


@pytest.mark.parametrize(
    "url", ["postgrsql://u:hunter2@h/x", "postgresql:/u:hunter2@h/x", "u:hunter2@h/x"]
)
def test_the_password_of_a_mistyped_store_is_not_printed(sqlite_shell, url):
    for command in (("agents",), ("new", "x")):
        error = sqlite_shell(*command, "--store", url, code=1).err
        assert "is not a store" in error
        assert "hunter2" not in error


def test_the_opening_of_a_session_is_not_undone(sqlite_shell):
    sqlite_shell("new", "main")
    sqlite_shell(
        "append", "main", "--jsonl", stdin='{"kind": "clear"}\n{"kind": "system", "content": "s"}\n'
    )
    for option in ((), ("--dry-run",)):
        assert "nothing to undo" in sqlite_shell("undo", "main", *option, code=1).err
    assert sqlite_shell("context", "main", "--json").json[0]["content"] == "s"


def test_one_argument_that_is_no_agent_gets_a_hint(story):
    for command in ("mark", "append"):
        said = story(command, "before cleanup", code=1).err
        assert f'for the latest agent, use backstory {command} @ "before cleanup"' in said
    assert "the latest" not in story("mark", "nobody", "label", code=1).err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["agents"], 0),
        (["log", "nobody"], 1),
        (["search", "nowhere"], 1),
        (["log", "--poem"], 2),
        (["append", "main", "x", "--kind", "poem"], 2),
        (["rename", "main", "a@b"], 2),
        (["frobnicate"], 2),
        (["jump"], 2),
        (["diff"], 2),
        (["agents", "--store", ""], 2),
        (["--store", "", "agents"], 2),
        (["agents", "--store", "http://example.org"], 1),
        ([], 2),
    ],
)
def test_exit_codes(story, arguments, code):
    ran = story(*arguments, code=code)
    assert bool(ran.err) == (code != 0)
    if code:
        assert ran.out == ""
    assert "Traceback" not in ran.err


def test_plain_help_and_version(story):
    assert story("--version").out == f"backstory {backstory.__version__}\n"
    assert story("--store", "x", "--version").out == f"backstory {backstory.__version__}\n"
    text = story("--help").out
    assert [name for name in COMMANDS if f"\n  {name}" not in text] == []
    assert "\n  agents, tree " in text


def test_tree_is_another_name_of_agents(story):
    assert story("tree").out == story("agents").out
    assert "Did you mean tree?" in story("tre", code=2).err


def test_the_module_backstory_is_the_command(story):
    module = [sys.executable, "-m", "backstory"]
    ran = subprocess.run(
        [*module, "agents"], env=story.env, capture_output=True, text=True, check=True
    )
    assert ran.stdout == story("agents").out
    ran = subprocess.run(
        [*module, "--help"], env=story.env, capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("Usage: backstory [OPTIONS]")


def test_a_command_imports_only_what_it_needs():
    def loaded(*arguments):
        code = f"import sys; sys.argv = {['backstory', *arguments]!r}\nfrom backstory.cli import main\n"
        code += "try: main()\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return set(ran.stderr.split())

    assert not loaded("--version") & {"click", "rich", "apsw", "json.tool", "backstory.store"}
    assert not loaded("--help") & {"rich", "apsw", "backstory.store"}
    assert not loaded("agents", "--store", "/nowhere/at/all.db") & {"rich", "psycopg"}


# --- pipes and signals ---


@pytest.fixture(scope="module")
def long_url(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("long") / "history.db")
    with backstory.open(url) as store:
        store.start("long").extend(
            [("user", f"message {n} " + "x" * 200, None) for n in range(50_000)]
        )
    return url


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [
        "log",
        "context",
        "context --json",
        "context --format openai",
        "export",
        "export --format openai",
    ],
)
def test_a_closed_pipe_ends_it_quietly(long_url, tmp_path, command, unbuffered):
    env = Shell(long_url, tmp_path).env | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [COMMAND, *command.split(), "long"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_ctrl_c_ends_it_quietly(long_url, tmp_path):
    shell = Shell(long_url, tmp_path)
    with subprocess.Popen(
        [COMMAND, "log", "long"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=shell.env
    ) as process:
        process.stdout.readline()  # the pipe is full soon, and nobody reads on
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == b""


def test_a_first_line_does_not_wait_for_the_last(long_url, tmp_path):
    """The log is read in pages: what the first line costs does not depend on the length."""
    reads = []
    with backstory.open(long_url) as store:
        agent = store.agent("long")
        read_events = store._backend.read_events
        store._backend.read_events = lambda *args: reads.append(args) or read_events(*args)
        from backstory.present.history import read_history, read_live_history

        next(read_history(agent, 0, agent.head))
        next(read_live_history(agent, 0, agent.head))
    assert [count_positions(args[1]) for args in reads] == [1_000, 1_000]


def test_an_import_that_ctrl_c_ended_is_continued_by_the_next(long_url, tmp_path, new_url):
    shell = Shell(long_url, tmp_path)
    shell("export", "-o", tmp_path / "all.jsonl")
    other = Shell(new_url("sqlite"), tmp_path)
    other("new", "there")
    log = Path(f"{other.env['BACKSTORY_STORE']}-wal")
    process = subprocess.Popen([COMMAND, "import", str(tmp_path / "all.jsonl")], env=other.env)
    wait_until(
        lambda: process.poll() is not None or (log.exists() and log.stat().st_size > 100_000)
    )
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) in (0, 130)
    assert "sound" in other("verify").err
    other("import", tmp_path / "all.jsonl")
    assert [row[1] for row in other("agents").rows] == ["there/there", "long/long"]
    assert other("log", "long", "--json").out == shell("log", "long", "--json").out


def test_an_import_shows_a_bar_on_a_terminal_only(story, tmp_path, new_url):
    story("export", "-o", tmp_path / "all.jsonl")
    other = Shell(new_url("sqlite"), tmp_path)
    shown = other.on_terminal("import", str(tmp_path / "all.jsonl")).out
    assert "importing" in shown
    assert "indexing" in shown
    assert "indexing" not in other.on_terminal("search", "idea").out
    assert "importing" not in other("import", tmp_path / "all.jsonl").err


# --- completion ---


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_scripts(story, shell_name):
    assert "_BACKSTORY_COMPLETE" in story("shell-completion", shell_name).out


def test_completion_knows_commands_agents_and_marks(story):
    def complete(*words):
        env = {
            "_BACKSTORY_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        ran = subprocess.run(
            [COMMAND], capture_output=True, text=True, env={**story.env, **env}, check=False
        )
        return [line.partition(",")[2] for line in ran.stdout.splitlines()]

    assert complete("backstory", "con") == ["context"]
    assert complete("backstory", "log", "i") == ["idea"]
    assert complete("backstory", "rewind", "main@") == ["main@two files"]
    assert complete("backstory", "log", "--li") == ["--live"]
