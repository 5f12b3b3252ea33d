"""A story as the tools write it that keep documents and databases: the first turns of it, at a path."""

import json
import sqlite3
from datetime import UTC, datetime
from typing import NamedTuple

START = int(datetime(2026, 3, 1, 9, tzinfo=UTC).timestamp())


class Keeper(NamedTuple):
    """A writer, and what stories its grammar can tell."""

    write: object
    options: dict


LINEAR = {"rewinds": None, "cuts": ()}
CUT = {"rewinds": None, "cuts": ("compaction",)}


def iso(number):
    return datetime.fromtimestamp(START + number, UTC).isoformat().replace("+00:00", "Z")


def document(path, value):
    path.write_text(json.dumps(value))
    return path


def database(path, *tables):
    """A database anew, as its tool would have it by now."""
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    for table in tables:
        base.execute(f"create table {table}")
    return base


def rows(base, table, found):
    for row in found:
        base.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)


def saved(base, path):
    base.commit()
    base.close()
    return path


# ------------------------------------------------------------------ trees


def chatgpt(turns, folder):
    mapping = {"root": {"id": "root", "parent": None, "message": None}}
    last = {None: "root"}

    def node(id, parent, number, role, content, recipient="all"):
        message = {
            "id": id,
            "author": {"role": role},
            "create_time": START + number,
            "recipient": recipient,
        }
        mapping[id] = {"id": id, "parent": parent, "message": message | {"content": content}}
        return id

    for turn in turns:
        at, id = last[turn.parent and turn.parent.number], f"n{turn.number}"
        if turn.text or not turn.calls:
            role = "user" if turn.kind == "prompt" else "assistant"
            at = node(id, at, turn.number, role, {"content_type": "text", "parts": [turn.text]})
        for call in turn.calls:
            asked = {"content_type": "code", "text": json.dumps(call.arguments)}
            at = node(f"{id}-{call.id}", at, turn.number, "assistant", asked, call.name)
            if call.output is not None:
                said = {"content_type": "text", "parts": [call.output]}
                at = node(f"{id}-{call.id}-result", at, turn.number, "tool", said)
        last[turn.number] = at
    chat = {"conversation_id": "c", "title": "Chat", "mapping": mapping, "current_node": at}
    return document(folder / "conversations.json", [chat])


