"""llm: its logs.db. Since 0.32 threads of messages known by their hash; before, responses in order. Pure.

Threads that share their beginning are a fork, if they share more than the system text.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from backstory.transcripts.answers import Block, parts_of
from backstory.transcripts.chain import Calls, chained
from backstory.transcripts.decode import decode
from backstory.transcripts.entries import (
    Data,
    anthropic_message,
    as_text,
    media_block,
    microseconds,
    result_data,
    result_with,
)
from backstory.transcripts.format import Format, Head, Place, Source
from backstory.transcripts.transcript import Entry, Origin, Report, Session, Step, Thread, Unit

NAME = "llm"
# Gemini's calls have no ids. They get one and the same, and are bound to their results in order.
NAMELESS_CALL = "call"


def fits(head: Head) -> bool:
    """Responses of conversations."""
    return {"responses", "conversations"} <= set(head.tables)


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """The threads of the new tables, then the conversations of the old ones. For a time llm wrote both: a
    thread has the id of its conversation, and all that was said in it."""
    for source in sources:
        tables = source.columns()
        told: set[str] = set()
        if {"threads", "messages", "parts", "turns"} <= set(tables):
            for session in _threads(source):
                told.add(session.id)
                yield session
        yield from (one for one in _conversations(source, tables) if one.id not in told)


# ------------------------------------------------------------------ since 0.32


def _threads(source: Source) -> Iterator[Session]:
    """Threads as they were made; each is a fork of the earlier one with which it shares the most."""
    ways: dict[str, list[str]] = {}
    query = "select id, name, tip_message_hash, datetime_utc from threads order by datetime_utc, id"
    for given, name, tip, _ in list(source.rows(query)):
        id, way = as_text(given), _way(source, tip)
        origin, shared = _origin(ways, way, source)
        ways[id] = way
        if way:
            about = {"title": name} if isinstance(name, str) and name else {}
            yield _session(source, id, way, origin, shared, about)


def _session(
    source: Source, id: str, way: list[str], origin: Origin | None, shared: int, about: Data
) -> Session:
    def steps() -> Iterator[Step]:
        turns = _turns(source, way)
        calls = Calls()
        after: str | None = None
        for number, hash in enumerate(way):
            found = _message(source, hash, turns.get(hash, Turn()))
            entries = tuple(calls.entry(entry) for entry in found)
            unit = as_text(hash)
            yield Unit(unit, after, entries, number + 1, inherited=number < shared)
            after = unit

    return Session(NAME, id, [Thread(id, None, steps, origin, about)], source.path, Report())


def _way(source: Source, tip: Any) -> list[str]:
    """The hashes of a thread's messages, oldest first."""
    query = (
        "with recursive way(hash, parent, depth) as (select hash, parent_hash, 0 from messages where hash = ?"
        " union all select m.hash, m.parent_hash, depth + 1 from messages m join way on m.hash = way.parent"
        " where depth < 100000) select hash from way order by depth desc"
    )
    return list(dict.fromkeys(hash for (hash,) in source.rows(query, (tip,))))


def _origin(
    ways: dict[str, list[str]], way: list[str], source: Source
) -> tuple[Origin | None, int]:
    best, shared = None, 0
    for id, other in ways.items():
        common = sum(1 for _ in _while_equal(way, other))
        if common > shared:
            best, shared = id, common
    if best is None or all(_role(source, hash) == "system" for hash in way[:shared]):
        return None, 0
    return Origin(best, at=as_text(way[shared - 1])), shared


def _while_equal(one: list[str], other: list[str]) -> Iterator[str]:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return
        yield left


def _role(source: Source, hash: str) -> str:
    return as_text(
        next(iter(source.rows("select role from messages where hash = ?", (hash,))), ("",))[0]
    )


class Turn(NamedTuple):
    """One call of a model: what is known of the messages in it."""

    time: int | None = None
    model: str | None = None
    usage: Data | None = None


def _turns(source: Source, way: list[str]) -> dict[str, Turn]:
    """The turn of each message: that of an answer, and of what is above it since the last one."""
    counts = ("input_tokens", "output_tokens")
    columns = ", ".join(name if name in source.columns()["turns"] else "null" for name in counts)
    query = f"select tip_message_hash, datetime_utc, model, {columns} from turns order by id"
    turns: dict[str, Turn] = {}
    for tip, when, model, given, taken in source.rows(query):
        name = model if isinstance(model, str) else None
        turns.setdefault(tip, Turn(microseconds(when), name, _usage(given, taken)))
    found: dict[str, Turn] = {}
    waiting: list[str] = []
    for hash in way:
        waiting.append(hash)
        if hash in turns:
            found.update(dict.fromkeys(waiting, turns[hash]))
            waiting = []
    return found


