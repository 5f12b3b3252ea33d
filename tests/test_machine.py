"""Every operation, in any order, over several agents, on every backend, against the plain law.

The model is nothing but the lists of events that each agent should see. After each step one agent is compared
with it, at its head and as of earlier positions and times, and so is what a follower of the store saw. Damage
that is done to the tables behind the store's back is found, whatever it is.
"""

import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import backstory
from backstory.wire.conversation import conversation_of
from tests import damage, plain
from tests.plain import is_erased, said, spoken

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
LABELS = st.sampled_from(["x", "y", "z"])


class Machine(RuleBasedStateMachine):
    """Several agents of one session, and what each of them should see."""

    agents = Bundle("agents")

    def open_store(self):
        raise NotImplementedError

    @initialize(target=agents)
    def start(self):
        self.store = self.open_store()
        self.lineages = {}
        self.touched = self.store.start("root")
        self.lineages[self.touched.id] = []
        self.follower = self.store.follow(timeout=0)
        self.followed = {}
        return self.touched

    def teardown(self):
        if hasattr(self, "store"):
            self.follower.close()
            self.store.close()

    def wrote(self, agent, *events):
        lineage = self.lineages[agent.id]
        for event in events:
            assert event.seq == len(lineage) + 1
            lineage.append(event)
        self.touched = agent

    def contexts(self, agent):
        return plain.contexts(self.lineages[agent.id])

    def context(self, agent):
        return self.contexts(agent)[len(self.lineages[agent.id])]

    def is_live(self, agent, event):
        """Whether an event, or a compaction's copy of it, is in the context."""
        context = self.context(agent)
        copied = [(one.data or {}).get("copy_of") for one in context]
        return event in context or event.seq in copied

    @rule(agent=agents, kind=st.sampled_from(["user", "assistant", "system"]), text=TEXT)
    def say(self, agent, kind, text):
        event = agent.append(kind, text)
        assert (event.kind, event.content, event.data) == (kind, text, None)
        self.wrote(agent, event)

    @rule(agent=agents, label=LABELS | st.none())
    def mark(self, agent, label):
        self.wrote(agent, agent.mark(label))

    @rule(agent=agents)
    def clear(self, agent):
        self.wrote(agent, agent.clear())

    @rule(agent=agents, label=LABELS | st.none())
    def rewind(self, agent, label):
        stack = [event for event in self.context(agent) if event.kind == "mark"]
        fits = [mark for mark in stack if label is None or mark.label == label]
        if not fits:
            with pytest.raises(backstory.MarkNotFound):
                agent.rewind(label)
            return
        event = agent.rewind(label)
        assert event.data == {"target_message_id": fits[-1].seq}
        self.wrote(agent, event)

    @rule(agent=agents, data=st.data())
    def jump(self, agent, data):
        target = data.draw(st.integers(0, len(self.lineages[agent.id])))
        self.wrote(agent, agent.jump(target))

    @rule(agent=agents)
    def undo(self, agent):
        lineage = self.lineages[agent.id]
        contexts = plain.contexts(lineage)
        led_here = plain.moves(lineage)[len(lineage)]
        # What undo and redo wrote is not undone, and before the first event there is nothing to go back to.
        moves = [
            e.seq for e in led_here if e.seq > 1 and not {"undo", "redo"} & (e.data or {}).keys()
        ]
        if not moves:
            with pytest.raises(backstory.NotFound, match="nothing to undo"):
                agent.undo()
            return
        event = agent.undo()
        assert event.data == {"target_message_id": moves[-1] - 1, "undo": True}
        self.wrote(agent, event)
        assert agent.context().messages == [*contexts[moves[-1] - 1], event]

    @rule(agent=agents, data=st.data())
    def anything_goes_to_append(self, agent, data):
        head = len(self.lineages[agent.id])
        target = data.draw(st.integers(-1, head + 2) | st.none() | st.booleans() | st.just("1"))
        kind = data.draw(st.sampled_from(["rewind", "jump"]))
        self.wrote(agent, agent.append(kind, None, {"target_message_id": target}))

    @rule(agent=agents, data=st.data())
    def a_batch(self, agent, data):
        head = len(self.lineages[agent.id])
        batch = []
        for nth in range(data.draw(st.integers(0, 6))):
            kind = data.draw(st.sampled_from(["user", "mark", "clear", "rewind", "jump"]))
            moves = kind in ("rewind", "jump")
            target = {"target_message_id": data.draw(st.integers(0, head + nth))} if moves else None
            batch.append((kind, "batch", target))
        self.wrote(agent, *agent.extend(batch, expected=head))
        assert agent.extend(batch, expected=head) == self.lineages[agent.id][head:]

    @rule(agent=agents, behind=st.integers(1, 3))
    def an_append_behind_the_head_is_a_conflict(self, agent, behind):
        head = len(self.lineages[agent.id])
        with pytest.raises(backstory.Conflict) as conflict:
            agent.append("user", "never written", expected=head + behind)
        assert conflict.value.head == head

    @rule(target=agents, agent=agents, data=st.data())
    def fork(self, agent, data):
        at = data.draw(st.integers(0, len(self.lineages[agent.id])))
        child = agent.fork(at=at)
        self.lineages[child.id] = self.lineages[agent.id][:at]
        self.touched = child
        return child

    @rule(target=agents, agent=agents)
    def spawn(self, agent):
        child = agent.spawn()
        self.lineages[child.id] = []
        return child

    @rule(agent=agents, name=LABELS)
    def note(self, agent, name):
        self.wrote(agent, agent.note(name, {"said": name}))

    @rule(agent=agents, name=LABELS)
    def read_notes(self, agent, name):
        lineage = self.lineages[agent.id]
        live = [event for event in self.context(agent) if event.kind == "note"]
        named = [event for event in live if event.content == name]
        assert agent.notes() == live
        assert agent.notes(name) == named
        assert agent.last_notes([name]) == ({name: named[-1]} if named else {})
        assert agent.notes(live=False) == [event for event in lineage if event.kind == "note"]

    @rule(agent=agents, key=st.sampled_from(["one", "two"]), text=st.sampled_from(["a", "b"]))
    def say_once(self, agent, key, text):
        """The lineage has it already, says something else under this key, or gets it."""
        [known] = [event for event in self.lineages[agent.id] if event.key == key] or [None]
        assert agent.find(key) == known
        if known is None:
            self.wrote(agent, agent.append("user", text, key=key))
            return
        says_it = is_erased(known) or known.content == text  # nobody knows what was erased
        try:
            assert agent.append("user", text, key=key) == known
            assert says_it
        except backstory.KeyTaken:
            assert not says_it

    @rule(agent=agents, key=st.sampled_from(["one", "two"]))
    def say_once_in_the_context(self, agent, key):
        """It is written if no event of this key is live, and a repeat finds it."""
        known = [e for e in self.lineages[agent.id] if (e.key or "").split(" (")[0] == key]
        live = [e for e in known if self.is_live(agent, e)]
        try:
            event = agent.append("user", "a", key=key, once="context")
        except backstory.KeyTaken:
            assert live
            return
        if live:
            assert event in live
            assert event.is_live
        else:
            self.wrote(agent, event)
            assert agent.append("user", "a", key=key, once="context") == event

    @rule(agent=agents, key=st.sampled_from(["here", "there"]), data=st.data())
    def jump_once(self, agent, key, data):
        lineage = self.lineages[agent.id]
        target = data.draw(st.integers(0, len(lineage)))
        known = [event for event in lineage if event.key == key]
        event = agent.jump(target, key=key)
        if not known:
            self.wrote(agent, event)
            return
        assert event == known[0]
        assert event.is_live is (known[0] in self.context(agent))

    @rule(agent=agents)
    def compact_once(self, agent):
        known = [e for e in self.lineages[agent.id] if (e.key or "").split(" (")[0] == "short"]
        if known:
            assert agent.compact("another summary", key="short") == known
        elif any(kind != "system" for kind, _ in said(self.context(agent))):
            self.wrote(agent, *agent.compact("a summary", keep=1, key="short"))

    @rule(agent=agents, keep=st.integers(0, 3))
    def compact(self, agent, keep):
        before = said(self.context(agent))
        texts = [text for kind, text in before if kind != "system"]
        if not texts:
            with pytest.raises(backstory.NotFound, match="nothing to compact"):
                agent.compact("a summary", keep=keep)
            return
        self.wrote(agent, *agent.compact("a summary", keep=keep))
        system = [message for message in before if message[0] == "system"]
        after = said(self.context(agent))
        kept = [text for _, text in after[len(system) + 1 :]]
        assert after[: len(system) + 1] == [*system, ("user", "a summary")]
        assert len(kept) >= min(keep, len(texts))
        assert kept == texts[len(texts) - len(kept) :]

    @rule(agent=agents)
    def redo(self, agent):
        """Where the last undo came from, unless something else was written since, or it was redone."""
        undone = []
        for event in self.lineages[agent.id]:
            match event.data or {}:
                case {"undo": True} if event.kind == "jump":
                    undone.append(event.seq - 1)
                case {"redo": True} if event.kind == "jump":
                    undone.pop()
                case _:
                    undone.clear()
        if not undone:
            with pytest.raises(backstory.NotFound, match="nothing to redo"):
                agent.redo()
            return
        self.wrote(agent, agent.redo())
        assert said(self.context(agent)) == said(self.contexts(agent)[undone[-1]])

    @rule(agent=agents, n=st.integers(1, 5))
    def newest_messages(self, agent, n):
        assert agent.messages(limit=n) == spoken(self.context(agent))[-n:]

    @rule(agent=agents, name=LABELS, data=st.data())
    def label(self, agent, name, data):
        at = data.draw(st.integers(0, len(self.lineages[agent.id])))
        self.wrote(agent, agent.label(name, at=at))

    @rule(agent=agents, data=st.data())
    def erase(self, agent, data):
        """Lineages share their events as objects: so it is known where else an event has to be gone."""
        lineage = self.lineages[agent.id]
        if not lineage:
            return
        asked = lineage[data.draw(st.integers(1, len(lineage))) - 1]
        copied = (asked.data or {}).get("copy_of")
        original = lineage[copied - 1] if copied else asked
        agent.erase([asked.seq], why="asked")
        gone = [
            (id, event)
            for id, events in self.lineages.items()
            if has(events, original)
            for event in events
            if event is original or (event.data or {}).get("copy_of") == original.seq
        ]
        for id, event in gone:
            self.forget(id, event)

    def forget(self, id, old):
        new = self.store.agent(id).events([old.seq])[0]
        assert (new.kind, new.created_at, new.key) == (old.kind, old.created_at, old.key)
        assert (new.content or "", "erased" in new.data) == ("", True)
        for events in self.lineages.values():
            if has(events, old):
                events[old.seq - 1] = new

    @rule(target=agents, agent=consumes(agents))
    def delete(self, agent):
        """Another session takes its place, so that there is always an agent."""
        self.store.delete(agent)
        with pytest.raises(backstory.AgentNotFound):
            agent.user("to nobody")
        del self.lineages[agent.id]
        self.followed.pop(agent.id, None)
        assert {one.id for one in self.store.agents()} == self.lineages.keys()
        for id, lineage in self.lineages.items():
            assert self.store.agent(id).events() == lineage
        found = self.store.ensure("again")
        self.touched = self.store.start("root") if found.id in self.lineages else found
        self.lineages[self.touched.id] = []
        return self.touched

    @rule(agent=agents, data=st.data())
    def look_back(self, agent, data):
        at = data.draw(st.integers(0, len(self.lineages[agent.id])))
        assert agent.context(at=at) == backstory.Context(self.contexts(agent)[at], at)

    @rule(agent=agents, data=st.data())
    def look_back_in_time(self, agent, data):
        lineage = self.lineages[agent.id]
        if lineage:
            event = data.draw(st.sampled_from(lineage))
            moment = event.created_at + timedelta(
                microseconds=data.draw(st.sampled_from([-1, 0, 1]))
            )
            at = sum(e.created_at <= moment for e in lineage)
            assert agent.context(at=moment) == backstory.Context(self.contexts(agent)[at], at)

    @rule(agent=agents, data=st.data())
    def explain(self, agent, data):
        lineage = self.lineages[agent.id]
        if lineage:
            seq = data.draw(st.integers(1, len(lineage)))
            live = seq in plain.positions(self.contexts(agent)[len(lineage)])
            assert agent.explain(seq).live is live

    @invariant()
    def the_agent_that_was_touched_sees_what_it_should(self):
        if not hasattr(self, "store"):
            return
        agent, lineage = self.touched, self.lineages[self.touched.id]
        context = self.contexts(agent)[len(lineage)]
        assert agent.head == len(lineage)
        assert agent.context() == backstory.Context(context, len(lineage))
        assert agent.conversation() == conversation_of(context)
        assert agent.marks() == [event for event in context if event.kind == "mark"]
        assert agent.events() == lineage

    @invariant()
    def the_store_is_sound(self):
        if hasattr(self, "store"):
            assert self.store.verify() == []

    @invariant()
    def a_follower_saw_everything_once_and_in_order(self):
        if not hasattr(self, "store"):
            return
        for agent, event in self.follower:
            self.followed.setdefault(agent.id, []).append(event.seq)
        for agent in self.store.agents():
            own = range(agent.fork_seq + 1, len(self.lineages[agent.id]) + 1)
            assert self.followed.get(agent.id, []) == list(own)


