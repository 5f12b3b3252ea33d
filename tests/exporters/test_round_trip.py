"""A context as a file of another tool, and back: importing it adds nothing, what is added to it comes in."""

import json
from itertools import pairwise

import pytest

from backstory import importers
from backstory.exporters import TARGETS, exported
from tests.importers.test_import import REWOUND, SESSION, answer, settle, text, user, write_lines

TOOLS = ("claude-code", "codex", "pi", "atif")
NAMES = {"atif": "file.json"}


@pytest.fixture
def told(store):
    """A history with everything that files find hard."""
    agent = store.start("main", system="Be careful.")
    agent.user("old")
    agent.clear()
    agent.system("Be quick.")
    agent.user("Look <b>here</b>")
    agent.assistant("I will.")
    call = agent.tool_call("glob", {"pattern": "*.py"}, id="call_1")
    agent.tool_call("read", {"path": "a.py"}, id="call_2")
    agent.mark("between")
    agent.tool_result(call, "a.py")
    agent.user("and then?")
    agent.assistant("Nothing.")
    return agent


def write(store, agent, target, folder, at=None):
    export = exported(store, store.resolve(agent.id if at is None else f"{agent.id}@{at}"), target)
    path = folder / NAMES.get(target, "file.jsonl")
    path.write_text(export.text)
    return settle(path), export


def spoken(events):
    return [(e.kind, e.content, (e.data or {}).get("id")) for e in events if e.kind != "system"]


@pytest.mark.parametrize("target", TOOLS)
def test_what_was_said_is_in_the_file_and_open_calls_are_closed(store, told, tmp_path, target):
    path, _ = write(store, told, target, tmp_path)
    [session] = importers.read(path)
    assert session.tool == target
    [thread] = session.threads
    assert spoken(importers.events(thread.steps())) == [
        ("user", "Look <b>here</b>", None),
        ("assistant", "I will.", None),
        ("tool_call", None, "call_1"),
        ("tool_call", None, "call_2"),
        ("tool_result", "a.py", "call_1"),
        ("tool_result", "interrupted: no result was recorded", "call_2"),
        ("user", "and then?", None),
        ("assistant", "Nothing.", None),
    ]


@pytest.mark.parametrize("target", TOOLS)
@pytest.mark.parametrize("at", [None, 5])
def test_importing_an_exported_file_adds_nothing(store, told, tmp_path, target, at):
    head = told.head
    path, _ = write(store, told, target, tmp_path, at)
    for _ in range(2):
        assert not store.import_transcripts(path).has_news
    assert (told.head, len(store.agents())) == (head, 1)
    assert store.verify() == []


@pytest.mark.parametrize("target", ["claude-code", "codex", "pi"])
def test_another_store_gets_the_conversation(store, told, tmp_path, target):
    import backstory

    path, _ = write(store, told, target, tmp_path)
    with backstory.open(":memory:") as other:
        other.import_transcripts(path)
        [agent] = other.agents()
        assert [e.content for e in agent.context().messages if e.kind == "user"] == [
            "Look <b>here</b>",
            "and then?",
        ]


def test_what_the_tool_adds_to_an_exported_file_comes_into_the_agent(store, told, tmp_path):
    path, _ = write(store, told, "claude-code", tmp_path)
    last = json.loads(path.read_text().splitlines()[-1])["uuid"]
    with path.open("a") as file:
        for record in (user("n1", "go on", last, 50), answer("n2", text("Gone on."), "n1", 51)):
            file.write(json.dumps(record | {"timestamp": "2030-01-01T00:00:00.000Z"}) + "\n")
    store.import_transcripts(path, settle=0)
    assert [e.content for e in told.tail(3)] == ["Nothing.", "go on", "Gone on."]
    assert "jump" not in [event.kind for event in told.events()]


def test_a_file_of_claude_code_is_one_that_its_loader_takes(store, tmp_path):
    path = settle(write_lines(tmp_path / "in" / f"{SESSION}.jsonl", REWOUND))
    store.import_transcripts(path)
    export = exported(store, store.resolve(SESSION), "claude-code")
    title, *records = map(json.loads, export.text.splitlines())
    assert title["type"] == "custom-title"
    assert all(len(record["uuid"]) == 36 for record in records)
    assert records[0]["parentUuid"] is None
    assert all(later["parentUuid"] == earlier["uuid"] for earlier, later in pairwise(records))
    assert {record["sessionId"] for record in records} == {export.place.stem}
    assert export.place.parts[:2] == ("projects", "-src")
    spoken = [record["message"] for record in records if record["type"] == "assistant"]
    assert [message["id"] for message in spoken] == ["msg_a1", "msg_a3"]
    assert {message["model"] for message in spoken} == {"claude-x"}


def test_thinking_goes_back_with_its_signature_to_its_provider_only(store, tmp_path):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    own = "1c5f2f0e-0000-4000-8000-0000000000a9"
    records = [user(own, "go", None, 1), answer("a1", [thought, *text("Gone.")], own, 2)]
    store.import_transcripts(settle(write_lines(tmp_path / f"{SESSION}.jsonl", records)))
    _, prompt, *answers = map(
        json.loads, exported(store, store.resolve(SESSION), "claude-code").text.splitlines()
    )
    assert prompt["uuid"] == own
    assert [record["message"]["content"] for record in answers] == [[thought], text("Gone.")]
    assert "Hm." not in exported(store, store.resolve(SESSION), "codex").text


def test_a_rollout_of_codex_begins_with_its_meta_and_has_an_event_for_each_prompt(store, told):
    export = exported(store, store.resolve(told.id), "codex")
    meta, *records = map(json.loads, export.text.splitlines())
    assert meta["type"] == "session_meta"
    assert {"id", "timestamp", "cwd", "originator", "cli_version", "source", "model_provider"} < set(
        meta["payload"]
    )
    assert meta["payload"]["id"] in export.place.name
    events = [record["payload"] for record in records if record["type"] == "event_msg"]
    assert [e["message"] for e in events if e["type"] == "user_message"] == ["Look <b>here</b>", "and then?"]
    assert [record["type"] for record in records].count("turn_context") == 2


def test_a_session_of_pi_is_a_chain_of_short_ids(store, told):
    header, *entries = map(json.loads, exported(store, store.resolve(told.id), "pi").text.splitlines())
    assert (header["type"], header["version"]) == ("session", 3)
    assert all(len(entry["id"]) == 8 for entry in entries)
    assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]


def test_the_page_escapes_everything_folds_results_and_needs_no_script(store, told):
    fork = told.fork("<i>fork", at=6)
    fork.user("elsewhere")
    told.describe(title='"Title" & <more>')
    page = exported(store, store.resolve(told.id), "html").text
    assert "<b>here</b>" not in page
    assert "Look &lt;b&gt;here&lt;/b&gt;" in page
    assert "&lt;i&gt;fork" in page
    assert "<title>&quot;Title&quot; &amp; &lt;more&gt;</title>" in page
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<details><summary>result, 4 characters</summary><pre>a.py</pre></details>" in page
    assert "left behind" in page
    assert "elsewhere" in page


def test_every_target_gives_the_same_bytes_again(store, told):
    for target in TARGETS:
        first, again = (exported(store, store.resolve(told.id), target) for _ in range(2))
        assert first == again