def _usage(given: Any, taken: Any) -> Data:
    counts = {"input": given, "output": taken}
    usage = {name: count for name, count in counts.items() if isinstance(count, int)}
    return {"usage": usage} if usage else {}


def _message(source: Source, hash: str, turn: Turn) -> Iterator[Entry]:
    role = _role(source, hash)
    query = "select type, text, payload from parts where message_hash = ? order by position, id"
    parts = [_part(source, *row) for row in source.rows(query, (hash,))]
    if role == "assistant":
        # A tool that the provider ran has its result in the answer.
        blocks = [_block(*part) for part in parts if part[0] != "tool_result"]
        extra: Data = ({"model": turn.model} if turn.model else {}) | (turn.usage or {})
        for one in parts_of("openai", blocks, turn.model, hash):
            data = (one.data or {}) | extra or None
            yield Entry(f"{hash}:{one.block}", one.kind, one.content, data, turn.time)
            extra = {}
    for number, (type_, _, payload) in enumerate(parts):
        if type_ == "tool_result":
            yield _result(source, payload, f"{hash}:{number}", turn.time)
    if role == "assistant":
        return
    rest = [part for part in parts if part[0] != "tool_result"]
    if rest or not parts:
        said = "\n".join(text for _, text, _ in rest if text)
        shown = [payload["attachment"] for type_, _, payload in rest if type_ == "attachment"]
        kind = "system" if role == "system" else "user"
        yield Entry(as_text(hash), kind, *_with_attachments(source, said, shown), turn.time)


