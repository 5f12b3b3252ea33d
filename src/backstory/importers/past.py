"""What a log has of a source, and where in it the contexts of the source's units are whole. Pure.

A source that grows may add what belongs before something that was imported already: the result of a call that
others continue, one more line of an answer, a parent behind its child. So for each unit that the log has, it
is checked whether its context there is still the one that the source gives it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from backstory.core.messages import NATIVE
from backstory.importers.transcript import Entry, Unit

SPOKEN = frozenset({"system", "user", "assistant", "tool_call", "tool_result", "clear"})
SAID = ("text", "tool_use")  # blocks of a native form that are events, too
FAR = 64  # units that a result may be behind its call's


class Begun(NamedTuple):
    """What a log has of an answer's words, which may be only their beginning."""

    words: str
    rests: tuple[int, ...] = ()  # where the words stand that came behind the first ones


Rest = Callable[
    [str, str], str | None
]  # like `rest_of`, whatever was done to the words before they were written


def rest_of(words: str, beginning: str) -> str | None:
    """What follows in an answer's words behind a beginning; None if they do not begin with it."""
    return words[len(beginning) :] if words.startswith(beginning) else None


class Link(NamedTuple):
    """An event as a link of the line that it is on."""

    kind: str
    base: int | None  # None: the event before


class Copy(NamedTuple):
    """The latest copy of an entry that was written again in its right place."""

    number: int
    place: int


def copy_id(entry: str, number: int) -> str:
    """The id of an entry's copy. It must not be one that a source could give: Codex numbers equal items."""
    return f"{entry}~copy{number}"


class Known(NamedTuple):
    """What a log has of a source already."""

    places: Mapping[str, int]  # an entry's id -> its position
    head: int = 0
    stands_at: int = 0  # the position whose context the head's is: the head, or where its jump went
    time: int | None = None  # of the head
    unfinished: Mapping[str, Begun] = {}  # answers that may have been written before they were whole
    link: Callable[[int], Link] = lambda place: Link("user", None)  # the event at a position
    key: Callable[[int], str | None] = lambda place: None  # of the event at a position
    erased: Set[str] = frozenset()  # entries that nothing may say again
    is_rewritten: bool = False  # it has copies of what once was in a wrong place
    copies: Mapping[str, Copy] = {}  # by the entry's id
    read: Callable[[Sequence[int]], Mapping[int, Entry]] = lambda places: {}  # what events say
    is_tail: bool = False  # the steps do not begin at the beginning
    is_trusted: bool = False  # where the log has something is where it belongs
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


class _Part(NamedTuple):
    """A unit, and where the log has it: its latest copies, and what these are copies of."""

    after: str | None
    latest: Sequence[int]
    first: Sequence[int]


