"""The manners of the comparison: what it says to a wrong word, a wrong peer, Ctrl-C and a lost parent."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import contract, environments, worker
from benchmarks.peers.libraries.json_lines import JsonLines
from benchmarks.peers.peer import Peer
from benchmarks.peers.peers import EMBEDDED, PEERS, Entry
from tests.processes import PATIENCE
from tests.wire.stub_server import stub_server

SLEEPER = "import sys, time; print('ready', flush=True); sys.stdin.readline(); time.sleep(60)"


@pytest.fixture
def run(monkeypatch, capsys):
    """A command with its words; what it says, and how it ends."""

    def run(main, *words):
        monkeypatch.setattr(sys, "argv", ["it", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run


class Said(JsonLines):
    """A peer that keeps its contract."""


def problems(kind, folder):
    return list(contract.problems(kind, str(folder)))


class TestTheContractsCommand:
    def test_it_knows_its_peers_and_has_an_example(self, run):
        code, _, errors = run(contract.main, "nobody")
        assert code == 2
        assert "invalid choice: 'nobody'" in errors
        code, out, _ = run(contract.main, "--help")
        assert code == 0
        assert ".venv-peers/llm/bin/python -m benchmarks.peers.contract llm http" in out

    @pytest.mark.parametrize("is_made", [True, False])
    def test_who_has_the_library_is_told(self, run, monkeypatch, tmp_path, is_made):
        monkeypatch.setattr(environments, "PROJECT", tmp_path)
        monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path / ".venv-peers")
        monkeypatch.setitem(EMBEDDED, "new", Entry("New", "not_there:New", ("new-library[extra]",)))
        if is_made:
            home = tmp_path / ".venv-peers" / "new-library"
            home.mkdir(parents=True)
            (home / ".ready").touch()
        code, out, errors = run(contract.main, "new")
        assert (code, out, errors.count("\n")) == (2, "", 1)
        assert "run .venv-peers/new-library/bin/python -m benchmarks.peers.contract new" in errors
        make = 'make bench-peers ARGS="--jobs append --sizes 1 --peers new"'
        assert (make in errors) is not is_made

    def test_an_import_that_its_own_environment_misses_is_shown(self, monkeypatch, tmp_path):
        monkeypatch.setattr(environments, "PROJECT", tmp_path)
        monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
        monkeypatch.setitem(EMBEDDED, "new", Entry("New", "not_there:New"))
        monkeypatch.setattr(sys, "argv", ["it", "new"])
        with pytest.raises(ImportError, match="not_there"):
            contract.main()

    def test_a_peer_that_sends_nothing_says_so(self, run):
        with stub_server() as server:
            code, out, _ = run(contract.main, "bare", f"{server.url}/v1")
        assert code == 0
        assert "  ask: sends nothing to a model\n" in out

    @pytest.mark.parametrize("address", ["http://127.0.0.1:{port}/v1", "nonsense", "http://a:b/"])
    def test_an_endpoint_where_nobody_is_is_named(self, run, address):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = address.format(port=free.getsockname()[1])
        assert run(contract.main, "bare", address) == (2, "", f"no server answers at {address}\n")


class TestTheContract:
    def test_what_is_missing_is_named(self, tmp_path):
        class Half(Peer):
            def __init__(self, place):
                pass

        assert problems(Half, tmp_path) == [
            f"{name}() is missing" for name in ("native", "append", "restore", "texts")
        ]
        with pytest.raises(NotImplementedError, match=r"native\(\) is missing"):
            Half("").native([])

    def test_the_page_would_miss_a_sentence(self, tmp_path):
        class Unsaid(JsonLines):
            def restore(self, session):
                return super().restore(session)

        assert problems(Unsaid, tmp_path) == [
            "Unsaid has no sentence: docs/peers.md quotes the docstring of the class",
            "restore() has no sentence: docs/peers.md quotes the first line of its docstring",
        ]

    def test_who_forgets_is_asked_for_nothing_else(self, tmp_path):
        class Forgetful(Said):
            """It loses the newest message."""

            def restore(self, session):
                """All but the last."""
                return super().restore(session)[:-1]

            def point(self, session, messages):
                raise IndexError

        assert problems(Forgetful, tmp_path) == [
            "append: 5 messages instead of 6",
            "append, after reopening: 5 messages instead of 6",
            "append: 19 messages instead of 20",
        ]

    def test_the_text_that_differs_is_shown_where_it_does(self, tmp_path):
        class Garbled(Said):
            """It changes the end of one message."""

            def as_of(self, session, point):
                """Nearly right."""
                *first, last = super().as_of(session, point)
                return [*first, {**last, "content": last["content"][:-1] + "#"}]

        [problem] = problems(Garbled, tmp_path)
        assert problem.startswith("as_of: message 9 is '")
        found, expected = problem.split("'")[1::2]
        assert (found[:-1], found[-1], len(found)) == (expected[:-1], "#", 21)

    def test_a_second_rewind_counts_what_is_alive(self, tmp_path):
        class Once(Said):
            """It takes a point for a place in the file as it once was."""

            rewinds = 0

            def rewind(self, session, to):
                """The second one goes too far."""
                super().rewind(session, to - 2 * self.rewinds)
                self.rewinds += 1

        assert problems(Once, tmp_path) == ["a second rewind: 6 messages instead of 8"]

    def test_a_request_has_every_message(self, tmp_path):
        class Short(Said):
            """It leaves one out."""

            def request(self, session):
                """All but the first."""
                return self.restore(session)[1:]

        assert problems(Short, tmp_path) == ["request: 19 items instead of 20, one per message"]


class TestTheCommand:
    @pytest.fixture(autouse=True)
    def _measures_nothing(self, monkeypatch):
        monkeypatch.setattr(command, "_measure", lambda *_: pytest.fail("it measures"))

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("--page --sizes 3", "--page needs all sizes"),
            ("--page --peers bare", "--page needs all peers"),
            ("--sizes 5", "invalid choice: 5"),
            ("--peers bare,nobody", "unknown: 'nobody'; choose from backstory, sdk"),
            ("--jobs ,", "no name given; choose from append"),
            ("--json {file}/numbers.json", "--json: {file}/numbers.json cannot be written"),
            ("--json {folder}", "--json: {folder} cannot be written"),
            ("--histories {file}", "--histories: {file} cannot be used as a folder"),
        ],
    )
    def test_a_wrong_word_is_refused_before_anything_is_measured(self, run, tmp_path, words, said):
        places = {"folder": str(tmp_path), "file": str(tmp_path / "file")}
        (tmp_path / "file").touch()
        code, _, errors = run(command.main, *words.format(**places).split())
        assert code == 2
        assert said.format(**places) in errors

    def test_the_folder_to_measure_in_must_be_there(self, run, monkeypatch, tmp_path):
        monkeypatch.setattr(command, "FOLDER", str(tmp_path / "none"))
        code, _, errors = run(command.main, "--sizes", "1")
        assert code == 2
        assert "BENCH_FOLDER" in errors.splitlines()[-1]

    def test_names_may_have_spaces_and_be_said_twice(self):
        assert command._some_of(["a", "b"])(" b, a,,b ") == ["b", "a"]

    def test_the_help_names_what_make_takes(self, run):
        _, out, _ = run(command.main, "--help")
        assert "BENCH_FOLDER=" in out
        assert "JSON=" in out

    def test_a_broken_contract_is_told_line_by_line(self, monkeypatch):
        monkeypatch.setattr(environments, "run", lambda *_: {"problems": ["one", "two"]})
        with pytest.raises(SystemExit, match=r"^bare does not keep its contract:\n  one\n  two$"):
            command._check(["bare"])
        monkeypatch.setattr(environments, "run", lambda *_: {"not_offered": "no append"})
        with pytest.raises(SystemExit, match="no append"):
            command._check(["bare"])


class TestStopping:
    @pytest.fixture
    def stopped(self, run, monkeypatch, tmp_path):
        """A run that a signal ends in a job; the earlier jobs were done."""
        (tmp_path / "disk").mkdir()

        class Measured:
            def __init__(self, folder, *_):
                assert "/backstory-peers-" in folder

            def close(self):
                (tmp_path / "closed").touch()

            def job(self, name):
                if name == "rewind":
                    os.kill(os.getpid(), number)
                    time.sleep(5)
                return {"bare": {"5": {"lost": 0, "acknowledged": 7}}}

        number = signal.SIGINT
        monkeypatch.setattr(command, "FOLDER", str(tmp_path / "disk"))
        monkeypatch.setattr(command, "Measurement", Measured)
        monkeypatch.setattr(command, "_circumstances", lambda names: {})
        monkeypatch.setattr(command, "_check", lambda names: None)

        def stopped(with_signal, *words):
            nonlocal number
            number = with_signal
            ended = run(command.main, "--peers", "bare", *words)
            assert (tmp_path / "closed").exists()
            assert not os.listdir(tmp_path / "disk")
            return ended

        before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("nobody handles it"))
        yield stopped
        signal.signal(signal.SIGTERM, before)

    def test_ctrl_c_shows_what_there_is_and_where(self, stopped, tmp_path):
        file = tmp_path / "made" / "numbers.json"
        code, out, errors = stopped(signal.SIGINT, "--jobs", "kill,rewind", "--json", str(file))
        assert code == 130
        assert "7" in out
        assert errors.splitlines()[-1] == f"stopped: the numbers of kill are in {file}"
        assert list(json.loads(file.read_text())["jobs"]) == ["kill"]

    def test_ctrl_c_before_anything_is_finished(self, stopped):
        code, out, errors = stopped(signal.SIGINT, "--jobs", "rewind")
        assert (code, out) == (130, "")
        assert errors.splitlines()[-1] == "stopped: no job was finished"

    def test_a_terminated_run_leaves_nothing_behind(self, stopped):
        assert stopped(signal.SIGTERM, "--jobs", "rewind")[0] == 143


class TestEnvironments:
    @pytest.mark.parametrize(
        "wait", [environments.all_at_once, lambda processes: environments._ended(processes[0])]
    )
    def test_an_interrupted_wait_ends_the_processes(self, wait):
        pipes = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        process = subprocess.Popen([sys.executable, "-S", "-c", SLEEPER], **pipes)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)

        def interrupted():
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            wait([process])

        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted()
            assert process.wait(PATIENCE) == -signal.SIGKILL
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            process.kill()

    @pytest.mark.parametrize(("job", "more"), [("write", {}), ("rate", {"what": "append"})])
    def test_a_writer_whose_parent_is_gone_ends(self, tmp_path, job, more):
        with environments.started(
            "json-lines", job, str(tmp_path), 60, mark="m", **more
        ) as process:
            environments.ready(process)
            _, errors = process.communicate(timeout=PATIENCE)  # closes its standard input
        assert process.returncode == 1
        assert errors == "the process that started this one is gone\n"

    def test_a_reason_is_the_first_line_of_the_error(self, monkeypatch, capsys):
        def fails(*_):
            raise ValueError("all is lost\nhere is a long story\nof how")

        monkeypatch.setitem(worker.JOBS, "disk", fails)
        monkeypatch.setattr(
            sys, "argv", ["it", '{"peer": "bare", "job": "disk", "place": "", "size": 1}']
        )
        worker.main()
        assert json.loads(capsys.readouterr().out) == {"failed": "ValueError: all is lost"}
        assert worker.shortly(AssertionError()) == "AssertionError"

    def test_one_environment_has_one_list_of_needs(self, monkeypatch):
        monkeypatch.setitem(PEERS, "other", Entry("Other", "other:Other", ("llm", "more")))
        for needs in (("llm",), ("llm", "more")):
            with pytest.raises(SystemExit, match="llm first share an environment"):
                environments.home(needs)
