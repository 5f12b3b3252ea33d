"""Claude Code's lines as they come, one by one: what a line says, and which lines it continues. Pure.

For whoever is handed lines while they are written, such as a session store of the Claude Agent SDK.
"""

from collections.abc import Sequence

from backstory.transcripts.claude_code import records
from backstory.transcripts.claude_code.index import Index
from backstory.transcripts.claude_code.records import AnswerLine, Record
from backstory.transcripts.claude_code.tree import Tree
from backstory.transcripts.transcript import Entry


def claude_entries(record: Record) -> list[Entry]:
    """The entries that a line alone comes to; none for a line that says nothing. The lines of one answer
    share `data["answer"]`."""
    kind = records.kind_of(record)
    if kind is None or kind == records.PASSED:
        return []
    key = str(record.get("uuid"))
    said = records.said_in(key, kind, record)
    return records.answer(said.id or key, [said]) if isinstance(said, AnswerLine) else said


def claude_units(lines: Sequence[Record]) -> dict[str, str]:
    """The unit of each line by its uuid, as far as these lines tell: an answer with its results is one unit,
    and a line that says nothing belongs to the one it hangs on."""
    units: dict[str, str] = {}
    calls: dict[str, str] = {}
    for record in lines:
        key, parent = record.get("uuid"), record.get("parentUuid")
        if not isinstance(key, str):
            continue
        match records.kind_of(record):
            case records.PASSED | None:
                if isinstance(parent, str) and parent in units:
                    units[key] = units[parent]
            case records.ANSWER:
                id = record["message"].get("id")
                units[key] = id if isinstance(id, str) and id else key
                calls.update(dict.fromkeys(records.call_ids(record), units[key]))
            case records.RESULTS:
                answered = (calls[id] for id in records.result_ids(record) if id in calls)
                units[key] = next(answered, key)
            case _:
                units[key] = key
    return units


def claude_parents(lines: Sequence[Record]) -> list[str]:
    """The uuids of the lines that the last of these lines continues: those of the unit before its own, by
    the rules of an import. None: it begins with an empty context."""
    tree = _tree(lines)
    node = tree.forest.nodes[tree.index.rows[-1].unit]
    return [row.key for row in tree.rows.get(node.parent or "", ())]


def claude_kept(lines: Sequence[Record]) -> list[Entry]:
    """What a compaction kept, if the last of these lines is its summary: earlier entries again."""
    tree = _tree(lines)
    return list(tree.kept(tree.index.rows[-1].key))


def _tree(lines: Sequence[Record]) -> Tree:
    index = Index()
    for number, record in enumerate(lines, 1):
        kind = records.kind_of(record)
        if kind == records.PASSED:
            index.contract(record, number)
        elif kind is not None:
            index.add(record, kind, number, record)
    index.resolve()
    return Tree(index, lambda row: row.said or [])
