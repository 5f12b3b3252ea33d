"""Claude Code's files that grew: where they can be read on, and what the lines behind that say. Pure."""

from collections.abc import Sequence
from functools import partial

from backstory.transcripts.checkpoints import Checkpoint, ReadWhole, Tail, last_checkpoint
from backstory.transcripts.claude_code import records
from backstory.transcripts.claude_code.file import NAME, File
from backstory.transcripts.claude_code.index import Index, Row
from backstory.transcripts.claude_code.tree import Tree
from backstory.transcripts.format import Source
from backstory.transcripts.provenance import PROVENANCE
from backstory.transcripts.transcript import Report, Session, Thread

FIRST = frozenset({records.PROMPT, records.QUEUED, records.ANSWER})


def checkpoint(file: File, tree: Tree, session: str, thread: str | None) -> Checkpoint | None:
    """The last row behind which the file refers to nothing before it, but for what that row continues."""
    if file.side.rows or file.has_copies or PROVENANCE in file.about:
        return None
    number = _cut(tree, is_tail=file.is_tail)
    if number is None:
        return None
    row = tree.index.rows[number]
    state = {"about": file.about, "agent": file.agent}
    return Checkpoint(file.source.path, row.place, row.line - 1, file.reach, session, thread, state)


def _cut(tree: Tree, *, is_tail: bool) -> int | None:
    rows = tree.index.rows
    if tree.leaf not in tree.rows:
        return None
    leaf = tree.rows[tree.leaf][0].number  # it must be in the tail

    def first(row: Row) -> int:
        return tree.rows[row.unit][0].number

    def least(number: int) -> int:
        row = rows[number]
        return min(first(row), row.above or 0, *_kept(tree.index, row))

    def is_fitting(number: int) -> bool:
        return rows[number].kind in FIRST and first(rows[number]) == number <= leaf

    # The last row of a unit refers to its first: only what stands above a row can still be ahead of it.
    most: Sequence[int] = range(len(rows))
    if tree.index.looks_ahead:
        most = [max(row.number, row.above or 0) for row in rows]
    return last_checkpoint(least, most, is_fitting, is_tail=is_tail)


def _kept(index: Index, row: Row) -> list[int]:
    """The rows that a compaction kept."""
    keys = index.kept[row.key][1] if row.key in index.kept else ()
    return [lead for key in keys if key in index and (lead := index.lead(key)) is not None]


def resume(source: Source, tail: Tail) -> Session:
    """The thread of a file from a checkpoint on."""
    report = Report()
    file = File(source, report, tail.state["agent"], state=tail.state)
    index, leaf = file.main, file.leaf()
    new = [row for row in index.rows if row.line > tail.read]
    strays = any(line > tail.read for line in index.strays)
    if strays or file.side.rows or (leaf is not None and leaf not in index):
        raise ReadWhole
    if not all(_is_told(row, index) for row in new):
        raise ReadWhole
    tree = file.tree()
    mark = partial(checkpoint, file, tree, tail.session, tail.thread)
    thread = Thread(
        tail.session, tail.thread, tree.steps, None, file.described(tree), mark, tail.read
    )
    ties = frozenset(index.beginnings())
    return Session(NAME, tail.session, [thread], source.path, report, ties)


def _is_told(row: Row, index: Index) -> bool:
    """Whether all that a row needs is in the tail: the calls of its results, what a compaction keeps."""
    if row.kind == records.RESULTS:
        return all(call in index.calls for call in row.results if isinstance(call, str))
    if row.key in index.kept:
        keys = index.kept[row.key][1]
        return bool(keys) and all(key in index for key in keys)
    return True
