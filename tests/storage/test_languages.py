"""A PostgreSQL database whose order of texts is that of a language: nothing of a store depends on it."""

import psycopg
import pytest

import backstory
from tests import databases

LANGUAGES = (
    "LOCALE_PROVIDER icu ICU_LOCALE 'en-US'",
    "LC_COLLATE 'en_US.utf8' LC_CTYPE 'en_US.utf8'",
)
TEXT_BTREES = """
    SELECT c.relname, k.rules FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam,
    LATERAL unnest(i.indcollation) k (rules)
    WHERE c.relnamespace = 'backstory'::regnamespace AND m.amname = 'btree' AND k.rules NOT IN (
        SELECT oid FROM pg_collation WHERE collname = 'C' UNION SELECT 0)"""


@pytest.fixture
def in_english():
    """The address of a database with the order of a dictionary."""
    name = "backstory_test_in_english"
    with psycopg.connect(databases.server(), autocommit=True) as db:
        for language in LANGUAGES:
            db.execute(f"DROP DATABASE IF EXISTS {name}")
            try:
                db.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' {language} TEMPLATE template0")
                break
            except psycopg.Error:
                continue
        else:
            pytest.skip("THE SERVER HAS NO LANGUAGES: its order of texts is that of their bytes")
    yield databases.url(name)
    with psycopg.connect(databases.server(), autocommit=True) as db:
        db.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_keys_with_a_prefix_do_not_follow_the_order_of_a_dictionary(in_english):
    keys = ["user:1", "user:ä", "user:\U0010ffff", "User:1", "usér:1", "user1", "user-1"]
    with backstory.open(in_english) as store:
        for key in keys:
            store.ensure(key).note("seen")
        for prefix in ("user:", "user", "u"):
            expected = {key for key in keys if key.startswith(prefix)}
            assert {agent.key for agent in store.agents(prefix=prefix)} == expected
            assert {session.key for session in store.sessions(prefix=prefix)} == expected
            assert len(store.last_notes("seen", prefix=prefix)) == len(expected)


def test_no_index_would_be_damaged_by_a_new_order_of_texts(empty_database):
    url = empty_database()
    with backstory.open(url) as store:
        store.start().user("needle")
        assert store.search("needle")
    with psycopg.connect(url) as db:
        assert db.execute(TEXT_BTREES).fetchall() == []
