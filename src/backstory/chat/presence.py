"""Other chats on the same agent: who has it open, and when they write to it.

A chat records that it has an agent open in the agent's `about`, with its host and process id. A chat that was
killed leaves this entry behind; on the same host we can tell that the process is gone.
"""

import os
import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import Error
from backstory.log.events import Event
from backstory.storage.follow import Follower

OPEN = "open:"  # how the keys begin; host and process follow


class OtherChat(NamedTuple):
    """A chat that has an agent open."""

    host: str
    process: int
    since: str

    def __str__(self) -> str:
        where = "" if self.host == platform.node() else f" on {self.host}"
        return f"process {self.process}{where}, since {self.since[:16].replace('T', ' ')} UTC"


class Presence:
    """Announces that this process has an agent open, and notices what others write to it."""

    def __init__(self, heard: Callable[[], None]) -> None:
        """`heard` is called in another thread when something was committed to the agent."""
        self._heard = heard
        self._agent: Agent | None = None
        self._follower: Follower[Event] | None = None

    def enter(self, agent: Agent) -> None:
        """Announce this agent instead of the previous one, and follow it."""
        if agent == self._agent:
            return
        self.leave()
        self._agent = agent
        started = _start_of(os.getpid())
        with suppress(Error):  # a chat also works if it cannot announce itself
            agent.describe(
                **{_key(os.getpid()): {"since": datetime.now(UTC).isoformat(), "start": started}}
            )
        self._follower = agent.follow()
        threading.Thread(target=self._listen, args=(self._follower,), daemon=True).start()

    def leave(self) -> None:
        """Withdraw the announcement, and stop following."""
        if self._follower is not None:
            self._follower.close()
        if self._agent is not None:
            with suppress(Error):
                self._agent.describe(**{_key(os.getpid()): None})
        self._agent = self._follower = None

    def _listen(self, follower: Follower[Event]) -> None:
        with suppress(Error):  # if the store has a problem, the editor reports it
            for _ in follower:
                self._heard()


def other_chats(agent: Agent) -> list[OtherChat]:
    """The chats of other processes that have an agent open, as it was read from the store."""
    found = []
    for key, value in agent.about.items():
        host, colon, process = key.removeprefix(OPEN).rpartition(":")
        if (
            not key.startswith(OPEN)
            or not colon
            or not process.isdecimal()
            or not isinstance(value, dict)
        ):
            continue
        if host != platform.node() or _is_running(int(process), value.get("start")):
            found.append(OtherChat(host, int(process), str(value.get("since", ""))))
    return found


def _key(process: int) -> str:
    return f"{OPEN}{platform.node()}:{process}"


def _is_running(process: int, start: Any) -> bool:
    """Whether a process of this host still runs, and is the same one: process ids are reused."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # someone else's
        pass
    return bool(start == _start_of(process))


def _start_of(process: int) -> str | None:
    """When a process was started, in clock ticks, or None where /proc does not say."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]
