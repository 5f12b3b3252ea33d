"""What an import did: one value for each session, and their sums. Pure."""

from collections import Counter
from dataclasses import dataclass, field

from backstory.transcripts.transcript import Report


@dataclass
class Imported:
    """One session of another tool, and what of it is new in the store."""

    tool: str
    source: str
    id: str
    agent: str | None = None  # the id of its main agent
    title: str | None = None
    is_new: bool = False
    new_agents: int = 0
    new_events: int = 0
    branches: int = 0  # of the new events: jumps
    cuts: int = 0  # of the new events: compactions and clears
    open_calls: int = 0  # calls that never came to a result
    unfinished: int = 0  # answers that are still being written
    report: Report = field(default_factory=Report)

    @property
    def has_news(self) -> bool:
        """Whether anything was added."""
        return bool(self.new_events or self.new_agents)


@dataclass
class Outcome:
    """A whole import."""

    sessions: list[Imported] = field(default_factory=list)
    files: Counter[str] = field(default_factory=Counter)  # by tool: how many there are
    report: Report = field(default_factory=Report)  # what belongs to no session
    masked: Counter[str] = field(default_factory=Counter)  # secrets, by their shape

    @property
    def has_news(self) -> bool:
        """Whether anything was added."""
        return any(session.has_news for session in self.sessions)

    def everything(self) -> Report:
        """One report over all sessions."""
        whole = Report()
        whole.add(self.report)
        for session in self.sessions:
            whole.add(session.report)
        return whole
