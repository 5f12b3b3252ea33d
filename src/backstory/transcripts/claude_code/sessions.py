"""Claude Code's files: which session each belongs to, its sub-agents, and what it was copied from.

A session is a file with its name. Sub-agents are in `<session>/subagents/`, formerly beside the
session as `agent-*.jsonl`, and before that as `isSidechain` lines inside it. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from backstory.transcripts.claude_code.records import (
    ANSWER,
    BOOKKEEPING,
    CONTRACTED,
    PASSED,
    RESULTS,
    find_kind,
    get_content,
    is_understood,
    list_calls,
)
from backstory.transcripts.claude_code.tree import ClaudeTree, RecordIndex, Row
from backstory.transcripts.content import (
    as_object,
    get_text,
    is_one_of,
    join_text,
    list_objects,
    name_call,
    pick_texts,
)
from backstory.transcripts.format import TranscriptSource, read_provenance
from backstory.transcripts.model import (
    Data,
    ExportedPositions,
    ImportReport,
    Origin,
    SourceSession,
    Step,
    Thread,
)

NAME = "claude-code"
SUBAGENTS = "/subagents/"  # a folder in that of a session
AGENT_TOOLS = ("Task", "Agent")
DETAILS = {"cwd": "cwd", "version": "version", "branch": "gitBranch"}


class ClaudeFile:
    """One file: the indexes of its thread and of the side chains in it, and what else it says."""

    def __init__(self, source: TranscriptSource, agent: str | None, report: ImportReport) -> None:
        self.source = source
        self.agent = agent  # the sub-agent that the whole file belongs to
        self._report = report
        tail = source.tail
        self.main = RecordIndex(tail)
        self.side = RecordIndex()
        self.about: Data = {}  # title, folder, version
        self._has_custom_title = False
        self.links: dict[str, str] = {}  # the call that began an agent, or the run of a workflow
        self.prompts: dict[str, str] = {}  # the first call with a prompt for a sub-agent
        self.forked_from: str | None = None
        self.exported: ExportedPositions | None = None
        self._leaf: str | None = None  # the live record that the tool named, if nothing followed
        if tail is not None:
            self.about = dict(tail.state["about"])
            self._has_custom_title = tail.state["has_custom_title"]
        for line in source.lines(report):
            if isinstance(line.value, dict):
                self._add(line.value, line.number, line.place)
        is_alone = not (self.side.rows or self.forked_from or self.exported)
        self.main.tail_rule.require(is_alone, "side chains, forks and exports are read whole")
        self.main.resolve()
        self.side.resolve(lost_are_roots=True)
        report.mended.update(self.main.mended + self.side.mended)

    def get_state(self) -> Data:
        """Return what has to be known to read a tail of the file."""
        return {"about": self.about, "has_custom_title": self._has_custom_title}

    def _add(self, record: Data, line: int, place: Any) -> None:
        kind = find_kind(record)
        if kind is None:
            self._add_bookkeeping(record)
            return
        index = self.main
        if self.agent is None and record.get("isSidechain") is True:
            index = self.side
        else:
            self._read_details(record)
        if not is_understood(record):
            self._count_unknown(record)
        if kind == PASSED:
            index.contract(record, line)
            self._link_progress(record)
            return
        count = len(index.rows)
        row = index.add(record, kind, line, place)
        if len(index.rows) > count and index is self.main:
            self._leaf = None  # something new was said since
        self._link_calls(record, row)

    def _read_details(self, record: Data) -> None:
        for name, value in pick_texts(record, DETAILS).items():
            self.about.setdefault(name, value)
        if "forkedFrom" in record:
            self.forked_from = get_text(as_object(record["forkedFrom"]), "sessionId")

    def _link_calls(self, record: Data, row: Row) -> None:
        """Note how sub-agents are found: by the result's bookkeeping, and by their prompt."""
        if row.kind == ANSWER:
            for call in list_calls(record):
                prompt = as_object(call.get("input")).get("prompt")
                if is_one_of(call.get("name"), AGENT_TOOLS) and isinstance(prompt, str):
                    self.prompts.setdefault(prompt.strip(), call["id"])
        elif row.kind == RESULTS and row.results:
            result = as_object(record.get("toolUseResult"))
            agent = result.get("agentId", result.get("runId"))
            if isinstance(agent, str):
                self.links.setdefault(agent, row.results[0])

    def _link_progress(self, record: Data) -> None:
        if not is_one_of(record.get("type"), CONTRACTED):
            self._count_unknown(record)
        data = as_object(record.get("data"))
        agent, call = get_text(data, "agentId"), get_text(record, "parentToolUseID")
        if data.get("type") == "agent_progress" and agent and call:
            self.links[agent] = call

    def _add_bookkeeping(self, record: Data) -> None:
        type_ = record.get("type")
        if type_ == "custom-title":
            self.about |= pick_texts(record, {"title": "customTitle"})
            self._has_custom_title = True
            self.exported = read_provenance(record) or self.exported
        elif type_ == "ai-title" and not self._has_custom_title:
            self.about |= pick_texts(record, {"title": "aiTitle"})
        elif type_ == "last-prompt":
            self._leaf = get_text(record, "leafUuid") or self._leaf
        elif not is_one_of(type_, BOOKKEEPING):
            self._count_unknown(record)

    def _count_unknown(self, record: Data) -> None:
        version = record.get("version") or self.about.get("version")
        name = NAME if version is None else f"{NAME} {version}"
        self._report.unknown[f"{record.get('type')} ({name})"] += 1

    def build_tree(self, report: ImportReport) -> ClaudeTree:
        """Return the tree of the file's own thread."""
        return ClaudeTree(self.main, self.source.fetch, self._leaf, report.mended)


