"""The real chat with the tools of MCP servers."""

import sys
from pathlib import Path

from tests.processes import wait_until
from tests.runtime.scripted import Say, scripted

ROOT = Path(__file__).parents[2]
SERVER = f"""
[mcp.weather]
command = "{sys.executable}"
args = ["-m", "tests.runtime.mcp_server", "well"]
env = {{PYTHONPATH = "{ROOT}"}}
seconds = 120
"""
CALL = ("call_1", "weather__forecast", '{"city": "Bergen"}')


def configured(tmp_path, text):
    place = tmp_path / "config" / "backstory" / "chat.toml"
    place.parent.mkdir(parents=True)
    place.write_text(text)


def test_a_tool_of_a_server_is_asked_for_called_and_answered(start, tmp_path, reopened):
    configured(tmp_path, SERVER + '[mcp.broken]\ncommand = "/nowhere/at-all"\n')
    with scripted(Say(calls=(CALL,)), Say("Take an umbrella.")) as server:
        terminal = start(server, columns=120)
        terminal.wait("the MCP server 'broken' is not used: ")
        terminal.send("The weather?")
        terminal.wait("Allow weather__forecast?")
        terminal.type("y")
        terminal.answered("Take an umbrella.")
        assert "Rain in Bergen." in terminal.text
        names = {tool["function"]["name"] for tool in server.last["tools"]}
        assert {"glob", "weather__forecast"} <= names
        assert terminal.leave() == 0


def test_nobody_has_to_wait_for_a_server_that_hangs_and_one_that_lies_says_nothing_on_the_screen(
    start, tmp_path
):
    servers = '[mcp.hangs]\ncommand = "sleep"\nargs = ["600"]\nseconds = 600\n'
    servers += '[mcp.lies]\ncommand = "echo"\nargs = ["this is not MCP"]\n'
    configured(tmp_path, servers)
    with scripted(Say("Hello.")) as server:
        terminal = start(server, columns=120)
        terminal.wait("connecting to MCP servers: hangs, lies (Ctrl-C goes on without)")
        wait_until(lambda: any("600" in process.cmdline() for process in terminal.processes()))
        terminal.type("\x03")
        text = terminal.ready()
        assert "the MCP server 'hangs' is not used: you did not wait for it" in text
        assert "the MCP server 'lies' is not used: " in text
        assert "Traceback" not in text
        wait_until(lambda: not any("600" in process.cmdline() for process in terminal.processes()))
        terminal.send("Hi")
        terminal.answered("Hello.")
        assert terminal.leave() == 0


def test_a_projects_file_starts_nothing_unless_the_folder_is_trusted(start, folder, tmp_path):
    (folder / ".backstory.toml").write_text(SERVER)
    with scripted() as server:
        text = start(server, columns=400).ready()
        assert "would start weather: that is not used." in text
        assert "connecting" not in text
    configured(tmp_path, f'[consent]\ntrusted = ["{folder}"]\n')
    with scripted(Say("Hello.")) as server:
        terminal = start(server, "--new", columns=120)
        terminal.wait("connecting to MCP servers: weather")
        terminal.send("Hi")
        terminal.answered("Hello.")
        assert "weather__forecast" in {tool["function"]["name"] for tool in server.last["tools"]}
