"""The random operations of a client, and the ledger of what was acknowledged.

Every text that is written contains a new token, such as `<t17>`.
"""

import io
import random
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import backstory
from tests.scheduler.turns import OPERATION, pass_gate

ROOT, FORK, SUB, IMPORTED = "root", "fork", "sub", "imported"  # keys of agents
# Reasons to refuse an import, if others have created or deleted its agents.
REFUSALS = ("the store has another agent with", "was deleted from this store")
TOKEN = re.compile(r"<t\d+>")
# The errors that an operation may raise because of another client.
DOCUMENTED = (
    backstory.NotFound,
    backstory.Conflict,
    backstory.KeyTaken,
    backstory.NameTaken,
)


class Birth(NamedTuple):
    """One life of an agent. An agent with a key may be deleted and created again with its id."""

    id: str
    created_at: datetime


class Parent(NamedTuple):
    """The agent that another one was forked or spawned from, and what that one inherits."""

    birth: Birth
    fork_seq: int


class Position(NamedTuple):
    """A position in the log of an agent."""

    owner: Birth
    seq: int


def find_birth(agent: backstory.Agent) -> Birth:
    return Birth(agent.id, agent.created_at)


def find_tokens(text: str | None) -> list[str]:
    return TOKEN.findall(text or "")


class Ledger:
    """What the store has acknowledged."""

    def __init__(self) -> None:
        self.parents: dict[Birth, Parent | None] = {}  # of all agents that were returned
        self.written: dict[str, Position] = {}  # the positions of tokens
        self.erased: set[str] = set()  # tokens
        self.has_expired_events = False
        self.deleted: set[Birth] = set()
        self.deleted_below: set[Birth] = set()
        self.expired: set[str] = set()  # ids of agents
        self.imported: dict[Birth, Parent | None] = {}  # the agents of the export, with parents
        self.imported_tokens: set[str] = set()
        # Of operations whose outcome is unknown: their tokens, and their names.
        self.uncertain_tokens: set[str] = set()
        self.uncertain_operations: set[str] = set()
        self._tokens = 0

    @property
    def last_token(self) -> int:
        return self._tokens

    def note_uncertain(self, operation: str, last_token: int) -> None:
        """Note that an operation may have happened, which began after `last_token`."""
        self.uncertain_operations.add(operation)
        self.uncertain_tokens.update(f"<t{nth}>" for nth in range(last_token + 1, self._tokens + 1))
        if operation == "import":
            self.uncertain_tokens.update(self.imported_tokens)
            self.parents.update(self.imported)

    def make_token(self) -> str:
        self._tokens += 1
        return f"<t{self._tokens}>"

    def note_agent(self, agent: backstory.Agent, origin: backstory.Agent | None = None) -> None:
        """Note that an agent was returned. `origin` is the handle that it was forked from."""
        birth = find_birth(agent)
        if origin is None:
            self.parents.setdefault(birth, None)
            return
        ancestors = self.list_ancestors(find_birth(origin))
        parents = [ancestor for ancestor in ancestors if ancestor.id == agent.parent]
        assert parents, f"the parent of {agent} is not an ancestor of {origin}"
        self.parents[birth] = Parent(parents[0], agent.fork_seq)

    def note_events(self, agent: backstory.Agent, events: Iterable[backstory.Event]) -> None:
        """Note that events were written. Copies that a compaction made have no new tokens."""
        for event in events:
            if "copy_of" in (event.data or {}):
                continue
            for token in find_tokens(event.content):
                self.written[token] = Position(find_birth(agent), event.seq)

    def note_imported(self, agent: backstory.Agent) -> None:
        """Note the events that an import will write."""
        events = agent.events(after=agent.fork_seq)
        self.note_events(agent, events)
        for event in events:
            self.imported_tokens.update(find_tokens(event.content))

    def note_erased(self, agent: backstory.Agent, seq: int) -> None:
        """Note that the event at a position of an agent's lineage was erased."""
        owner = find_birth(agent)
        parent = self.parents[owner]
        while parent is not None and seq <= parent.fork_seq:
            owner = parent.birth
            parent = self.parents[owner]
        for token, position in self.written.items():
            if position == (owner, seq):
                self.erased.add(token)

    def list_ancestors(self, birth: Birth | None) -> list[Birth]:
        """Return an agent, its parent, and so on."""
        ancestors = []
        while birth is not None:
            ancestors.append(birth)
            parent = self.parents.get(birth)
            birth = None if parent is None else parent.birth
        return ancestors


