"""The table of kinds: which position an event continues, and who sees the event."""

from enum import Enum
from typing import Literal, NamedTuple

EventKind = Literal[
    "system",
    "user",
    "assistant",
    "tool_call",
    "tool_result",
    "mark",
    "note",
    "clear",
    "rewind",
    "jump",
]


class BaseRule(Enum):
    """The position that an event continues."""

    BEFORE = "the event before it"
    NOTHING = "position 0, the empty context"
    MARK = "a mark on the mark stack"
    ANYWHERE = "any earlier position"

    @property
    def is_target(self) -> bool:
        """True if the event names the position, which may be invalid."""
        return self in (BaseRule.MARK, BaseRule.ANYWHERE)


class KindRule(NamedTuple):
    """One row of the table."""

    base: BaseRule = BaseRule.BEFORE
    is_shown: bool = True  # is it part of the context?
    is_message: bool = False  # does a model receive it?
    is_tool: bool = False  # does its data name a tool call?
    needs_content: bool = False
    must_not_be_blank: bool = False  # checked where people type it


KINDS = {
    "system": KindRule(is_message=True, needs_content=True, must_not_be_blank=True),
    "user": KindRule(is_message=True, needs_content=True, must_not_be_blank=True),
    "assistant": KindRule(is_message=True, needs_content=True),
    "tool_call": KindRule(is_message=True, is_tool=True),
    "tool_result": KindRule(is_message=True, is_tool=True, needs_content=True),
    "mark": KindRule(),
    "note": KindRule(needs_content=True),
    "clear": KindRule(BaseRule.NOTHING, is_shown=False),
    "rewind": KindRule(BaseRule.MARK),
    "jump": KindRule(BaseRule.ANYWHERE),
}

MESSAGE_KINDS = frozenset(name for name, rule in KINDS.items() if rule.is_message)
CONTROL_KINDS = frozenset(KINDS) - MESSAGE_KINDS
TOOL_KINDS = frozenset(name for name, rule in KINDS.items() if rule.is_tool)
ANSWER_KINDS = frozenset({"assistant", "tool_call"})  # what a model writes
TEXT_KINDS = MESSAGE_KINDS - TOOL_KINDS
NEVER_BLANK = frozenset(name for name, rule in KINDS.items() if rule.must_not_be_blank)
NEEDS_CONTENT = frozenset(name for name, rule in KINDS.items() if rule.needs_content)

# A move continues another position than the one before it. A rewind or a jump names its target; if
# that is invalid, the event is not shown and has no effect.
MOVE_KINDS = frozenset(name for name, rule in KINDS.items() if rule.base is not BaseRule.BEFORE)
TARGETED_KINDS = frozenset(name for name, rule in KINDS.items() if rule.base.is_target)
ALWAYS_SHOWN = frozenset(name for name, rule in KINDS.items() if rule.is_shown) - TARGETED_KINDS
