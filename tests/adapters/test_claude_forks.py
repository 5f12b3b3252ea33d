"""The session store of the Claude Agent SDK: a session that Claude forks is a fork in the log."""

from copy import deepcopy
from uuid import uuid4

import pytest
from claude_agent_sdk import fork_session_via_store, project_key_for_directory

from backstory.adapters.claude import BackstorySessionStore
from tests.adapters.claude_lines import KEY, Transcript, conversation, story, text

NEW = KEY | {"session_id": "new"}
SAID = ["List the files.", "I will look.", "a.py", "One file: a.py."]


@pytest.fixture
def store(durable_url):
    store = BackstorySessionStore(durable_url)
    yield store
    store.close()


@pytest.fixture(params=["same uuids", "new uuids"])
def fork_lines(request):
    """Copies the lines of a session as Claude does, with or without new uuids."""

    def fork(lines, session):
        new = {}
        copies = deepcopy([line for line in lines if "uuid" in line])
        for line in copies:
            uuid = line["uuid"]
            new[uuid] = uuid if request.param == "same uuids" else str(uuid4())
            source = {"sessionId": line["sessionId"], "messageUuid": uuid}
            parent = new.get(line["parentUuid"])
            line.update(uuid=new[uuid], parentUuid=parent, sessionId=session, forkedFrom=source)
        return copies

    return fork


def test_a_fork_by_claude_shares_the_messages_and_loads_its_own_lines(store, run, fork_lines):
    run(store.append(KEY, story().lines))
    copies = fork_lines(run(store.load(KEY)), "new")
    run(store.append(NEW, [*copies, {"type": "custom-title", "customTitle": "Files (fork)"}]))
    source, fork = store.agent(KEY), store.agent(NEW)
    assert fork.fork_seq == source.messages()[-1].seq
    assert [event.seq for event in fork.messages()] == [event.seq for event in source.messages()]
    assert run(store.load(NEW)) == [
        *copies,
        {"type": "custom-title", "customTitle": "Files (fork)"},
    ]
    [summary] = [
        each for each in run(store.list_session_summaries("proj")) if each["session_id"] == "new"
    ]
    assert summary["data"]["custom_title"] == "Files (fork)"


def test_claude_goes_on_and_rewinds_in_its_fork(store, run, fork_lines, durable_url):
    run(store.append(KEY, story().lines))
    copies = fork_lines(run(store.load(KEY)), "new")
    run(store.append(NEW, copies))
    later = Transcript("new")
    later.says("And now?", parent=copies[-1]["uuid"])
    later.answers(text("Nothing."), id="msg_3")
    run(store.append(NEW, later.lines))
    assert conversation(store.agent(NEW)) == [*SAID, "And now?", "Nothing."]
    store.close()
    store = BackstorySessionStore(durable_url)  # another process
    again = Transcript("new")
    again.says("Count them.", parent=copies[0]["uuid"])
    run(store.append(NEW, again.lines))
    assert conversation(store.agent(NEW)) == ["List the files.", "Count them."]
    assert run(store.load(NEW)) == [*copies, *later.lines, *again.lines]
    assert conversation(store.agent(KEY)) == SAID
    store.close()


def test_a_fork_of_a_fork_shares_the_first_messages(store, run, fork_lines):
    run(store.append(KEY, story().lines))
    first = fork_lines(run(store.load(KEY)), "new")
    run(store.append(NEW, first))
    second = fork_lines(first, "newest")
    newest = KEY | {"session_id": "newest"}
    run(store.append(newest, second))
    assert store.agent(newest).fork_seq > 0
    positions = [event.seq for event in store.agent(newest).messages()]
    assert positions == [event.seq for event in store.agent(KEY).messages()]
    assert run(store.load(newest)) == second


def test_a_repeated_first_append_changes_nothing(store, run, fork_lines):
    run(store.append(KEY, story().lines))
    copies = fork_lines(run(store.load(KEY)), "new")
    run(store.append(NEW, copies))
    head = store.agent(NEW).head
    run(store.append(NEW, copies))
    assert store.agent(NEW).head == head
    assert run(store.load(NEW)) == copies


def test_copies_of_something_else_than_the_context_are_written(store, run, fork_lines):
    lines = story().lines
    run(store.append(KEY, lines))
    copies = fork_lines(lines, "new")
    store.agent(KEY).jump(1)
    run(store.append(NEW, copies))
    assert store.agent(NEW).fork_seq == 0
    assert conversation(store.agent(NEW)) == SAID
    assert run(store.load(NEW)) == copies


def test_the_fork_of_the_sdk_up_to_a_line_is_one_of_the_log(store, run, tmp_path):
    folder, session = str(tmp_path), str(uuid4())
    key = {"project_key": project_key_for_directory(folder), "session_id": session}
    lines = Transcript(session)
    lines.says("One.")
    end = lines.answers(text("First answer."))
    lines.says("Two.")
    run(store.append(key, lines.lines))
    found = run(
        fork_session_via_store(store, session, directory=folder, up_to_message_id=end["uuid"])
    )
    fork = store.agent(key | {"session_id": found.session_id})
    assert conversation(fork) == ["One.", "First answer."]
    assert fork.fork_seq == 2
