"""A model behind a provider's API: what all providers share.

A provider is an SDK's async client and `open_stream`. Importing an SDK takes a second, so that is
done when the model is first needed. The SDK's own retries are off: `retry` does them, so that the
user hears of them.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from importlib.util import find_spec
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from backstory.log.data_keys import RESPONSE
from backstory.runtime.models import (
    ModelError,
    Response,
    StreamItem,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    storable,
    storable_value,
)
from backstory.runtime.models.retry import UNREACHABLE, Endpoint, find_kind, retry
from backstory.runtime.requests import with_settings
from backstory.runtime.tools import Tool
from backstory.wire import load_answer
from backstory.wire.answers import request_digest
from backstory.wire.conversation import Conversation
from backstory.wire.formats import get_format
from backstory.wire.formats.base import FormatName
from backstory.wire.json_values import clean_value

Result = TypeVar("Result")


class BackgroundLoop:
    """The event loop of this process for requests, in a thread that ends with the process."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the event loop: it belongs to the process that forked."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_started(self) -> bool:
        """Whether there was a request."""
        return self._loop is not None

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the event loop. It starts on first use."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                run = self._loop.run_forever
                threading.Thread(target=run, name="backstory-models", daemon=True).start()
            return self._loop

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.get()).result()


BACKGROUND = BackgroundLoop()
if hasattr(os, "register_at_fork"):  # a forked process does not inherit the thread
    os.register_at_fork(after_in_child=BACKGROUND.reset)


class AnswerStream(Iterator[StreamItem]):
    """The parts of one answer, which arrive in the background."""

    def __init__(self, parts: AsyncGenerator[StreamItem, None]) -> None:
        self._queue: SimpleQueue[StreamItem | Exception] = SimpleQueue()
        self._task = asyncio.run_coroutine_threadsafe(self._collect(parts), BACKGROUND.get())
        # Also called if the task is cancelled before it began: then nothing else ends the
        # iteration.
        self._task.add_done_callback(lambda task: self._queue.put(StopIteration()))

    async def _collect(self, parts: AsyncGenerator[StreamItem, None]) -> None:
        try:
            async with aclosing(parts):
                async for part in parts:
                    self._queue.put(part)
        except Exception as error:
            self._queue.put(error)

    def __next__(self) -> StreamItem:
        item = self._queue.get()
        if isinstance(item, StopIteration):
            self._queue.put(item)  # stay at the end
        if isinstance(item, Exception):
            raise item
        return item

    def cancel(self) -> None:
        """End the request, from any thread: while it connects, waits, streams or pauses."""
        self._task.cancel()

    close = cancel


CALL_KEYS = frozenset({"id", "name", "arguments"})
# Stop reasons of all providers. An answer without one, or with one of the first, has not ended.
UNFINISHED = frozenset({None, "in_progress", "queued"})
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS"})
REFUSED = frozenset({
    "content_filter", "refusal", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
    "IMAGE_SAFETY",
})  # fmt: skip


class StreamCut(Exception):
    """The stream ended before the answer did."""


class StreamFailed(Exception):
    """The provider reported an error inside the stream. `body` is its description."""

    def __init__(self, body: Any) -> None:
        super().__init__(str(body))
        self.body = body


class AnswerReader:
    """Reads one answer from the events of a stream."""

    def __init__(self, format: FormatName, model: str) -> None:
        self._format_name: FormatName = format
        self._format = get_format(format)
        self._model = model
        self._assembler = self._format.open_stream()

    def add(self, event: Mapping[str, Any]) -> list[StreamItem]:
        """Read one event. Return the text and the thinking in it."""
        items: list[StreamItem] = []
        for kind, text in self._assembler.add(event):
            items.append(TextDelta(text) if kind == "text" else ThinkingDelta(text))
        return items

    def finish(self) -> Response:
        """Return the complete answer. Raises StreamFailed or StreamCut if there is none."""
        response = self._assembler.finish()
        if response.get("error"):
            raise StreamFailed(response["error"])
        facts = self._format.read_facts(response)
        stop = facts.get("stop")
        if stop in UNFINISHED:
            raise StreamCut("the stream ended before the answer did")
        name_calls(response)
        answer = self._load(response)
        data = dict(answer.data or {})
        data[RESPONSE] = storable_value(facts)
        if stop in CUT:
            data["cut"] = True
        if stop in REFUSED or has_refusal(response):
            data["refused"] = True
        return answer._replace(data=data)

    def _load(self, response: Mapping[str, Any]) -> Response:
        drafts = load_answer(response, self._format_name, model=self._model)
        text = "".join(content or "" for kind, content, _ in drafts if kind == "assistant")
        data: dict[str, Any] = {"model": self._model}
        if drafts:
            first = drafts[0][2] or {}
            kept = {key: value for key, value in first.items() if key not in CALL_KEYS}
            data |= storable_value(kept)
        usage = response.get("usage") or response.get("usageMetadata")
        if isinstance(usage, Mapping):
            data["request"] = {"usage": clean_value(usage)}
        return Response(storable(text), tuple(list_open_calls(drafts)), data)


