"""A session file of pi or omp, read once: its entries indexed, and where its line ends. Pure.

Up to version 3 a line is an entry. Since version 4 a line says what it is: an entry, the end of a lane (lanes
are lines of conversation in one tree, and `main` is the session's own), a fact, or a record of what ran.
"""

from typing import Any

from backstory.transcripts.checkpoints import ReadWhole, Tail
from backstory.transcripts.entries import Data, as_text, microseconds, named
from backstory.transcripts.format import Source
from backstory.transcripts.pi.messages import texts_of
from backstory.transcripts.provenance import provenance_in
from backstory.transcripts.transcript import Report
from backstory.transcripts.words import Words

NAME = "pi"
MAIN = "main"
# Entries that say nothing to the model. What hangs on them hangs on what they hang on.
SILENT = Words(
    {
        "model_change",
        "thinking_level_change",
        "active_tools_change",
        "custom",
        "label",
        "session_info",
    }
    | {"title", "title_change", "credential_pin", "ttsr_injection"}  # omp
    | {"mode_change", "mcp_tool_selection", "service_tier_change", "workflow_change"}
)
SPEAKING = Words({"message", "compaction", "branch_summary", "custom_message", "session_init"})
# Entries that say where the line ends: behind which entry. pi's and omp's name for that.
LEAVES = {"leaf": "targetId", "leaf_change": "target"}


def is_header(record: Data) -> bool:
    """Whether a line is the head of a session."""
    if not isinstance(record.get("id"), str):
        return False
    if record.get("kind") == "header":
        return "createdAt" in record
    return record.get("type") == "session" and "timestamp" in record


def _target_of(record: Data) -> str | None:
    """The key under which an entry says where the line ends; None: it does not say that."""
    return LEAVES.get(as_text(record.get("type")))


