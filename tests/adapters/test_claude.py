"""The session store of the Claude Agent SDK: its kit, what goes beyond it, and the helpers of the SDK."""

import asyncio
import json
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
import trio
from claude_agent_sdk import (
    ClaudeAgentOptions,
    delete_session_via_store,
    fork_session_via_store,
    get_session_info_from_store,
    get_session_messages_from_store,
    import_session_to_store,
    list_sessions_from_store,
    project_key_for_directory,
    rename_session_via_store,
    tag_session_via_store,
)
from claude_agent_sdk._internal.session_resume import materialize_resume_session
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given

import backstory
from backstory import Event
from backstory.adapters.claude import BackstorySessionStore
from backstory.wire.conversation import conversation_of
from tests.adapters.claude_lines import (
    KEY,
    MODEL,
    Transcript,
    conversation,
    story,
    text,
    thinking,
    use,
)
from tests.transcripts.reading import log, one, read, write_lines
from tests.transcripts.stories import Story, seeds, tree
from tests.transcripts.writers import TOOLS

TOOL = TOOLS["claude-code"]


@pytest.fixture
def store(durable_url):
    store = BackstorySessionStore(durable_url)
    yield store
    store.close()


def test_the_kit_passes_on_every_backend(new_url, run):
    for backend in ("memory", "sqlite"):
        run(
            run_session_store_conformance(
                lambda backend=backend: BackstorySessionStore(new_url(backend))
            )
        )


def test_the_kit_passes_on_postgres(empty_database, run):
    stores = []

    def fresh():
        stores.append(BackstorySessionStore(empty_database()))
        return stores[-1]

    run(run_session_store_conformance(fresh))
    for store in stores:
        store.close()


def test_lines_come_back_exactly_and_are_messages(store, run):
    lines = story().lines
    run(store.append(KEY, lines))
    assert json.dumps(run(store.load(KEY))) == json.dumps(lines)
    body = store.agent(KEY).conversation().to("anthropic", model=MODEL)
    assert [message["role"] for message in body["messages"]][:4] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert body["messages"][1]["content"] == [
        thinking("Hm."),
        text("I will look."),
        use("toolu_1", command="ls"),
    ]


def test_a_batch_repeated_whole_or_in_part_changes_nothing(store, run):
    lines = story().lines
    with_uuid = [line for line in lines if "uuid" in line]
    run(store.append(KEY, with_uuid))
    for part in (with_uuid, with_uuid[2:], with_uuid[:1], with_uuid[-1:]):
        run(store.append(KEY, part))
    assert run(store.load(KEY)) == with_uuid
    more = Transcript()
    more.last = with_uuid[-1]["uuid"]
    more.says("Thanks.")
    run(store.append(KEY, [with_uuid[0], *more.lines, with_uuid[3]]))
    assert run(store.load(KEY)) == [*with_uuid, *more.lines]


def test_a_line_that_changed_under_its_uuid_is_kept_as_in_the_file(store, run):
    lines = story().lines[:1]
    changed = lines[0] | {"version": "2"}
    run(store.append(KEY, [*lines, changed]))
    assert run(store.load(KEY)) == [*lines, changed]


def test_a_session_with_nothing_but_a_subagents_lines_was_never_written(store, run):
    run(store.append(KEY | {"subpath": "subagents/a"}, story().lines))
    assert run(store.load(KEY)) is None
    assert run(store.list_sessions(KEY["project_key"])) == []


def test_nothing_appended_makes_no_session(store, run):
    run(store.append(KEY, []))
    assert run(store.load(KEY)) is None
    assert run(store.list_sessions("proj")) == []


def test_two_processes_append_whole_batches(durable_url, two_writers, run, sound):
    two_writers("claude", durable_url)
    with backstory.open(durable_url) as opened:
        lines = run(
            BackstorySessionStore(opened).load({"project_key": "p", "session_id": "shared"})
        )
        written = [line["message"]["content"].rsplit(" ", 1)[0] for line in lines]
        assert len(written) == 200
        assert written[::2] == written[1::2]
        sound(opened)


def test_five_hundred_lines_in_one_append(store, opened, run, sound):
    lines = Transcript()
    for n in range(250):
        lines.says(f"{n} " + "x" * 2_000)
        lines.answers(text(f"{n} " + "y" * 2_000), id=f"msg_{n}")
    run(store.append(KEY, lines.lines))
    assert run(store.load(KEY)) == lines.lines
    assert len(store.agent(KEY).conversation()) == 500
    sound(opened)


def test_it_works_under_trio(tmp_path):
    async def main():
        store = BackstorySessionStore(tmp_path / "h.db")
        lines = story().lines
        await store.append(KEY, lines)
        found = (
            await store.load(KEY),
            await store.list_sessions("proj"),
            await store.list_subkeys(KEY),
        )
        store.close()
        return lines, found

    lines, (loaded, sessions, subkeys) = trio.run(main)
    assert (loaded, len(sessions), subkeys) == (lines, 1, [])


def test_what_others_wrote_is_a_line_behind_the_one_before_it(store, run):
    lines = story()
    run(store.append(KEY, lines.lines))
    agent = store.agent(KEY)
    agent.user("And now?")
    call = agent.tool_call("Bash", {"command": "ls"}, id="c1")
    agent.tool_result(call, "b.py", error=True)
    agent.assistant("Nothing.")
    found = run(store.load(KEY))
    assert found == run(store.load(KEY))
    ours = found[len(lines.lines) :]
    assert [line["type"] for line in ours] == ["user", "assistant", "user", "assistant"]
    chain = [lines.last, *(line["uuid"] for line in ours)]
    assert [line["parentUuid"] for line in ours] == chain[:-1]
    assert ours[2]["message"]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "b.py",
        "is_error": True,
    }


