"""OpenAI's chat lines, SWE-agent, ATIF and aider."""

import json

from tests.importers.reading import context, everything, log, one, read, write_lines

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
    sessions, _ = read(write_lines(tmp_path / "x.jsonl", [{"messages": ASKED}]))
    assert context(log(one(sessions)))[2:] == [
        ("call", "call_id"),
        ("result", "call_id", "1"),
        ("assistant", "Again."),
        ("call", "call_id#2"),
        ("result", "call_id#2", "2"),
    ]


def test_equal_conversations_are_told_apart_by_their_number_and_keep_their_ids(tmp_path):
    lines = [{"messages": ASKED}, {"messages": ASKED[:2]}, {"messages": ASKED}]
    ids = [session.id for session in read(write_lines(tmp_path / "x.jsonl", lines))[0]]
    assert len(set(ids)) == 3
    assert ids[2] == f"{ids[0]}#2"
    grown = [
        session.id for session in read(write_lines(tmp_path / "x.jsonl", [*lines, {"messages": ASKED}]))[0]
    ]
    assert grown[:3] == ids


def test_a_list_of_runs_and_a_bare_list_of_messages(tmp_path):
    runs = [{"task_id": 1, "reward": 0.5, "traj": ASKED}, {"task_id": 2, "traj": ASKED[:2]}]
    (tmp_path / "runs.json").write_text(json.dumps(runs, indent=1))
    first, _ = read(tmp_path / "runs.json")[0]
    assert first.threads[0].about == {"reward": 0.5, "task_id": 1}
    (tmp_path / "bare.json").write_text(json.dumps(ASKED))
    assert context(log(one(read(tmp_path / "bare.json")[0])))[0] == ("system", "Be brief.")
    large = [{"traj": [*ASKED, {"role": "user", "content": "x" * 50_000}]} for _ in range(4)]
    (tmp_path / "large.json").write_text(json.dumps(large))
    assert len(read(tmp_path / "large.json")[0]) == 4


def test_functions_of_2023_and_refusals(tmp_path):
    messages = [
        {"role": "assistant", "content": None, "function_call": {"name": "run", "arguments": "not json"}},
        {"role": "function", "name": "run", "content": "1"},
        {"role": "assistant", "content": None, "refusal": "No."},
    ]
    events = log(one(read(write_lines(tmp_path / "x.jsonl", [{"messages": messages}]))[0]))
    assert [event.kind for event in events] == ["tool_call", "tool_result", "assistant"]
    assert events[0].data["arguments"] == "not json"
    assert events[2].content == "No."


# ------------------------------------------------------------------ SWE-agent


def test_demonstrations_are_marked_and_results_name_their_call_in_a_list(tmp_path):
    history = [
        {"role": "system", "content": "Fix it.", "agent": "main"},
        {"role": "user", "content": "An example.", "agent": "main", "is_demo": True},
        {"role": "assistant", "content": "Look.", "agent": "main", "tool_calls": [call("c1")]},
        {"role": "tool", "content": "found", "agent": "main", "tool_call_ids": ["c1"]},
    ]
    (tmp_path / "task.traj").write_text(json.dumps({"history": history}))
    [session] = read(tmp_path / "task.traj")[0]
    events = log(session.threads[0])
    assert (session.tool, events[1].data) == ("swe-agent", {"meta": "demonstration"})
    assert context(events)[-1] == ("result", "c1", "found")


def test_a_trajectory_without_a_history_is_told_by_its_steps(tmp_path):
    steps = [{"action": "ls", "observation": "a.py", "response": "I look.", "thought": ""}]
    (tmp_path / "task.traj").write_text(json.dumps({"environment": "e", "trajectory": steps}))
    assert context(log(one(read(tmp_path)[0]))) == [("assistant", "I look."), ("user", "a.py")]


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
            "observation": {"results": [{"source_call_id": "c1", "content": "1"}, {"content": "by itself"}]},
        },
    ]
    document = {"schema_version": "ATIF-v1.6", "session_id": "s1", "agent": {"name": "demo"}, "steps": steps}
    (tmp_path / "t.json").write_text(json.dumps(document))
    [session] = read(tmp_path)[0]
    events = log(session.threads[0])
    assert (session.tool, session.id) == ("atif", "s1")
    assert context(events) == [
        ("user", "go"),
        ("assistant", "Look."),
        ("call", "c1"),
        ("result", "c1", "1"),
        ("user", "by itself"),
    ]
    assert events[1].data["usage"] == {"input": 5, "cost": 0.1}
    assert "hm" in str(events[1].data["native"])


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
    sessions, report = read(tmp_path)
    assert [session.id for session in sessions] == [
        "2024-08-05 19:33:32/2024-08-05 19:33:32",
        "2024-08-05 19:33:32/2024-08-05 19:33:32/3",
    ]
    events = log(sessions[0].threads[0])
    assert everything(events) == [
        ("user", "Aider v0.47"),
        ("user", "Use the spinner\neverywhere"),
        ("assistant", "Certainly! Here it is:\n\n```python\nx = 1\n```"),
        ("user", "Tokens: 5 sent"),
        ("user", "/diff"),
    ]
    assert [(event.data or {}).get("meta") for event in events] == ["tool", None, None, "tool", None]
    assert "before the first headline" in report.notes[0].what


def test_a_result_of_2023_belongs_to_the_oldest_call_that_waits(tmp_path):
    messages = [
        {"role": "user", "content": "count"},
        {"role": "assistant", "content": None, "function_call": {"name": "run", "arguments": "{}"}},
        {"role": "function", "name": "run", "content": "1"},
    ]
    sessions, _ = read(write_lines(tmp_path / "x.jsonl", [{"messages": messages}]))
    (_, call), (_, result, text) = context(log(one(sessions)))[1:]
    assert (call, text) == (result, "1")


def test_a_history_of_parts_is_not_a_trajectory(tmp_path):
    checkpoint = {"history": [{"role": "user", "parts": [{"text": "hi"}]}], "authType": "oauth"}
    (tmp_path / "checkpoint.json").write_text(json.dumps(checkpoint))
    sessions, report = read(tmp_path / "checkpoint.json")
    assert sessions == []
    assert [fault.what for fault in report.notes] == ["not a transcript that is known"]
