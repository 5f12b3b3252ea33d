"""llm: its logs.db. Since 0.32 it has threads of messages that are known by their hash; before,
responses.

Threads that share their first messages are forks.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    CallBinder,
    as_object,
    build_media_block,
    build_message_entry,
    build_result_entry,
    list_objects,
    parse_arguments,
    parse_time,
    pick_counts,
    pick_texts,
    to_text,
)
from backstory.transcripts.format import (
    KnownPlace,
    SourceHead,
    TranscriptFormat,
    TranscriptSource,
    read_table,
)
from backstory.transcripts.model import (
    Data,
    Entry,
    ImportReport,
    Origin,
    SourceSession,
    Step,
    chain_units,
)

NAME = "llm"
# Gemini's calls have no ids. They get the same one, and are given to their results in order.
CALL_WITHOUT_ID = "call"
USAGE = {"input": "input_tokens", "output": "output_tokens"}
WAY = """
with recursive way(hash, parent, role, depth) as (
    select hash, parent_hash, role, 0 from messages where hash = ?
    union all select m.hash, m.parent_hash, m.role, depth + 1
    from messages m join way on m.hash = way.parent where depth < 100000
)
select hash, role from way order by depth desc
"""
RESPONSE_COLUMNS = (
    *("id", "datetime_utc", "prompt", "system", "response", "model"),
    *("input_tokens", "output_tokens", "reasoning"),
)


class LlmFormat(TranscriptFormat):
    """llm's logs."""

    name = NAME
    places = (
        KnownPlace("LLM_USER_PATH", "logs.db", "~/.config/io.datasette.llm/logs.db"),
        KnownPlace(None, "logs.db", "~/Library/Application Support/io.datasette.llm/logs.db"),
    )

    def recognize(self, head: SourceHead) -> bool:
        """Return True for responses of conversations."""
        return {"responses", "conversations"} <= set(head.tables)

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the threads, then the conversations of older releases.

        For a time llm wrote both: a thread has the id of its conversation, and all of its messages.
        """
        for source in sources:
            threads: set[str] = set()
            for session in self._read_threads(source):
                threads.add(session.id)
                yield session
            for row in list(source.read_rows(CONVERSATIONS)):
                id, name, model = row
                if to_text(id) not in threads:
                    about = pick_texts({"title": name, "model": model}, ABOUT)
                    read_steps = partial(read_conversation, source, id)
                    yield self.build_session(source, to_text(id), read_steps, about)

    def _read_threads(self, source: TranscriptSource) -> Iterator[SourceSession]:
        """Yield the threads, oldest first: a fork of the first that has its first messages."""
        owners: dict[str, str] = {}  # the first thread with each message
        names = ("id", "name", "tip_message_hash")
        for row in list(read_known(source, "threads", names, "order by datetime_utc, id")):
            id = to_text(row["id"])
            messages = list_messages(source, row["tip_message_hash"])
            if not messages:
                continue
            origin = None
            for hash, role in messages:
                # A system prompt alone is no common past.
                if hash in owners and role != "system":
                    origin = Origin(owners[hash])
                owners.setdefault(hash, id)
            read_steps = ThreadReader(source, messages).read_steps
            about = pick_texts({"title": row["name"]}, ABOUT)
            yield self.build_session(source, id, read_steps, about, origin)


ABOUT = {"title": "title", "model": "model"}
# A response without a conversation is one by itself.
CONVERSATIONS = """
select coalesce(r.conversation_id, r.id), c.name, c.model
from responses r left join conversations c on c.id = r.conversation_id
group by 1 order by 1
"""


def read_known(
    source: TranscriptSource, table: str, columns: Sequence[str], rest: str, *arguments: Any
) -> Iterator[Data]:
    """Yield the rows of a table, if the release that wrote the database had it."""
    if table in source.list_columns():
        yield from read_table(source, table, columns, rest, *arguments)


def list_messages(source: TranscriptSource, tip: Any) -> list[tuple[str, str]]:
    """Return hash and role of the messages up to one."""
    return [(to_text(hash), to_text(role)) for hash, role in source.read_rows(WAY, (tip,))]


def read_attachments(source: TranscriptSource, ids: Iterable[Any]) -> list[Data]:
    """Return images and documents as blocks."""
    found: list[Data] = []
    for id in ids:
        names = ("type", "url", "content")
        for row in read_known(source, "attachments", names, "where id = ?", id):
            content, url = row["content"], row["url"]
            data = b64encode(content).decode() if isinstance(content, bytes) else None
            block = build_media_block(row["type"], data)
            if block is None and url and to_text(row["type"]).startswith("image/"):
                block = {"type": "image", "source": {"type": "url", "url": url}}
            if block is not None:
                found.append(block)
    return found


def list_attached(source: TranscriptSource, table: str, column: str, owner: Any) -> list[Data]:
    """Return what is attached to a response, or to the result of a tool."""
    rest = f'where {column} = ? order by "order"'
    rows = list(read_known(source, table, ("attachment_id",), rest, owner))
    return read_attachments(source, [row["attachment_id"] for row in rows])


def build_prompt(id: str, kind: str, text: str, media: list[Data], time: int | None) -> Entry:
    """Return the entry of a prompt with its attachments."""
    words: list[Data] = [{"type": "text", "text": text}] if text else []
    return build_message_entry(id, kind, [*words, *media] if media else text, time)


def build_answer(
    id: str, time: int | None, model: Any, usage: Data, blocks: list[AnswerBlock]
) -> list[Entry]:
    """Return the entries of an answer."""
    data: Data = {"usage": usage} if usage else {}
    name = model if isinstance(model, str) and model else None
    return AnswerBuilder(id, time, wire_format="openai", model=name, data=data).build(blocks)


# --- threads, since 0.32 ---


class LlmTurn(NamedTuple):
    """One call of a model."""

    time: int | None = None
    model: Any = None
    usage: Data = {}  # noqa: RUF012 - never changed


class ThreadReader:
    """Reads the messages of one thread."""

    def __init__(self, source: TranscriptSource, messages: list[tuple[str, str]]) -> None:
        self._source = source
        self._messages = messages  # hash and role of each

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield a unit for each message."""
        return chain_units(self._build_units())

    def _build_units(self) -> Iterator[tuple[str, list[Entry]]]:
        binder = CallBinder()
        turns = self._find_turns()
        for hash, role in self._messages:
            entries = self._build_entries(hash, role, turns.get(hash, LlmTurn()))
            yield hash, [binder.bind(entry) for entry in entries]

    def _find_turns(self) -> dict[str, LlmTurn]:
        """Return the turn of each message: an answer ends it, the messages before it belong to
        it."""
        names = ("tip_message_hash", "datetime_utc", "model", "input_tokens", "output_tokens")
        ends: dict[str, LlmTurn] = {}
        for row in read_known(self._source, "turns", names, "order by id desc"):
            time = parse_time(row["datetime_utc"])
            ends[to_text(row["tip_message_hash"])] = LlmTurn(
                time, row["model"], pick_counts(row, USAGE)
            )
        found: dict[str, LlmTurn] = {}
        turn = LlmTurn()
        for hash, _ in reversed(self._messages):
            turn = found[hash] = ends.get(hash, turn)
        return found

    def _build_entries(self, hash: str, role: str, turn: LlmTurn) -> Iterator[Entry]:
        blocks: list[AnswerBlock] = []
        results: list[Entry] = []  # in an answer if the provider ran the tool
        attached: list[Any] = []
        names, rest = ("type", "text", "payload"), "where message_hash = ? order by position, id"
        for row in list(read_known(self._source, "parts", names, rest, hash)):
            data = as_object(parse_arguments(row["payload"]))
            if row["type"] == "tool_result":
                results.append(self._build_result(data, turn.time))
            elif row["type"] == "attachment":
                attached.append(as_object(data.get("attachment")).get("id"))
            else:
                blocks.append(self._read_block(row["type"], row["text"], data))
        if role == "assistant":
            yield from build_answer(hash, turn.time, turn.model, turn.usage, blocks)
        yield from results
        if role == "assistant" or (results and not [*blocks, *attached]):
            return
        words = "\n".join(block.text for block in blocks if block.text)
        media = read_attachments(self._source, attached)
        kind = "system" if role == "system" else "user"
        yield build_prompt(hash, kind, words, media, turn.time)

    def _read_block(self, type_: Any, text: Any, data: Data) -> AnswerBlock:
        if type_ == "tool_call":
            id = data.get("tool_call_id") or CALL_WITHOUT_ID
            return AnswerBlock("call", "", id, data.get("name"), data.get("arguments"))
        kind = "thinking" if type_ == "reasoning" else "text"
        return AnswerBlock(kind, self._read_text(text, data))

    def _read_text(self, text: Any, data: Data) -> str:
        """Return the text of a part; it may consist of fragments."""
        pieces = list_objects(data.get("text_ref"))
        if text is not None or not pieces:
            return to_text(text or data.get("text"))
        found: list[str] = []
        for piece in pieces:
            found.append(to_text(piece.get("literal")))
            rest = "where id = ?"
            for row in read_known(
                self._source, "fragments", ("content",), rest, piece.get("fragment")
            ):
                found.append(to_text(row["content"]))
        return "".join(found)

    def _build_result(self, data: Data, time: int | None) -> Entry:
        ids = [one.get("id") for one in list_objects(data.get("attachments"))]
        return build_result_entry(
            data.get("tool_call_id"),
            CALL_WITHOUT_ID,
            to_text(data.get("output")),
            time,
            is_error=bool(data.get("exception")),
            media=read_attachments(self._source, ids),
        )


