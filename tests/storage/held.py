"""Reads all bytes of a store, and acts in the middle of a call of its backend."""

import gc
import io
from contextlib import closing
from pathlib import Path

import apsw
import psycopg

from backstory.storage.sqlite.frames import read_frame

FRAMES = "SELECT packed FROM events WHERE packed IS NOT NULL"


def held(store, url):
    """Return the bytes of a store, of its compressed rows and of its export."""
    out = io.StringIO()
    store.export_to(out)
    if url == ":memory:":
        found = _in_memory(store._backend)
    elif url.startswith("postgres"):
        found = _in_tables(url)
    else:
        found = _in_files(url)
    return found + out.getvalue().encode()


def _in_files(path):
    files = b"".join(file.read_bytes() for file in Path(path).parent.glob(f"{Path(path).name}*"))
    with closing(apsw.Connection(path)) as db:
        return files + repr([read_frame(frame) for (frame,) in db.execute(FRAMES)]).encode()


def _in_tables(url):
    with psycopg.connect(url) as db:
        names = db.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'backstory'"
        ).fetchall()
        rows = [db.execute(f"SELECT * FROM backstory.{name}").fetchall() for (name,) in names]
    return repr(rows).encode()


def _in_memory(backend):
    texts, seen, waiting = [], set(), [backend]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type) or callable(one):
            continue
        seen.add(id(one))
        if isinstance(one, str | bytes):
            texts.append(one if isinstance(one, bytes) else one.encode())
        waiting += gc.get_referents(one)
    return b"\n".join(texts)


def act_before(store, monkeypatch, name, act):
    """Do something the first time that a method of the backend is called."""
    real = getattr(store._backend, name)

    def called(*args, **kwargs):
        monkeypatch.setattr(store._backend, name, real)
        act()
        return real(*args, **kwargs)

    monkeypatch.setattr(store._backend, name, called)
