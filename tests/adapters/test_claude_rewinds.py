"""The session store of the Claude Agent SDK: rewinds, by Claude Code and by others, and compactions."""

import pytest

from backstory.adapters.claude import BackstorySessionStore
from tests.adapters.claude_lines import KEY, Transcript, conversation, story, text, use


@pytest.fixture
def store(durable_url):
    store = BackstorySessionStore(durable_url)
    yield store
    store.close()


def test_a_prompt_below_an_older_line_is_a_jump_for_the_model_and_a_line_for_claude(store, run):
    lines = Transcript()
    first = lines.says("One.")
    lines.answers(text("First answer."))
    run(store.append(KEY, lines.lines))
    end = lines.last
    later = Transcript()
    later.says("A mistake.", parent=end)
    later.answers(text("Wrong."), id="msg_2")
    run(store.append(KEY, later.lines))
    again = Transcript()
    again.says("Instead.", parent=end)
    again.answers(text("Right."), id="msg_3")
    run(store.append(KEY, again.lines))
    assert conversation(store.agent(KEY)) == ["One.", "First answer.", "Instead.", "Right."]
    assert run(store.load(KEY)) == [*lines.lines, *later.lines, *again.lines]
    root = Transcript()
    root.says("From the beginning.", parent=first["parentUuid"])
    run(store.append(KEY, root.lines))
    assert conversation(store.agent(KEY)) == ["From the beginning."]


def test_a_rewind_behind_many_lines_that_say_nothing_is_seen(store, run):
    lines = Transcript()
    lines.says("One.")
    lines.answers(text("First answer."))
    end = lines.last
    lines.says("A mistake.")
    for _ in range(30):
        lines.add("progress", data={"type": "hook"})
    lines.says("Instead.", parent=end)
    run(store.append(KEY, lines.lines))
    assert conversation(store.agent(KEY)) == ["One.", "First answer.", "Instead."]


def test_a_rewind_inside_one_batch_is_one_too(store, run):
    lines = Transcript()
    lines.says("One.")
    lines.answers(text("First answer."))
    end = lines.last
    lines.says("A mistake.")
    lines.answers(text("Wrong."), id="msg_2")
    lines.says("Instead.", parent=end)
    run(store.append(KEY, lines.lines))
    assert conversation(store.agent(KEY)) == ["One.", "First answer.", "Instead."]


def test_parallel_results_in_any_order_are_no_rewind(store, run):
    lines = Transcript()
    lines.says("Both.")
    lines.answers(use("toolu_1", n=1), use("toolu_2", n=2))
    second = lines.results("toolu_2", "two")
    lines.results("toolu_1", "one")
    lines.answers(text("Done."), id="msg_2", parent=second["uuid"])
    for line in lines.lines:
        run(store.append(KEY, [line]))
    assert not [event for event in store.agent(KEY).events() if event.kind in ("jump", "clear")]


def compacted(session="sess"):
    lines = Transcript(session)
    lines.says("A long talk.")
    kept = lines.answers(text("Kept words."))
    boundary = lines.add(
        "system",
        parent=None,
        subtype="compact_boundary",
        logicalParentUuid=kept["uuid"],
        compactMetadata={"preservedMessages": {"uuids": [kept["uuid"]]}},
    )
    lines.says("The summary.", isCompactSummary=True, parent=boundary["uuid"])
    lines.says("Go on.")
    return lines


@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_compaction_clears_the_context_and_keeps_what_claude_keeps(store, run, size):
    lines = compacted().lines
    for start in range(0, len(lines), size):
        run(store.append(KEY, lines[start : start + size]))
    assert conversation(store.agent(KEY)) == ["The summary.", "Kept words.", "Go on."]
    assert run(store.load(KEY)) == lines
    assert run(store.list_session_summaries("proj"))[0]["data"]["first_prompt"] == "A long talk."


def test_after_a_rewind_by_a_person_the_lines_end_there_and_hang_together(store, run):
    lines = story()
    run(store.append(KEY, lines.lines))
    agent = store.agent(KEY)
    agent.mark("here")
    later = Transcript()
    later.says("Forget this.", parent=lines.last)
    run(store.append(KEY, later.lines))
    agent.rewind("here")
    assert run(store.load(KEY)) == lines.lines
    agent.clear()
    assert run(store.load(KEY)) == []


def test_claude_goes_on_behind_what_a_person_said_after_a_rewind(store, run):
    lines = story()
    run(store.append(KEY, lines.lines))
    agent = store.agent(KEY)
    agent.mark("here")
    later = Transcript()
    later.says("Forget this.", parent=lines.last)
    run(store.append(KEY, later.lines))
    agent.rewind("here")
    agent.user("By hand.")
    agent.assistant("By hand, too.")
    *_, asked, answered = run(store.load(KEY))
    begun = [message.content for message in agent.conversation()][:-2]
    for jumps, parent, said in (
        (0, answered, ["By hand.", "By hand, too."]),
        (1, asked, ["By hand."]),
    ):
        more = Transcript()
        more.add("file-history-snapshot", parent=None)
        more.says("Go on.", parent=parent["uuid"])
        run(store.append(KEY, more.lines))
        assert [message.content for message in agent.conversation()] == [*begun, *said, "Go on."]
        assert [event.kind for event in agent.events()].count("jump") == jumps
