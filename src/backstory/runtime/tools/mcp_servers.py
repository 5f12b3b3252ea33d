"""Tools of MCP servers: each server is started or connected once, and its tools are called from any thread.

    with McpServers([Server("files", command="npx", args=("-y", "some-server"))], folder) as servers: ...

The SDK is asynchronous, so it runs in its own thread. A server is a third-party program: one that does not
start, hangs, or sends something that is not a tool is left out, and a line in `problems` says so. One that
exits later is restarted by the next call, which fails and says so. That call is not repeated, because it may
already have had an effect.
"""

import asyncio
import logging
import os
import re
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from backstory.errors import Invalid
from backstory.runtime.signals import defer_signals
from backstory.runtime.tools.tool import Tool, ToolError

START = 20.0  # seconds for a server to start and list its tools
CALL = 120.0  # seconds that a call may take
LAST_WORD = 3.0  # seconds to end all servers
A_MOMENT = 0.2  # seconds; Ctrl-C just before a wait is only noticed after it
LONGEST_DESCRIPTION = 4_000  # characters
MOST_TOOLS = 128  # of one server
# Characters that providers accept in the name of a tool, and at most 64 of them.
NAME = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_NAME = 64
# How the SDK reports that a server is gone: the code of a closed connection, or an HTTP session that has
# ended.
CLOSED = -32000
FORGOTTEN = "Session terminated"
GIVEN_UP = "you did not wait for it"
FIELDS = frozenset({"command", "args", "env", "url", "headers", "seconds"})


