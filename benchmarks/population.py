"""Stores with very many agents or events, made quickly: whole tables at once, with the digests of appends."""

import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apsw
import psycopg

import backstory
from backstory.log.chain import START, build_tail, digest_texts, link
from backstory.storage.ids import new_id, parse_place
from benchmarks.engine import text_of

BEGIN = 1_790_000_000_000_000  # microseconds: when the first agent was made
SECOND = 1_000_000
COMMON, LENGTH = "everywhere", 200  # a word that is in every event; how long their texts are

SQLITE_AGENT = """
    INSERT INTO agents (no, id, session, name, fork_seq, born_seq, spawned, created_at, touched)
    VALUES (?1, ?2, ?1, ?3, 0, 0, 0, ?4, ?4 / 1000000)"""
SQLITE_EVENT = """
    INSERT INTO events (id, kind, content, created_at, digest) VALUES ((? << 32) + ?, ?, ?, ?, ?)"""
POSTGRES_AGENTS = """
    COPY backstory.agents (place, session, no, id, name, fork_seq, born_seq, spawned, created_at, head,
        updated_at, touched, digest) FROM STDIN"""
POSTGRES_EVENTS = """
    COPY backstory.events (place, agent, seq, kind, content, created_at, digest) FROM STDIN"""


POSTGRES_HEAD = """
    UPDATE backstory.agents SET head = %s, updated_at = %s, touched = %s / 1000000, digest = %s"""

Event = tuple[int, str, str, int, bytes]  # position, kind, content, time and digest


class Made(NamedTuple):
    """An agent with its events."""

    no: int
    id: str
    name: str
    born: int
    events: list[Event]


def fill(address: str, texts: Iterable[str]) -> None:
    """Fill a new store with one agent, called "long", that says these texts."""
    with backstory.open(address) as store:
        agent = store.start("long").snapshot
    events = _chained(texts, agent.created_us)
    if not address.startswith("postgresql:"):
        with apsw.Connection(address) as db:
            db.executemany(SQLITE_EVENT, ((agent.pk, *event) for event in events))
        return
    with psycopg.connect(address) as server:
        with server.cursor().copy(POSTGRES_EVENTS) as copy:
            for event in events:
                copy.write_row((parse_place(agent.id), agent.pk, *event))
        seq, _, _, at, last = event
        server.execute(POSTGRES_HEAD, (seq, at, at, last))
    with psycopg.connect(address, autocommit=True) as server:
        server.execute("VACUUM ANALYZE")


def _chained(texts: Iterable[str], at: int) -> Iterator[Event]:
    previous = START
    for seq, text in enumerate(texts, 1):
        kind = "assistant" if seq % 2 else "user"
        tail = build_tail(kind, None, None, digest_texts(text, None))
        previous = link(previous, seq, at, tail)
        yield seq, kind, text, at, previous


def populate(address: str, agents: int, events: int) -> None:
    """Fill a new store with sessions of one agent, a second apart, that have so many events each."""
    backstory.open(address).close()
    if address.startswith("postgresql:"):
        _populate_postgres(address, agents, events)
    else:
        _populate_sqlite(address, agents, events)


def _population(agents: int, events: int) -> Iterator[Made]:
    source = random.Random(agents)
    texts = [f"{COMMON} {text_of(source, LENGTH)}" for _ in range(1_000)]
    for no in range(1, agents + 1):
        born = BEGIN + no * SECOND
        said = (f"{source.choice(texts)} only{no}x{seq}" for seq in range(1, events + 1))
        yield Made(no, new_id(), f"agent {no}", born, list(_chained(said, born)))


def _populate_sqlite(path: str, agents: int, events: int) -> None:
    db = apsw.Connection(path)
    with db:
        for made in _population(agents, events):
            db.execute(SQLITE_AGENT, (made.no, made.id, made.name, made.born))
            db.executemany(SQLITE_EVENT, ((made.no, *event) for event in made.events))
    db.close()


def _populate_postgres(address: str, agents: int, events: int) -> None:
    with psycopg.connect(address) as db:
        for many in _slices(_population(agents, events), 10_000):
            with db.cursor().copy(POSTGRES_AGENTS) as copy:
                for made in many:
                    copy.write_row(_agent_row(made))
            with db.cursor().copy(POSTGRES_EVENTS) as copy:
                for made in many:
                    for event in made.events:
                        copy.write_row((parse_place(made.id), 1, *event))
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("VACUUM ANALYZE")


def _agent_row(made: Made) -> tuple[Any, ...]:
    id, born, second, last = made.id, made.born, made.born // SECOND, made.events[-1][-1]
    return (
        parse_place(id),
        id,
        1,
        id,
        made.name,
        0,
        0,
        False,
        born,
        len(made.events),
        born,
        second,
        last,
    )


def _slices(all_made: Iterator[Made], size: int) -> Iterator[list[Made]]:
    many: list[Made] = []
    for made in all_made:
        many.append(made)
        if len(many) == size:
            yield many
            many = []
    yield many
