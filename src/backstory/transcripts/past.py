"""What a log has of a source, and where in it the contexts of the source's units are whole. Pure.

A source that grows may add what belongs before something that was imported already: the result of a call that
others continue, one more line of an answer, a parent after its child. So for each unit that the log has, it
is checked whether the line there still says what the source says.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from backstory.log.data_keys import NATIVE
from backstory.transcripts.transcript import Entry, Unit

SPOKEN = frozenset({"system", "user", "assistant", "tool_call", "tool_result", "clear"})
RESULT = "tool_result"
SAID = ("text", "tool_use")  # blocks of a native form that are events, too


class Begun(NamedTuple):
    """What a log has of an answer's words, which may be only their beginning."""

    words: str
    rests: tuple[int, ...] = ()  # where the words are that came after the first ones


Rest = Callable[
    [str, str], str | None
]  # like `rest_of`, whatever was done to the words before they were written


def rest_of(words: str, beginning: str) -> str | None:
    """What follows in an answer's words after a beginning; None if they do not begin with it."""
    return words[len(beginning) :] if words.startswith(beginning) else None


class Link(NamedTuple):
    """An event as a link of the line that it is on."""

    kind: str
    base: int | None  # None: the event before


def copy_id(entry: str, number: int) -> str:
    """The id of an entry's copy. It must not be one that a source could give: Codex numbers equal items."""
    return f"{entry}~copy{number}"


class Known(NamedTuple):
    """What a log has of a source already."""

    places: Mapping[str, int]  # an entry's id -> its position
    head: int = 0
    time: int | None = None  # of the head
    unfinished: Mapping[
        str, Begun
    ] = {}  # answers that may have been written before they were whole
    link: Callable[[int], Link] = lambda place: Link("user", None)  # the event at a position
    key: Callable[[int], str | None] = lambda place: None  # of the event at a position
    erased: Set[str] = frozenset()  # entries that nothing may say again
    is_rewritten: bool = False  # it has copies of what once was in a wrong place
    copies: Mapping[str, Sequence[int]] = {}  # where they are, by the entry's id, oldest first
    read: Callable[[Sequence[int]], Mapping[int, Entry]] = lambda places: {}  # what events say
    leaf: str | None = (
        None  # the unit that the tool was at; None: the last import did not come to its end
    )
    is_tail: bool = False  # the steps do not begin at the beginning
    is_trusted: bool = False  # where the log has something is where it belongs
    exported_at: int | None = (
        None  # the source is a file of ours: where the context ended that was exported
    )
    inherited: int = 0  # up to this position it is that of a parent, of which a fork's source may lack the beginning
    has_forms: bool = True  # native forms are written as they are
    rest: Rest = rest_of


class _Form(NamedTuple):
    """How many blocks there are in the native form of an answer: those that events say, too, and others."""

    said: int
    thoughts: int


def _form(entry: Entry) -> _Form:
    match (entry.data or {}).get(NATIVE):
        case {"wire": [*blocks]}:
            said = sum(isinstance(block, dict) and block.get("type") in SAID for block in blocks)
            return _Form(said, len(blocks) - said)
    return _Form(0, 0)


class Spot(NamedTuple):
    """Where a unit's context is whole, but for results that are elsewhere: they find their calls from further
    down the line."""

    end: int
    results: Mapping[str, set[int]] = {}  # where those are, by their ids


