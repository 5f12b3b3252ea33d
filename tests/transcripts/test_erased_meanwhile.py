"""Imports while something is erased, and of exported files: what was erased does not come back."""

import json

import pytest

from backstory.transcripts import export_transcript
from backstory.transcripts.writing import ThreadWriter
from tests.storage.held import held
from tests.transcripts.reading import write_lines
from tests.transcripts.test_again import GROWN, IN_PIECES, added, grown_answer, heard, touched
from tests.transcripts.test_import import SESSION, answer, line, main, text, user


@pytest.fixture
def url(every_url):
    """Every backend: these tests write while others do, or what others must read."""
    return every_url


@pytest.mark.parametrize("place", [1, 2, 3, 4, 5])
def test_a_compaction_does_not_bring_back_what_is_erased_while_it_is_imported(
    store, tmp_path, monkeypatch, place
):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = grown_answer(store, path)
    agent = main(store)
    said = agent.events([place])[0].content or "pwd"
    commit = ThreadWriter.commit

    def erase_first(self):
        agent.erase([place], why="a secret")
        commit(self)

    monkeypatch.setattr(ThreadWriter, "commit", erase_first)
    kept = {"preservedMessages": {"anchorUuid": "s1", "uuids": ["u1", "a1", "a9", "a2", "r1"]}}
    boundary = line(
        "b1", None, 7, "system", None, subtype="compact_boundary", logicalParentUuid="r1"
    )
    lines += [
        boundary | {"compactMetadata": kept},
        user("s1", "summary", "b1", 8, isCompactSummary=True),
    ]
    added(store, write_lines(path, lines))
    assert not [e for e in agent.events(after=5) if said in f"{e.content} {e.data}"]
    assert {"tool_call", "tool_result"} <= set(heard(agent))
    assert added(store, touched(path)) == 0
    assert store.verify() == []


@pytest.mark.parametrize(("first", "place"), [(3, 2), (3, 3), (4, 2), (4, 3), (4, 4)])
def test_an_answer_that_grows_does_not_bring_back_what_is_erased_meanwhile(
    store, url, tmp_path, monkeypatch, first, place
):
    path = tmp_path / f"{SESSION}.jsonl"
    added(store, write_lines(path, IN_PIECES[:3]))
    added(store, write_lines(path, IN_PIECES[:first]))
    agent = main(store)
    said = {2: b"hunter1x", 3: b"hunter3x", 4: b"hunter2x"}[place]
    commit = ThreadWriter.commit

    def erase_first(self):
        agent.erase([place], why="a secret")
        commit(self)

    monkeypatch.setattr(ThreadWriter, "commit", erase_first)
    added(store, write_lines(path, [*IN_PIECES, *GROWN]))
    assert said not in held(store, url)
    assert store.verify() == []


def test_a_compaction_does_not_bring_back_what_is_erased_while_its_file_is_read(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr("backstory.transcripts.writing.BATCH", 2)
    commit = ThreadWriter.commit

    def erase_then(self):
        commit(self)
        if self._agent.head == 2:
            self._agent.erase([2], why="a secret")

    monkeypatch.setattr(ThreadWriter, "commit", erase_then)
    lines = [user("u1", "go", None, 1), answer("a1", text("It is hunter1x"), "u1", 2)]
    kept = {"preservedMessages": {"anchorUuid": "s1", "uuids": ["u1", "a1"]}}
    boundary = line(
        "b1", None, 7, "system", None, subtype="compact_boundary", logicalParentUuid="a1"
    )
    lines += [
        boundary | {"compactMetadata": kept},
        user("s1", "summary", "b1", 8, isCompactSummary=True),
    ]
    added(store, write_lines(tmp_path / f"{SESSION}.jsonl", lines))
    assert "hunter1x" not in str(main(store).events())
    heard = [event for event in main(store).context().messages if event.kind != "note"]
    assert [event.content for event in heard] == ["summary", "go"]
    assert store.verify() == []


def test_a_file_that_was_exported_does_not_bring_back_what_was_erased(store, tmp_path):
    lines = [
        user("u1", text("It is hunter1x") + text(" or not"), None, 1),
        answer("a1", text("so"), "u1", 2),
    ]
    added(store, write_lines(tmp_path / f"{SESSION}.jsonl", lines))
    agent = main(store)
    out = export_transcript(store, store.resolve(agent.id), "claude-code").text
    own = [json.loads(each) for each in out.splitlines()]
    agent.erase([1], why="a secret")
    uuids = [record["uuid"] for record in own if "uuid" in record]
    kept = {"preservedMessages": {"anchorUuid": "s1", "uuids": uuids}}
    boundary = line(
        "b1", None, 7, "system", None, subtype="compact_boundary", logicalParentUuid=uuids[-1]
    )
    own += [
        boundary | {"compactMetadata": kept},
        user("s1", "summary", "b1", 8, isCompactSummary=True),
    ]
    path = tmp_path / "out" / f"{own[0]['sessionId']}.jsonl"
    path.parent.mkdir()
    added(store, write_lines(path, [record | {"sessionId": own[0]["sessionId"]} for record in own]))
    assert len(store.agents()) == 1
    heard = [event for event in agent.context().messages if event.kind != "note"]
    assert [event.content for event in heard] == ["summary", "so"]
    assert "hunter1x" not in str(agent.events())
    assert store.verify() == []