def claude_ai(turns, folder):
    messages = []
    for turn in turns:
        blocks = [{"type": "text", "text": turn.text}] if turn.text or not turn.calls else []
        for call in turn.calls:
            blocks.append(
                {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            )
        for call in turn.calls:
            if call.output is not None:
                blocks.append(
                    {"type": "tool_result", "tool_use_id": call.id, "content": call.output}
                )
        parent = f"m{turn.parent.number}" if turn.parent else "00000000-0000-4000-8000-000000000000"
        sender = "human" if turn.kind == "prompt" else "assistant"
        named = {"uuid": f"m{turn.number}", "parent_message_uuid": parent, "sender": sender}
        messages.append(named | {"created_at": iso(turn.number), "content": blocks})
    chat = {"uuid": "c", "name": "Chat", "chat_messages": messages}
    chat["current_leaf_message_uuid"] = f"m{turns[-1].number}"
    return document(folder / "conversations.json", [chat])


# ------------------------------------------------------------------ opencode, goose, crush


def _opencode_parts(turn):
    if turn.text or not turn.calls:
        yield {"id": f"prt_{turn.number:04}_0", "type": "text", "text": turn.text}
    for number, call in enumerate(turn.calls, 1):
        state = {"status": "pending", "input": call.arguments}
        if call.output is not None:
            said = {"error": call.output} if call.error else {"output": call.output}
            state |= {"status": "error" if call.error else "completed"} | said
        part = {
            "id": f"prt_{turn.number:04}_{number}",
            "type": "tool",
            "callID": call.id,
            "tool": call.name,
        }
        yield part | {"state": state}


def _opencode_messages(turns):
    for turn in turns:
        id, time = f"msg_{turn.number:04}", {"created": (START + turn.number) * 1000}
        if turn.kind == "prompt":
            yield {"id": id, "role": "user", "time": time}, list(_opencode_parts(turn))
            continue
        info = {"role": "assistant", "modelID": "m", "providerID": "p", "finish": "stop"}
        info |= {"id": id, "time": time | {"completed": time["created"]}}
        if turn.kind == "compaction":
            asked = {"id": f"prt_{turn.number:04}_", "type": "compaction"}
            if turn.kept:
                asked["tail_start_id"] = f"msg_{turn.kept[0].number:04}"
            yield {"id": f"{id}_", "role": "user", "time": time}, [asked]
            info |= {"id": f"{id}a", "summary": True, "parentID": f"{id}_"}
        yield info, list(_opencode_parts(turn))


def opencode(turns, folder):
    messages = [{"info": info, "parts": parts} for info, parts in _opencode_messages(turns)]
    return document(
        folder / "export.json", {"info": {"id": "ses_1", "title": "Chat"}, "messages": messages}
    )


def opencode_database(turns, folder):
    path = folder / "opencode.db"
    base = database(
        path,
        "session (id, parent_id, directory, title, version, revert)",
        "message (id, session_id, data)",
        "part (id, message_id, session_id, data)",
    )
    rows(base, "session", [("ses_1", None, "/w", "Chat", "1.2", None)])
    for info, parts in _opencode_messages(turns):
        rows(base, "message", [(info["id"], "ses_1", json.dumps(info))])
        rows(base, "part", [(part["id"], info["id"], "ses_1", json.dumps(part)) for part in parts])
    return saved(base, path)


def goose(turns, folder):
    """A compaction hides from the agent what was before it."""
    path = folder / "sessions.db"
    base = database(
        path,
        "sessions (id, name, description, working_dir)",
        "messages (id integer primary key, message_id, session_id, role, content_json, created_timestamp,"
        " metadata_json)",
    )
    rows(base, "sessions", [("s", "Chat", "", "/w")])
    cuts = [turn for turn in turns if turn.kind == "compaction"]
    for turn in turns:
        hidden = bool(cuts) and turn.number < cuts[-1].number
        seen = {"agentVisible": not hidden, "userVisible": turn.kind != "compaction"}
        for role, content in _goose_messages(turn):
            values = (
                f"m{turn.number}{role[0]}",
                "s",
                role,
                json.dumps(content),
                START + turn.number,
            )
            rows(base, "messages", [(None, *values, json.dumps(seen))])
    return saved(base, path)


def _goose_messages(turn):
    text = [{"type": "text", "text": turn.text}] if turn.text or not turn.calls else []
    if turn.kind != "answer":
        yield "user", text
        return
    asked = [
        {
            "type": "toolRequest",
            "id": c.id,
            "toolCall": {"value": {"name": c.name, "arguments": c.arguments}},
        }
        for c in turn.calls
    ]
    yield "assistant", text + asked
    answered = [
        {
            "type": "toolResponse",
            "id": c.id,
            "toolResult": {"value": [{"type": "text", "text": c.output}]},
        }
        for c in turn.calls
        if c.output is not None
    ]
    if answered:
        yield "user", answered


def crush(turns, folder):
    path = folder / "crush.db"
    base = database(
        path,
        "sessions (id, parent_session_id, title, created_at, summary_message_id)",
        "messages (id, session_id, role, parts, model, created_at, is_summary_message, provider)",
    )
    cuts = [f"m{turn.number}" for turn in turns if turn.kind == "compaction"]
    rows(base, "sessions", [("s", None, "Chat", START, cuts[-1] if cuts else None)])
    for turn in turns:
        for id, role, parts in _crush_messages(turn):
            given = json.dumps([{"type": type_, "data": data} for type_, data in parts])
            summary = int(turn.kind == "compaction")
            rows(base, "messages", [(id, "s", role, given, "m", START + turn.number, summary, "p")])
    return saved(base, path)


def _crush_messages(turn):
    text = [("text", {"text": turn.text})] if turn.text or not turn.calls else []
    if turn.kind == "prompt":
        yield f"m{turn.number}", "user", text
        return
    calls = [
        ("tool_call", {"id": c.id, "name": c.name, "input": json.dumps(c.arguments)})
        for c in turn.calls
    ]
    yield f"m{turn.number}", "assistant", [*text, *calls, ("finish", {"reason": "end_turn"})]
    done = [
        ("tool_result", {"tool_call_id": c.id, "content": c.output, "is_error": c.error})
        for c in turn.calls
        if c.output is not None
    ]
    if done:
        yield f"m{turn.number}t", "tool", done


# ------------------------------------------------------------------ rows of messages


def llm(turns, folder):
    path = folder / "logs.db"
    base = database(
        path,
        "conversations (id, name, model)",
        "responses (id, model, prompt, system, response, conversation_id, datetime_utc)",
        "messages (hash, parent_hash, role)",
        "parts (id integer primary key, message_hash, position, type, text, payload)",
        "threads (id, name, tip_message_hash, datetime_utc)",
        "turns (id, tip_message_hash, datetime_utc, model)",
    )
    at = None
    for turn in turns:
        for role, parts in _llm_messages(turn):
            at, above = f"h{turn.number}{role[0]}", at
            rows(base, "messages", [(at, above, role)])
            rows(base, "parts", [(None, at, number, *part) for number, part in enumerate(parts)])
        rows(base, "turns", [(f"t{turn.number}", at, iso(turn.number), "m")])
    rows(base, "threads", [("t", "Chat", at, iso(0))])
    return saved(base, path)


def _llm_messages(turn):
    text = [("text", turn.text, None)] if turn.text or not turn.calls else []
    asked = [
        (
            "tool_call",
            None,
            json.dumps({"tool_call_id": c.id, "name": c.name, "arguments": c.arguments}),
        )
        for c in turn.calls
    ]
    yield "user" if turn.kind == "prompt" else "assistant", text + asked
    done = [
        (
            "tool_result",
            None,
            json.dumps({"tool_call_id": c.id, "name": c.name, "output": c.output}),
        )
        for c in turn.calls
        if c.output is not None
    ]
    if done:
        yield "tool", done


def _chat(turns):
    for turn in turns:
        message = {"role": "user" if turn.kind == "prompt" else "assistant", "content": turn.text}
        if turn.calls:
            given = [
                (c.id, {"name": c.name, "arguments": json.dumps(c.arguments)}) for c in turn.calls
            ]
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": f} for id, f in given
            ]
        yield message
        for call in turn.calls:
            if call.output is not None:
                yield {"role": "tool", "tool_call_id": call.id, "content": call.output}


