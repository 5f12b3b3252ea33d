"""Files that look like transcripts of a known format, but have another shape."""

import json

import pytest

from tests.transcripts.formats_reading import describe_context, get_thread, read_sessions
from tests.transcripts.reading import write_lines

ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "count"}]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "run", "input": {}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "1"}]},
]
CONVERSE = [
    {"role": "user", "content": [{"text": "count"}]},
    {
        "role": "assistant",
        "content": [{"toolUse": {"toolUseId": "c1", "name": "run", "input": {}}}],
    },
]
AI_SDK = [
    {"role": "user", "content": "count"},
    {
        "role": "assistant",
        "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "run", "input": {}}],
    },
]
AI_SDK_FILES = [
    {
        "role": "user",
        "content": [{"type": "file", "data": "aGk=", "mediaType": "text/plain"}],
    },
]
UI_MESSAGES = [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "count"}]}]
OLD_UI_MESSAGES = [{"role": "assistant", "content": "", "toolInvocations": [{"state": "result"}]}]
GEMINI = [{"role": "user", "parts": [{"text": "count"}]}]

SHAPES = [
    (ANTHROPIC, "Anthropic"),
    (CONVERSE, "Bedrock Converse"),
    (AI_SDK, "AI SDK"),
    (AI_SDK_FILES, "AI SDK"),
    (UI_MESSAGES, "AI SDK"),
    (OLD_UI_MESSAGES, "AI SDK"),
    (GEMINI, "Gemini"),
]


@pytest.mark.parametrize(("messages", "shape"), SHAPES)
@pytest.mark.parametrize("is_lines", [True, False])
def test_messages_of_other_apis_are_not_read_as_chat_messages(tmp_path, messages, shape, is_lines):
    if is_lines:
        write_lines(tmp_path / "x.jsonl", [{"messages": messages}, {"messages": messages}])
    else:
        # Cline's and Roo's api_conversation_history.json is such a list.
        (tmp_path / "x.json").write_text(json.dumps(messages, indent=1))
    sessions, report = read_sessions(tmp_path)
    assert sessions == []
    [note] = report.notes
    assert note.what == f"{shape} messages: no transcript format reads them"


@pytest.mark.parametrize("is_run", [True, False])
def test_the_shape_of_a_long_document_is_seen_in_its_beginning(tmp_path, is_run):
    long = [*ANTHROPIC, {"role": "user", "content": "x" * 100_000}]
    (tmp_path / "x.json").write_text(json.dumps([{"traj": long}] if is_run else long))
    sessions, report = read_sessions(tmp_path)
    assert sessions == []
    assert "Anthropic" in report.notes[0].what


def test_the_lines_of_qwen_code_are_not_those_of_claude_code(tmp_path):
    def line(id, parent, type, *parts):
        message = {"role": type, "parts": list(parts)}
        named = {"uuid": id, "parentUuid": parent, "sessionId": "s", "type": type}
        return {**named, "timestamp": "2026-01-01T00:00:00Z", "message": message}

    lines = [
        line("a", None, "user", {"text": "count"}),
        line("b", "a", "assistant", {"text": "One."}),
    ]
    sessions, report = read_sessions(write_lines(tmp_path / "qwen.jsonl", lines))
    assert sessions == []
    assert report.notes[0].what == "Qwen Code's messages: no transcript format reads them"


def write_answers_to_one_prompt(path, session, rounds):
    """Write calls and their results: each answer continues the prompt."""

    def line(id, parent, type, content):
        named = {"uuid": id, "parentUuid": parent, "sessionId": session, "type": type}
        message = {"role": type, "content": content}
        return {**named, "timestamp": "2026-01-01T00:00:00Z", "message": message}

    lines = [line("p", None, "user", "count")]
    for number in range(rounds):
        call = {"type": "tool_use", "id": f"c{number}", "name": "run", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "1"}
        lines.append(line(f"a{number}", "p", "assistant", [call]))
        lines.append(line(f"r{number}", f"a{number}", "user", [result]))
    lines.append(line("b", "p", "assistant", [{"type": "text", "text": "One."}]))
    return write_lines(path, lines)


