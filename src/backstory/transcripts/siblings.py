"""`--siblings`: conversations that begin with the same system prompt as forks of one root. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from hashlib import blake2b

from backstory.transcripts.transcript import Entry, Origin, Report, Session, Step, Thread, Unit


def as_siblings(sessions: Iterable[Session]) -> Iterator[Session]:
    """The sessions, each that begins with a system prompt behind the root that has this prompt."""
    roots: set[str] = set()
    for session in sessions:
        [thread] = session.threads
        first = next(iter(thread.steps()), None)
        text = _prompt(first)
        if text is None or thread.origin is not None:
            yield session
            continue
        root = f"siblings-{blake2b(text.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"
        shared = Unit(f"{root}:system", None, (Entry(f"{root}:system", "system", text),))
        if root not in roots:
            roots.add(root)
            alone = Thread(root, None, partial(_row, shared), None)
            yield Session(session.tool, root, [alone], session.source, Report())
        steps = partial(_behind, shared, thread)
        fork = replace(thread, steps=steps, origin=Origin(root, at=shared.id))
        yield replace(session, threads=[fork])


def _prompt(step: Step | None) -> str | None:
    """What a system prompt says, if a step is nothing else."""
    if not isinstance(step, Unit) or [entry.kind for entry in step.entries] != ["system"]:
        return None
    return step.entries[0].content


def _row(unit: Unit) -> Iterator[Step]:
    yield unit


def _behind(shared: Unit, thread: Thread) -> Iterator[Step]:
    """A thread's steps, with the shared prompt in the place of its own."""
    steps = iter(thread.steps())
    own = next(steps)
    assert isinstance(own, Unit)
    yield shared._replace(inherited=True)
    for step in steps:
        yield (
            step._replace(after=shared.id)
            if isinstance(step, Unit) and step.after == own.id
            else step
        )