# --- conversations, before 0.32 ---


def read_conversation(source: TranscriptSource, id: Any, _report: ImportReport) -> Iterator[Step]:
    """Yield a unit for each response of a conversation."""
    return chain_units(read_responses(source, id))


def read_responses(
    source: TranscriptSource, conversation: Any
) -> Iterator[tuple[str, list[Entry]]]:
    """Yield id and entries of each response."""
    binder = CallBinder()
    system_before = ""
    rest = "where coalesce(conversation_id, id) = ? order by datetime_utc, id"
    for row in list(read_known(source, "responses", RESPONSE_COLUMNS, rest, conversation)):
        key, id, time = row["id"], to_text(row["id"]), parse_time(row["datetime_utc"])
        entries: list[Entry] = []
        system = add_fragments(source, "system_fragments", key, row["system"])
        if system and system != system_before:
            entries.append(Entry(f"{id}:system", "system", system, None, time))
            system_before = system
        entries += build_results(source, key, time)
        prompt = add_fragments(source, "prompt_fragments", key, row["prompt"])
        media = list_attached(source, "prompt_attachments", "response_id", key)
        if prompt or media:
            entries.append(build_prompt(f"{id}:prompt", "user", prompt, media, time))
        blocks = [AnswerBlock("text", to_text(row["response"])), *read_calls(source, key)]
        if row["reasoning"]:
            blocks.insert(0, AnswerBlock("thinking", to_text(row["reasoning"])))
        entries += build_answer(id, time, row["model"], pick_counts(row, USAGE), blocks)
        yield id, [binder.bind(entry) for entry in entries]


