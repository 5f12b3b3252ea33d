"""A story as each of the tools would have written it: the name of a file, and its lines."""

import json
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tests.transcripts import writers_claude


class Tool(NamedTuple):
    """A writer, and what stories its grammar can tell."""

    format: str
    write: object
    options: dict


class Clock:
    """Times that go on, in steps of at most three seconds."""

    def __init__(self, random):
        self.random = random
        self.now = datetime(2026, 3, 1, 9, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(milliseconds=self.random.randint(0, 3000))
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ------------------------------------------------------------------ Codex

THREAD = "019e8c7f-1800-7f02-a000-0000000000aa"


class Codex:
    """Items in a line; going back is counted in prompts."""

    def __init__(self, story, *, ordinals=False):
        self.random = story.random
        self.clock = Clock(story.random)
        self.ordinals = ordinals
        self.lines = []
        meta = {
            "id": THREAD,
            "timestamp": self.clock(),
            "cwd": "/w",
            "originator": "tests",
            "source": "cli",
        }
        self.add(
            "session_meta",
            meta | {"cli_version": "0.140.0", "base_instructions": {"text": "Be Codex."}},
        )
        before = None
        for turn in story.turns:
            if turn.parent is not before:
                self.roll_back(before, turn.parent)
            self.turn(turn)
            before = turn
        self.context = [("system", "Be Codex."), *story.leaf.context()]

    def add(self, type_, payload):
        record = {"timestamp": self.clock(), "type": type_, "payload": payload}
        self.lines.append(record | ({"ordinal": len(self.lines)} if self.ordinals else {}))

    def roll_back(self, from_, to):
        left = from_.way()[len(to.way()) if to else 0 :]
        count = sum(turn.kind == "prompt" for turn in left)
        self.add("event_msg", {"type": "thread_rolled_back", "num_turns": count})

    def turn(self, turn):
        if turn.kind == "compaction":
            history = [
                self.user(turn.text),
                *(item for kept in turn.kept for item in self.items(kept)),
            ]
            self.add("compacted", {"message": "", "replacement_history": history})
            return
        if turn.kind == "prompt":
            self.add("turn_context", {"model": "gpt-x", "cwd": "/w"})
        for item in self.items(turn):
            self.add("response_item", item)
            if self.random.random() < 0.3:
                self.add(
                    "event_msg",
                    {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 5}}},
                )

    def user(self, text):
        return {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }

    def items(self, turn):
        if turn.kind == "prompt":
            return [self.user(turn.text)]
        found = []
        if turn.thought:
            found.append({"type": "reasoning", "summary": [], "encrypted_content": turn.thought})
        if turn.text or not turn.calls:
            content = [{"type": "output_text", "text": turn.text}]
            found.append({"type": "message", "role": "assistant", "content": content})
        for call in turn.calls:
            given = json.dumps(call.arguments)
            found.append(
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": given}
            )
        for call in turn.calls:
            if call.output is not None:
                found.append(
                    {"type": "function_call_output", "call_id": call.id, "output": call.output}
                )
        return found


def write_codex(story):
    writer = Codex(story, ordinals=story.random.random() < 0.3)
    return f"rollout-2026-03-01T09-00-00-{THREAD}.jsonl", writer.lines


# ------------------------------------------------------------------ pi


