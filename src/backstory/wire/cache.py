"""Breakpoints of the prompt cache, for Anthropic and Bedrock: cached input costs a tenth.

A breakpoint says "cache everything up to here". They are set on the tools, which come first, on the system
text, on the last message, and on the message where the previous request ended, so that what it cached is
found again. Other providers cache by themselves.
"""

from collections.abc import Callable, Iterator
from typing import Any

AUTO = "auto"
MOST = 4  # "A maximum of 4 blocks with cache_control may be provided"
MARK = {"type": "ephemeral"}
POINT = {"cachePoint": {"type": "default"}}
# Blocks that can have a breakpoint. Thinking and empty text cannot.
MARKED = frozenset({"text", "image", "document", "search_result", "tool_use", "tool_result"})

Body = dict[str, Any]
Change = Callable[[Body], tuple[Body, list[str]]]


def marked(body: Body, format: str, model: str | None) -> Body:
    """The body with our breakpoints instead of those in a loaded history."""
    if format == "anthropic":
        return _anthropic(body)
    return _bedrock(body, model) if format == "bedrock" else body


def marked_tools(body: Body, format: str, model: str | None) -> Body:
    """A whole request with one breakpoint after its tools, instead of those that they had."""
    if format == "anthropic" and body.get("tools"):
        return body | {"tools": _marked_tools([_bare(tool) for tool in body["tools"]])}
    tools = _without_points((body.get("toolConfig") or {}).get("tools") or [])
    # Nova caches system text and messages only: AWS, "Prompt caching for faster model inference".
    if format == "bedrock" and tools and "nova" not in (model or ""):
        return body | {"toolConfig": body["toolConfig"] | {"tools": [*tools, POINT]}}
    return body


def _marked_tools(tools: list[Body]) -> list[Body]:
    for index in reversed(range(len(tools))):
        if not tools[index].get(
            "defer_loading"
        ):  # "Tools with defer_loading cannot use prompt caching"
            return [*tools[:index], tools[index] | {"cache_control": MARK}, *tools[index + 1 :]]
    return tools


def thinned(format: str) -> Change:
    """Remove all but the last four breakpoints: a loaded history may have more."""
    return (
        _thin
        if format == "anthropic"
        else _thin_points
        if format == "bedrock"
        else lambda body: (body, [])
    )


def _ends(messages: list[Body]) -> list[int]:
    """The messages to mark: the user's last one, and the user's one before the model's last answer."""
    mine = [index for index, message in enumerate(messages) if message["role"] == "user"]
    return mine[-2:]


def _anthropic(body: Body) -> Body:
    clean = _map_blocks(body, _bare)
    # Marked content is a list of blocks, and stays one when the breakpoint moves on.
    messages = [message | {"content": _blocks(message["content"])} for message in clean["messages"]]
    for index in _ends(messages):
        messages[index] = messages[index] | {"content": _with_mark(messages[index]["content"])}
    found = clean | {"messages": messages}
    return found | {"system": _with_mark(found["system"])} if found.get("system") else found


def _bare(block: Body) -> Body:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _with_mark(content: Any) -> Any:
    blocks = list(_blocks(content))
    for index in reversed(range(len(blocks))):
        block = blocks[index]
        if block.get("type") in MARKED and block.get("text") != "":
            blocks[index] = block | {"cache_control": MARK}
            return blocks
    return content


def _map_blocks(body: Body, change: Callable[[Body], Body]) -> Body:
    """The body with each marked block changed; what has no mark is not copied."""
    system = body.get("system")
    found = body | {"messages": [_map_message(message, change) for message in body["messages"]]}
    return found | {"system": _map_content(system, change)} if isinstance(system, list) else found


def _map_message(message: Body, change: Callable[[Body], Body]) -> Body:
    content = _map_content(message["content"], change)
    return message if content is message["content"] else message | {"content": content}


def _map_content(content: Any, change: Callable[[Body], Body]) -> Any:
    if not isinstance(content, list) or not any(_marks([content])):
        return content
    return [_map_block(block, change) if isinstance(block, dict) else block for block in content]


def _map_block(block: Body, change: Callable[[Body], Body]) -> Body:
    inside = block.get("content")
    source = block.get("source")
    if "cache_control" in block:
        block = change(block)
    if isinstance(inside, list):
        block = block | {"content": _map_content(inside, change)}
    if isinstance(source, dict):
        block = block | {"source": _map_block(source, change)}
    return block


def _marks(contents: Any) -> Iterator[Body]:
    """The marked blocks, in order; those within a block (a result, a document, a search result) come before
    the block itself."""
    for content in contents:
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                source = block.get("source")
                yield from _marks(
                    [
                        block.get("content"),
                        source.get("content") if isinstance(source, dict) else None,
                    ]
                )
                if block.get("cache_control") is not None:
                    yield block


def _thin(body: Body) -> tuple[Body, list[str]]:
    contents = [body.get("system"), *(message["content"] for message in body["messages"])]
    surplus = list(map(id, _marks(contents)))[:-MOST]
    if not surplus:
        return body, []
    bare = set(surplus)

    def change(block: Body) -> Body:
        return _bare(block) if id(block) in bare else block

    return _map_blocks(body, change), [
        f"{len(surplus)} cache breakpoints left out: there may be {MOST}"
    ]


# --- Bedrock: a breakpoint is a separate block ---


def _bedrock(body: Body, model: str | None) -> Body:
    messages = [
        message | {"content": _without_points(message["content"])} for message in body["messages"]
    ]
    for index in _ends(messages):
        messages[index] = messages[index] | {"content": [*messages[index]["content"], POINT]}
    found = marked_tools(body, "bedrock", model) | {"messages": messages}
    system = _without_points(body.get("system") or [])
    return found | {"system": [*system, POINT]} if system else found


def _without_points(blocks: list[Body]) -> list[Body]:
    return [block for block in blocks if "cachePoint" not in block]


def _thin_points(body: Body) -> tuple[Body, list[str]]:
    places = [
        (place, index)
        for place, content in enumerate(
            [body.get("system") or [], *(m["content"] for m in body["messages"])]
        )
        for index, block in enumerate(content)
        if "cachePoint" in block
    ]
    surplus = set(places[:-MOST])
    if not surplus:
        return body, []

    def kept(place: int, content: list[Any]) -> list[Any]:
        return [block for index, block in enumerate(content) if (place, index) not in surplus]

    found = body | {
        "messages": [
            message | {"content": kept(place, message["content"])}
            for place, message in enumerate(body["messages"], 1)
        ]
    }
    if "system" in body:
        found["system"] = kept(0, body["system"])
    return found, [f"{len(surplus)} cache breakpoints left out: there may be {MOST}"]
