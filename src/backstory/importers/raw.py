"""`--raw`: every record of a file as it is, as notes of a sub-agent beside the conversation."""

from itertools import islice
from typing import Any

from backstory.agent import Agent
from backstory.core.events import draft
from backstory.errors import InvalidEvent
from backstory.importers.entries import as_text
from backstory.importers.format import Source
from backstory.importers.transcript import Report
from backstory.intake import Intake

RAW = "backstory.raw"  # the name of the notes; their data: {"line": its number, "record": the JSON value}
BATCH = 500


def keep_raw(intake: Intake, agent: Agent, source: Source) -> int:
    """Write the records of a file of JSON lines that are not kept yet, and return how many those were."""
    keeper = intake.agent(f"{agent.key}/raw", name=f"raw {agent.id[-6:]}", parent=agent, spawned=True)
    lines = ((f"raw:{source.stem}:{line.number}:{line.part}", line) for line in source.lines(Report()))
    written = 0
    while chunk := list(islice(lines, BATCH)):
        rows = [_row(key, line.number, line.value) for key, line in chunk]
        intake.extend(keeper, rows)
        written += intake.commit()
    return written


def _row(key: str, number: int, value: Any) -> tuple[Any, ...]:
    row = ("note", RAW, {"line": number, "record": value}, key)
    try:
        draft(*row)
    except InvalidEvent:  # nested too deeply, or with what no store can hold
        return "note", RAW, {"line": number, "text": as_text(value)}, key
    return row
