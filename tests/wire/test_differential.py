"""Our repair beside that of pydantic-ai, on the histories that both handle.

Compared is what a model is told: every text and call in order, and for each call the result that
was recorded, or that there is none. Not compared: wording, and the order of results within a step
(ours follow the calls, theirs put made-up results last). Left out, because pydantic-ai does not mend
them: second results, ids used twice or illegal, text after a call, a late result behind another
answer, a history that begins with the model.
"""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)

from backstory.wire import dump
from backstory.wire.repair import INTERRUPTED

AT = datetime(2026, 1, 1, tzinfo=UTC)


@st.composite
def histories(draw):
    """Turns of a person and a model; some results lost, some late, some for no call at all."""
    messages, number = [("user", "u0", None)], 0
    for turn in range(1, draw(st.integers(1, 5))):
        if draw(st.booleans()):
            messages.append(("assistant", f"a{turn}", None))
        calls = [f"c{number + n}" for n in range(draw(st.integers(0, 3)))]
        number += len(calls)
        messages += [
            ("tool_call", None, {"id": id, "name": "tool", "arguments": {"n": 1}}) for id in calls
        ]
        answered = [id for id in calls if draw(st.integers(0, 3))]
        late = draw(st.booleans()) and len(answered) > 1
        for place, id in enumerate(answered):
            if late and place == len(answered) - 1:
                messages.append(("user", f"meanwhile{turn}", None))
            messages.append(("tool_result", f"result of {id}", {"id": id}))
        if not draw(st.integers(0, 4)):
            messages.append(("tool_result", "of nobody", {"id": f"lost{turn}"}))
        messages.append(("user", f"u{turn}", None))
    return messages


def theirs(messages):
    history = []
    for kind, content, data in messages:
        match kind:
            case "system":
                part = SystemPromptPart(content, timestamp=AT)
            case "user":
                part = UserPromptPart(content, timestamp=AT)
            case "assistant":
                part = TextPart(content)
            case "tool_call":
                part = ToolCallPart(
                    tool_name=data["name"], args=data["arguments"], tool_call_id=data["id"]
                )
            case "tool_result":
                part = ToolReturnPart(
                    tool_name="tool", content=content, tool_call_id=data["id"], timestamp=AT
                )
        if kind not in ("assistant", "tool_call"):
            history.append(ModelRequest(parts=[part], timestamp=AT))
        elif history and isinstance(history[-1], ModelResponse):
            history[-1].parts.append(part)
        else:
            history.append(ModelResponse(parts=[part], timestamp=AT))
    return repair_messages(history)


def said_by_them(history):
    texts, results = [], {}
    for message in history:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                texts.append(("call", part.tool_call_id))
            elif isinstance(part, ToolReturnPart):
                results[part.tool_call_id] = None if part.outcome == "interrupted" else part.content
            else:
                texts.append(("text", part.content))
    return texts, results


def said_by_us(body):
    texts, results = [], {}
    for message in body["messages"]:
        if message["role"] == "tool":
            recorded = message["content"] != INTERRUPTED
            results[message["tool_call_id"]] = message["content"] if recorded else None
            continue
        if message.get("content"):
            texts.append(("text", message["content"]))
        texts += [("call", call["id"]) for call in message.get("tool_calls", ())]
    return texts, results


@given(histories())
def test_both_tell_the_model_the_same(messages):
    assert said_by_us(dump(messages, "openai").body) == said_by_them(theirs(messages))
