"""The histories of a store for any MCP client: a server that lists, searches and reads. It writes nothing."""

from backstory.mcp.server import server

__all__ = ["server"]
