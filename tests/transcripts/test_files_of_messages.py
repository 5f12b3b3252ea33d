"""OpenAI's chat lines, SWE-agent, ATIF and aider."""

import json

from backstory.transcripts.model import Origin
from tests.transcripts.formats_reading import (
    describe,
    describe_context,
    get_thread,
    list_entries,
    read_sessions,
)
from tests.transcripts.reading import write_lines

# ------------------------------------------------------------------ OpenAI's chat


def call(id, name="run", arguments='{"n": 1}'):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "count"},
    {"role": "assistant", "content": None, "tool_calls": [call("call_id")]},
    {"role": "tool", "tool_call_id": "call_id", "content": "1"},
    {"role": "assistant", "content": "Again.", "tool_calls": [call("call_id")]},
    {"role": "tool", "tool_call_id": "call_id", "content": "2"},
]


def test_call_ids_that_repeat_are_bound_in_order(tmp_path):
    sessions, _ = read_sessions(write_lines(tmp_path / "x.jsonl", [{"messages": ASKED}]))
    assert describe_context(get_thread(sessions))[2:] == [
        ("call", "call_id"),
        ("result", "call_id", "1"),
        ("assistant", "Again."),
        ("call", "call_id#2"),
        ("result", "call_id#2", "2"),
    ]


def test_equal_conversations_are_told_apart_by_their_number_and_keep_their_ids(tmp_path):
    lines = [{"messages": ASKED}, {"messages": ASKED[:2]}, {"messages": ASKED}]
    ids = [session.id for session in read_sessions(write_lines(tmp_path / "x.jsonl", lines))[0]]
    assert len(set(ids)) == 3
    assert ids[2] == f"{ids[0]}#2"
    grown = [
        session.id
        for session in read_sessions(
            write_lines(tmp_path / "x.jsonl", [*lines, {"messages": ASKED}])
        )[0]
    ]
    assert grown[:3] == ids


def test_a_list_of_runs_and_a_bare_list_of_messages(tmp_path):
    runs = [{"task_id": 1, "reward": 0.5, "traj": ASKED}, {"task_id": 2, "traj": ASKED[:2]}]
    (tmp_path / "runs.json").write_text(json.dumps(runs, indent=1))
    first, _ = read_sessions(tmp_path / "runs.json")[0]
    assert first.threads[0].about == {"reward": 0.5, "task_id": 1}
    (tmp_path / "bare.json").write_text(json.dumps(ASKED))
    assert describe_context(get_thread(read_sessions(tmp_path / "bare.json")[0]))[0] == (
        "system",
        "Be brief.",
    )
    large = [{"traj": [*ASKED, {"role": "user", "content": "x" * 50_000}]} for _ in range(4)]
    (tmp_path / "large.json").write_text(json.dumps(large))
    assert len(read_sessions(tmp_path / "large.json")[0]) == 4


def test_functions_of_2023_and_refusals(tmp_path):
    messages = [
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "run", "arguments": "not json"},
        },
        {"role": "function", "name": "run", "content": "1"},
        {"role": "assistant", "content": None, "refusal": "No."},
    ]
    thread = get_thread(
        read_sessions(write_lines(tmp_path / "x.jsonl", [{"messages": messages}]))[0]
    )
    events = list_entries(thread)
    assert [event.kind for event in events] == ["tool_call", "tool_result", "assistant"]
    assert events[0].data["arguments"] == "not json"
    assert events[2].content == "No."


def test_a_file_is_lines_a_list_or_one_object_however_it_is_written(tmp_path):
    short, long = [{"role": "user", "content": "q"}], [{"role": "user", "content": "x" * 100_000}]
    texts = {
        "first line longer than a head": "".join(
            json.dumps({"messages": m}) + "\n" for m in (long, short)
        ),
        "one object over many lines": json.dumps({"messages": short}, indent=1),
        "a long list of messages": json.dumps(short + long, indent=1),
        "a list of runs": json.dumps([{"messages": short}, {"messages": long}], indent=1),
    }
    found = {}
    for name, text in texts.items():
        (tmp_path / "x.json").write_text(text)
        found[name] = [
            len(list_entries(session.threads[0]))
            for session in read_sessions(tmp_path / "x.json")[0]
        ]
    assert list(found.values()) == [[1, 1], [1], [2], [1, 1]]