class Server(NamedTuple):
    """A server in the config file: a command to start, or an address."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    url: str | None = None
    headers: Mapping[str, str] | None = None
    seconds: float = START  # how long it may take to start


def servers_of(table: Any) -> list[Server]:
    """The servers of a config table; raises Invalid, which says what is wrong."""
    if not isinstance(table, Mapping):
        raise Invalid(f"mcp is {table!r:.50}", remedy="write a table for each server: [mcp.NAME]")
    return [_server(name, values) for name, values in table.items()]


def _server(name: str, values: Any) -> Server:
    where = f"the MCP server {name!r}"
    if not isinstance(values, Mapping):
        raise Invalid(f"{where} is {values!r:.50}", remedy=f"write a table: [mcp.{name}]")
    unknown = sorted(set(values) - FIELDS)
    if unknown:
        raise Invalid(f"{where} has {unknown[0]!r}", remedy=f"use {', '.join(sorted(FIELDS))}")
    if ("command" in values) == ("url" in values):
        raise Invalid(f"{where} needs either a command or a url")
    args = values.get("args", [])
    texts = [
        values.get("command", ""),
        values.get("url", ""),
        *(args if isinstance(args, list) else [None]),
    ]
    for field in ("env", "headers"):
        table = values.get(field, {})
        texts += table.values() if isinstance(table, Mapping) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise Invalid(
            f"{where} has a value that is not a string", remedy="write strings, and args as a list"
        )
    seconds = values.get("seconds", START)
    if type(seconds) not in (int, float) or seconds <= 0:
        raise Invalid(f"{where} has seconds = {seconds!r}", remedy="use a number above 0")
    return Server(name, **{**values, "args": tuple(args)})


class _Connection(NamedTuple):
    """A running server, and how to stop it."""

    client: Any
    stop: asyncio.Event


class McpServers:
    """Runs servers until the end of the block; `tools` are the tools that they offer."""

    def __init__(self, servers: Sequence[Server], folder: Path) -> None:
        self.tools: list[Tool] = []
        self.problems: list[str] = []
        self._servers = servers
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._connections: dict[str, _Connection] = {}
        self._restart = threading.Lock()
        self._running: list[Future[None]] = []

    def __enter__(self) -> Self:
        patience: float | None = None
        started: list[Future[list[Tool]]] = [Future() for _ in self._servers]
        try:
            with defer_signals():
                self._start(started)
        except KeyboardInterrupt:
            patience = 0
        for server, ready, running in zip(
            self._servers, started, tuple(self._running), strict=True
        ):
            try:
                while patience is None and not ready.done():
                    wait([ready], A_MOMENT)
                self._add(ready.result(0))
            except KeyboardInterrupt:
                patience = 0  # do not wait for the others, either
                self._give_up(server, GIVEN_UP, running)
            except Exception as error:
                self._give_up(server, _why(error) if ready.done() else GIVEN_UP, running)
        return self

    def _start(self, started: Sequence["Future[list[Tool]]"]) -> None:
        import mcp.client  # noqa: F401 # takes seconds on a busy machine, which must not count as a server's

        for name in (
            "mcp",
            "client",
        ):  # the SDK's loggers: without a handler, they print tracebacks
            logging.getLogger(name).addHandler(logging.NullHandler())
        self._thread.start()
        for server, ready in zip(self._servers, started, strict=True):
            self._running.append(self._submit(self._serve(server, ready)))

    def _give_up(self, server: Server, why: str, running: "Future[None]") -> None:
        self.problems.append(f"the MCP server {server.name!r} is not used: {why}")
        running.cancel()

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            self._loop.call_soon_threadsafe(connection.stop.set)
        for running in self._running:
            with suppress(Exception, CancelledError):
                running.result(LAST_WORD)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LAST_WORD)
        if not self._thread.is_alive():
            self._loop.close()

    def _submit(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _add(self, tools: Sequence[Tool]) -> None:
        taken = {tool.name for tool in self.tools}
        self.tools += [tool for tool in tools if tool.name not in taken]

    async def _serve(self, server: Server, ready: "Future[list[Tool]]") -> None:
        """Hold the connection to one server until the end. An error at the start is reported once."""
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            try:
                async with (
                    asyncio.timeout(server.seconds) as patience,
                    self._client(server, said) as client,
                ):
                    tools = list(self._tools(server, await client.list_tools()))
                    patience.reschedule(None)
                    self._connections[server.name] = connection = _Connection(
                        client, asyncio.Event()
                    )
                    ready.set_result(tools)
                    await connection.stop.wait()
            except BaseException as error:
                if ready.done():
                    return
                last = _last_line(said)
                why = _why_not(error, server.seconds)
                ready.set_exception(ToolError(f"{why}{f' ({last})' if last else ''}"))

    @asynccontextmanager
    async def _client(self, server: Server, said: Any) -> AsyncIterator[Any]:
        """A client whose server writes standard error to a file."""
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client

        if server.url is not None:
            from mcp.client import streamable_http

            make: Any = vars(streamable_http)["create_mcp_http_client"]  # its types do not have it
            async with make(headers=dict(server.headers or {})) as http:
                transport = streamable_http.streamable_http_client(server.url, http_client=http)
                async with Client(transport) as client:
                    yield client
            return
        command = os.path.expanduser(server.command or "")
        env = dict(server.env) if server.env is not None else None
        started = StdioServerParameters(
            command=command, args=list(server.args), env=env, cwd=self._folder
        )
        async with Client(stdio_client(started, errlog=said)) as client:
            yield client

    def _start_again(self, server: Server, lost: _Connection) -> str:
        """Restart a server that has ended, unless another call has done so; return what to tell the model."""
        with self._restart:
            if self._connections[server.name] is lost:
                self._loop.call_soon_threadsafe(lost.stop.set)
                ready: Future[list[Tool]] = Future()
                self._running.append(self._submit(self._serve(server, ready)))
                try:
                    ready.result()
                except Exception as error:
                    return f"had ended, and could not be restarted: {_why(error)}"
        return "had ended, and was restarted. The call may have had an effect: repeat it only if that is safe"

    def _tools(self, server: Server, listed: Any) -> Iterator[Tool]:
        for found in listed.tools[:MOST_TOOLS]:
            name = NAME.sub("_", f"{server.name}__{found.name}")[:LONGEST_NAME]
            description = (found.description or found.name)[:LONGEST_DESCRIPTION]
            yield self._tool(server, found.name, name, description, _schema(found.input_schema))

    def _tool(
        self, server: Server, called: str, name: str, description: str, schema: Mapping[str, Any]
    ) -> Tool:
        calls: set[Future[Any]] = set()

        def run(**arguments: Any) -> str:
            connection = self._connections[server.name]
            call = self._submit(connection.client.call_tool(called, arguments))
            calls.add(call)
            try:
                return _text(call.result(CALL))
            except CancelledError:
                raise ToolError(f"{name} was stopped") from None
            except ToolError:
                raise
            except Exception as error:
                gone = connection.stop.is_set() or _is_gone(
                    error
                )  # set if it could not be restarted
                why = self._start_again(server, connection) if gone else f"failed: {_why(error)}"
                raise ToolError(f"the MCP server {server.name!r} {why}") from error
            finally:
                call.cancel()
                calls.discard(call)

        def cancel() -> None:
            for call in tuple(calls):
                call.cancel()

        return Tool(name, description, schema, run, asks=True, seconds=CALL + 5, cancel=cancel)


def _schema(given: Any) -> Mapping[str, Any]:
    """A schema that providers accept, which is that of an object. Any other says nothing about the
    arguments."""
    if not isinstance(given, Mapping) or given.get("type") != "object":
        return {"type": "object", "properties": {}, "additionalProperties": True}
    if not isinstance(given.get("properties"), Mapping):
        return {
            **given,
            "properties": {},
            "additionalProperties": given.get("additionalProperties", True),
        }
    return given


def _text(result: Any) -> str:
    """The result of a call as text; raises ToolError if it is an error."""
    parts = [_part(part) for part in getattr(result, "content", None) or ()]
    text = "\n".join(part for part in parts if part)
    if not text and getattr(result, "structured_content", None) is not None:
        text = str(result.structured_content)
    if getattr(result, "is_error", False):
        raise ToolError(text or "the tool failed, and did not say why")
    return text


def _part(part: Any) -> str:
    if getattr(part, "type", None) == "text":
        return str(part.text)
    resource: Any = getattr(part, "resource", None)
    if getattr(resource, "text", None):
        return str(resource.text)
    media = getattr(part, "mime_type", None) or getattr(resource, "mime_type", None) or "no text"
    return f"[{getattr(part, 'type', 'something')}: {media}]"


def _is_gone(error: BaseException) -> bool:
    """Whether an error means that the server has ended."""
    first = _first(error)
    return getattr(first, "code", None) == CLOSED or FORGOTTEN in str(first)


def _why_not(error: BaseException, seconds: float) -> str:
    """Why a server did not start."""
    if isinstance(_first(error), TimeoutError):
        return f"it did not answer within {seconds:g} seconds"
    return "it ended before it said which tools it has" if _is_gone(error) else _why(error)


def _why(error: BaseException) -> str:
    first = _first(error)
    return " ".join(f"{first}".split())[:300] or type(first).__name__


def _first(error: BaseException) -> BaseException:
    """The first error of a group that has a message."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _last_line(said: IO[str]) -> str:
    """The last line that a server wrote to standard error."""
    said.seek(0)
    lines = [line.strip() for line in said.read()[-4_000:].splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
