"""A context as a file of another tool, and back: importing it adds nothing, what is added to it comes in."""

import json
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings

import backstory
from backstory import transcripts
from backstory.transcripts import export_transcript
from backstory.transcripts.exporting import list_targets
from tests.slow import more
from tests.transcripts.reading import context, everything, log
from tests.transcripts.stories import Story, seeds
from tests.transcripts.test_import import REWOUND, SESSION, answer, settle, text, user, write_lines
from tests.transcripts.writers import TOOLS as WRITERS

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
    export = export_transcript(
        store, store.resolve(agent.id if at is None else f"{agent.id}@{at}"), target
    )
    path = folder / NAMES.get(target, "file.jsonl")
    path.write_text(export.text)
    return settle(path), export


@pytest.mark.parametrize("target", TOOLS)
def test_what_was_said_is_in_the_file_and_open_calls_are_closed(store, told, tmp_path, target):
    path, _ = write(store, told, target, tmp_path)
    [session] = transcripts.read(path)
    assert session.tool == target
    [thread] = session.threads
    told_live = [line for line in context(log(thread)) if line[0] != "system"]
    assert told_live == [
        ("user", "Look <b>here</b>"),
        ("assistant", "I will."),
        ("call", "call_1"),
        ("call", "call_2"),
        ("result", "call_1", "a.py"),
        ("result", "call_2", "interrupted: no result was recorded"),
        ("user", "and then?"),
        ("assistant", "Nothing."),
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


@pytest.mark.parametrize("target", TOOLS)
def test_an_exported_file_without_the_blank_answer_at_the_end_moves_no_head(
    store, tmp_path, target
):
    agent = store.start("main")
    agent.user("go")
    agent.assistant("")
    path, _ = write(store, agent, target, tmp_path)
    assert not store.import_transcripts(path, settle=0).has_news


@pytest.mark.parametrize("target", ["claude-code", "codex", "pi"])
def test_another_store_gets_the_conversation(store, told, tmp_path, target):
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
    assert [e.content for e in told.messages(limit=3)] == ["Nothing.", "go on", "Gone on."]
    assert "jump" not in [event.kind for event in told.events()]


def test_a_file_of_claude_code_is_one_that_its_loader_takes(store, tmp_path):
    path = settle(write_lines(tmp_path / "in" / f"{SESSION}.jsonl", REWOUND))
    store.import_transcripts(path)
    export = export_transcript(store, store.resolve(SESSION), "claude-code")
    title, *records = map(json.loads, export.text.splitlines())
    assert title["type"] == "custom-title"
    assert all(len(record["uuid"]) == 36 for record in records)
    assert records[0]["parentUuid"] is None
    way = [records[-1]]
    parents = {record["uuid"]: record for record in records}
    while way[-1]["parentUuid"] is not None:
        way.append(parents[way[-1]["parentUuid"]])
    assert (
        len(way) == len(store.resolve(SESSION).agent.context().messages) - 1
    )  # the jump is not said
    assert {record["sessionId"] for record in records} == {export.place.stem}
    assert export.place.parts[:2] == ("projects", "-src")
    spoken = [record["message"] for record in reversed(way) if record["type"] == "assistant"]
    assert [message["id"] for message in spoken] == ["msg_a1", "msg_a3"]
    assert {message["model"] for message in spoken} == {"claude-x"}


def test_thinking_goes_back_with_its_signature_to_its_provider_only(store, tmp_path):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    own = "1c5f2f0e-0000-4000-8000-0000000000a9"
    records = [user(own, "go", None, 1), answer("a1", [thought, *text("Gone.")], own, 2)]
    store.import_transcripts(settle(write_lines(tmp_path / f"{SESSION}.jsonl", records)))
    _, prompt, *answers = map(
        json.loads,
        export_transcript(store, store.resolve(SESSION), "claude-code").text.splitlines(),
    )
    assert prompt["uuid"] == own
    assert [record["message"]["content"] for record in answers] == [[thought], text("Gone.")]
    assert "Hm." not in export_transcript(store, store.resolve(SESSION), "codex").text


def test_a_rollout_of_codex_begins_with_its_meta_and_has_an_event_for_each_prompt(store, told):
    export = export_transcript(store, store.resolve(told.id), "codex")
    meta, *records = map(json.loads, export.text.splitlines())
    assert meta["type"] == "session_meta"
    assert {
        "id",
        "timestamp",
        "cwd",
        "originator",
        "cli_version",
        "source",
        "model_provider",
    } < set(meta["payload"])
    assert meta["payload"]["id"] in export.place.name
    events = [record["payload"] for record in records if record["type"] == "event_msg"]
    assert [e["message"] for e in events if e["type"] == "user_message"] == [
        "Look <b>here</b>",
        "and then?",
    ]
    assert [record["type"] for record in records].count("turn_context") == 2


def test_a_session_of_pi_is_a_chain_of_short_ids(store, told):
    header, *entries = map(
        json.loads, export_transcript(store, store.resolve(told.id), "pi").text.splitlines()
    )
    assert (header["type"], header["version"]) == ("session", 3)
    assert all(len(entry["id"]) == 8 for entry in entries)
    name, left, *live = entries  # what stood before the clear, then a chain of its own
    assert (name["type"], name["name"], name["parentId"]) == ("session_info", "main", None)
    assert left["parentId"] == name["id"]
    assert [entry["parentId"] for entry in live] == [
        name["id"],
        *(entry["id"] for entry in live[:-1]),
    ]


@pytest.mark.parametrize(
    ("model", "provider"), [("claude-x", "anthropic"), ("gpt-5", "openai"), ("gemini-3", "google")]
)
def test_pi_learns_who_answered(store, told, model, provider):
    told.append("assistant", "Yes.", {"model": model})
    last = json.loads(export_transcript(store, store.resolve(told.id), "pi").text.splitlines()[-1])[
        "message"
    ]
    assert (last["provider"], last["model"]) == (provider, model)


def test_a_rollout_has_an_event_for_each_answer_and_its_name_in_the_index(store, told):
    told.describe(title="The files")
    export = export_transcript(store, store.resolve(told.id), "codex")
    payloads = [json.loads(line)["payload"] for line in export.text.splitlines()]
    said = [one["message"] for one in payloads if one.get("type") == "agent_message"]
    assert said == ["I will.", "Nothing."]
    path, line = export.listing
    assert (str(path), json.loads(line)["thread_name"]) == ("session_index.jsonl", "The files")
    assert json.loads(line)["id"] == payloads[0]["id"]


def test_the_usage_of_what_a_compaction_kept_is_not_the_size_of_the_context(store):
    usage = {"input": 3, "output": 4, "cache_read": 900_000}
    agent = store.start("main")
    agent.user("one")
    agent.append("assistant", "first", {"model": "claude-x", "usage": usage})
    agent.compact("In short.", keep=1)
    agent.append("assistant", "foreign", {"model": "gpt-5", "usage": usage})
    lines = map(
        json.loads,
        export_transcript(store, store.resolve(agent.id), "claude-code").text.splitlines(),
    )
    spent = [line["message"]["usage"] for line in lines if line["type"] == "assistant"]
    assert [sum(one.values()) for one in spent[-2:]] == [0, 7]


def test_the_page_escapes_everything_folds_results_and_needs_no_script(store, told):
    fork = told.fork("<i>fork", at=6)
    fork.user("elsewhere")
    told.describe(title='"Title" & <more>')
    page = export_transcript(store, store.resolve(told.id), "html").text
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
    for target in list_targets():
        first, again = (export_transcript(store, store.resolve(told.id), target) for _ in range(2))
        assert first == again


@pytest.mark.parametrize("target", ["claude-code", "pi"])
def test_branches_that_were_left_are_in_the_file_and_the_live_one_is_its_last(
    store, tmp_path, target
):
    agent = store.start("main")
    first = agent.user("first")
    agent.assistant("left")
    agent.jump(first.seq)
    agent.assistant("live")
    path, _ = write(store, agent, target, tmp_path)
    [session] = transcripts.read(path)
    events = log(session.threads[0])
    assert context(events) == [("user", "first"), ("assistant", "live")]
    assert ("assistant", "left") in everything(events)


@pytest.mark.parametrize("target", ["claude-code", "pi"])
def test_what_was_left_behind_the_live_end_stays_out_of_the_file(store, tmp_path, target):
    agent = store.start("main")
    first = agent.user("first")
    agent.assistant("left")
    agent.jump(first.seq)
    path, _ = write(store, agent, target, tmp_path)
    [session] = transcripts.read(path)
    assert everything(log(session.threads[0])) == [("user", "first")]
    assert not store.import_transcripts(path).has_news


@pytest.mark.parametrize("target", ["claude-code", "pi"])
@settings(
    max_examples=more(20, slow=1_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=seeds)
@example(seed=76)  # the last answer ends with white space
def test_a_random_tree_goes_out_and_comes_back_without_adding_anything(tmp_path, target, seed):
    random = Random(seed)
    tool = random.choice(
        [one for one in WRITERS.values() if one.format in ("claude-code", "codex", "pi")]
    )
    name, lines = tool.write(Story(random, **tool.options))
    source = settle(write_lines(tmp_path / name, lines))
    with backstory.open(":memory:") as store, backstory.open(":memory:") as other:
        store.import_transcripts([source], settle=0)
        [agent] = store.agents()
        head = agent.head
        path, _ = write(store, agent, target, tmp_path)
        assert not store.import_transcripts([path], settle=0).has_news
        assert (store.agents()[0].head, len(store.agents())) == (head, 1)
        other.import_transcripts([path], settle=0)
        [twin] = other.agents()
        assert words(twin.context().messages) == words(agent.context().messages)
        assert other.verify() == []


def words(events):
    """What people and models said. To some tools answers in a row are one, and the texts of an
    answer are joined by a blank line."""
    spoken = [event.content for event in events if event.kind in ("user", "assistant")]
    return "".join(spoken).replace("\n\n", "")


def use(id):
    return [{"type": "tool_use", "id": id, "name": "run", "input": {}}]


def test_words_behind_the_calls_of_an_answer_are_not_added_again(store, tmp_path):
    lines = [user("u1", "go", None, 1), answer("a1", [*use("t1"), *text("Gone.")], "u1", 2)]
    store.import_transcripts(settle(write_lines(tmp_path / f"{SESSION}.jsonl", lines)), settle=0)
    path, _ = write(store, store.agent(SESSION), "claude-code", tmp_path)
    assert not store.import_transcripts(path, settle=0).has_news


@pytest.mark.parametrize("target", ["claude-code", "pi"])
def test_an_answer_that_grew_behind_a_branch_is_whole(store, tmp_path, target):
    agent = store.start("main")
    agent.user("go")
    first = agent.append(
        "tool_call", None, {"id": "t1", "name": "run", "arguments": {}, "answer": "m"}
    )
    agent.user("left")
    agent.jump(first.seq)
    agent.append("tool_call", None, {"id": "t2", "name": "run", "arguments": {}, "answer": "m"})
    agent.user("live")
    path, _ = write(store, agent, target, tmp_path)
    [thread] = next(iter(transcripts.read(path))).threads
    assert [line[:2] for line in context(log(thread))] == [
        ("user", "go"),
        ("call", "t1"),
        ("call", "t2"),
        ("result", "t1"),
        ("result", "t2"),
        ("user", "live"),
    ]
    assert ("user", "left") in everything(log(thread))


def test_what_is_live_is_last_though_it_ends_with_an_open_call(store, tmp_path):
    agent = store.start("main")
    agent.user("go")
    call = agent.tool_call("run", {}, id="t1")
    agent.clear()
    agent.user("left")
    agent.jump(call.seq)
    path, _ = write(store, agent, "claude-code", tmp_path)
    [thread] = next(iter(transcripts.read(path))).threads
    assert [line[:2] for line in context(log(thread))] == [
        ("user", "go"),
        ("call", "t1"),
        ("result", "t1"),
    ]


def test_a_trajectory_has_a_step_for_each_message_and_results_in_its_call_s_step(tmp_path):
    call = {"id": "c1", "name": "run", "arguments": {"n": 1}}
    usage = {"usage": {"input": 7, "output": 3}, "model": "claude-x"}
    events = [
        ("system", "Be brief."),
        ("user", "go"),
        ("assistant", "I run it.", usage),
        ("tool_call", None, call),
        ("tool_result", "1", {"id": "c1"}),
        ("assistant", "Done."),
    ]
    with backstory.open(":memory:") as store:
        agent = store.start(events=events)
        written = export_transcript(store, store.resolve(agent.id), "atif")
    document = json.loads(written.text)
    steps = document["steps"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4]
    assert [(step["source"], step["message"]) for step in steps] == [
        ("system", "Be brief."),
        ("user", "go"),
        ("agent", "I run it."),
        ("agent", "Done."),
    ]
    asked = {"tool_call_id": "c1", "function_name": "run", "arguments": {"n": 1}}
    assert steps[2]["tool_calls"] == [asked]
    assert steps[2]["observation"] == {"results": [{"source_call_id": "c1", "content": "1"}]}
    assert steps[2]["metrics"] == {"prompt_tokens": 7, "completion_tokens": 3}
    assert steps[2]["model_name"] == "claude-x"
    assert document["schema_version"] == "ATIF-v1.6"
    # Runs of line, position and length.
    assert document["extra"]["backstory"]["positions"] == [[1, 1, 3], [3, 4, 1], [3, 5, 2]]
