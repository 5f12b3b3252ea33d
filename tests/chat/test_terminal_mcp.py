"""The real chat with the tools of MCP servers."""

import sys
from pathlib import Path

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
