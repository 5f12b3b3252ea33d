"""A real pgbouncer between the store and PostgreSQL: a package of the system, and these tests need it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import backstory
from tests import databases
from tests.processes import wait_until

POOLER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
NEEDED = pytest.mark.skipif(
    POOLER is None, reason="PGBOUNCER IS NOT INSTALLED: poolers are not tested"
)

CONFIG = """
[databases]
* = host={host} port={port} {password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = 4
ignore_startup_parameters = {ignored}
pidfile = {folder}/pid
logfile = {folder}/log
"""


@pytest.fixture
def pooled(new_database):
    """Addresses of a new database: directly, and through a pooler that drops startup options."""
    direct = new_database()
    known = conninfo_to_dict(direct)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        user = known.get("user") or os.environ.get("USER", "postgres")
        config = CONFIG.format(
            host=known.get("host", "/var/run/postgresql"),
            port=known.get("port", 5432),
            password=f"user={user} "
            + (f"password={known['password']}" if known.get("password") else ""),
            own=own,
            ignored="extra_float_digits,options",
            folder=folder,
        )
        path = os.path.join(folder, "pgbouncer.ini")
        with open(path, "w") as file:
            file.write(config)
        os.chmod(path, 0o644)
        as_user = {"user": _other_than_root(known)} if os.geteuid() == 0 else {}
        process = subprocess.Popen(
            [POOLER, path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user
        )
        name = urlsplit(direct).path.lstrip("/")
        url = f"postgresql://{user}@127.0.0.1:{own}/{name}"
        try:
            wait_until(lambda: _answers(url), seconds=20)
            yield direct, url
        finally:
            process.terminate()
            process.wait()


def _other_than_root(known):
    """Who may reach the server: pgbouncer does not run as root."""
    host = known.get("host", "")
    return os.stat(host).st_uid if host.startswith("/") else "nobody"


def _answers(url):
    try:
        with psycopg.connect(url, connect_timeout=2) as db:
            db.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


WRITER = """
import sys, backstory
with backstory.open(sys.argv[1]) as store:
    agent = store.agent("main")
    for n in range(40):
        agent.user(f"{sys.argv[2]}-{n}")
        assert agent.head >= n + 1
        assert len(agent.context().messages) >= n + 1
"""


@NEEDED
def test_settings_that_a_pooler_drops_are_noticed_and_nothing_is_made(pooled):
    direct, url = pooled
    with pytest.raises(backstory.CannotOpen, match="were dropped on the way"):
        backstory.open(url)
    with psycopg.connect(direct) as db:
        assert db.execute("SELECT to_regnamespace('backstory')").fetchall() == [(None,)]


def set_on_server(direct, url, setting):
    """Set it for the database; all connections through the pooler have it from then on."""
    with psycopg.connect(direct, autocommit=True) as db:
        db.execute(f"ALTER DATABASE {db.info.dbname} SET {setting}")
        db.execute(  # those that the pooler holds already
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    wait_until(lambda: _answers(url))


@NEEDED
def test_reading_only_is_refused_where_the_pooler_would_let_writes_through(pooled):
    direct, url = pooled
    set_on_server(direct, url, "search_path = pg_catalog, pg_temp")
    with backstory.open(url) as store:
        store.start("main")
    with pytest.raises(
        backstory.CannotOpen, match="default_transaction_read_only is 'off'"
    ) as refused:
        backstory.open(url, read_only=True)
    assert "SET default_transaction_read_only = on" in str(refused.value)
    set_on_server(direct, url, "default_transaction_read_only = on")
    with backstory.open(url, read_only=True) as store:
        with pytest.raises(backstory.ReadOnly):
            store.start("another")
        assert len(store.agents()) == 1


@NEEDED
def test_options_of_the_address_that_a_pooler_drops_are_noticed(pooled):
    direct, url = pooled
    set_on_server(direct, url, "search_path = pg_catalog, pg_temp")
    with pytest.raises(backstory.CannotOpen, match="options of the address were dropped"):
        backstory.open(f"{url}?options=-c%20work_mem%3D8MB")
    with backstory.open(databases.with_parameter(direct, "options=-c%20work_mem%3D8MB")) as store:
        store.start("main")


@NEEDED
def test_every_answer_through_a_pooler_of_transactions_is_its_own(pooled):
    direct, url = pooled
    set_on_server(direct, url, "search_path = pg_catalog, pg_temp")
    with backstory.open(url) as store:
        agent = store.start("main")
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, url, str(n)]) for n in range(6)]
        assert [writer.wait(timeout=120) for writer in writers] == [0] * 6
        assert agent.head == 240
        assert len(agent.events()) == 240
        agent.append("user", "once", key="k")
        assert agent.append("user", "once", key="k").seq == 241
        assert store.verify() == []
    with backstory.open(f"{url}?prepare=off") as store:
        assert store.agent("main").head == 241


def test_prepare_is_on_or_off(new_url):
    url = new_url("postgres")
    glue = "&" if "?" in url else "?"
    for choice in ("on", "off"):
        with backstory.open(f"{url}{glue}prepare={choice}") as store:
            assert store._backend._prepares is (choice == "on")
            store.ensure("k").user("hi")
    with pytest.raises(backstory.CannotOpen):
        backstory.open(f"{url}{glue}prepare=perhaps")
