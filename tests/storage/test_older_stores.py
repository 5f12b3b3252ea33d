"""Stores that older versions wrote are opened, migrated and read without loss."""

import json
import shutil
from pathlib import Path

import psycopg
import pytest

import backstory

FIXTURES = Path(__file__).parents[1] / "fixtures"


def expected(name):
    return json.loads((FIXTURES / f"{name}.json").read_text())


def found(store):
    return {
        agent.id: {
            "name": agent.name,
            "session": agent.session,
            "parent": agent.parent,
            "fork_seq": agent.fork_seq,
            "born_seq": agent.born_seq,
            "spawned": agent.spawned,
            "head": agent.head,
            "events": [[e.seq, e.kind, e.content, e.data, e.created_us] for e in agent.events()],
            "live": [event.seq for event in agent.context().messages],
        }
        for agent in store.agents()
    }


@pytest.fixture(params=["store-1.sqlite", "store-2.sqlite", "store-1.postgres"])
def older_store(request, tmp_path, new_database):
    """The address of a store as an older version left it, and what is in it."""
    if request.param.endswith(".sqlite"):
        path = tmp_path / "older.db"
        shutil.copy(FIXTURES / request.param, path)
        return str(path), expected(request.param)
    url = new_database()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute((FIXTURES / "store-1.postgres.sql").read_text())
    return url, expected("store-1.postgres")


def test_an_older_store_is_read_whole_and_is_sound(older_store):
    url, wanted = older_store
    with backstory.open(url) as store:
        assert found(store) == wanted
        assert store.verify() == []


def test_an_older_store_can_be_written_to(older_store):
    url, wanted = older_store
    with backstory.open(url) as store:
        for id in wanted:
            store.agent(id).user("And on it goes.")
        assert store.verify() == []
    with backstory.open(url) as again:
        assert {id: agent["head"] for id, agent in found(again).items()} == {
            id: agent["head"] + 1 for id, agent in wanted.items()
        }
