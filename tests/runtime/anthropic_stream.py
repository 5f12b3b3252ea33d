"""What Anthropic streams for one answer, made of small blocks."""

BEGINS = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
USAGE = {"input_tokens": 7, "output_tokens": 1}
THINKS = (
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Hm."},
    {"type": "signature_delta", "signature": "c2ln"},
)


def calls(id, arguments):
    block = {"type": "tool_use", "id": id, "name": "glob", "input": {}}
    return block, {"type": "input_json_delta", "partial_json": arguments}


def says(text):
    return {"type": "text", "text": ""}, {"type": "text_delta", "text": text}


def anthropic_events(*blocks, ended="end_turn"):
    """The events of one answer of Anthropic's."""
    yield {
        "type": "message_start",
        "message": BEGINS | {"usage": USAGE, "stop_reason": None, "stop_sequence": None},
    }
    for index, (block, *deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": ended, "stop_sequence": None},
        "usage": USAGE,
    }
    yield {"type": "message_stop"}
