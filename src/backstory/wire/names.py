"""Ids of calls and names of tools as a service accepts them: kept where they are legal, else hashed."""

import hashlib
import re

from backstory.wire.formats.base import Format
from backstory.wire.rows import Report
from backstory.wire.turns import StepCall, is_blank

NO_NAME = "unknown_tool"


class Names:
    """Rule 6: legal and unique ids stay; others become a hash of the id and its ordinal, because replacing
    single characters could make two ids equal. The same goes for names of tools."""

    def __init__(self, format: Format, report: Report) -> None:
        self.taken: set[str] = set()
        self._format = format
        self._report = report
        self._names: dict[str, str] = {}
        self._ordinals: dict[str | None, int] = {}

    def give(self, call: StepCall) -> None:
        """Set the id and the name with which a call is sent."""
        name = self._names.get(call.name)
        if name is None:
            name = self._names[call.name] = legal_name(call.name, self._format.tool_names)
        if name != call.name:
            why = f"{self._format.name} refuses the tool name {call.name!r}: it is {name!r}"
            self._report("name", call.at, why)
            call.name = name
        pattern, key = self._format.call_ids, call.key
        if pattern is None:
            call.id = ""
            return
        if key is None or key in self.taken or not pattern.fullmatch(key) or key.isspace():
            call.id = self._hashed(key)
            why = "was used before" if key in self.taken else "is not one that the service accepts"
            self._report("id", call.at, f"the id {key!r} {why}: it is {call.id!r}")
        self.taken.add(call.id)

    def _hashed(self, key: str | None) -> str:
        ordinal = self._ordinals.get(key, 0)
        while (id := hashed(key, ordinal)) in self.taken:
            ordinal += 1
        self._ordinals[key] = ordinal + 1
        return id


def hashed(key: str | None, ordinal: int) -> str:
    """An id that every service accepts, made from any other."""
    return "call_" + hashlib.sha256(f"{ordinal}:{key or ''}".encode()).hexdigest()[:24]


def legal_name(name: str, pattern: re.Pattern[str]) -> str:
    """The name of a tool as the service accepts it: still readable, and unique."""
    if pattern.fullmatch(name):
        return name
    if is_blank(name):
        return NO_NAME
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40].strip("_") or "tool"
    unique = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{readable if readable[0].isalpha() else f'tool_{readable}'}_{unique}"
