"""Bodies that each service takes, smallest of their kind: a table to read, shared by the tests.

Shaped after recorded exchanges; nothing here was made by backstory's own dumping code.
"""

from __future__ import annotations

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
TOOLS = {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]}

CHAT = {
    "plain": {"messages": [{"role": "user", "content": "hi"}]},
    "system in the middle, answer last": {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "system", "content": "be brief"},
            {"role": "assistant", "content": "hello"},
        ]
    },
    "parallel calls": {
        "messages": [
            {"role": "user", "content": "both"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {
                        "id": "b",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"x": [1]}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "1"}]},
        ]
    },
    "images": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is it?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                    {
                        "type": "image_url",
                        "image_url": {"url": "https://example.org/a.png", "detail": "low"},
                    },
                ],
            }
        ]
    },
    "refusal": {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "refusal": "no"},
            {"role": "user", "content": "why?"},
        ]
    },
}

RESPONSES = {
    "plain": {"instructions": "be brief", "input": [{"role": "user", "content": "hi"}]},
    "parallel calls": {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "both"}]},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "b", "output": "2"},
            {
                "type": "function_call_output",
                "call_id": "a",
                "output": [{"type": "input_text", "text": "1"}],
            },
        ]
    },
    "images": {
        "input": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "input_image",
                        "image_url": f"data:image/png;base64,{PIXEL}",
                        "detail": "auto",
                    },
                    {"type": "input_text", "text": "what is it?"},
                ],
            }
        ]
    },
    "reasoning": {
        "input": [
            {"role": "user", "content": "think"},
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "so"}],
                "encrypted_content": "gAAB",
            },
            {"role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
            {"role": "assistant", "content": "twice"},
        ]
    },
}

ANTHROPIC = {
    "plain": {"system": "be brief", "messages": [{"role": "user", "content": "hi"}]},
    "parallel calls": {
        "messages": [
            {"role": "user", "content": "both"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "f", "input": {"x": [1]}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "b", "content": "2", "is_error": True},
                    {
                        "type": "tool_result",
                        "tool_use_id": "a",
                        "content": [{"type": "text", "text": "1"}],
                    },
                    {"type": "text", "text": "and now?"},
                ],
            },
        ]
    },
    "images": {
        "system": [{"type": "text", "text": "be brief"}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                    },
                    {
                        "type": "image",
                        "source": {"type": "url", "url": "https://example.org/a.png"},
                    },
                    {"type": "text", "text": "what is it?"},
                ],
            }
        ],
    },
    "reasoning": {
        "messages": [
            {"role": "user", "content": "think"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "so", "signature": "EqQB"},
                    {"type": "redacted_thinking", "data": "EmwK"},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}],
            },
        ]
    },
    "reasoning between": {
        "messages": [
            {"role": "user", "content": "think"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "so", "signature": "EqQB"},
                    {"type": "text", "text": "I look."},
                    {"type": "thinking", "thinking": "again", "signature": "EqQC"},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}],
            },
        ]
    },
}

GEMINI = {
    "plain": {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    },
    "parallel calls": {
        "contents": [
            {"role": "user", "parts": [{"text": "both"}]},
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "CiQB/+8="},
                    {"functionCall": {"name": "f", "args": {"x": [1]}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "f", "response": {"output": "1"}}},
                    {"functionResponse": {"name": "f", "response": {"error": "2"}}},
                ],
            },
        ]
    },
    "images": {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                    {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
                    {"text": "what is it?"},
                ],
            }
        ]
    },
    "reasoning": {
        "contents": [
            {"role": "user", "parts": [{"text": "think"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "so", "thought": True},
                    {
                        "functionCall": {"id": "a", "name": "f", "args": {}},
                        "thoughtSignature": "skip_thought_signature_validator",
                    },
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "a", "name": "f", "response": {"output": "1"}}}
                ],
            },
        ]
    },
}

BEDROCK = {
    "plain": {
        "system": [{"text": "be brief"}],
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
    },
    "parallel calls": {
        "messages": [
            {"role": "user", "content": [{"text": "both"}]},
            {
                "role": "assistant",
                "content": [
                    {"text": "I look."},
                    {"toolUse": {"toolUseId": "a.1:x", "name": "f", "input": {}}},
                    {"toolUse": {"toolUseId": "b", "name": "f", "input": {"x": [1]}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "a.1:x", "content": [{"text": "1"}]}},
                    {
                        "toolResult": {
                            "toolUseId": "b",
                            "content": [{"json": {}}],
                            "status": "error",
                        }
                    },
                    {"text": "and now?"},
                ],
            },
        ],
        "toolConfig": TOOLS,
    },
    "images": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"image": {"format": "png", "source": {"bytes": b"png"}}},
                    {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                ],
            }
        ]
    },
    "reasoning": {
        "messages": [
            {"role": "user", "content": [{"text": "think"}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "so", "signature": "EqQB"}}},
                    {"text": "done"},
                ],
            },
            {"role": "user", "content": [{"text": "thanks"}]},
        ]
    },
}

ACCEPTED = {
    "openai": CHAT,
    "openai-responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
}
CASES = [(format, name) for format, bodies in ACCEPTED.items() for name in bodies]