def test_a_custom_tool_is_given_a_text(tmp_path):
    custom = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [custom]}]
    [event] = list_entries(
        get_thread(read_sessions(write_lines(tmp_path / "x.jsonl", [{"messages": messages}]))[0])
    )
    assert (event.data["name"], event.data["arguments"]) == ("patch", "*** Begin")


def test_a_role_that_is_not_known_does_not_take_the_conversation_away(tmp_path):
    messages = [{"role": "user", "content": "go"}, {"role": "critic", "content": "Hm."}]
    thread = get_thread(
        read_sessions(write_lines(tmp_path / "x.jsonl", [{"messages": messages}]))[0]
    )
    events = list_entries(thread)
    assert describe_context(thread) == [("user", "go"), ("user", "Hm.")]
    assert events[1].data == {"meta": "critic"}


# ------------------------------------------------------------------ SWE-agent


def test_demonstrations_are_marked_and_results_name_their_call_in_a_list(tmp_path):
    history = [
        {"role": "system", "content": "Fix it.", "agent": "main"},
        {"role": "user", "content": "An example.", "agent": "main", "is_demo": True},
        {"role": "assistant", "content": "Look.", "agent": "main", "tool_calls": [call("c1")]},
        {"role": "tool", "content": "found", "agent": "main", "tool_call_ids": ["c1"]},
    ]
    (tmp_path / "task.traj").write_text(json.dumps({"history": history}))
    [session] = read_sessions(tmp_path / "task.traj")[0]
    thread = session.threads[0]
    events = list_entries(thread)
    assert (session.tool, events[1].data) == ("swe-agent", {"meta": "demonstration"})
    assert describe_context(thread)[-1] == ("result", "c1", "found")


def test_runs_of_one_task_are_sessions_of_their_own_and_one_that_goes_on_stays_one(tmp_path):
    def run(folder, *answers, **info):
        history = [{"role": "user", "content": "Fix it."}]
        history += [{"role": "assistant", "content": answer} for answer in answers]
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "task.traj").write_text(json.dumps({"history": history, "info": info}))

    run("a", "one", "two", exit_status="submitted")
    run("b", "one", "other", exit_status="submitted")
    sessions = read_sessions(tmp_path)[0]
    assert sorted(describe_context(get_thread([session]))[-1][1] for session in sessions) == [
        "other",
        "two",
    ]
    assert len({session.id for session in sessions}) == 2
    run("c", "one")
    [before] = read_sessions(tmp_path / "c")[0]
    run("c", "one", "two")
    [after] = read_sessions(tmp_path / "c")[0]
    assert before.id == after.id
    assert list_entries(after.threads[0])[:2] == list_entries(before.threads[0])


def test_a_trajectory_without_a_history_is_told_by_its_steps(tmp_path):
    steps = [{"action": "ls", "observation": "a.py", "response": "I look.", "thought": ""}]
    (tmp_path / "task.traj").write_text(json.dumps({"environment": "e", "trajectory": steps}))
    assert describe_context(get_thread(read_sessions(tmp_path)[0])) == [
        ("assistant", "I look."),
        ("user", "a.py"),
    ]