class File:
    """A session's file, indexed."""

    def __init__(self, source: Source, tail: Tail | None = None) -> None:
        self.source = source
        self.report = Report()
        self.header: Data = tail.state["header"] if tail else {}
        self.about: Data = dict(tail.state["about"]) if tail else {}
        self.places: dict[str, tuple[Any, int]] = {}  # a speaking entry -> where it is, its line
        self.parents: dict[str, str | None] = {}  # every entry's
        self.labels: dict[
            str, list[tuple[str, Any, int | None]]
        ] = {}  # behind which entry which label comes
        self.last: str | None = None  # the entry above the next one in the file
        self.leaf: str | None = None  # the entry behind which the tool would go on
        # The ids by index, the header among them; those before a checkpoint are not known.
        self.order: list[str | None] = [None] * tail.state["order"] if tail else []
        self._read = tail.read if tail else 0  # lines that were told before
        self.is_tail = tail is not None
        self._hanging: dict[
            str, str
        ] = {}  # entries whose parent was not known yet -> what stands above them
        for line, _, record, place in source.lines(self.report):
            if isinstance(record, dict):
                self._take(record, place, line)
        self.reach = source.reach
        self.id = named(self.header.get("id"), source.stem)

    def _take(self, record: Data, place: Any, line: int) -> None:
        type_ = record.get("type")
        if type_ == "session" or record.get("kind") == "header":
            self.header = self.header or record
            self.about |= texts_of(record, {"cwd": "cwd", "model": "modelId"}) | provenance_in(
                record
            )
            self.order.append(None)
        elif type_ == "title":
            self.about |= texts_of(record, {"title": "title"})
        elif self.header.get("kind") == "header" and record.get("kind") != "entry":
            self._mutation(record, line)
        else:
            self._entry(record, place, line)

    def _entry(self, record: Data, place: Any, line: int) -> None:
        type_, id = record.get("type"), record.get("id")
        if not isinstance(id, str) or not id:
            id, parent = (
                f"{str(self.header.get('id') or self.source.stem)[-12:]}:{len(self.order)}",
                self.last,
            )
        else:
            parent = record.get("parentId") if isinstance(record.get("parentId"), str) else None
        if self.is_tail and not self.parents:
            parent = None  # what the first entry of a tail continues is not in it
        self.order.append(id)
        if id in self.parents:
            self.report.mended["line written again"] += 1
        if (
            parent is not None
            and parent not in self.parents
            and self.last is not None
            and id not in self.parents
        ):
            self._hanging[id] = self.last
        if self.is_tail and line > self._read and not self._is_told(record, parent):
            raise ReadWhole
        self.parents.setdefault(id, parent)
        if type_ in SPEAKING:
            self.places[id] = (place, line)
        elif type_ not in SILENT and _target_of(record) is None:
            self.report.unknown[f"{type_} ({NAME} {self.header.get('version', 1)})"] += 1
        self._learn(record, id)
        self.last = id
        if (target := _target_of(record)) is not None:
            self._end_at(record.get(target), line)
        elif record.get("lane", MAIN) == MAIN:
            self.leaf = id

    def _mutation(self, record: Data, line: int) -> None:
        """A line of version 4 that is not an entry."""
        match record.get("kind"), record.get("fact"):
            case "lane", _ if record.get("lane") == MAIN:
                self._end_at(record.get("leafId"), line)
            case "fact", "name":
                self.about |= texts_of(record, {"title": "name"})
            case "fact", "label" if (
                isinstance(record.get("targetId"), str) and self.last is not None
            ):
                if self.is_tail and line > self._read and record["targetId"] not in self.parents:
                    raise ReadWhole
                self.labels.setdefault(self.last, []).append(
                    (record["targetId"], record.get("label"), None)
                )
            case (("lane" | "record" | "fact"), _):
                pass
            case kind, _:
                self.report.unknown[f"{kind} ({NAME} {self.header.get('version', 1)})"] += 1

    def _end_at(self, target: Any, line: int) -> None:
        """The tool went to an entry, or to the beginning, and said nothing there yet."""
        if target is None or (isinstance(target, str) and target in self.parents):
            self.leaf = target
        elif self.is_tail and line > self._read:
            raise ReadWhole

    def _is_told(self, record: Data, parent: str | None) -> bool:
        """Whether what a new entry of a tail refers to is in the tail."""
        target = record.get(_target_of(record) or "targetId", parent)
        return parent in self.parents and isinstance(target, str) and target in self.parents

    def _learn(self, record: Data, id: str) -> None:
        match record.get("type"):
            case "session_info":
                self.about |= texts_of(record, {"title": "name"})
            case "title_change":
                self.about |= texts_of(record, {"title": "title"})
            case "model_change":
                self.about |= texts_of(record, {"model": "modelId"})
            case "label" if isinstance(record.get("targetId"), str):
                found = (
                    record["targetId"],
                    record.get("label"),
                    microseconds(record.get("timestamp")),
                )
                self.labels.setdefault(id, []).append(found)

    def mend(self) -> None:
        """A parent that is not in the file: the entry above is the parent."""
        for id, above in self._hanging.items():
            if self.parents[id] not in self.parents:
                self.parents[id] = above
                self.report.mended["lost parent"] += 1

    def unit_of(self, id: str | None) -> str | None:
        """The nearest speaking entry at or above an entry."""
        seen = set()
        while id is not None and id not in self.places:
            if id in seen:
                return None
            seen.add(id)
            id = self.parents.get(id)
        return id

    def way_to(self, id: str | None) -> list[str]:
        """All entries from the beginning to one."""
        way: dict[str, None] = {}
        while id is not None and id in self.parents and id not in way:
            way[id] = None
            id = self.parents[id]
        return list(way)[::-1]

    def first_kept(self, record: Data) -> str | None:
        """The first entry that a compaction keeps. An index counts the header; from there nothing is kept."""
        id, index = record.get("firstKeptEntryId"), record.get("firstKeptEntryIndex")
        if isinstance(id, str):
            return id
        if (
            isinstance(index, int)
            and 0 <= index < len(self.order)
            and self.header.get("version", 1) == 1
        ):
            return self.order[index]
        return None
