"""The command: what it prints, which port it takes, and how it ends."""

import errno
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

import backstory
from backstory.web import server
from tests.cli.conftest import COMMAND
from tests.processes import PATIENCE, wait_until
from tests.web.conftest import fill


@pytest.fixture
def store_url(tmp_path):
    url = str(tmp_path / "history.db")
    with backstory.open(url) as store:
        fill(store)
    return url


@pytest.fixture
def start(store_url):
    """Starts the command and reads the address that it prints."""
    running = []

    def start(*arguments, **env):
        process = subprocess.Popen(
            [COMMAND, "--store", store_url, "web", "--no-open", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        running.append(process)
        address = process.stdout.readline().strip()
        return process, address

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def get(address, path, **headers):
    base, _, key = address.partition("#key=")
    origin = re.match(r"http://[^/]+", base)[0]
    request = urllib.request.Request(
        origin + path, headers={"authorization": f"Bearer {key}", **headers}
    )
    return urllib.request.urlopen(request)


def answers(address):
    try:
        return get(address, "/api/sessions").status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_it_prints_the_address_of_the_position_and_says_what_it_may_do(start):
    process, address = start("main@2", "--port", "0")
    assert re.fullmatch(
        r"http://127\.0\.0\.1:\d+/s/[0-9a-f-]{36}/a/[0-9a-f-]{36}@2#key=\S{32}", address
    )
    wait_until(lambda: answers(address))
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert "reads only" in said
    assert address.partition("#key=")[2] not in said


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_store_that_may_not_be_written_is_shown(start, store_url):
    os.chmod(store_url, 0o444)
    _, address = start("--port", "0")
    wait_until(lambda: answers(address))
    assert get(address, "/api/search?q=files").status == 200


def test_if_the_port_is_taken_the_next_free_one_is_used_and_a_line_says_so(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process, address = start("--port", str(port))
        assert f":{port}/" not in address
        wait_until(lambda: answers(address))
        process.send_signal(signal.SIGINT)
        assert f"because {port} is taken" in process.communicate()[1]


def test_a_port_that_may_not_be_used_is_not_said_to_be_taken(monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(server, "_socket", refused)
    with pytest.raises(backstory.CannotOpen, match="port 80 cannot be used: Permission denied"):
        server._bound(80)


def test_the_last_port_is_the_last_that_is_tried(monkeypatch):
    def taken(*_):
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(server, "_socket", taken)
    with pytest.raises(backstory.CannotOpen, match="from 65530 to 65535 are taken"):
        server._bound(65_530)


def test_ctrl_c_ends_it_although_pages_are_open(start):
    process, address = start("--port", "0")
    wait_until(lambda: answers(address))
    streams = [get(address, "/api/live") for _ in range(3)]
    for stream in streams:
        assert stream.readline() == b": hello\n"
    process.send_signal(signal.SIGINT)
    process.wait(timeout=PATIENCE)  # without a limit of its own it would wait for them for ever
    for stream in streams:
        stream.close()


def test_a_proxy_needs_its_secret_and_its_address(store_url):
    env = {name: value for name, value in os.environ.items() if name != "BACKSTORY_PROXY_SECRET"}
    address = ["--public-url", "https://x.example"]
    for arguments, said in [
        (["--behind-proxy"], "belong together"),
        (address, "belong together"),
        (["--behind-proxy", *address], "BACKSTORY_PROXY_SECRET"),
    ]:
        command = [COMMAND, "--store", store_url, "web", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert ran.returncode == 2
        assert said in ran.stderr
