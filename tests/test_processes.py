"""The tests hold wherever they are started: signals that were ignored there are heard here."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import hear_all_signals

ROOT = Path(__file__).parents[1]
CTRL_C = [
    "tests/storage/test_open_sqlite.py",
    "tests/test_processes.py",
    "-k",
    "ctrl_c_ends_the_wait or hears",
]
HEARS = """
import signal, sys
sys.exit(sum(signal.getsignal(number) is signal.SIG_IGN for number in
    (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)))
"""


def test_what_a_test_starts_hears_all_signals():
    subprocess.run([sys.executable, "-c", HEARS], check=True)


@pytest.mark.parametrize("options", [("--numprocesses", "0"), ("--numprocesses", "1")])
def test_tests_that_send_ctrl_c_pass_where_it_is_ignored(options):
    """As in the background of a script, and under nohup."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *CTRL_C]
    ignored = "trap '' INT QUIT TERM HUP; exec \"$@\""
    ran = subprocess.run(
        ["sh", "-c", ignored, "sh", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_an_ignored_hang_up_still_does_not_end_the_tests():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hear_all_signals()
        signal.raise_signal(signal.SIGHUP)
        subprocess.run([sys.executable, "-c", HEARS], check=True)
    finally:
        signal.signal(signal.SIGHUP, before)
