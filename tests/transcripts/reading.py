"""What the tests ask of sessions that were read."""

import contextlib
import json
from itertools import groupby
from types import SimpleNamespace

from backstory import transcripts
from backstory.log.checks import check_draft
from backstory.transcripts import ImportReport, Unit
from backstory.transcripts.matching import KnownLog, Matcher
from backstory.transcripts.writing import mend_steps


def read(path, format=None):
    """All sessions below a path, and one report over everything."""
    report = ImportReport()
    sessions = list(transcripts.read(path, format=format, report=report))
    for session in sessions:
        for thread in session.threads:
            list(thread.read_steps(session.report))
        report.add(session.report)
    return sessions, report


def steps_of(thread):
    """The steps of a thread, with ids that are unique."""
    report = ImportReport()
    return list(mend_steps(thread.read_steps(report), report))


def events_of(steps, known=None, **options):
    """The events that a log lacks of some steps, with their bases."""
    found = []
    for new in Matcher(known or KnownLog(), **options).match(steps):
        base = {"clear": 0, "jump": (new.data or {}).get("target_message_id")}.get(new.kind)
        fields = new._asdict() | {"seq": new.position, "base": base}
        found.append(SimpleNamespace(**fields))
    return found


def log(thread):
    """A thread's log, each event checked as an append would."""
    events = events_of(steps_of(thread))
    for event in events:
        if event.kind != "note":
            check_draft(event.kind, event.content, event.data)
    times = [event.time for event in events if event.time is not None]
    assert times == sorted(times)
    return events


def context(events, at=None):
    """The context by the law: what each event continues."""
    by_seq = {event.seq: event for event in events}
    live = []
    seq = (events[-1].seq if events else 0) if at is None else at
    while seq > 0:
        event = by_seq[seq]
        live.append(event)
        seq = seq - 1 if event.base is None else event.base
    return _settled([line for event in reversed(live) if (line := told(event)) is not None])


def _settled(lines):
    """Results of one answer come in any order: here in that of their ids."""
    runs = groupby(lines, key=lambda line: line[0])
    return [line for kind, run in runs for line in (sorted(run) if kind == "result" else run)]


def told(event):
    """An event as a story tells it."""
    match event.kind:
        case "user" | "assistant" | "system":
            return event.kind, event.content
        case "tool_call":
            return "call", event.data["id"]
        case "tool_result":
            return "result", event.data["id"], event.content
    return None


def everything(events):
    """All that is in a log but copies."""
    return [told(e) for e in events if told(e) is not None and "copy_of" not in (e.data or {})]


def entry_ids(thread):
    """The ids of all entries; each only once."""
    ids = [
        entry.id for step in steps_of(thread) if isinstance(step, Unit) for entry in step.entries
    ]
    assert len(ids) == len(set(ids))
    return ids


def one(sessions):
    """The main thread of the only session."""
    [session] = sessions
    [thread] = [thread for thread in session.threads if thread.id is None]
    return thread


def write_lines(path, records):
    """JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@contextlib.contextmanager
def mutated(data, random):
    """Bytes with a few of them flipped, lines shuffled, cut, doubled."""
    lines = data.splitlines(keepends=True)
    for _ in range(random.randint(1, 4)):
        match random.randrange(5):
            case 0:
                lines = lines[: random.randint(0, len(lines))]
            case 1 if lines:
                lines.insert(random.randrange(len(lines)), random.choice(lines))
            case 2:
                random.shuffle(lines)
            case 3 if lines:
                number = random.randrange(len(lines))
                line = bytearray(lines[number])
                for _ in range(random.randint(1, 8)):
                    line[random.randrange(len(line))] = random.randrange(256)
                lines[number] = bytes(line)
            case 4 if lines:
                number = random.randrange(len(lines))
                lines[number] = lines[number][: random.randint(1, len(lines[number]))]
    yield b"".join(lines)