def build_export(ledger: Ledger) -> list[str]:
    """Return the lines of an export with two agents, and note its events."""
    padding = " imported" * 20  # so that SQLite compresses it
    with backstory.open(":memory:") as store:
        root = store.ensure(IMPORTED)
        root.extend([("user", ledger.make_token() + padding) for _ in range(3)])
        branch = root.fork("branch", at=2)
        branch.user(ledger.make_token())
        for agent in (root, branch):
            ledger.note_imported(agent)
        parent = Parent(find_birth(root), branch.fork_seq)
        ledger.imported = {find_birth(root): None, find_birth(branch): parent}
        lines = io.StringIO()
        store.export_to(lines)
    return lines.getvalue().splitlines()


def begin_history(store: backstory.Store, ledger: Ledger) -> None:
    """Write the history that all clients know: a root with three events, a fork and a sub-agent."""
    root = store.ensure(ROOT)
    ledger.note_agent(root)
    ledger.note_events(root, root.extend([("user", ledger.make_token()) for _ in range(3)]))
    fork = root.fork(FORK, at=2, key=FORK)
    ledger.note_agent(fork, root)
    ledger.note_events(fork, [fork.user(ledger.make_token())])
    sub = root.spawn(SUB, key=SUB)
    ledger.note_agent(sub, root)
    ledger.note_events(sub, [sub.user(ledger.make_token())])


class RandomClient:
    """Random operations on one handle of a store."""

    def __init__(
        self,
        seed: str,
        store: backstory.Store,
        ledger: Ledger,
        export: Sequence[str],
        names: Sequence[str],
    ) -> None:
        self.log: list[str] = []
        self._choose = random.Random(seed)
        self.store = store
        self._ledger = ledger
        self._export = export
        self._names = names  # of its operations
        self._agents = store.agents()[::-1]  # the sub-agent, the fork and the root

    def run(self) -> None:
        """Run all operations. An error that is not documented ends the schedule."""
        for name in self._names:
            self.perform(name)

    def perform(self, name: str) -> None:
        """Run one operation on a random agent. Errors that are documented are only logged."""
        self.call(name, OPERATIONS[name])

    def call(self, name: str, operation: Callable[["RandomClient", backstory.Agent], Any]) -> None:
        """Call a function with a random agent, as `perform` does."""
        agent = self._choose_agent()
        pass_gate(f"{OPERATION}{name} {agent.name}")
        try:
            operation(self, agent)
            self.log.append(f"{name} {agent.name}")
        except DOCUMENTED as error:
            self.log.append(f"{name} {agent.name}: {type(error).__name__}")

    def _choose_agent(self) -> backstory.Agent:
        """Choose an agent, often the one that was made last."""
        if self._choose.random() < 0.5:
            return self._agents[-1]
        return self._choose.choice(self._agents)

    def append(self, agent: backstory.Agent) -> None:
        self._ledger.note_events(agent, [agent.user(self._ledger.make_token())])

    def append_with_key(self, agent: backstory.Agent) -> None:
        token = self._ledger.make_token()
        self._ledger.note_events(agent, [agent.append("user", token, key=token.strip("<>"))])

    def extend(self, agent: backstory.Agent) -> None:
        batch = [("assistant", self._ledger.make_token()) for _ in range(2)]
        self._ledger.note_events(agent, agent.extend(batch))

    def compact(self, agent: backstory.Agent) -> None:
        self._ledger.note_events(agent, agent.compact(self._ledger.make_token(), keep=3))

    def ensure(self, agent: backstory.Agent) -> None:
        created = self.store.ensure(self._choose.choice((ROOT, FORK, SUB, IMPORTED)))
        self._ledger.note_agent(created)
        self._agents.append(created)

    def fork(self, agent: backstory.Agent) -> None:
        position = self._choose.choice((None, 0, 1, 2, 3))
        key = self._choose.choice((None, None, FORK))
        self._add_child(agent, agent.fork(at=position, key=key))

    def spawn(self, agent: backstory.Agent) -> None:
        key = self._choose.choice((None, SUB))
        self._add_child(agent, agent.spawn(key=key))

    def _add_child(self, agent: backstory.Agent, child: backstory.Agent) -> None:
        self._ledger.note_agent(child, agent)
        self._agents.append(child)

    def erase(self, agent: backstory.Agent) -> None:
        position = self._choose.randint(1, 3)
        agent.erase([position], why="asked")
        self._ledger.note_erased(agent, position)

    def delete(self, agent: backstory.Agent) -> None:
        self.store.delete(agent)
        self._ledger.deleted.add(find_birth(agent))

    def delete_below(self, agent: backstory.Agent) -> None:
        self.store.delete(agent, below=True)
        self._ledger.deleted.add(find_birth(agent))
        self._ledger.deleted_below.add(find_birth(agent))

    def expire(self, agent: backstory.Agent) -> None:
        removed = self.store.expire(datetime.now(UTC) + timedelta(days=1), dry_run=False)
        for gone in removed.agents:
            self._ledger.expired.add(gone.id)

    def expire_dead(self, agent: backstory.Agent) -> None:
        self._ledger.has_expired_events = True
        self.store.expire(datetime.now(UTC) + timedelta(days=1), dry_run=False, dead=True)

    def import_sessions(self, agent: backstory.Agent) -> None:
        try:
            self.store.import_from(self._export)
        except backstory.Invalid as error:
            if not any(reason in str(error) for reason in REFUSALS):
                raise
            raise backstory.Conflict(str(error)) from error
        self._ledger.parents.update(self._ledger.imported)

    def search(self, agent: backstory.Agent) -> None:
        self.store.search("t1", wait=True)