def openai_chat(turns, folder):
    path = folder / "chats.jsonl"
    path.write_text(json.dumps({"messages": list(_chat(turns))}) + "\n")
    return path


def swe_agent(turns, folder):
    path = folder / "run.traj"
    return document(
        path, {"history": list(_chat(turns)), "trajectory": [], "info": {}, "environment": "x"}
    )


def atif(turns, folder):
    steps = []
    for turn in turns:
        step = {"step_id": len(steps) + 1, "timestamp": iso(turn.number), "message": turn.text}
        step["source"] = "user" if turn.kind == "prompt" else "agent"
        if turn.calls:
            step["tool_calls"] = [
                {"tool_call_id": c.id, "function_name": c.name, "arguments": c.arguments}
                for c in turn.calls
            ]
            found = [c for c in turn.calls if c.output is not None]
            step["observation"] = {
                "results": [{"source_call_id": c.id, "content": c.output} for c in found]
            }
        steps.append(step)
    head = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
    }
    return document(folder / "trajectory.json", head | {"steps": steps})


def aider(turns, folder):
    """No calls, and no two answers in a row: their words would be one."""
    path = folder / ".aider.chat.history.md"
    lines = ["# aider chat started at 2026-03-01 09:00:00", ""]
    for turn in turns:
        lines += [f"#### {turn.text}" if turn.kind == "prompt" else turn.text, ""]
    path.write_text("\n".join(lines) + "\n")
    return path


KEEPERS = {
    "chatgpt": Keeper(chatgpt, {"cuts": ()}),
    "claude-ai": Keeper(claude_ai, {"cuts": ()}),
    "opencode": Keeper(opencode, CUT),
    "opencode database": Keeper(opencode_database, CUT),
    "goose": Keeper(goose, CUT),
    "crush": Keeper(crush, CUT),
    "llm": Keeper(llm, LINEAR),
    "openai-chat": Keeper(openai_chat, LINEAR),
    "swe-agent": Keeper(swe_agent, LINEAR),
    "atif": Keeper(atif, LINEAR),
    "aider": Keeper(aider, LINEAR),
}
