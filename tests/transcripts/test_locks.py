"""Other writers wait for one batch of an import, not for all of it."""

from contextlib import contextmanager

import pytest

from backstory.transcripts import writing
from tests.transcripts.reading import write_lines
from tests.transcripts.test_import import REWOUND, SESSION, main, said, settle


@pytest.fixture
def url(every_url):
    """Every backend: these tests write while others do, or what others must read."""
    return every_url


class LockedBackend:
    """Notes when the transactions of a store begin and end."""

    def __init__(self, backend, monkeypatch, after):
        self.is_locked = False
        self._begin = backend.begin
        self._after = after
        monkeypatch.setattr(backend, "begin", self.begin)

    @contextmanager
    def begin(self, **options):
        with self._begin(**options) as transaction:
            self.is_locked = True
            yield transaction
        self.is_locked = False
        self._after()


@pytest.mark.parametrize(
    ("limit", "value", "most"), [("BATCH", 2, 2), ("BATCH_SIZE", 1, 1)], ids=["events", "bytes"]
)
def test_an_import_writes_batches_and_makes_their_events_before_it_locks_the_store(
    store, tmp_path, monkeypatch, limit, value, most
):
    other = store.start("other")
    heads = []

    def write_meanwhile():
        other.user("meanwhile")
        heads.append(sum(agent.listed_head for agent in store.agents() if agent != other))

    backend = LockedBackend(store._backend, monkeypatch, write_meanwhile)
    check_draft = writing.check_draft
    checked = []

    def check_and_note(*arguments):
        checked.append(backend.is_locked)
        return check_draft(*arguments)

    monkeypatch.setattr(writing, "check_draft", check_and_note)
    monkeypatch.setattr(writing, limit, value)
    path = write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND)
    store.import_transcripts(settle(path))

    assert said(main(store)) == ["one", "first", "two again", "third"]
    assert checked == [False] * main(store).head
    steps = [later - earlier for earlier, later in zip([0, *heads], heads, strict=False)]
    assert max(steps) == most
    assert sum(steps) == main(store).head == 7
    assert other.head == len(heads)
    assert store.verify() == []
