"""`--raw`: the records of a file as they are, as notes of a sub-agent beside the conversation.

Only files with one session are kept. A database or an export has many, and beside them access
tokens, copies of files and accounts.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any

from backstory.agent import Agent
from backstory.errors import InvalidEvent
from backstory.intake import Intake
from backstory.log.checks import check_draft
from backstory.transcripts.content import to_text
from backstory.transcripts.masks import ContentFilter
from backstory.transcripts.model import Data, ImportReport
from backstory.transcripts.sources import FileSource

JSON_LINES = (".jsonl", ".jsonl.zst", ".jsonl.gz")
RAW = "backstory.raw"  # the name of the notes; their data: {"line": its number, "record": ...}
BATCH = 500


def list_records(source: FileSource) -> Iterator[tuple[str, Data, Any]]:
    """Yield id, line and value of each record. A document is one record, anew if it changed."""
    report = ImportReport()
    if source.path.endswith(JSON_LINES):
        for line in source.lines(report):
            yield f"{line.number}:{line.place.part}", {"line": line.number}, line.value
        return
    if source.is_folder or source.list_columns():
        return
    value = source.read_document(report)
    if value is not None:
        text = to_text(value).encode("utf-8", "replace")
        yield blake2b(text, digest_size=16).hexdigest(), {}, value


def keep_records(intake: Intake, agent: Agent, source: FileSource, changes: ContentFilter) -> bool:
    """Write the records of a file that are not kept yet. Return False if it has none."""
    records = list_records(source)
    chunk = list(islice(records, BATCH))
    if not chunk:
        return False
    name = f"raw {agent.id[-6:]}"
    keeper = intake.agent(f"{agent.key}/raw", name=name, parent=agent, spawned=True)
    while chunk:
        notes = []
        for id, line, value in chunk:
            notes.append(build_note(f"raw:{source.stem}:{id}", line, value, changes))
        intake.extend(keeper, notes)
        intake.commit()
        chunk = list(islice(records, BATCH))
    return True


def build_note(key: str, line: Data, value: Any, changes: ContentFilter) -> tuple[Any, ...]:
    """Return a note with a record, as text if no event can contain it."""
    record = {**line, "record": changes.filter_value(value)}
    try:
        check_draft("note", RAW, record, key)
    except InvalidEvent:  # nested too deep, or with what no store can store
        record = {**line, "text": changes.filter_text(to_text(value))}
    return "note", RAW, record, key
