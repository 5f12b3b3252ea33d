"""MCP servers for tests: `python -m tests.runtime.mcp_server HOW [PORT]`."""

import sys
import time

from mcp.server.mcpserver import MCPServer


def serve(**transport):
    server = MCPServer("weather")

    @server.tool()
    def forecast(city: str) -> str:
        """The weather in a city."""
        if city == "Atlantis":
            raise ValueError("there is no such city")
        if city == "Limbo":
            time.sleep(600)
        return f"Rain in {city}."

    server.run(**transport)


if __name__ == "__main__":
    match sys.argv[1]:
        case "well":
            serve(transport="stdio")
        case "http":
            serve(transport="streamable-http", port=int(sys.argv[2]))
        case "hangs":
            time.sleep(600)
        case "fails":
            sys.exit("no configuration was found")
        case "lies":
            print("this is not a protocol", flush=True)
            sys.stdin.read()
