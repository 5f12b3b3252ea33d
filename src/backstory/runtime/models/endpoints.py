"""The endpoint of a model: its address, the key that is sent to it, and the stream that it returns.

A third-party server may send anything. A reply that is not an answer raises an error, which `retry` explains.
"""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from backstory.runtime.models import ModelError

STREAM = "text/event-stream"


class Endpoint(NamedTuple):
    """A model at an address, as error messages name it."""

    model: str
    where: str  # host and port
    key: str = "the key"  # where its key comes from


def address(given: str | None, variable: str) -> str | None:
    """The address that was given, or that of the variable; None means the provider's own."""
    url = given or os.environ.get(variable) or None
    if url is not None and not _is_address(url):
        raise ModelError(
            f"{url!r} is not a complete address: write it as in http://localhost:8080/v1"
        )
    return url


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False


def key_for(given: str | None, variable: str, url: str | None, *, service: str) -> tuple[str, str]:
    """The key to send, and where it comes from. The variable's key is sent to whatever address the user
    names, as with every tool for this API: self-hosted servers check it, too."""
    if given:
        return given, "BACKSTORY_API_KEY or the config file"
    if os.environ.get(variable):
        return os.environ[variable], variable
    if url is None:
        raise ModelError(
            f"no key for {service}: set {variable}, or put it into the config file: see docs/chat.md"
        )
    # Local servers need no key, but the SDKs require one.
    return "none", f"{variable}, which is not set"


def streamed(stream: Any) -> Iterator[dict[str, Any]]:
    """The chunks of an SDK's stream, as plain values."""
    is_empty = True
    with stream:
        for chunk in stream:
            is_empty = False
            if not hasattr(chunk, "model_dump"):
                raise ValueError(f"{chunk!r:.60}")
            yield chunk.model_dump(exclude_none=True, warnings=False)
    kind = stream.response.headers.get("content-type", "")
    if is_empty and STREAM not in kind:  # for example a login page
        raise ValueError(f"{kind or 'nothing'} instead of {STREAM}")