def test_each_attempt_is_a_session_and_the_chosen_one_is_not_told_twice(tmp_path):
    def attempt(answer):
        said = [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": answer}]
        return {"history": said, "trajectory": [], "info": {"exit_status": "submitted"}}

    attempts = [attempt("one"), attempt("two")]
    for document in ({"attempts": attempts}, {"attempts": attempts} | attempts[1]):
        (tmp_path / "task.traj").write_text(json.dumps(document))
        sessions = read_sessions(tmp_path / "task.traj")[0]
        assert {session.tool for session in sessions} == {"swe-agent"}
        assert [describe_context(get_thread([session]))[-1][1] for session in sessions] == [
            "one",
            "two",
        ]
        assert len({session.id for session in sessions}) == 2


def test_images_and_reasoning_of_a_trajectory_are_kept(tmp_path):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    thought = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
    history = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Fix it."}, picture],
            "agent": "main",
        },
        {"role": "assistant", "content": "Look.", "agent": "main", "thinking_blocks": thought},
    ]
    (tmp_path / "task.traj").write_text(json.dumps({"history": history}))
    asked, said = list_entries(get_thread(read_sessions(tmp_path)[0]))
    assert asked.content == "Fix it."
    assert "iVBORw0KGgo=" in json.dumps(asked.data["native"])
    assert "c2ln" in json.dumps(said.data["native"])


# ------------------------------------------------------------------ ATIF


def test_steps_have_calls_and_their_observations(tmp_path):
    steps = [
        {"step_id": 1, "source": "user", "message": "go", "timestamp": "2026-05-05T05:00:00Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "Look.",
            "reasoning_content": "hm",
            "model_name": "qwen",
            "metrics": {"prompt_tokens": 5, "cost_usd": 0.1},
            "tool_calls": [{"tool_call_id": "c1", "function_name": "run", "arguments": {"n": 1}}],
            "observation": {
                "results": [{"source_call_id": "c1", "content": "1"}, {"content": "by itself"}]
            },
        },
    ]
    document = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s1",
        "agent": {"name": "demo"},
        "steps": steps,
    }
    (tmp_path / "t.json").write_text(json.dumps(document))
    [session] = read_sessions(tmp_path)[0]
    thread = session.threads[0]
    events = list_entries(thread)
    assert (session.tool, session.id) == ("atif", "s1")
    assert describe_context(thread) == [
        ("user", "go"),
        ("assistant", "Look."),
        ("call", "c1"),
        ("result", "c1", "1"),
        ("user", "by itself"),
    ]
    assert events[1].data["usage"] == {"input": 5, "cost": 0.1}
    assert "hm" in str(events[1].data["native"])


def trajectory(*steps, **more):
    return {"schema_version": "ATIF-v1.7", "agent": {"name": "demo"}, "steps": list(steps)} | more


def spawning(*refs):
    calls = [
        {"tool_call_id": f"c{n}", "function_name": "Agent", "arguments": {}}
        for n in range(len(refs))
    ]
    results = [
        {"source_call_id": f"c{n}", "content": None, "subagent_trajectory_ref": [ref]}
        for n, ref in enumerate(refs)
    ]
    return {
        "step_id": 1,
        "source": "agent",
        "tool_calls": calls,
        "observation": {"results": results},
    }


def test_sub_agents_inside_a_trajectory_are_threads_at_their_calls(tmp_path):
    asked = {"step_id": 1, "source": "user", "message": "look"}
    below = [trajectory(asked, trajectory_id=id, session_id="s") for id in ("k0", "k1")]
    refs = spawning({"trajectory_id": "k0"}, {"trajectory_id": "k1"})
    whole = trajectory(refs, trajectory_id="root", session_id="s", subagent_trajectories=below)
    (tmp_path / "t.json").write_text(json.dumps(whole))
    [session] = read_sessions(tmp_path)[0]
    assert [thread.id for thread in session.threads] == [None, "k0", "k1"]
    assert [thread.origin.call for thread in session.threads[1:]] == ["call c0", "call c1"]
    assert describe_context(session.threads[2]) == [("user", "look")]


def test_sub_agents_in_files_beside_a_trajectory_are_found_by_their_names(tmp_path):
    asked = {"step_id": 1, "source": "user", "message": "look"}
    refs = spawning({"session_id": "?", "trajectory_path": "logs/b.json"}, {"session_id": "s2"})
    documents = {"z": trajectory(refs, session_id="s"), "b": trajectory(asked, session_id="s1")}
    documents["c"] = trajectory(asked, session_id="s2")
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    origins = {
        session.id: session.threads[0].origin for session in read_sessions(tmp_path).sessions
    }
    assert origins == {
        "s": None,
        "s1": Origin("s", call="call c0", is_spawned=True),
        "s2": Origin("s", call="call c1", is_spawned=True),
    }