class Past:
    """The log of a source: what it had, and the links of what was written since."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._written: list[Link] = []  # the events after those that the log had

    def places(self, entries: Iterable[Entry]) -> list[int]:
        """Where the log has entries now: their latest copies, or events; and pieces that came later."""
        return [place for entry in entries for place in self._places(entry.id)]

    def _places(self, entry: str) -> Iterator[int]:
        known = self._known
        if entry not in known.places:
            return
        copies = () if known.exported_at is not None else known.copies.get(entry, ())
        first = copies[-1] if copies else known.places[entry]
        yield first
        if entry in known.unfinished:
            yield from (place for place in known.unfinished[entry].rests if place > first)

    def is_new_form(self, unit: Unit, new: Sequence[Entry], *, is_last: bool) -> bool:
        """Whether an answer has grown so that its native form, which is with its first event, has to be
        written again: nothing could be added to what it was. Reasoning alone is noticed only in an answer
        that is the last thing in the log: otherwise each answer would have to be read for it."""
        known = self._known
        grown = [entry for entry in new if entry.kind != RESULT]
        if not ((grown or is_last) and known.has_forms) or known.is_trusted:
            return False
        if any(id in known.erased for entry in unit.entries for id in (entry.id, entry.copy_of)):
            return False
        formed = (
            entry
            for entry in unit.entries
            if NATIVE in (entry.data or {}) and entry.id in known.places
        )
        places = {next(self._places(entry.id)): entry for entry in formed}
        stored = known.read(list(places)) if places else {}
        return any(_has_grown(places[place], before, grown) for place, before in stored.items())

    def spot(self, unit: Unit, tip: int, floor: int) -> Spot | None:
        """Where the context of a unit is whole after that of the one it continues, as far as the log has it.
        That one ends at a tip, or at a floor without results that came late. In which order the unit's own
        events are does not matter."""
        own = set(self.places(unit.entries))
        if not own:
            return Spot(tip)
        low, high = min(own), max(own)
        if self._known.is_trusted or (low - 1 == tip and high - low == len(own) - 1):
            return Spot(high)
        results = {
            entry.id: self._all_places(entry.id) for entry in unit.entries if entry.kind == RESULT
        }
        firm = {
            place for place in own.difference(*results.values()) if self._link(place).kind in SPOKEN
        }
        passed = self._passed(firm or own, floor, tuple(f"{entry.id}+" for entry in unit.entries))
        if passed is None:
            return None
        return Spot(
            max(firm or own), {id: found for id, found in results.items() if not found & passed}
        )

    def _all_places(self, entry: str) -> set[int]:
        """Where the log has an entry: the event, and its copies."""
        places = self._known.places
        return {places[entry], *self._known.copies.get(entry, ())} if entry in places else set()

    def _passed(self, places: set[int], base: int, pieces: tuple[str, ...]) -> set[int] | None:
        """The positions of a unit, and of results and erased pieces between them, if nothing else is on the
        line from the last of them back to a base."""
        base, left = self.spoken(base), set(places)
        passed: set[int] = set()
        at = max(places)
        while left or at != base:
            if at <= base or not (at in left or self._is_passed(at, pieces)):
                return None
            left.discard(at)
            passed.add(at)
            at = self.before(at)
        return passed

    def _is_passed(self, place: int, pieces: tuple[str, ...]) -> bool:
        """Whether an event is a result, or an erased piece of an answer."""
        if self._link(place).kind == RESULT:
            return True
        key = self._known.key(place) if place <= self._known.head else None
        return key is not None and key.startswith(pieces)

    def missing(self, results: Mapping[str, set[int]], end: int) -> set[str]:
        """The ids of those results that are nowhere on the line that ends at a position."""
        wanted = {place: id for id, places in results.items() for place in places}
        left, lowest, at = set(results), min(wanted, default=end), self.spoken(end)
        while left and at >= max(lowest, 1):
            left.discard(wanted.get(at, ""))
            at = self.before(at)
        return left

    def write(self, kind: str, base: int | None) -> None:
        """Take in an event that is written after the others."""
        self._written.append(Link(kind, base))

    def _link(self, place: int) -> Link:
        number = place - self._known.head - 1
        return self._known.link(place) if number < 0 else self._written[number]

    def before(self, place: int) -> int:
        """The position of what was said before an event, clears crossed."""
        kind, base = self._link(place)
        return self.spoken(place - 1 if base is None or kind == "clear" else base)

    def spoken(self, place: int) -> int:
        """The position at or before one, at which something was said."""
        while place > 0:
            kind, base = self._link(place)
            if kind in SPOKEN:
                break
            place = place - 1 if base is None else base
        return max(place, 0)


def _has_grown(entry: Entry, stored: Entry, grown: Sequence[Entry]) -> bool:
    """Whether the native form of an entry has become more than words or calls can be added to."""
    if stored.kind != entry.kind:
        return False
    now, before = _form(entry), _form(stored)
    is_piece = any(other.id.startswith(f"{entry.id}+") for other in grown)
    is_closed = bool(before.said) and (is_piece or before.said > 1)
    return now.thoughts > before.thoughts or (now.said > before.said and is_closed)