def has(lineage, event):
    return len(lineage) >= event.seq and lineage[event.seq - 1] is event


def is_clean(store, seal):
    try:
        return store.verify(seal=seal) == []
    except backstory.Invalid:  # of what was sealed, nothing is left
        return False


class DamagedMachine(Machine):
    """The same where somebody may write to the tables."""

    def damaged(self, kind, **names):
        raise NotImplementedError

    @rule(agent=Machine.agents, data=st.data())
    def damage_is_found(self, agent, data):
        first, head = agent.fork_seq + 1, len(self.lineages[agent.id])
        kinds = [
            *(damage.EVENTS if first <= head else ()),
            *(damage.AGENTS if agent.fork_seq else damage.AGENTS[:1]),
        ]
        kind = data.draw(st.sampled_from(kinds))
        seq, other = (data.draw(st.integers(min(first, head), head)) for _ in range(2))
        if kind == "exchanged" and seq == other:
            return
        seal = self.store.seal()
        with self.damaged(kind, agent=agent.id, seq=seq, other=other, head=head) as store:
            assert not is_clean(store, seal)
        assert self.store.verify(seal=seal) == []


class MemoryMachine(Machine):
    def open_store(self):
        return backstory.open(":memory:")


class SqliteMachine(DamagedMachine):
    def open_store(self):
        self.folder = tempfile.TemporaryDirectory()
        return backstory.open(Path(self.folder.name) / "history.db")

    @contextmanager
    def damaged(self, kind, **names):
        copy = Path(self.folder.name) / "copy.db"
        with damage.damaged_sqlite(self.store, copy, kind, **names) as store:
            yield store
        for path in copy.parent.glob("copy.db*"):
            path.unlink()

    def teardown(self):
        super().teardown()
        self.folder.cleanup()


class PostgresMachine(DamagedMachine):
    """All examples share one database, made for this: the schema in it is dropped for each."""

    url = ""

    def open_store(self):
        with psycopg.connect(PostgresMachine.url, autocommit=True) as db:
            db.execute("DROP SCHEMA IF EXISTS backstory CASCADE")
        return backstory.open(PostgresMachine.url)

    def damaged(self, kind, **names):
        return damage.damaged_postgres(self.store, PostgresMachine.url, kind, **names)


@pytest.fixture(autouse=True)
def own_database(request, empty_database):
    if request.node.cls is TestPostgres:
        PostgresMachine.url = empty_database()


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=150, stateful_step_count=40)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = settings(max_examples=80, stateful_step_count=40)
TestPostgres = PostgresMachine.TestCase
TestPostgres.settings = settings(max_examples=40, stateful_step_count=30)
