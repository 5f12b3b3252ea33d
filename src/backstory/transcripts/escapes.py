"""Sessions as every store can hold them: U+0000 is escaped, and no id is used twice. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count

from backstory.transcripts.decode import ESCAPED, held
from backstory.transcripts.transcript import Entry, Report, Session, Step, Thread, Unit

REPEATED = "id of something else, numbered"


def holdable(session: Session) -> Session:
    """The session with contents and ids that every store can hold."""
    threads = [_held_thread(thread, session.report) for thread in session.threads]
    return replace(session, id=held(session.id), threads=threads)


def _held_thread(thread: Thread, report: Report) -> Thread:
    alone = None if thread.alone is None else partial(_held_steps, thread.alone, report)
    steps = partial(_held_steps, thread.steps, report)
    id, origin = thread.id, thread.origin
    if origin is not None:
        other = None if origin.thread is None else held(origin.thread)
        origin = origin._replace(session=held(origin.session), thread=other)
    own = None if id is None else held(id)
    return replace(
        thread, session=held(thread.session), id=own, origin=origin, steps=steps, alone=alone
    )


def _held_steps(told: Callable[[], Iterator[Step]], report: Report) -> Iterator[Step]:
    ids: set[str] = set()  # of the entries so far
    for step in told():
        if isinstance(step, Unit):
            if _has_nul(step.entries):
                report.mended[ESCAPED] += 1
                entries = (
                    e._replace(content=held(e.content)) if e.content else e for e in step.entries
                )
                step = step._replace(entries=tuple(entries))
            own = [entry.id for entry in step.entries]
            if not ids.isdisjoint(own) or (len(own) > 1 and len(set(own)) < len(own)):
                report.mended[REPEATED] += 1
                step = step._replace(entries=tuple(_numbered(step.entries, ids)))
            ids.update(own)
        yield step


def _has_nul(entries: Iterable[Entry]) -> bool:
    for entry in entries:
        content = entry.content
        if content is not None and "\0" in content:
            return True
    return False


def _numbered(entries: Iterable[Entry], ids: set[str]) -> Iterator[Entry]:
    """The entries; an id that was used before gets a number, or a store would take it for the first one."""
    for entry in entries:
        id, numbers = entry.id, count(2)
        while id in ids:
            id = f"{entry.id}#{next(numbers)}"
        ids.add(id)
        yield entry._replace(id=id)
