"""Runs SQL on the tables of a store, past the library: to damage them, or to look at them."""

from contextlib import closing

import apsw
import psycopg

from tests import databases


def is_sqlite(url):
    return url.endswith(".db")


def run_sql(url, sql):
    """Run a statement without foreign keys, and return its rows."""
    if is_sqlite(url):
        with closing(apsw.Connection(url)) as db:
            db.execute("PRAGMA foreign_keys = OFF")
            return db.execute(sql).fetchall()
    options = "-c search_path=backstory"
    with psycopg.connect(url, autocommit=True, options=options) as db, db.transaction():
        if databases.CITUS:  # the workers have the foreign keys
            db.execute("SET LOCAL citus.propagate_set_commands TO 'local'")
        db.execute("SET LOCAL session_replication_role = replica")
        cursor = db.execute(sql)
        return cursor.fetchall() if cursor.description else []