class Past:
    """The units of a source that a log has, as they are told one after another."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._seen: set[int] = set()  # the positions of what the source has
        self._parts: dict[str, _Part] = {}  # units that are nowhere whole, or that the log has twice
        self._written: list[Link] = []  # the events behind those that the log had

    def places(self, entries: Sequence[Entry]) -> list[int]:
        """Where the log has entries now: their latest copies, or events; and pieces that came later."""
        return [place for entry in entries for place in self._places(entry.id, self._known.copies)]

    def _places(self, entry: str, copies: Mapping[str, Copy]) -> Iterator[int]:
        first = self._known.places.get(entry)
        if first is None:
            return
        first = copies[entry].place if entry in copies else first
        yield first
        if entry in self._known.unfinished:
            yield from (place for place in self._known.unfinished[entry].rests if place > first)

    def is_new_form(self, unit: Unit, told: Sequence[int], new: Sequence[Entry]) -> bool:
        """Whether an answer has grown so that its native form, which is with its first event, has to be
        written again: behind what it was, nothing could be added to it."""
        known = self._known
        grown = [entry for entry in new if entry.kind != "tool_result"]
        if not (told and (grown or known.stands_at in told) and known.has_forms) or known.is_trusted:
            return False
        own = (entry for entry in unit.entries if entry.copy_of is None)
        first = next((entry for entry in own if NATIVE in (entry.data or {})), None)
        if first is None or any(entry.id in known.erased for entry in unit.entries):
            return False
        place = next(self._places(first.id, known.copies), None)
        stored = known.read([place]).get(place) if place is not None else None
        if stored is None or stored.kind != first.kind:
            return False
        now, before = _form(first), _form(stored)
        is_piece = any(entry.id.startswith(f"{first.id}+") for entry in grown)
        is_closed = bool(before.said) and (is_piece or before.said > 1)
        return now.thoughts > before.thoughts or (now.said > before.said and is_closed)

    def tip(self, unit: Unit, places: Sequence[int], tips: Mapping[str | None, int]) -> int | None:
        """The position at which the context of a unit is whole, if there is one: as far as the log has it."""
        self._seen.update(places)
        tip = tips.get(unit.after)
        if not places:
            self._parts[unit.id] = _Part(unit.after, (), ())
        elif self._known.is_trusted:
            tip = max(places)
        else:
            tip = self._whole(unit, places, tips)
        return tip

    def _whole(self, unit: Unit, places: Sequence[int], tips: Mapping[str | None, int]) -> int | None:
        base = tips.get(unit.after)
        own = set(places)
        low, high = min(own), max(own)
        has_copies = any(entry.id in self._known.copies for entry in unit.entries)
        first = [p for entry in unit.entries for p in self._places(entry.id, {})] if has_copies else places
        part = _Part(unit.after, places, first)
        if has_copies:
            self._parts[unit.id] = part
        if low - 1 == base and high - low == len(own) - 1:
            return high
        tip = self._end_of(part, tuple(f"{entry.id}+" for entry in unit.entries), tips)
        if tip is None:
            self._parts[unit.id] = part
        return tip

    def _end_of(self, part: _Part, pieces: tuple[str, ...], tips: Mapping[str | None, int]) -> int | None:
        """Where a unit ends behind one that is whole, with those between them that are not whole by
        themselves."""
        parts, after = [part], part.after
        while len(parts) < FAR:
            base = tips.get(after)
            if base is not None:
                ways = [[set(one.latest) for one in parts], [set(one.first) for one in parts]]
                ends = (self._end(way, pieces, base) for way in (ways if ways[0] != ways[1] else ways[:1]))
                end = next((end for end in ends if end is not None), None)
                if end is not None:
                    return end
            if after not in self._parts or after is None:
                return None
            parts.append(self._parts[after])
            after = self._parts[after].after
        return None

    def _end(self, parts: list[set[int]], pieces: tuple[str, ...], base: int) -> int | None:
        """The last position of some units, if the line up to it has all that they say, and nothing else of
        the source, behind a base. Results may be further down: they find their calls."""
        numbers = {place: number for number, part in enumerate(parts) for place in part}
        end = at = self.spoken(max(numbers))
        newest = 0
        while numbers:
            number = numbers.pop(at, None)
            if number is None:
                if not self._is_passed(at, pieces):
                    return None
            elif self._link(at).kind != "tool_result":
                if number < newest:
                    return None
                newest = number
            at = self.before(at)
        base = self.spoken(base)
        while at != base and (at not in self._seen if base == 0 and at else self._is_passed(at, pieces)):
            at = self.before(at)  # what stood before the first unit may have vanished from the source
        return end if at == base else None

    def _is_passed(self, place: int, pieces: tuple[str, ...]) -> bool:
        """Whether an event is not the source's, or an erased piece of an answer."""
        key = self._known.key(place) if 0 < place <= self._known.head else ""
        return key is None or key.startswith(pieces)

    def write(self, kind: str, base: int | None) -> None:
        """Take in an event that is written behind the others."""
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