def list_open_calls(
    drafts: Sequence[tuple[str, str | None, dict[str, Any] | None]],
) -> list[ToolCall]:
    """Return the calls of an answer that the service has not run itself."""
    finished = {data["id"] for kind, _, data in drafts if kind == "tool_result" and data}
    calls = []
    for kind, _, data in drafts:
        if kind == "tool_call" and data and data["id"] not in finished:
            calls.append(ToolCall(data["id"], data["name"], read_arguments(data["arguments"])))
    return calls


def read_arguments(arguments: Any) -> Any:
    """Return the arguments of a call. Text that is not JSON, or was cut off, stays text, so that no
    tool runs with it."""
    match arguments:
        case {"_invalid_json": str(text)}:
            return storable(text)
    return storable_value(arguments)


def name_calls(response: Mapping[str, Any]) -> None:
    """Give calls of Chat Completions the ids and names that some servers leave out, and others
    refuse a request without."""
    for choice in response.get("choices") or ():
        for call in choice["message"].get("tool_calls") or ():
            call["id"] = storable(call["id"]).strip() or f"call_{os.urandom(12).hex()}"
            call["function"]["name"] = storable(call["function"]["name"]).strip() or "unnamed"


def has_refusal(response: Mapping[str, Any]) -> bool:
    """Return True if Gemini blocked the prompt, or if the answer of Responses has a refusal."""
    if (response.get("promptFeedback") or {}).get("blockReason"):
        return True
    return any(part.get("type") == "refusal" for part in _list_output_parts(response))


def _list_output_parts(response: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for item in response.get("output") or ():
        yield from item.get("content") or ()


READ_SECONDS = 300  # without a byte of the answer
CONNECT_SECONDS = 10
LIST_SECONDS = 5  # for the list of models
EVENT_STREAM = "text/event-stream"

Events = AsyncGenerator[Mapping[str, Any], None]


class Service(NamedTuple):
    """A provider: its package, and which variables name a key and another address."""

    name: str
    package: str
    host: str
    extra: str
    address_variable: str
    key_variables: tuple[str, ...]  # the first that is set counts


class ClientModel:
    """A model behind an SDK's async client. Subclasses define `open_client`."""

    def __init__(self, endpoint: Endpoint, window: int | None) -> None:
        self.name = endpoint.model
        self.endpoint = endpoint
        self.window = window
        self._client: Any = None
        self._loading = threading.Lock()

    def open_client(self) -> Any:
        """Import the SDK. Return its client."""
        raise NotImplementedError

    def load(self) -> None:
        """Import the SDK and open its client, on first use. Any thread may call this, so that the
        first answer does not wait for it."""
        with self._loading:
            if self._client is None:
                self._client = self.open_client()

    async def wait_for_client(self) -> Any:
        """Return the client. Another thread imports the SDK: a Ctrl-C does not break the import,
        and other requests do not wait."""
        if self._client is None:
            await asyncio.to_thread(self.load)
        return self._client

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None and BACKGROUND.is_started:  # otherwise there are none
            BACKGROUND.run(self._client.close())


class HostedModel(ClientModel):
    """A model behind a provider's API. Subclasses also define `open_stream`."""

    service: Service
    format: FormatName
    params: Mapping[str, Any] = {}
    request_options: Mapping[str, Any] = {}  # of `conversation.request`

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
    ) -> None:
        """The key is taken from the service's variable if none is given."""
        service = self.service
        require_package(service.package, extra=service.extra, what=service.name)
        self._url = find_address(base_url, service.address_variable)
        self._key, source = find_key(key, service, self._url)
        where = find_host(self._url) if self._url else service.host
        super().__init__(Endpoint(name, where, source), window)

    @property
    def where(self) -> str:
        """The host and the port of the service."""
        return self.endpoint.where

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> AnswerStream:
        """Return the answer, part by part."""
        complete = with_settings(conversation, self.name, tools, self.params)
        body = complete.request(self.format, **self.request_options)
        return AnswerStream(retry(partial(self._read_answer, body), self.endpoint))

    async def open_stream(self, client: Any, body: dict[str, Any]) -> Events:
        """Send a request. Return the events of the answer."""
        raise NotImplementedError

    async def _read_answer(self, body: dict[str, Any]) -> AsyncGenerator[StreamItem, None]:
        """Yield the parts of one attempt."""
        client = await self.wait_for_client()
        began = time.monotonic()
        reader = AnswerReader(self.format, self.name)
        events = await self.open_stream(client, body)
        try:
            async with aclosing(events):
                async for event in events:
                    for item in reader.add(event):
                        yield item
        except Exception as error:
            if find_kind(error) == UNREACHABLE:  # it was reached: the stream began
                raise StreamCut("the connection was lost") from error
            raise
        seconds = time.monotonic() - began
        yield self._describe_request(reader.finish(), body, seconds)

    def _describe_request(
        self, response: Response, body: Mapping[str, Any], seconds: float
    ) -> Response:
        """Add to a response what was asked, and how long it took."""
        data = dict(response.data or {})
        request: dict[str, Any] = {
            "format": self.format,
            "sha256": request_digest(body),
            "model": self.name,
        }
        if self.request_options:
            request["options"] = dict(self.request_options)
        if data.get("usage"):
            request["usage"] = data["usage"]
        data["request"] = {**request, **data.get("request", {}), "ms": round(seconds * 1000)}
        return response._replace(data=data)

    def names(self) -> list[str]:
        """Return the names of the models that the service has."""
        return BACKGROUND.run(self._list_names())

    async def _list_names(self) -> list[str]:
        client = await self.wait_for_client()
        models = await client.models.list(timeout=LIST_SECONDS)
        return [str(model.id) async for model in models]


