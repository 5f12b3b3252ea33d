"""`backstory log -f`: what others write, as they write it."""

import signal
import subprocess

import backstory
from tests.cli.conftest import COMMAND
from tests.processes import PATIENCE


def test_log_follows_what_is_written_until_ctrl_c(story):
    command = [COMMAND, "log", "main", "-f", "-n", "1", "--kind", "user", "--kind", "clear"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=story.env, text=True
    ) as process:
        assert process.stdout.readline().split("\t")[0] == "6"  # the newest user event
        with backstory.open(story.env["BACKSTORY_STORE"]) as store:
            agent = store.agent("main/main")
            agent.assistant("not asked for")
            agent.user("hello")
            agent.clear()
        rows = [process.stdout.readline().rstrip("\n").split("\t") for _ in range(2)]
        assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
            ("9", "user", "live", "hello"),
            ("10", "clear", "clear", "the context is empty from here"),
        ]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == ""


def test_a_position_cannot_be_followed(story):
    assert "leave out the @" in story("log", "main@4", "-f", code=2).err