def _result(source: Source, payload: Data, id: str, time: int | None) -> Entry:
    data = result_data(
        payload.get("tool_call_id"), NAMELESS_CALL, error=bool(payload.get("exception"))
    )
    given = payload.get("attachments")
    ids = (
        [one.get("id") for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    )
    told = result_with(as_text(payload.get("output") or ""), data, _attachments(source, ids))
    return Entry(id, "tool_result", *told, time)


def _part(source: Source, type_: Any, text: Any, payload: Any) -> tuple[str, str, Data]:
    """A part: what it is, what it says, and the rest. Text that borrows from fragments is pieced together."""
    data = _object(payload)
    pieces = data.get("text_ref")
    if text is None and isinstance(pieces, list):
        text = "".join(_piece(source, piece) for piece in pieces if isinstance(piece, dict))
    if type_ == "attachment":
        given = data.get("attachment")
        data = {"attachment": given.get("id") if isinstance(given, dict) else None}
    return as_text(type_), as_text(text or data.get("text") or ""), data


def _piece(source: Source, piece: Data) -> str:
    if "literal" in piece:
        return as_text(piece["literal"])
    found = source.rows("select content from fragments where id = ?", (piece.get("fragment"),))
    return as_text(next(iter(found), ("",))[0])


def _with_attachments(source: Source, said: str, ids: Iterable[Any]) -> tuple[str, Data | None]:
    """What a prompt says, with the images and documents that were shown with it."""
    shown = list(_attachments(source, ids))
    words: list[Data] = [{"type": "text", "text": said}] if said else []
    return anthropic_message([*words, *shown]) if shown else (said, None)


def _attachments(source: Source, ids: Iterable[Any]) -> Iterator[Data]:
    query = "select type, url, content from attachments where id = ?"
    for id in ids if "attachments" in source.columns() else ():
        for type_, url, content in source.rows(query, (id,)):
            data = b64encode(content).decode() if isinstance(content, bytes) else None
            block = media_block(type_, data)
            if block is None and url and as_text(type_).startswith("image/"):
                block = {"type": "image", "source": {"type": "url", "url": url}}
            if block is not None:
                yield block


def _object(payload: Any) -> Data:
    value = (
        decode(payload.encode("utf-8", "surrogatepass")).values if isinstance(payload, str) else []
    )
    return value[0] if value and isinstance(value[0], dict) else {}


def _block(type_: str, text: str, payload: Data) -> Block:
    if type_ == "tool_call":
        return Block(
            "call",
            id=payload.get("tool_call_id") or NAMELESS_CALL,
            name=payload.get("name"),
            arguments=payload.get("arguments"),
        )
    if type_ == "reasoning":
        return Block("thinking", text)
    return Block("text", text)


# ------------------------------------------------------------------ before


def _conversations(source: Source, tables: Any) -> Iterator[Session]:
    for id, name, model in list(
        source.rows("select id, name, model from conversations order by id")
    ):
        found = {"title": name, "model": model}
        about = {key: value for key, value in found.items() if isinstance(value, str) and value}

        used = next(
            iter(source.rows("select count(*) from responses where conversation_id = ?", (id,)))
        )[0]
        if used:
            yield _conversation(source, tables, id, about)
    lost = (
        "select distinct coalesce(conversation_id, id) from responses where conversation_id is null"
        " or conversation_id not in (select id from conversations)"
    )
    for (id,) in list(source.rows(lost)):
        yield _conversation(source, tables, id, {})


def _conversation(source: Source, tables: Any, given: Any, about: Data) -> Session:
    def steps() -> Iterator[Step]:
        return chained(_responses(source, tables, given))

    id = as_text(given)
    return Session(NAME, id, [Thread(id, None, steps, None, about)], source.path, Report())


def _responses(source: Source, tables: Any, conversation: Any) -> Iterator[tuple[str, list[Entry]]]:
    """Each response: the results it was asked with, its prompt, its answer and calls. One without a
    conversation is one by itself."""
    told: str | None = None
    calls = Calls()
    # Tokens came with 0.20, reasoning later.
    newer = ("input_tokens", "output_tokens", "reasoning")
    columns = ", ".join(name if name in tables["responses"] else "null" for name in newer)
    query = (
        f"select id, model, prompt, system, response, datetime_utc, {columns}"
        " from responses where coalesce(conversation_id, id) = ? order by datetime_utc, id"
    )
    for id, model, prompt, system, said, when, given, taken, thought in source.rows(
        query, (conversation,)
    ):
        time = microseconds(when)
        entries: list[Entry] = []
        text = _with_fragments(source, tables, "system_fragments", id, system)
        if text and text != told:
            entries.append(Entry(f"{id}:system", "system", text, None, time))
            told = text
        entries.extend(_results(source, tables, id, time))
        asked = _with_fragments(source, tables, "prompt_fragments", id, prompt)
        shown = _attached(source, tables, "prompt_attachments", id)
        if asked or shown:
            entries.append(
                Entry(f"{id}:prompt", "user", *_with_attachments(source, asked, shown), time)
            )
        extra: Data = ({"model": model} if isinstance(model, str) else {}) | _usage(given, taken)
        blocks = [Block("thinking", as_text(thought))] if thought else []
        blocks += [Block("text", as_text(said))] if said else []
        blocks += _calls(source, tables, id)
        for part in parts_of("openai", blocks, as_text(model) or None, id):
            entries.append(
                Entry(
                    f"{id}:{part.block}", part.kind, part.content, (part.data or {}) | extra, time
                )
            )
            extra = {}
        yield as_text(id), [calls.entry(entry) for entry in entries]


def _with_fragments(source: Source, tables: Any, table: str, response: str, text: Any) -> str:
    pieces = []
    if table in tables and "fragments" in tables:
        query = (
            f"select f.content from {table} p join fragments f on f.id = p.fragment_id"
            ' where p.response_id = ? order by p."order"'
        )
        pieces = [as_text(content) for (content,) in source.rows(query, (response,))]
    return "\n".join(piece for piece in [*pieces, as_text(text or "")] if piece)


def _attached(source: Source, tables: Any, table: str, owner: Any) -> list[Any]:
    """The ids of what was attached to a response, or to the result of a tool."""
    if table not in tables:
        return []
    column = "response_id" if "response_id" in tables[table] else "tool_result_id"
    query = f'select attachment_id from {table} where {column} = ? order by "order"'
    return [id for (id,) in source.rows(query, (owner,))]


def _results(source: Source, tables: Any, response: str, time: int | None) -> Iterator[Entry]:
    if "tool_results" not in tables:
        return
    failure = "exception" if "exception" in tables["tool_results"] else "null"
    query = f"select id, output, tool_call_id, {failure} from tool_results where response_id = ? order by id"
    for row, output, call, failed in source.rows(query, (response,)):
        data = result_data(call, NAMELESS_CALL, error=bool(failed))
        shown = _attachments(source, _attached(source, tables, "tool_results_attachments", row))
        said = result_with(as_text(output or ""), data, shown)
        yield Entry(f"{response}:result {row}", "tool_result", *said, time)


def _calls(source: Source, tables: Any, response: str) -> Iterator[Block]:
    if "tool_calls" not in tables:
        return
    query = "select name, arguments, tool_call_id from tool_calls where response_id = ? order by id"
    for name, given, call in source.rows(query, (response,)):
        arguments = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
        yield Block("call", id=call or NAMELESS_CALL, name=name, arguments=arguments)


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    places=(
        Place("LLM_USER_PATH", "logs.db", "~/.config/io.datasette.llm/logs.db"),
        Place(None, "logs.db", "~/Library/Application Support/io.datasette.llm/logs.db"),
    ),
)