class SessionFiles:
    """The files of one session: its own, and those of its sub-agents."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.report = ImportReport()
        self.sources: list[tuple[TranscriptSource, str | None]] = []  # and a sub-agent's id
        self._files: dict[str, ClaudeFile] = {}

    def read(self) -> SourceSession:
        """Return the session with the threads of its changed files."""
        threads: list[Thread] = []
        changed: list[TranscriptSource] = []
        for source, agent in self.sources:
            if not source.is_changed:
                continue
            changed.append(source)
            file = self._open(source, agent)
            if agent is not None:
                threads += self._build_agent_thread(file, agent)
                continue
            origin = None if file.forked_from is None else Origin(file.forked_from)
            threads += self._build_thread(file, None, origin)
            threads += self._list_side_threads(file)
        return SourceSession(NAME, self.id, threads, changed[0].path, self.report)

    def _open(self, source: TranscriptSource, agent: str | None) -> ClaudeFile:
        """Read a file, once."""
        if source.path not in self._files:
            report = self.report if source.is_changed else ImportReport()
            self._files[source.path] = ClaudeFile(source, agent, report)
        return self._files[source.path]

    def _build_thread(
        self, file: ClaudeFile, agent: str | None, origin: Origin | None
    ) -> list[Thread]:
        """Return the thread of a file, if anything was said in it."""
        if not file.main.rows:
            file.main.tail_rule.refuse("nothing was said in the window")
            return []

        def read_steps(report: ImportReport) -> Iterator[Step]:
            return file.build_tree(report).read_steps()

        thread = Thread(self.id, agent, read_steps, origin, dict(file.about))
        thread.source = file.source.path
        thread.tail = file.source.tail
        thread.has_global_ids = agent is None
        thread.exported = file.exported
        thread.state = file.get_state()
        thread.records = file.source.records
        return [thread]

    def _build_agent_thread(self, file: ClaudeFile, agent: str) -> list[Thread]:
        meta = as_object(file.source.read_sibling(f"{file.source.stem}.meta.json", self.report))
        call = get_text(meta, "toolUseId")
        if call is None and not file.main.tail_rule.is_tail:
            call = self._find_call(file, agent)
        entry = None if call is None else name_call(call)
        threads = self._build_thread(file, agent, Origin(self.id, call=entry, is_spawned=True))
        details = pick_texts(meta, {"title": "description", "agent_type": "agentType"})
        for thread in threads:
            thread.about = details | thread.about
        return threads

    def _find_call(self, file: ClaudeFile, agent: str) -> str | None:
        """Return the call that spawned an agent, by what the session knows of it or of the
        workflow that it is part of, else by the prompt's text."""
        others = [self._open(source, id) for source, id in self.sources if id != agent]
        workflow = file.source.path.rpartition("/")[0].rpartition("/")[2]
        for name in (agent, workflow):
            for other in others:
                if name in other.links:
                    return other.links[name]
        if not file.main.rows:
            return None
        return find_call_by_prompt(file.source.fetch(file.main.rows[0].place), others)

    def _list_side_threads(self, file: ClaudeFile) -> Iterator[Thread]:
        """Yield the threads of sub-agents inside the main file: one for each root."""
        if not file.side.rows:
            return
        for part in file.side.split():
            first = part.rows[0]
            call = find_call_by_prompt(file.source.fetch(first.place), [file])
            entry = None if call is None else name_call(call)
            origin = Origin(self.id, call=entry, is_spawned=True)

            def read_steps(report: ImportReport, part: RecordIndex = part) -> Iterator[Step]:
                return ClaudeTree(part, file.source.fetch, None, report.mended).read_steps()

            yield Thread(self.id, part.roots[0], read_steps, origin)