def test_an_erased_line_keeps_its_place_among_the_others(store, run):
    lines = Transcript()
    asked = lines.says("A secret.")
    lines.answers(text("I see."))
    run(store.append(KEY, lines.lines))
    store.agent(KEY).erase([1], why="a secret")
    first, second = run(store.load(KEY))
    assert (first["uuid"], first["message"]["content"]) == (asked["uuid"], "(erased)")
    assert second == lines.lines[1]


def test_a_fork_is_one_row_and_its_lines_have_its_own_session(store, run):
    lines = story()
    run(store.append(KEY, lines.lines))
    events = store.agent(KEY).head
    branch = store.fork(KEY, "other", up_to=lines.lines[4]["uuid"])
    key = KEY | {"session_id": "other"}
    found = run(store.load(key))
    assert [line["uuid"] for line in found] == [line["uuid"] for line in lines.lines[:5]]
    assert {line["sessionId"] for line in found} == {"other"}
    assert (branch.parent, store.agent(KEY).head) == (store.agent(KEY).id, events)
    assert sorted(each["session_id"] for each in run(store.list_sessions("proj"))) == [
        "other",
        "sess",
    ]
    run(store.delete(KEY))
    assert run(store.load(key)) == found
    with pytest.raises(ValueError, match="uuid"):
        store.fork(key, "third", up_to="nobody")


def test_deleting_a_session_leaves_no_event_of_it_and_of_its_subagents(store, opened, run):
    sub = KEY | {"subpath": "subagents/agent-1"}
    lines = Transcript()
    lines.says("the treasure", isSidechain=True)
    run(store.append(KEY, story().lines))
    run(store.append(sub, lines.lines))
    assert conversation(store.agent(sub)) == ["the treasure"]
    run(store.delete(KEY))
    assert opened.agents() == []
    run(store.append(KEY, lines.lines))
    assert run(store.load(KEY)) == lines.lines


def test_lines_of_subagents_in_an_old_main_transcript_are_kept_and_not_said(store, run):
    lines = story()
    side = Transcript()
    side.says("Do the work.", isSidechain=True)
    run(store.append(KEY, [*lines.lines, *side.lines]))
    assert "Do the work." not in conversation(store.agent(KEY))
    assert run(store.load(KEY)) == [*lines.lines, *side.lines]


@tree
@given(seed=seeds)
def test_what_the_model_sees_of_a_mirrored_history_is_what_an_import_gives(tmp_path, seed):
    """Random histories with rewinds, drafts, clears and compactions, mirrored a few lines at a time."""
    random = Random(seed)
    name, lines = TOOL.write(Story(random, **TOOL.options))
    imported = log(one(read(write_lines(tmp_path / name, lines))[0]))
    live = backstory.replay(
        Event.of(each.seq, each.kind, each.content, each.data) for each in imported
    )
    store = BackstorySessionStore(":memory:")
    rest = lines
    while rest:
        size = random.randint(1, 9)
        asyncio.run(store.append(KEY, rest[:size]))
        rest = rest[size:]
    expected = conversation_of(live.messages).to("anthropic", model="claude-x")
    assert store.agent(KEY).conversation().to("anthropic", model="claude-x") == expected
    assert json.dumps(asyncio.run(store.load(KEY))) == json.dumps(lines)


def test_the_helpers_of_the_sdk_work_on_it(tmp_path, store, run, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    folder, session = str(tmp_path), str(uuid4())
    lines = story()
    for line in lines.lines:
        line["sessionId"] = session
    key = {"project_key": project_key_for_directory(folder), "session_id": session}

    async def helpers():
        await store.append(key, lines.lines)
        await rename_session_via_store(store, session, "Renamed", directory=folder)
        await tag_session_via_store(store, session, "mine", directory=folder)
        info = await get_session_info_from_store(store, session, directory=folder)
        messages = await get_session_messages_from_store(store, session, directory=folder)
        forked = await fork_session_via_store(store, session, directory=folder)
        listed = await list_sessions_from_store(store, directory=folder)
        resumed = await materialize_resume_session(
            ClaudeAgentOptions(session_store=store, resume=session, cwd=folder)
        )
        await delete_session_via_store(store, session, directory=folder)
        left = await list_sessions_from_store(store, directory=folder)
        return info, messages, forked, listed, resumed, left

    info, messages, forked, listed, resumed, left = run(helpers())
    assert (info.custom_title, info.tag) == ("Renamed", "mine")
    assert [message.type for message in messages] == [
        "user",
        *["assistant"] * 3,
        "user",
        "assistant",
    ]
    assert {each.session_id for each in listed} == {session, forked.session_id}
    assert [each.session_id for each in left] == [forked.session_id]
    files = list(Path(resumed.config_dir).rglob("*.jsonl"))
    written = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert written[: len(lines.lines)] == lines.lines
    run(resumed.cleanup())


def test_a_transcript_on_disk_is_taken_in_by_the_sdk(tmp_path, store, run, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    session = str(uuid4())
    project = project_key_for_directory(str(tmp_path))
    file = tmp_path / "config" / "projects" / project / f"{session}.jsonl"
    file.parent.mkdir(parents=True)
    lines = story().lines
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    run(import_session_to_store(session, store, directory=str(tmp_path)))
    assert run(store.load({"project_key": project, "session_id": session})) == lines