@pytest.mark.parametrize("rounds", [0, 1, 8])
def test_the_lines_of_iflow_are_not_those_of_claude_code(tmp_path, rounds):
    session = "session-0c5f2f0e-0000-4000-8000-0000000000f1"
    path = write_answers_to_one_prompt(tmp_path / "iflow.jsonl", session, rounds)
    sessions, report = read_sessions(path)
    assert sessions == []
    assert report.notes[0].what == "iFlow's messages: no transcript format reads them"


@pytest.mark.parametrize("session", ["0c5f2f0e-0000-4000-8000-0000000000f1", "session-1"])
def test_a_prompt_that_was_answered_often_does_not_make_a_file_iflows(tmp_path, session):
    path = write_answers_to_one_prompt(tmp_path / "x.jsonl", session, rounds=8)
    [session], report = read_sessions(path)
    assert session.tool == "claude-code"
    assert not report.notes


def test_records_of_another_shape_after_those_of_claude_code_are_counted(tmp_path):
    line = {"parentUuid": None, "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z"}
    message = {"role": "user", "content": "x" * 70_000}
    first = {**line, "uuid": "a", "type": "user", "message": message}
    odd = {**line, "uuid": "b", "type": "user", "message": {"parts": [{"text": "count"}]}}
    [session], _ = read_sessions(write_lines(tmp_path / "x.jsonl", [first, odd]))
    assert session.report.unknown == {"user (claude-code)": 1}


def test_a_conversation_in_another_form_among_others_is_left_out_and_reported(tmp_path):
    plain = [{"role": "user", "content": "go"}]
    lines = [{"messages": plain}] * 30 + [{"messages": ANTHROPIC}]
    sessions, report = read_sessions(write_lines(tmp_path / "x.jsonl", lines))
    assert len(sessions) == 30
    assert [fault.what for fault in report.doubtful] == [
        "Anthropic messages: no transcript format reads them"
    ]


@pytest.mark.parametrize("words", ["a", "a" * 10_000])
def test_messages_of_other_apis_are_recognized_although_their_first_call_is_late(tmp_path, words):
    talk = [{"role": role, "content": words} for role in ("user", "assistant") * 15]
    (tmp_path / "x.json").write_text(json.dumps([*talk, *ANTHROPIC]))
    sessions, report = read_sessions(tmp_path)
    assert sessions == []
    [fault] = list(report.notes) + list(report.doubtful)
    assert fault.what == "Anthropic messages: no transcript format reads them"


def test_a_part_that_nobody_knows_is_counted(tmp_path):
    strange = [{"role": "user", "content": [{"type": "hologram"}]}]
    talk = [{"role": "user", "content": "go"}]
    lines = [{"messages": talk}] * 30 + [{"messages": strange}]
    sessions, report = read_sessions(write_lines(tmp_path / "x.jsonl", lines))
    assert len(sessions) == 31
    assert report.unknown == {"a message in another form (openai-chat)": 1}


def test_images_and_audio_are_parts_of_chat_messages(tmp_path):
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}]
    sessions, _ = read_sessions(write_lines(tmp_path / "x.jsonl", [{"messages": messages}]))
    assert describe_context(get_thread(sessions)) == [("user", "look")]


def test_a_system_prompt_beside_the_messages_is_read(tmp_path):
    """Requests to Anthropic without calls are like OpenAI's messages otherwise."""
    system = [{"type": "text", "text": "Be brief."}]
    messages = [{"role": "user", "content": "go"}]
    lines = [{"system": system, "messages": messages}]
    sessions, _ = read_sessions(write_lines(tmp_path / "x.jsonl", lines))
    assert describe_context(get_thread(sessions)) == [("system", "Be brief."), ("user", "go")]


def test_a_history_of_messages_of_another_api_is_not_a_trajectory_of_swe_agent(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"history": ANTHROPIC}))
    sessions, report = read_sessions(tmp_path)
    assert sessions == []
    assert report.notes
