"""What several formats share: units in a row, unique ids of calls, and reporting once. Pure."""

from collections.abc import Callable, Iterable, Iterator

from backstory.transcripts.transcript import Entry, Move, Report, Step, Unit


def reported(
    report: Report, read: Callable[[Report], Iterator[Step]]
) -> Callable[[], Iterator[Step]]:
    """The `steps` of a thread, which read the source each time, but report problems only once."""
    told = False

    def steps() -> Iterator[Step]:
        nonlocal told
        met = Report()
        yield from read(met)
        if not told:
            told = True
            report.add(met)

    return steps


def chained(units: Iterable[tuple[str, Iterable[Entry]]]) -> Iterator[Step]:
    """Units that each continue the one before. The last one is live, even if an earlier one came late."""
    after: str | None = None
    for number, (id, entries) in enumerate(units, 1):
        yield Unit(id, after, tuple(entries), number)
        after = id
    if after is not None:
        yield Move(after, is_end=True)


class Calls:
    """Ids of calls, made unique if a source uses one twice; a result belongs to the oldest open call."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self._open: list[tuple[str, str]] = []  # the source's id and ours, oldest first

    def call(self, id: str) -> str:
        """The id of a call."""
        count = self._used[id] = self._used.get(id, 0) + 1
        unique = id if count == 1 else f"{id}#{count}"
        self._open.append((id, unique))
        return unique

    def result(self, id: str | None) -> str | None:
        """The id of the call that a result with this id belongs to; None names the oldest open one."""
        for place, (given, unique) in enumerate(self._open):
            if id is None or given == id:
                del self._open[place]
                return unique
        return id

    def entry(self, entry: Entry) -> Entry:
        """An entry of a call or result with its id made unique."""
        data = entry.data or {}
        if entry.kind == "tool_call":
            return entry._replace(data=data | {"id": self.call(data["id"])})
        if entry.kind == "tool_result":
            return entry._replace(data=data | {"id": self.result(data["id"]) or data["id"]})
        return entry