def find_call_by_prompt(record: Data, files: Sequence[ClaudeFile]) -> str | None:
    """Return the call with the text of a sub-agent's first record."""
    text = join_text(get_content(record)).strip()
    for file in files:
        if text in file.prompts:
            return file.prompts[text]
        for prompt, call in file.prompts.items():  # wrapped in a message to a teammate
            if prompt and text.startswith("<teammate-message") and prompt in text:
                return call
    return None


def read_sessions(sources: Sequence[TranscriptSource]) -> Iterator[SourceSession]:
    """Yield the sessions of a project's files that changed, earlier ones first."""
    sessions: dict[str, SessionFiles] = {}
    order: dict[str, tuple[str, bool, int]] = {}
    for source in sources:
        head: Sequence[Any] = source.peek() if source.is_changed else ()
        agent = find_agent(source, head)
        id = source.stem if agent is None else find_agent_session(source, head)
        files = sessions.setdefault(id, SessionFiles(id))
        files.sources.append((source, agent))
        if source.is_changed:
            place = find_place_in_order(source, head)
            order[id] = min(order.get(id, place), place)
    for id in sorted(order, key=order.__getitem__):
        files = sessions.pop(id)
        files.sources.sort(key=lambda one: one[1] is not None)  # sub-agents come last
        session = files.read()
        if session.threads:
            yield session


def find_agent(source: TranscriptSource, head: Sequence[Any]) -> str | None:
    """Return the sub-agent that a file belongs to. A file that did not change has no head."""
    for record in head:
        if isinstance(record, dict) and find_kind(record) is not None and "isSidechain" in record:
            return get_text(record, "agentId") if record["isSidechain"] is True else None
    is_named_so = source.stem.startswith("agent-") and not head
    return source.stem.removeprefix("agent-") if is_named_so else None


def find_agent_session(source: TranscriptSource, head: Sequence[Any]) -> str:
    """Return the session that a sub-agent's file belongs to."""
    session_folder, found, _ = source.path.partition(SUBAGENTS)
    if found:
        return session_folder.rpartition("/")[2]
    for record in head:
        session = get_text(as_object(record), "sessionId")
        if session is not None:
            return session
    return source.stem


def find_place_in_order(source: TranscriptSource, head: Sequence[Any]) -> tuple[str, bool, int]:
    """Return the place of a file among others: a copy comes after the file it was copied from.

    A session that continues a copy of another one begins with the same record, and is longer.
    """
    records = list_objects(list(head))
    times = [get_text(record, "timestamp") for record in records]
    is_fork = any("forkedFrom" in record for record in records)
    return next(filter(None, times), ""), is_fork, source.get_size()


def find_project(path: str) -> str:
    """Return the folder of a project, below which all its sessions are."""
    return path.partition(SUBAGENTS)[0].rpartition("/")[0]