async def read_events(stream: Any) -> Events:
    """Yield the events of an SDK's stream as plain values. Raises ValueError if a server sends
    something else."""
    is_empty = True
    async with stream:
        async for event in stream:
            is_empty = False
            if not hasattr(event, "model_dump"):
                raise ValueError(f"{event!r:.60}")
            yield event.model_dump(exclude_none=True, warnings=False)
    kind = stream.response.headers.get("content-type", "")
    if is_empty and EVENT_STREAM not in kind:  # for example a login page
        raise ValueError(f"{kind or 'nothing'} instead of {EVENT_STREAM}")


def require_package(module: str, *, extra: str, what: str) -> None:
    """Raise ModelError, with the command that installs it, if a module is missing."""
    try:
        is_missing = find_spec(module) is None
    except (ValueError, ModuleNotFoundError):  # sys.modules has None, or its parent is missing
        is_missing = True
    if is_missing:
        raise ModelError(f"{what} needs the package {module}: run pip install 'backstory[{extra}]'")


def find_address(url: str | None, variable: str) -> str | None:
    """Return `url`, or that of the variable; None means the provider's own. Checks it."""
    url = url or os.environ.get(variable) or None
    if url is not None and not is_address(url):
        raise ModelError(
            f"{url!r} is not a complete address", remedy="write it as in http://localhost:8080/v1"
        )
    return url


def find_host(url: str) -> str:
    """Return the host and the port of an address, without a password in it."""
    return urlsplit(url).netloc.rpartition("@")[2]


def is_address(url: str) -> bool:
    """Return True for a complete address of a web service."""
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https")
        return is_web and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False


def find_key(key: str | None, service: Service, url: str | None) -> tuple[str, str]:
    """Return the key to send, and where it comes from.

    The variable's key is sent to whatever address the user names, as with every tool for this API:
    self-hosted servers check it, too.
    """
    if key and key == os.environ.get("BACKSTORY_API_KEY"):
        return key, "BACKSTORY_API_KEY"
    if key:
        return key, "the argument `key`"
    for variable in service.key_variables:
        if os.environ.get(variable):
            return os.environ[variable], variable
    variable = service.key_variables[-1]
    if url is None:
        raise ModelError(f"no key for {service.name}", remedy=f"set {variable}")
    # Local servers need no key, but the SDKs require one.
    return "none", f"{variable}, which is not set"
