"""Tools of MCP servers: real servers that work, hang, fail and lie."""

import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from backstory.errors import Invalid
from backstory.runtime.tools import ToolError
from backstory.runtime.tools.mcp_servers import McpServers, Server, _schema, servers_of
from tests.processes import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]


def server(how, name="weather", seconds=PATIENCE):
    arguments = ("-m", "tests.runtime.mcp_server", how)
    return Server(name, command=sys.executable, args=arguments, seconds=seconds)


def test_the_tools_of_a_server_can_be_called_and_ask_first():
    with McpServers([server("well", "my weather")], ROOT) as servers:
        [tool] = servers.tools
        assert servers.problems == []
        assert (tool.name, tool.description) == ("my_weather__forecast", "The weather in a city.")
        assert tool.asks
        assert tool.parameters["required"] == ["city"]
        assert tool.run(city="Bergen") == "Rain in Bergen."
        with pytest.raises(ToolError, match="Error executing tool forecast"):
            tool.run(city="Atlantis")


def kill_servers():
    for process in psutil.Process().children(recursive=True):
        if "tests.runtime.mcp_server" in process.cmdline():
            process.kill()
            process.wait(PATIENCE)


def test_a_server_that_has_ended_is_started_again_and_the_call_is_not_repeated():
    with McpServers([server("well")], ROOT) as servers:
        [tool] = servers.tools
        assert tool.run(city="Bergen") == "Rain in Bergen."
        for _ in range(2):
            kill_servers()
            with pytest.raises(ToolError, match=r"'weather' had ended, and was restarted"):
                tool.run(city="Bergen")
            assert tool.run(city="Bergen") == "Rain in Bergen."


def test_a_server_that_cannot_be_started_again_is_one_line_each_time(tmp_path):
    works = tmp_path / "works"
    works.touch()
    code = "import os, runpy, sys; os.path.exists(sys.argv.pop(1)) or sys.exit('no key'); "
    code += "runpy.run_module('tests.runtime.mcp_server', run_name='__main__')"
    arguments = ("-c", code, str(works), "well", "tests.runtime.mcp_server")
    once = Server("weather", command=sys.executable, args=arguments, seconds=PATIENCE)
    with McpServers([once], ROOT) as servers:
        [tool] = servers.tools
        works.unlink()
        kill_servers()
        for _ in range(2):
            with pytest.raises(ToolError, match=r"could not be restarted: .*no key"):
                tool.run(city="Bergen")
        works.touch()
        with pytest.raises(ToolError, match="and was restarted"):
            tool.run(city="Bergen")
        assert tool.run(city="Bergen") == "Rain in Bergen."


def answers(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


def test_a_server_is_reached_over_http_and_one_that_is_gone_is_a_line(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.runtime.mcp_server", "http", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: answers(port))
            weather = Server(
                "weather", url=f"http://127.0.0.1:{port}/mcp", headers={"X": "y"}, seconds=PATIENCE
            )
            gone = Server("gone", url="http://127.0.0.1:9/mcp", seconds=PATIENCE)
            with McpServers([weather, gone], ROOT) as servers:
                assert [tool.run(city="Oslo") for tool in servers.tools] == ["Rain in Oslo."]
                assert "the MCP server 'gone' is not used" in servers.problems[0]
        finally:
            process.terminate()


def test_a_call_that_hangs_can_be_stopped():
    with McpServers([server("well")], ROOT) as servers:
        [tool] = servers.tools
        threading.Timer(0.5, tool.cancel).start()
        with pytest.raises(ToolError, match="was stopped"):
            tool.run(city="Limbo")


def test_servers_that_hang_fail_or_lie_are_a_line_each_and_the_others_work():
    bad = [
        server("hangs", "a", seconds=0.5),
        server("fails", "b"),
        Server("d", command="/nowhere/at-all"),
    ]
    with McpServers([*bad, server("well"), server("lies", "c", seconds=5)], ROOT) as servers:
        assert [tool.name for tool in servers.tools] == ["weather__forecast"]
        a, b, d, c = servers.problems
        assert a == "the MCP server 'a' is not used: it did not answer within 0.5 seconds"
        assert "'b' is not used" in b
        assert "no configuration was found" in b
        assert "'c' is not used" in c
        assert "'d' is not used" in d
        assert "No such file" in d


def test_a_schema_that_is_not_an_objects_lets_everything_through():
    assert _schema("?") == {"type": "object", "properties": {}, "additionalProperties": True}
    assert _schema({"type": "object"})["additionalProperties"] is True
    assert _schema({"type": "object", "properties": {"a": {}}}) == {
        "type": "object",
        "properties": {"a": {}},
    }


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("x", "mcp is 'x'"),
        ({"a": 1}, "the MCP server 'a' is 1"),
        ({"a": {}}, "needs either a command or a url"),
        ({"a": {"command": "x", "url": "y"}}, "needs either a command or a url"),
        ({"a": {"command": "x", "arguments": []}}, "has 'arguments'"),
        ({"a": {"command": "x", "args": "y"}}, "is not a string"),
        ({"a": {"url": "x", "seconds": "9"}}, "has seconds = '9'"),
        ({"a": {"url": "x", "headers": {"A": 1}}}, "is not a string"),
    ],
)
def test_a_table_that_makes_no_sense_says_what_is_wrong(table, said):
    with pytest.raises(Invalid, match=said):
        servers_of(table)


def test_servers_are_named_in_a_table():
    found = servers_of(
        {"a": {"command": "x", "args": ["1"]}, "b": {"url": "https://b.example/mcp"}}
    )
    assert found == [
        Server("a", command="x", args=("1",)),
        Server("b", url="https://b.example/mcp"),
    ]
