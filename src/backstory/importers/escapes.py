"""Sessions as every store can hold them: U+0000, which no database takes, as an escape. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from backstory.importers.decode import ESCAPED, held
from backstory.importers.transcript import Report, Session, Step, Thread, Unit


def holdable(session: Session) -> Session:
    """The session, its contents such as every store can hold them."""
    threads = [
        replace(thread, steps=partial(_held_steps, thread, session.report)) for thread in session.threads
    ]
    return replace(session, threads=threads)


def _held_steps(thread: Thread, report: Report) -> Iterator[Step]:
    for step in thread.steps():
        if isinstance(step, Unit) and any("\0" in (entry.content or "") for entry in step.entries):
            report.mended[ESCAPED] += 1
            entries = (e._replace(content=held(e.content)) if e.content else e for e in step.entries)
            step = step._replace(entries=tuple(entries))
        yield step