def add_fragments(source: TranscriptSource, table: str, response: Any, text: Any) -> str:
    """Return a text after the fragments that belong to it."""
    pieces: list[str] = []
    tables = f"{table} p join fragments f on f.id = p.fragment_id"
    query = f'select f.content from {tables} where p.response_id = ? order by p."order"'
    if {table, "fragments"} <= set(source.list_columns()):
        pieces = [to_text(content) for (content,) in source.read_rows(query, (response,))]
    return "\n".join(filter(None, [*pieces, to_text(text)]))


def build_results(source: TranscriptSource, response: Any, time: int | None) -> Iterator[Entry]:
    """Yield the results that a response was given."""
    names = ("id", "output", "tool_call_id", "exception")
    rest = "where response_id = ? order by id"
    for row in list(read_known(source, "tool_results", names, rest, response)):
        yield build_result_entry(
            row["tool_call_id"],
            CALL_WITHOUT_ID,
            to_text(row["output"]),
            time,
            is_error=bool(row["exception"]),
            media=list_attached(source, "tool_results_attachments", "tool_result_id", row["id"]),
        )


def read_calls(source: TranscriptSource, response: Any) -> Iterator[AnswerBlock]:
    """Yield the calls in a response."""
    names = ("name", "arguments", "tool_call_id")
    rest = "where response_id = ? order by id"
    for row in read_known(source, "tool_calls", names, rest, response):
        given = row["arguments"]
        if isinstance(given, bytes):
            given = given.decode("utf-8", "replace")
        call = row["tool_call_id"] or CALL_WITHOUT_ID
        yield AnswerBlock("call", "", call, row["name"], given)