def test_parts_of_a_session_that_share_its_id_are_all_told(tmp_path):
    for name, words in (("a", "later"), ("b", "first"), ("c", "first")):
        time = "2026-05-05T06:00:00Z" if words == "later" else "2026-05-05T05:00:00Z"
        asked = {"step_id": 1, "source": "user", "message": words, "timestamp": time}
        (tmp_path / f"{name}.json").write_text(json.dumps(trajectory(asked, session_id="s")))
    later, first, copy = read_sessions(tmp_path)[0]
    assert (first.id, copy.id) == ("s", "s")
    assert later.id.startswith("s-")


def test_of_parts_without_times_the_one_with_the_shortest_name_is_the_first(tmp_path):
    for name in ("t.json", "t.cont-1.json"):
        asked = {"step_id": 1, "source": "user", "message": name}
        (tmp_path / name).write_text(json.dumps(trajectory(asked, session_id="s")))
    assert {
        session.source.rpartition("/")[2]: session.id == "s"
        for session in read_sessions(tmp_path)[0]
    } == {
        "t.json": True,
        "t.cont-1.json": False,
    }


def test_trajectories_without_ids_of_one_name_are_not_one(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        step = {"step_id": 1, "source": "user", "message": folder}
        (tmp_path / folder / "trajectory.json").write_text(json.dumps(trajectory(step)))
    assert len({session.id for session in read_sessions(tmp_path)[0]}) == 2


# ------------------------------------------------------------------ aider

HISTORY = """before the first headline

# aider chat started at 2024-08-05 19:33:32

> Aider v0.47

#### Use the spinner
#### everywhere

Certainly! Here it is:

```python
x = 1
```

> Tokens: 5 sent

#### /diff

# aider chat started at 2024-08-05 19:33:32

> nothing was said here

# aider chat started at 2024-08-05 19:33:32

#### go
"""


def test_headlines_begin_sessions_and_marks_say_who_speaks(tmp_path):
    (tmp_path / ".aider.chat.history.md").write_text(HISTORY)
    sessions, report = read_sessions(tmp_path)
    assert [session.id for session in sessions] == [
        "2024-08-05 19:33:32/2024-08-05 19:33:32",
        "2024-08-05 19:33:32/2024-08-05 19:33:32/3",
    ]
    thread = sessions[0].threads[0]
    events = list_entries(thread)
    assert [describe(entry) for entry in events] == [
        ("user", "Aider v0.47"),
        ("user", "Use the spinner\neverywhere"),
        ("assistant", "Certainly! Here it is:\n\n```python\nx = 1\n```"),
        ("user", "Tokens: 5 sent"),
        ("user", "/diff"),
    ]
    assert [(event.data or {}).get("meta") for event in events] == [
        "tool",
        None,
        None,
        "tool",
        None,
    ]
    assert "before the first headline" in report.notes[0].what


def test_a_result_of_2023_belongs_to_the_oldest_call_that_waits(tmp_path):
    messages = [
        {"role": "user", "content": "count"},
        {"role": "assistant", "content": None, "function_call": {"name": "run", "arguments": "{}"}},
        {"role": "function", "name": "run", "content": "1"},
    ]
    sessions, _ = read_sessions(write_lines(tmp_path / "x.jsonl", [{"messages": messages}]))
    (_, call), (_, result, text) = describe_context(get_thread(sessions))[1:]
    assert (call, text) == (result, "1")


def test_a_history_of_parts_is_not_a_trajectory(tmp_path):
    checkpoint = {"history": [{"role": "user", "parts": [{"text": "hi"}]}], "authType": "oauth"}
    (tmp_path / "checkpoint.json").write_text(json.dumps(checkpoint))
    sessions, report = read_sessions(tmp_path / "checkpoint.json")
    assert sessions == []
    assert [fault.what for fault in report.notes] == ["not recognized"]
