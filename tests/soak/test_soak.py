"""The soak, for some seconds: that it runs, and that its audit would notice."""

import backstory
from tests.slow import more
from tests.soak.run import MORE_BYTES, WORKERS, Crew, Ledger, audit, growth, soak


def test_for_some_seconds_nothing_is_lost_or_there_twice(durable_url, tmp_path):
    found = soak(durable_url, tmp_path, more(6, slow=60))
    assert found.problems == []


def test_the_whole_reason_of_a_worker_that_ends_is_kept(tmp_path):
    for number in range(WORKERS):
        (tmp_path / f"{number}.ledger").mkdir()  # which cannot be written to
    crew = Crew(str(tmp_path / "store.db"), tmp_path)
    try:
        for process in crew.running:
            process.wait()
    finally:
        crew.end()
    assert len(crew.problems) == WORKERS
    for problem in crew.problems:
        assert "Traceback (most recent call last)" in problem
        assert "IsADirectoryError" in problem


def test_the_audit_notices_what_is_lost_twice_or_elsewhere():
    with backstory.open(":memory:") as store:
        agent = store.start()
        agent.user("t0n0")
        agent.extend([("user", "t0n1", None)] * 2)
        written = {
            "t0n0": (agent.id, 2),
            "t0n2": (agent.id, 9),
            "t0n3": (agent.id, 8),
            "t0n4": ("gone", 1),
        }
        problems = audit(store, Ledger(written, {(agent.id, 8)}, {"gone"}))
    assert [problem.split(" ", 1)[1].split(" (")[0] for problem in problems] == [
        "is there 2 times",
        "is at",
        f"at {(agent.id, 9)} is lost".split(" (")[0],
    ]


def test_a_worker_that_keeps_growing_is_noticed(tmp_path):
    flat, growing = (
        [f"size {50_000_000 + n * each} 7" for n in range(60)] for each in (0, MORE_BYTES // 20)
    )
    (tmp_path / "0.ledger").write_text("\n".join(flat))
    (tmp_path / "1.ledger").write_text("\n".join(growing))
    (problem,) = growth(tmp_path)
    assert problem.startswith("worker 1 grew from ")
    assert problem.endswith(" bytes")
