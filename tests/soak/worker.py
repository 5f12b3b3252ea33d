"""A process that does everything with a store until it is killed, and keeps a ledger of it.

    python -m tests.soak.worker URL LEDGER SEED

Every text it writes is new. A line in the ledger is written at once: `ok TOKEN AGENT SEQ` after a write was
acknowledged, `erasing AGENT SEQ` and `deleting AGENT` before something is taken away, and `size BYTES FILES`
now and then.
"""

import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable

import psutil

import backstory

ROOTS = 6  # sessions that there should be
FAMILY = "family"  # how the names of agents begin that everybody deletes
# The server is away, or somebody took away what an action was about. Any other error is a defect.
MAY_HAPPEN = (
    backstory.Busy,
    backstory.CannotOpen,
    backstory.ConnectionLost,
    backstory.Conflict,
    backstory.NameTaken,
    backstory.NotFound,
)


class Worker:
    """Random actions on a store."""

    def __init__(self, url: str, ledger: str, seed: str) -> None:
        self.store = opened(url)
        self.choose = random.Random(seed)
        self.seed = seed
        self.numbers = itertools.count()
        self.ledger = os.open(ledger, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self.actions: dict[Callable[[backstory.Agent], object], int] = {
            self.append: 30,
            self.extend: 15,
            self.keyed: 8,
            self.fork: 3,
            self.spawn: 3,
            self.family: 15,
            self.mark: 6,
            self.rewind: 5,
            self.jump: 5,
            self.undo: 5,
            self.redo: 3,
            self.clear: 2,
            self.compact: 2,
            self.note: 5,
            self.context: 10,
            self.follow: 3,
            self.search: 5,
            self.erase: 3,
            self.delete: 2,
            self.start: 1,
            self.backup: 1,
            self.verify: 1,
        }

    def run(self) -> None:
        names = list(self.actions)
        for step in itertools.count():
            if step % 25 == 0:
                self.say_size()
            action = self.choose.choices(names, list(self.actions.values()))[0]
            try:
                action(self.agent())
            except MAY_HAPPEN:
                continue

    def agent(self) -> backstory.Agent:
        latest = self.store.agents(order="updated", limit=40)
        agents = [agent for agent in latest if not agent.name.startswith(FAMILY)]
        if len(agents) < ROOTS:
            return self.store.start(f"root {self.token()}")
        return self.choose.choice(agents)

    def token(self) -> str:
        return f"t{self.seed}n{next(self.numbers)}"

    def say(self, *what: object) -> None:
        os.write(self.ledger, (" ".join(map(str, what)) + "\n").encode())

    def say_size(self) -> None:
        me = psutil.Process()
        self.say("size", me.memory_info().rss, me.num_fds())

    def wrote(self, agent: backstory.Agent, *events: backstory.Event) -> None:
        for event in events:
            self.say("ok", event.content, agent.id, event.seq)

    def append(self, agent: backstory.Agent) -> None:
        self.wrote(agent, agent.user(self.token()))

    def extend(self, agent: backstory.Agent) -> None:
        batch = [("assistant", self.token(), None) for _ in range(self.choose.randrange(2, 30))]
        self.wrote(agent, *agent.extend(batch))

    def keyed(self, agent: backstory.Agent) -> None:
        token = self.token()
        for _ in range(2):  # as a client does that did not hear the answer
            event = agent.append("user", token, key=token)
        self.wrote(agent, event)

    def note(self, agent: backstory.Agent) -> None:
        self.wrote(agent, agent.note(self.token()))

    def fork(self, agent: backstory.Agent) -> None:
        child = agent.fork(self.token(), at=self.choose.randint(0, agent.head))
        self.append(child)

    def spawn(self, agent: backstory.Agent) -> None:
        self.append(agent.spawn(self.token()))

    def family(self, agent: backstory.Agent) -> None:
        """Spawn, write and delete with the same few keys as all others do. Nobody can know which of
        these events are left; `verify` says whether the store is sound."""
        root = self.store.ensure(f"{FAMILY} {self.choose.randrange(2)}")
        members = self.store.agents(session=root.id)
        if not members:  # another worker has deleted the family since
            return
        newest = members[-1]
        try:
            child = newest.spawn(
                f"{FAMILY} {self.token()}", key=f"child {self.choose.randrange(3)}"
            )
        except backstory.KeyTaken:
            child = newest.fork(f"{FAMILY} {self.token()}")
        child.user("what a child says")
        if self.choose.random() < 0.5:
            gone = self.choose.choice((root, newest, child))
            self.store.delete(gone, below=self.choose.random() < 0.5)

    def start(self, agent: backstory.Agent) -> None:
        self.append(self.store.ensure(f"key {self.choose.randrange(40)}"))

    def mark(self, agent: backstory.Agent) -> None:
        agent.mark("here")

    def rewind(self, agent: backstory.Agent) -> None:
        agent.rewind()

    def jump(self, agent: backstory.Agent) -> None:
        agent.jump(self.choose.randint(0, agent.head))

    def undo(self, agent: backstory.Agent) -> None:
        agent.undo()

    def redo(self, agent: backstory.Agent) -> None:
        agent.redo()

    def clear(self, agent: backstory.Agent) -> None:
        agent.clear()

    def compact(self, agent: backstory.Agent) -> None:
        agent.compact("what was said before", keep=2)

    def context(self, agent: backstory.Agent) -> None:
        agent.conversation()

    def follow(self, agent: backstory.Agent) -> None:
        with agent.follow(after=max(0, agent.head - 5), timeout=0.05) as followed:
            seqs = [event.seq for event in followed]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs))) if seqs else True, f"a gap: {seqs}"

    def search(self, agent: backstory.Agent) -> None:
        self.store.search(f"t{self.choose.randrange(8)}n*", agent=self.choose.choice([None, agent]))

    def erase(self, agent: backstory.Agent) -> None:
        said = [
            event
            for event in agent.events(after=agent.fork_seq)
            if event.kind in ("user", "assistant")
        ]
        own = [
            event.seq for event in said if "copy_of" not in (event.data or {})
        ]  # that would go, too
        if own:
            position = self.choose.choice(own)
            self.say("erasing", agent.id, position)
            agent.erase([position], why="a soak")

    def delete(self, agent: backstory.Agent) -> None:
        self.say("deleting", agent.id)
        self.store.delete(agent.id)

    def backup(self, agent: backstory.Agent) -> None:
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "copy.db")
            self.store.backup(copy)
            with backstory.open(copy, read_only=True) as store:
                self.check(store)

    def verify(self, agent: backstory.Agent) -> None:
        self.check(self.store)

    def check(self, store: backstory.Store) -> None:
        found = store.verify()
        assert not found, found[:3]


def opened(url: str) -> backstory.Store:
    """The store, as soon as its server is back."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return backstory.open(url)
        except backstory.StorageError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    Worker(*sys.argv[1:]).run()
