"""The table of kinds: what each kind of event continues, and whether it is part of the context and of a
request."""

from enum import Enum
from typing import NamedTuple


class Base(Enum):
    """Which position an event continues."""

    BEFORE = "the event before it"
    NOTHING = "position 0, the empty context"
    MARK = "a mark on the mark stack"
    ANYWHERE = "any earlier position"


class Kind(NamedTuple):
    """One row of the table."""

    base: Base = Base.BEFORE
    shows: bool = True  # is it part of the context?
    speaks: bool = False  # is a model given it?
    is_tool: bool = False  # does its data name a tool call?
    needs_content: bool = False
    by_people: bool = False  # do people write it? Then it must not be blank


KINDS = {
    "system": Kind(speaks=True, needs_content=True, by_people=True),
    "user": Kind(speaks=True, needs_content=True, by_people=True),
    "assistant": Kind(speaks=True, needs_content=True),
    "tool_call": Kind(speaks=True, is_tool=True),
    "tool_result": Kind(speaks=True, is_tool=True, needs_content=True),
    "mark": Kind(),
    "note": Kind(needs_content=True),
    "clear": Kind(Base.NOTHING, shows=False),
    "rewind": Kind(Base.MARK),
    "jump": Kind(Base.ANYWHERE),
}

SPOKEN = frozenset(name for name, kind in KINDS.items() if kind.speaks)
SILENT = frozenset(KINDS) - SPOKEN
TOOL_KINDS = frozenset(name for name, kind in KINDS.items() if kind.is_tool)
TEXT_KINDS = SPOKEN - TOOL_KINDS
MOVES = frozenset(name for name, kind in KINDS.items() if kind.base in (Base.MARK, Base.ANYWHERE))
FRESH_STARTS = frozenset(name for name, kind in KINDS.items() if kind.base is Base.NOTHING)
ALWAYS_SHOWN = frozenset(name for name, kind in KINDS.items() if kind.shows) - MOVES
NEEDS_CONTENT = frozenset(name for name, kind in KINDS.items() if kind.needs_content)
SAID_BY_PEOPLE = frozenset(name for name, kind in KINDS.items() if kind.by_people)
