"""Reads sessions in the formats of other tools, without a store."""

from pathlib import Path
from typing import NamedTuple

from backstory.transcripts.containers import open_source
from backstory.transcripts.format import load_format, recognize
from backstory.transcripts.importing import list_files
from backstory.transcripts.model import Fault, ImportReport, SourceMove, Unit
from backstory.transcripts.openai_chat import describe_lookalike


class ReadSessions(NamedTuple):
    """The sessions below a path, and one report about all of them."""

    sessions: list
    report: ImportReport


def read_sessions(path, format=None):
    """Return the sessions below a path. Each of them is read once."""
    report = ImportReport()
    groups = {}
    for file, shown in list_files(Path(path), report):
        source = open_source(file, shown)
        head = source.read_head()
        chosen = load_format(format) if format else recognize(head)
        if chosen is None:
            what = describe_lookalike(head) or "not recognized"
            report.notes.append(Fault(shown, None, what))
        else:
            _, sources = groups.setdefault((chosen.name, chosen.group_key(shown)), (chosen, []))
            sources.append(source)
    sessions = []
    for chosen, sources in groups.values():
        sessions += chosen.read(sources, report)
    for session in sessions:
        for thread in session.threads:
            list(thread.read_steps(report))
    return ReadSessions(sessions, report)


def get_thread(sessions):
    """Return the main thread of the only session."""
    [session] = sessions
    [thread] = [thread for thread in session.threads if thread.id is None]
    return thread


def list_steps(thread):
    return list(thread.read_steps(ImportReport()))


def list_entries(thread):
    """Return all entries of a thread, in the order of the source."""
    return [entry for unit in thread.read_units() for entry in unit.entries]


def list_context(thread):
    """Return the entries of the context at the thread's end."""
    units, leaf = {}, None
    for step in list_steps(thread):
        if isinstance(step, Unit):
            assert step.after is None or step.after in units
            units[step.id] = step
            leaf = step.id if step.entries else leaf
        elif isinstance(step, SourceMove):
            leaf = step.to
    live = []
    while leaf is not None:
        for entry in reversed(units[leaf].entries):
            live.append(entry)
            if entry.kind == "clear":
                return live[-2::-1]
        leaf = units[leaf].after
    return live[::-1]


def describe_context(thread):
    """Return the messages of the context, as tests compare them."""
    return [line for entry in list_context(thread) if (line := describe(entry)) is not None]


def describe(entry):
    """Return an entry as tests compare it."""
    match entry.kind:
        case "user" | "assistant" | "system":
            return entry.kind, entry.content
        case "tool_call":
            return "call", entry.data["id"]
        case "tool_result":
            return "result", entry.data["id"], entry.content
    return None
