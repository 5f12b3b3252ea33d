"""The command: what it prints, which port it takes, and how it ends."""

import errno
import json
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
from tools.site import served


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


def get(address, path, key="", **headers):
    origin = re.match(r"http://[^/]+", address)[0]
    request = urllib.request.Request(
        origin + path, headers={"authorization": f"Bearer {key}", **headers}
    )
    return urllib.request.urlopen(request)


def redeem(address):
    """Exchange the code in the address for the key, as a browser does."""
    origin, code = re.match(r"(http://[^/]+).*#code=(\S+)", address).groups()
    content = json.dumps({"code": code}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{origin}/api/key", content, headers)
    return json.load(urllib.request.urlopen(request))["key"]


def runs(address):
    try:
        return get(address, "/").status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_it_prints_an_address_that_works_once_and_then_the_next_one(start):
    process, address = start("main@2", "--port", "0")
    assert re.fullmatch(
        r"http://127\.0\.0\.1:\d+/s/[0-9a-f-]{36}/a/[0-9a-f-]{36}@2#code=\S{32}", address
    )
    wait_until(lambda: runs(address))
    key = redeem(address)
    assert get(address, "/api/sessions", key).status == 200
    with pytest.raises(urllib.error.HTTPError, match="401"):
        redeem(address)
    following = process.stdout.readline().strip()
    assert redeem(following) == key
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert "reads only" in said
    assert key not in said


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_store_that_may_not_be_written_is_shown(start, store_url):
    os.chmod(store_url, 0o444)
    _, address = start("--port", "0")
    wait_until(lambda: runs(address))
    assert get(address, "/api/search?q=files", redeem(address)).status == 200


def test_if_the_port_is_taken_the_next_free_one_is_used_and_a_line_says_so(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process, address = start("--port", str(port))
        assert f":{port}/" not in address
        wait_until(lambda: runs(address))
        process.send_signal(signal.SIGINT)
        assert f"because {port} is taken" in process.communicate()[1]


def test_a_port_that_may_not_be_used_is_not_said_to_be_taken(monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(server, "bind_socket", refused)
    with pytest.raises(backstory.CannotOpen, match="port 80 cannot be used: Permission denied"):
        server.bind_sockets(80)


def test_in_a_container_it_listens_on_the_address_it_is_given(start):
    _, address = start("--port", "0", "--host", "0.0.0.0")
    assert address.startswith("http://127.0.0.1:")
    wait_until(lambda: runs(address))
    with pytest.raises(urllib.error.HTTPError, match="421"):
        get(address, "/api/sessions", host="0.0.0.0")


def test_an_address_of_another_machine_is_refused(store_url):
    with pytest.raises(backstory.CannotOpen, match="cannot be used"):
        server.bind_sockets(0, "192.0.2.1")


def test_the_last_port_is_the_last_that_is_tried(monkeypatch):
    def taken(*_):
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(server, "bind_socket", taken)
    with pytest.raises(backstory.CannotOpen, match="from 65530 to 65535 are taken"):
        server.bind_sockets(65_530)


def test_ctrl_c_ends_it_although_pages_are_open(start):
    process, address = start("--port", "0")
    wait_until(lambda: runs(address))
    key = redeem(address)
    streams = [get(address, "/api/live", key) for _ in range(3)]
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


def test_the_end_of_the_server_closes_connections_whose_request_is_not_complete(filled):
    with served(filled) as site:
        host = f"127.0.0.1:{site.port}"
        head = f"POST /api/key HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json"
        body = head + "\r\nContent-Length: 9\r\n\r\nhalf"
        connection = socket.create_connection(("127.0.0.1", site.port))
        connection.settimeout(5)
        connection.sendall(body.encode())
        answers = get(f"http://{host}", "/api/live", site.key)
        answers.readline()  # the server has read the body before it
    with connection:
        assert connection.recv(1_000) == b""
    answers.close()


def test_a_request_that_is_never_completed_is_closed_and_a_stream_is_not(filled, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_TIME", 0.3)
    with served(filled) as site:
        address = ("127.0.0.1", site.port)
        stream = get(f"http://127.0.0.1:{site.port}", "/api/live", site.key)
        assert stream.readline() == b": hello\n"
        half = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        body = b"POST /api/key HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf"
        for sent in (b"", half, body):
            with socket.create_connection(address) as connection:
                connection.settimeout(20)
                connection.sendall(sent)
                while connection.recv(1_000):
                    pass
        filled.agent("main").user("after more than the time of a request")
        assert stream.readline() == b"\n"
        assert stream.readline() == b"event: heads\n"
        stream.close()