class Pi:
    """Entries with parents, settings in between."""

    def __init__(self, story):
        self.random = story.random
        self.clock = Clock(story.random)
        self.lines = [
            {
                "type": "session",
                "version": 3,
                "id": "pi-session",
                "timestamp": self.clock(),
                "cwd": "/w",
            }
        ]
        self.last = {None: None}
        self.first = {}
        for turn in story.turns:
            self.parent = self.last[id(turn.parent) if turn.parent else None]
            start = len(self.lines)
            self.turn(turn)
            self.first[id(turn)] = self.lines[start]["id"]
            self.last[id(turn)] = self.parent

    def add(self, type_, **fields):
        entry = {"type": type_, "id": f"{len(self.lines):08x}", "parentId": self.parent}
        self.lines.append(entry | {"timestamp": self.clock()} | fields)
        self.parent = self.lines[-1]["id"]

    def message(self, **message):
        self.add("message", message=message)

    def turn(self, turn):
        if turn.kind == "compaction":
            kept = {"firstKeptEntryId": self.first[id(turn.kept[0])]} if turn.kept else {}
            self.add("compaction", summary=turn.text, tokensBefore=9, **kept)
            return
        if turn.kind == "prompt":
            self.message(role="user", content=[{"type": "text", "text": turn.text}])
            if self.random.random() < 0.3:
                self.add("model_change", provider="anthropic", modelId="claude-x")
            return
        content = (
            [{"type": "thinking", "thinking": turn.thought, "thinkingSignature": "s"}]
            if turn.thought
            else []
        )
        content += [{"type": "text", "text": turn.text}] if turn.text else []
        for call in turn.calls:
            content.append(
                {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments}
            )
        api = self.random.choice(
            ["anthropic-messages", "openai-completions", "google-generative-ai", "other"]
        )
        self.message(
            role="assistant", content=content, api=api, provider="x", model="m", stopReason="stop"
        )
        for call in self.random.sample(turn.calls, len(turn.calls)):
            if call.output is not None:
                output = [{"type": "text", "text": call.output}]
                self.message(
                    role="toolResult", toolCallId=call.id, content=output, isError=call.error
                )


def write_pi(story):
    return "2026-03-01T09-00-00-000Z_pi-session.jsonl", Pi(story).lines


# ------------------------------------------------------------------ Gemini CLI


class Gemini:
    """Messages that are written again until they are complete."""

    def __init__(self, story):
        self.random = story.random
        self.clock = Clock(story.random)
        meta = {
            "sessionId": "gemini-session",
            "projectHash": "ab",
            "startTime": self.clock(),
            "kind": "main",
        }
        self.lines = [meta]
        self.written = {}
        before = None
        for turn in story.turns:
            if turn.parent is not before:
                gone = before.way()[len(turn.parent.way()) if turn.parent else 0]
                self.lines.append({"$rewindTo": self.id(gone)})
            self.turn(turn)
            before = turn

    def id(self, turn):
        return f"message-{turn.number}"

    def turn(self, turn):
        if turn.kind == "compaction":
            summary = {
                "id": self.id(turn),
                "timestamp": self.clock(),
                "type": "user",
                "content": turn.text,
            }
            messages = [summary, *(self.written[id(kept)] for kept in turn.kept)]
            self.lines.append({"$set": {"messages": messages, "lastUpdated": self.clock()}})
            return
        message = {"id": self.id(turn), "timestamp": self.clock()}
        if turn.kind == "prompt":
            message |= {"type": "user", "content": [{"text": turn.text}]}
        else:
            thoughts = [{"subject": "Plan", "description": turn.thought}] if turn.thought else []
            message |= {
                "type": "gemini",
                "content": turn.text,
                "thoughts": thoughts,
                "model": "gemini-x",
            }
            calls = [self.call(call) for call in turn.calls]
            if calls and self.random.random() < 0.5:
                self.lines.append(
                    message | {"toolCalls": [call | {"result": None} for call in calls]}
                )
            message |= {"toolCalls": calls}
        self.written[id(turn)] = message
        self.lines.append(message)
        if self.random.random() < 0.2:
            self.lines.append({"$set": {"lastUpdated": self.clock()}})

    def call(self, call):
        found = {"id": call.id, "name": call.name, "args": call.arguments, "status": "success"}
        if call.output is not None:
            response = {"id": call.id, "name": call.name, "response": {"output": call.output}}
            found["result"] = [{"functionResponse": response}]
        return found


def write_gemini(story):
    return "session-2026-03-01T09-00-abcd.jsonl", Gemini(story).lines


TOOLS = {
    "claude-code": Tool("claude-code", writers_claude.write, {}),
    "codex": Tool("codex", write_codex, {"rewinds": "back", "cuts": ("compaction",)}),
    "pi": Tool("pi", write_pi, {"cuts": ("compaction",)}),
    "gemini": Tool("gemini", write_gemini, {"rewinds": "back", "cuts": ("compaction",)}),
}
