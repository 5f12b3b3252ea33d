"""What an import does while nobody else can write."""

from contextlib import contextmanager

import backstory.intake
from tests.transcripts.reading import write_lines
from tests.transcripts.test_import import REWOUND, SESSION, main, said, settle


def test_rows_are_made_before_anything_is_locked(store, tmp_path, monkeypatch):
    backend = store._log.backend
    intake, behind, packed = backend.intake, backstory.intake.rows_behind, backend.packed
    locked, made = [False], []

    @contextmanager
    def locking():
        with intake() as rows:
            locked[0] = True
            yield rows
        locked[0] = False

    def noted(work):
        def working(*given):
            made.append(locked[0])
            return work(*given)

        return working

    monkeypatch.setattr(backend, "intake", locking)
    monkeypatch.setattr(backend, "packed", noted(packed))
    monkeypatch.setattr("backstory.intake.rows_behind", noted(behind))
    monkeypatch.setattr("backstory.transcripts.thread_writer.BATCH", 2)
    store.import_transcripts(settle(write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND)))
    assert made == [False] * 2 * 4
    assert said(main(store)) == ["one", "first", "two again", "third"]
    assert store.verify() == []
