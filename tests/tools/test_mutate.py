"""tools/mutate.py on a small made package."""

import ast
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools import mutate

ROOT = Path(__file__).parents[2]

# `is_large` has two mutants: the tests below kill "return None" and let "Gt -> GtE" survive.
SOURCE = """\
def is_large(size):
    return size > limit  # this comment must survive, too


limit = int("9")
"""
WEAK_TESTS = (
    "from sizes import is_large\ndef test_is_large(): assert is_large(20) and not is_large(3)"
)
STRONG_TESTS = f"{WEAK_TESTS} and not is_large(9)"
NO_TESTS = "def test_nothing(): pass"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder with the module sizes.py, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take half of the time
    Path("sizes.py").write_text(SOURCE)
    return tmp_path


def run(tests: str, *options: str) -> int:
    """Run the command on the package with the given text of tests."""
    Path("test_sizes.py").write_text(tests)
    return mutate.main(["sizes.py", *options, "--tests", "test_sizes.py"])


def test_killed_and_surviving_mutants_are_saved(package, capsys):
    assert run(WEAK_TESTS, "--save", "results.json") == 0
    assert json.loads(Path("results.json").read_text()) == {
        "sizes.py:2:5 return None": True,
        "sizes.py:2:19 Gt -> GtE": False,
    }
    assert "1 of 2 killed" in capsys.readouterr().out
    assert Path("sizes.py").read_text() == SOURCE


def test_count_and_seed_choose_the_sample(package):
    run(NO_TESTS, "--count", "1", "--seed", "1", "--save", "one.json")
    run(NO_TESTS, "--count", "1", "--seed", "1", "--save", "again.json")
    run(NO_TESTS, "--count", "1", "--seed", "0", "--save", "other.json")
    one, again, other = (Path(f"{name}.json").read_text() for name in ("one", "again", "other"))
    assert one == again != other
    assert len(json.loads(one)) == 1


def test_comparison_fails_if_a_killed_mutant_survives(package, capsys):
    run(STRONG_TESTS, "--save", "before.json")
    assert run(STRONG_TESTS, "--compare", "before.json") == 0
    assert run(WEAK_TESTS, "--compare", "before.json") == 1
    assert "killed before, but not now: sizes.py:2:19 Gt -> GtE" in capsys.readouterr().out


def test_comparison_accepts_survivors_of_both_suites(package):
    run(WEAK_TESTS, "--save", "before.json")
    assert run(WEAK_TESTS, "--compare", "before.json") == 0
    assert run(STRONG_TESTS, "--compare", "before.json") == 0


def test_comparison_refuses_a_changed_source(package, capsys):
    run(WEAK_TESTS, "--save", "before.json")
    Path("sizes.py").write_text(SOURCE.replace("size > limit", "limit < size"))
    with pytest.raises(SystemExit, match="2"):
        run(WEAK_TESTS, "--compare", "before.json")
    assert "sizes.py:2:19 Gt -> GtE is missing" in capsys.readouterr().err


def test_tests_that_fail_without_a_change_are_refused(package, capsys):
    with pytest.raises(SystemExit, match="2"):
        run("def test_failure(): assert False", "--save", "results.json")
    assert "do not pass without a change" in capsys.readouterr().err
    assert not Path("results.json").exists()


def test_source_is_restored_if_the_run_of_the_tests_raises(package, monkeypatch):
    Path("test_sizes.py").write_text(WEAK_TESTS)
    [mutant, _] = mutate.list_mutants([Path("sizes.py")])

    def fail_to_start(*_, **__):
        assert Path("sizes.py").read_text() != SOURCE
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", fail_to_start)
    with pytest.raises(OSError, match="no more processes"):
        mutate.is_killed(mutant, ["test_sizes.py"], limit=60)
    assert Path("sizes.py").read_text() == SOURCE


def test_compiled_mutant_is_not_used_after_the_restoration(package):
    """Size and second of both sources are equal, so that only the removal of the file helps."""
    check = [sys.executable, "-c", "import sizes; print(sizes.is_large(20))"]
    assert subprocess.check_output(check, text=True) == "True\n"
    [mutant, _] = mutate.list_mutants([Path("sizes.py")])
    same_size = mutate.change_source(SOURCE, mutant.number).ljust(len(SOURCE))
    mutate.write_source(Path("sizes.py"), same_size.encode())
    os.utime("sizes.py", (0, 0))
    assert subprocess.check_output(check, text=True) == "None\n"
    mutate.write_source(Path("sizes.py"), SOURCE.encode())
    os.utime("sizes.py", (0, 0))
    assert subprocess.check_output(check, text=True) == "True\n"


# A process of these tests writes to the pipe and never ends, if the source is a mutant.
ENDLESS_TESTS = f"""{WEAK_TESTS.splitlines()[0]}
import subprocess
def test_endless():
    if is_large(20) is not True:
        subprocess.run(["sh", "-c", "exec > pipe; echo running; exec sleep 600"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_tests_and_restores_the_source(package, number):
    Path("test_sizes.py").write_text(ENDLESS_TESTS)
    os.mkfifo("pipe")
    command = [sys.executable, "-m", "tools.mutate", "sizes.py", "--tests", "test_sizes.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        with open("pipe") as pipe:
            assert pipe.readline() == "running\n"
            assert Path("sizes.py").read_text() != SOURCE
            process.send_signal(number)
            assert process.wait(60) == 130
            assert select.select([pipe], [], [], 60)[0]
            assert pipe.read() == ""  # nobody has the pipe open: the process has ended
    assert Path("sizes.py").read_text() == SOURCE


def test_tests_that_exceed_the_limit_do_not_pass(package):
    Path("test_sizes.py").write_text("import time\ndef test_slow(): time.sleep(600)")
    assert not mutate.run_tests(["test_sizes.py"], limit=0.1)


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a == b", ["a != b"]),
        ("a < b <= c", ["a <= b <= c", "a < b < c"]),
        ("a is b in c", ["a is not b in c", "a is b not in c"]),
        ("a and b", ["a or b"]),
        ("a + b - c", ["a + b + c", "a - b - c"]),
        ("a += b", ["a -= b"]),
        ("a * b", []),
        ("f = True, 3, 'x', None", ["f = (False, 3, 'x', None)", "f = (True, 4, 'x', None)"]),
        ("if a:\n    b", ["if not a:\n    b"]),
        ("b if f() else c", ["b if not f() else c"]),
        ("while a > b:\n    c", ["while a >= b:\n    c"]),
        ("if TYPE_CHECKING:\n    b", []),
        ("def f():\n    return a", ["def f():\n    return"]),
        ("def f():\n    return None", []),
        ("f(a)", ["None"]),
        ("async def f():\n    await g()", ["async def f():\n    None"]),
        ("a: Literal[3] = b", []),
        (
            "def f(a: Literal[3]=4) -> Literal[5]:\n    g",
            ["def f(a: Literal[3]=5) -> Literal[5]:\n    g"],
        ),
    ],
)
def test_changes_of_a_source(source, changed):
    numbers = range(len(mutate.list_changes(ast.parse(source))))
    assert [mutate.change_source(source, number) for number in numbers] == changed


def test_mutants_at_the_same_position_have_different_names(package):
    Path("sizes.py").write_text("a + b + c")
    names = [mutant.name for mutant in mutate.list_mutants([package])]
    path = (package / "sizes.py").as_posix()
    assert names == [f"{path}:1:1 Add -> Sub", f"{path}:1:1 Add -> Sub (2)"]