OPERATIONS: dict[str, Callable[[RandomClient, backstory.Agent], None]] = {
    "append": RandomClient.append,
    "append with a key": RandomClient.append_with_key,
    "extend": RandomClient.extend,
    "compact": RandomClient.compact,
    "ensure": RandomClient.ensure,
    "fork": RandomClient.fork,
    "spawn": RandomClient.spawn,
    "erase": RandomClient.erase,
    "delete": RandomClient.delete,
    "delete below": RandomClient.delete_below,
    "expire": RandomClient.expire,
    "expire dead": RandomClient.expire_dead,
    "import": RandomClient.import_sessions,
    "search": RandomClient.search,
}
REMOVALS = ("erase", "erase", "erase", "delete", "delete below", "delete below", "expire")
CREATIONS = ("fork", "fork", "fork", "spawn", "ensure", "import")
WRITES = ("append", "append with a key", "extend", "compact", "compact", "compact")
LOCKED_WRITES = ("append with a key", "compact")  # an agent stays locked for several statements
MOST_OPERATIONS = 3  # of a client
MANY = 1_000  # more steps than an operation has


class Plan(NamedTuple):
    """The operations of two or three clients, and how their schedule begins."""

    operations: list[list[str]]
    opening: Sequence[tuple[int, int]] = ()


def choose_plan(choose: random.Random) -> Plan:
    """Choose what the clients do. Most races are between one that removes, one that writes to a new
    agent, and one that has locked what the first one waits for. This is how most schedules begin; in
    the others, anything may happen."""
    if choose.random() < 0.65:
        remover = [choose.choice(REMOVALS)]
        creator = [choose.choice(CREATIONS), choose.choice(WRITES)]
        locker = [choose.choice(LOCKED_WRITES)]
        steps = choose.randint(3, 9)
        opening = [(2, steps), (0, MANY), (1, MANY), (2, MANY)]
        return Plan([remover, creator, locker], opening)
    operations = []
    for _ in range(choose.choice((2, 3))):
        count = choose.randint(1, MOST_OPERATIONS)
        operations.append(choose.choices(list(OPERATIONS), k=count))
    return Plan(operations)
