"""`--raw`: the records of a file as they are, as notes of a sub-agent beside the conversation.

Only of files that hold one session. A database or an export has many, and beside them what belongs to none:
access tokens, copies of files, accounts.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any

from backstory.agent import Agent
from backstory.errors import InvalidEvent
from backstory.intake import Intake
from backstory.log.checks import check_draft
from backstory.transcripts.entries import as_text
from backstory.transcripts.format import Source
from backstory.transcripts.thread_writer import Changes
from backstory.transcripts.transcript import Report

JSON_LINES = (".jsonl", ".jsonl.zst", ".jsonl.gz")
RAW = (
    "backstory.raw"  # the name of the notes; their data: {"line": its number?, "record": the value}
)
BATCH = 500


def records(source: Source) -> Iterator[tuple[str, int | None, Any]]:
    """The records of a file: their names, lines and values. A document is one record, anew if it changed."""
    if source.path.endswith(JSON_LINES):
        for number, part, value, _ in source.lines(Report()):
            yield f"{number}:{part}", number, value
    elif not source.is_folder and not source.columns():
        value = source.document(Report())
        if value is not None:
            yield (
                blake2b(as_text(value).encode("utf-8", "replace"), digest_size=16).hexdigest(),
                None,
                value,
            )


def keep_raw(intake: Intake, agent: Agent, source: Source, changes: Changes) -> bool:
    """Write the records of a file that are not kept yet. False: it has none that can be kept."""
    found = iter(records(source))
    chunk = list(islice(found, BATCH))
    if not chunk:
        return False
    keeper = intake.agent(
        f"{agent.key}/raw", name=f"raw {agent.id[-6:]}", parent=agent, spawned=True
    )
    while chunk:
        rows = [
            _row(f"raw:{source.stem}:{key}", line, value, changes) for key, line, value in chunk
        ]
        intake.extend(keeper, rows)
        intake.commit()
        chunk = list(islice(found, BATCH))
    return True


def _row(key: str, line: int | None, value: Any, changes: Changes) -> tuple[Any, ...]:
    place = {} if line is None else {"line": line}
    try:
        check_draft("note", RAW, place | {"record": value}, key)
    except InvalidEvent:  # nested too deeply, or with what no store can hold
        return "note", RAW, place | {"text": changes.made(as_text(value))}, key
    return "note", RAW, place | {"record": changes.made(value)}, key
