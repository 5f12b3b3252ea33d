"""The head after an import: it follows the tool, unless a person moved it."""

import json

import backstory
from backstory.errors import InvalidEvent
from backstory.transcripts import export_transcript, writing
from tests.transcripts.reading import write_lines
from tests.transcripts.test_growth import TASK, finish
from tests.transcripts.test_import import user
from tests.transcripts.wild_claude import SESSION

TWO_WAYS = [*TASK, user("x1", "one way", "a1", 3), user("y1", "another", "a1", 4)]


def leaf(uuid):
    return {"type": "last-prompt", "leafUuid": uuid}


def test_the_head_follows_the_tool_back_to_the_last_branch(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    with backstory.open(":memory:") as grown:
        grown.import_transcripts(write_lines(path, [*TWO_WAYS, leaf("x1")]), settle=0)
        grown.import_transcripts(write_lines(path, [*TWO_WAYS, leaf("x1"), leaf("y1")]), settle=0)
        assert list(grown.agents()[0].conversation())[-1].content == "another"
        finish(grown, path)


def test_the_head_stays_with_a_person_wherever_the_tool_goes(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    with backstory.open(":memory:") as grown:
        grown.import_transcripts(write_lines(path, [*TWO_WAYS, leaf("x1")]), settle=0)
        [agent] = grown.agents()
        agent.user("mine")
        head = agent.head
        write_lines(
            path, [*TWO_WAYS, leaf("x1"), {"type": "custom-title", "customTitle": "A title"}]
        )
        grown.import_transcripts(path, settle=0)
        assert (agent.head, list(agent.conversation())[-1].content) == (head, "mine")
        write_lines(path, [*TWO_WAYS, leaf("x1"), user("x2", "on", "x1", 5)])
        grown.import_transcripts(path, settle=0)
        assert [message.content for message in agent.conversation()][-2:] == ["one way", "mine"]
        assert "on" in [event.content for event in agent.events()]


def test_a_tool_that_continues_an_export_twice_adds_a_branch_if_a_person_continued_it_too(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    with backstory.open(":memory:") as store:
        store.import_transcripts(write_lines(path, TASK), settle=0)
        [agent] = store.agents()
        out = export_transcript(store, store.resolve(agent.id), "claude-code").text
        records = list(map(json.loads, out.splitlines()))
        last = [record for record in records if "uuid" in record][-1]
        new = [
            user("n1", "a prompt", last["uuid"], 9, sessionId=last["sessionId"]),
            user("n2", "another", "n1", 10, sessionId=last["sessionId"]),
        ]
        path = tmp_path / "out" / f"{last['sessionId']}.jsonl"
        store.import_transcripts(write_lines(path, [*records, new[0]]), settle=0)
        agent.user("mine")
        store.import_transcripts(write_lines(path, [*records, *new]), settle=0)
        assert [event.content for event in agent.context().messages if event.kind == "user"] == [
            "go",
            "a prompt",
            "mine",
        ]


def test_notes_after_a_message_that_cannot_be_stored_do_not_move_the_head(tmp_path, monkeypatch):
    check_draft = writing.check_draft

    def refuse(kind, content, *arguments):
        if content == "no store can store this":
            raise InvalidEvent("too much")
        return check_draft(kind, content, *arguments)

    monkeypatch.setattr(writing, "check_draft", refuse)
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [user("u1", "one", None, 1), user("u2", "no store can store this", "u1", 2)]
    with backstory.open(":memory:") as store:
        store.import_transcripts(write_lines(path, lines), settle=0)
        [agent] = store.agents()
        for number in range(6):
            agent.note(f"note {number}")
        lines.append(user("u3", "three", "u2", 3))
        outcome = store.import_transcripts(write_lines(path, lines), settle=0)
        assert list(agent.conversation())[-1].content == "three"
        assert outcome.merge_reports().notes == []
        kinds = [event.kind for event in agent.events()]
        assert "jump" not in kinds
