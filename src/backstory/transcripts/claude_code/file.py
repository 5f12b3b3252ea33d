"""A file of Claude Code, read once: its records indexed, and what they say beside the conversation. Pure."""

from typing import Any

from backstory.transcripts.claude_code import records
from backstory.transcripts.claude_code.index import Index, Row
from backstory.transcripts.claude_code.records import AnswerLine, Record, Said
from backstory.transcripts.claude_code.tree import Tree
from backstory.transcripts.format import Source
from backstory.transcripts.provenance import provenance_in
from backstory.transcripts.transcript import Report

NAME = "claude-code"
AGENT_TOOLS = ("Task", "Agent")
ABOUT = {"cwd": "cwd", "version": "version", "branch": "gitBranch"}


class File:
    """One file, read once: the tree of its thread, the side chains in it, and what else it knows."""

    def __init__(
        self,
        source: Source,
        report: Report,
        agent: str | None = None,
        *,
        state: Record | None = None,
        is_told: bool = False,
    ) -> None:
        self.source = source
        self.agent = agent  # the sub-agent that the whole file belongs to
        self.is_tail = state is not None
        self._is_told = is_told  # nothing has to be held of it
        self.main = Index()
        self.side = Index()
        self.about: dict[str, Any] = dict(state["about"]) if state else {}
        self.links: dict[
            str, str
        ] = {}  # an agent, or the run of a workflow -> the call that began it
        self.prompts: dict[str, list[str]] = {}  # what sub-agents were told -> the calls
        self.forked_from: str | None = None
        self.has_copies = False
        self._leaf: tuple[int, str, bool] | None = None
        self._report = report
        self._knows_all = False
        for number, _, value, place in source.lines(report):
            if type(value) is dict:
                # What the first record of a tail continues is not in it.
                is_cut = self.is_tail and not self.main.rows
                self._take(value | {"parentUuid": None} if is_cut else value, number, place)
        self.reach = source.reach
        self.main.resolve()
        self.side.resolve(lost_are_roots=True)
        report.mended.update(self.main.mended + self.side.mended)

    def _take(self, record: Record, line: int, place: Any) -> None:
        kind = records.kind_of(record)
        if kind is None:
            self._note(record, line)
            return
        index = self.main
        if self.agent is None and record.get("isSidechain") is True:
            index = self.side
        elif not self._knows_all or "forkedFrom" in record:
            self._learn(record)
        if kind == records.PASSED:
            index.contract(record, line)
            self._link_progress(record)
            return
        if place is record:  # kept without its bookkeeping, which is most of its bytes
            place = records.spoken(record)
        row = index.add(record, kind, line, place)
        self._link(record, row)
        if self._is_told or not self.source.hold(place):
            row.said = None

    def _learn(self, record: Record) -> None:
        for name, key in ABOUT.items():
            value = record.get(key)
            if isinstance(value, str) and value:
                self.about.setdefault(name, value)
        self._knows_all = self.about.keys() >= ABOUT.keys()
        fork = record.get("forkedFrom")
        if isinstance(fork, dict) and isinstance(fork.get("sessionId"), str):
            self.forked_from = fork["sessionId"]

    def _link(self, record: Record, row: Row) -> None:
        """How sub-agents are found: by progress, by the result's bookkeeping, by their prompt."""
        if isinstance(row.said, AnswerLine):
            for block in row.said.calls:
                if block.get("name") in AGENT_TOOLS:
                    given = block.get("input")
                    prompt = given.get("prompt") if isinstance(given, dict) else None
                    if isinstance(prompt, str):
                        self.prompts.setdefault(prompt.strip(), []).append(block["id"])
        elif row.kind == records.RESULTS:
            result = record.get("toolUseResult")
            agent = result.get("agentId", result.get("runId")) if isinstance(result, dict) else None
            if isinstance(agent, str) and row.results:
                self.links.setdefault(agent, row.results[0])

    def _link_progress(self, record: Record) -> None:
        if record.get("type") not in records.CONTRACTED:
            self._count(record)
        data = record.get("data")
        if isinstance(data, dict) and data.get("type") == "agent_progress":
            agent, call = data.get("agentId"), record.get("parentToolUseID")
            if isinstance(agent, str) and isinstance(call, str):
                self.links[agent] = call

    def recall(self, row: Row) -> Said:
        """What a row says, once: then its record has to be read again."""
        said = row.said
        if said is None:
            return records.said_in(row.key, row.kind, self.source.fetch(row.place))
        if self.source.release(row.place):
            row.said = None
        return said

    def _note(self, record: Record, line: int) -> None:
        match record.get("type"):
            case "custom-title":
                self._title(record.get("customTitle"), "custom")
                self.about |= provenance_in(record)
            case "ai-title":
                self._title(record.get("aiTitle"), "ai")
            case "last-prompt" if isinstance(record.get("leafUuid"), str):
                self._leaf = (line, record["leafUuid"], record.get("explicit") is True)
            case type_ if type_ not in records.BOOKKEEPING:
                self._count(record)

    def _title(self, title: Any, by: str) -> None:
        if (
            isinstance(title, str)
            and title
            and (by == "custom" or self.about.get("titled_by") != "custom")
        ):
            self.about |= {"title": title, "titled_by": by}

    def _count(self, record: Record) -> None:
        version = record.get("version") or self.about.get("version")
        type_ = record.get("type")
        self._report.unknown[f"{type_} ({NAME} {version})" if version else f"{type_} ({NAME})"] += 1

    def leaf(self) -> str | None:
        """The record that the tool named as the live one, if nothing was said since."""
        is_last = self._leaf is not None and self._leaf[0] > self.main.newest
        return self._leaf[1] if self._leaf is not None and is_last else None

    def described(self, tree: Tree) -> dict[str, Any]:
        """What is kept beside the thread: title, folder, version."""
        return (
            {key: value for key, value in self.about.items() if key != "titled_by"}
            if tree.rows
            else {}
        )

    def tree(self) -> Tree:
        """The tree of the file's own thread."""
        tree = Tree(self.main, self.recall, leaf=self.leaf())
        if tree.forest.mended:
            self._report.mended["circle of parents"] += tree.forest.mended
        return tree
