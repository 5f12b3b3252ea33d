"""The commands that write, run as processes on SQLite and PostgreSQL."""

import pytest

import backstory
from tests.cli.conftest import Shell, fill, fill_by_hand


@pytest.fixture
def durable_url(every_durable_url):
    """Every backend: these tests write while others do, or what others must read."""
    return every_durable_url


def test_the_commands_write_what_the_library_writes(shell, new_url, tmp_path):
    other = Shell(new_url("memory"), tmp_path)
    other.env["BACKSTORY_STORE"] = str(tmp_path / "other.db")
    fill_by_hand(shell)
    fill(other)
    for ref in ("main", "idea", "reviewer"):
        ours, theirs = (
            [row[:3] + row[4:] for row in one("log", ref).rows] for one in (shell, other)
        )
        assert ours == theirs


def test_new_makes_the_store_and_prints_an_id(shell):
    ran = shell("new", "work", "--system", "Be careful.")
    assert shell("agents", "--json").json[0]["id"] == ran.lines[0]
    assert shell("show", f"{ran.lines[0]}@1", "--content").out == "Be careful."


def test_rename(story):
    story("rename", "idea", "plan")
    assert story("agents").rows[1][1] == "main/plan"
    assert "already" in story("rename", "plan", "main", code=1).err
    assert "cannot be a name" in story("rename", "plan", "a/b", code=2).err


def test_append_takes_an_argument_standard_input_or_json_lines(story):
    assert story("append", "main", "as an argument").out == "8\n"
    assert (
        story("append", "main", "--kind", "assistant", stdin="from a pipe\nin two lines\n").out
        == "9\n"
    )
    assert story("show", "main@9", "--content").out == "from a pipe\nin two lines"
    batch = '{"kind":"user","content":"one"}\n\n{"kind":"mark","data":{"label":"m"}}\n'
    assert story("append", "main", "--jsonl", stdin=batch).out == "11\n"
    broken = '{"kind":"user","content":"one"}\n{"kind":"poem"}\n'
    assert "nothing was written" in story("append", "main", "--jsonl", stdin=broken, code=2).err
    assert "line 2 is not JSON" in story("append", "main", "--jsonl", stdin="{}\n{", code=2).err
    assert (
        "line 1 is not an object"
        in story("append", "main", "--jsonl", stdin='{"text":"x"}', code=2).err
    )
    assert "not UTF-8" in story("append", "main", stdin=b"\xff\xfe", code=2).err
    assert story("log", "main", "-n", "1").rows[0][0] == "11"


def test_append_only_after_the_expected_head(story):
    assert story("append", "main", "x", "--expected", "7").out == "8\n"
    assert story("append", "main", "x", "--expected", "7").out == "8\n"  # a repeat
    assert "is at position 8" in story("append", "main", "y", "--expected", "7", code=1).err


def test_append_with_data(story):
    data = '{"id":"c2","name":"rm","arguments":{}}'
    assert story("append", "main", "--kind", "tool_call", "--data", data).out == "8\n"
    assert "--data is not JSON" in story("append", "main", "x", "--data", "{", code=2).err
    assert (
        "pass its id in data"
        in story("append", "main", "--kind", "tool_call", "--data", "{}", code=2).err
    )


def test_commands_that_write_at_the_head_refuse_a_position(story):
    for command in (["append", "main@3", "x"], ["mark", "main@3"]):
        assert "writes at the head" in story(*command, code=2).err
    for command in (["clear"], ["undo"], ["redo"], ["spawn"], ["rename", "x"]):
        said = f"{command[0]} takes an agent, not a position: leave out the @"
        assert said in story(command[0], "main@3", *command[1:], code=2).err


def test_mark_rewind_clear_jump_and_undo(story):
    story("mark", "main")
    story("append", "main", "more")
    story("mark", "main", "later")
    assert story("rewind", "main@later").out == "11\n"
    assert story("rewind", "main@8").out == "12\n"
    assert story("clear", "main").out == "13\n"
    assert story("context", "main", "--json").out == ""
    assert story("undo", "main").out == "14\n"
    assert story("context", "main", "--control", "--json").json[-2]["seq"] == 12
    assert story("jump", "main@6").out == "15\n"
    assert "Delete b.py." in story("context", "main").out
    assert story("undo", "main", "--json").json[0]["kind"] == "jump"
    assert "no mark 'latr'" in story("rewind", "main@latr", code=1).err
    assert "jump needs a position: use backstory jump main@POS" in story("jump", "main", code=2).err
    with backstory.open(story.env["BACKSTORY_STORE"]) as store:
        assert store.verify() == []


def test_undo_goes_back_move_by_move_and_redo_forward_again(story):
    story("append", "main", "kept")
    story("clear", "main")
    before = story("context", "main", "--json").out
    assert "Delete b.py." not in story("context", "main").out
    story("undo", "main")
    assert "kept" in story("context", "main").out
    story("undo", "main")
    assert "Delete b.py." in story("context", "main").out
    assert "nothing to undo" in story("undo", "main", code=1).err
    story("redo", "main")
    assert "kept" in story("context", "main").out
    story("redo", "main", "--dry-run")
    story("redo", "main")
    assert story("context", "main", "--json").out == before
    assert "nothing to redo" in story("redo", "main", code=1).err


def test_the_beginning_of_a_chat_cannot_be_undone(shell):
    with backstory.open(shell.env["BACKSTORY_STORE"]) as store:
        store.start("main").extend([("clear",), ("system", "Be careful.")])  # as a chat begins
    assert "nothing to undo" in shell("undo", code=1).err
    assert "nothing to undo" in shell("undo", "--dry-run", code=1).err
    assert "Be careful." in shell("context").out


def test_a_dry_run_lists_what_would_leave_and_writes_nothing(story):
    story("append", "main", "One more.")
    ran = story("rewind", "main", "--dry-run")
    assert ran.lines[0].startswith("2 events (")
    assert ran.lines[0].endswith(" tokens) would leave the context of 'main'")
    assert ran.lines[1:] == ["  7 rewind to 5", "  8 user One more."]
    assert "nothing was written" in ran.err
    found = story("clear", "main", "--dry-run", "--json").json[0]
    assert (found["target"], found["leaves"]["events"], found["returns"]["events"]) == (0, 7, 0)
    assert found["leaves"]["tokens"] > 20
    found = story("jump", "main@6", "--dry-run", "--json").json[0]
    assert (found["leaves"]["positions"], found["returns"]["positions"]) == ([7, 8], [6])
    found = story("undo", "main", "--dry-run", "--json").json[0]
    assert (found["target"], found["returns"]["positions"]) == (6, [6])
    assert story("log", "main", "-n", "1").rows[0][0] == "8"


def test_a_dry_run_of_a_long_story_lists_only_the_first(story):
    story("append", "main", "--jsonl", stdin='{"kind":"user","content":"x"}\n' * 20)
    assert story("rewind", "main", "--dry-run").lines[-1] == "  and 11 more events"


def test_a_terminal_shows_the_new_head_and_how_to_take_a_move_back(story):
    assert "'main' is at position 8 now" in story.on_terminal("append", "main", "More.").out
    shown = story.on_terminal("rewind", "main@two files", width=200).out
    assert "rewind written at 9 of 'main'; `backstory undo main` takes it back" in shown
    assert "`backstory redo` takes it back" in story.on_terminal("undo", width=200).out


def test_fork_and_spawn_print_ids(story):
    id = story("fork", "main@two files", "plan").lines[0]
    assert story("agents", "--json").json[-1]["id"] == id
    assert story("agents", "--json").json[-1]["fork_seq"] == 5
    assert story("spawn", "main", "--json").json[0]["spawned"] is True
    assert story("fork", "--json").json[0]["parent"]


def test_append_reads_a_dash_and_refuses_nothing(story):
    assert story("append", "main", "-", stdin="piped\n").out == "8\n"
    assert story("show", "main", "--json").json[0]["content"] == "piped"
    data = '{"id":"c1"}'
    for kind in ("user", "system"):
        for text in ("", " \n"):
            said = f"the text of a {kind} message is empty: nothing was written"
            assert said in story("append", "main", text, "--kind", kind, code=2).err
            assert said in story("append", "main", "--kind", kind, stdin=text, code=2).err
    silent = ("append", "main", "--kind", "tool_result", "--data", data)
    assert 'give it as ""' in story(*silent, code=2).err
    assert story(*silent, "").out == "9\n"


def test_the_text_of_an_appended_mark_is_its_label(story):
    story("append", "main", "--kind", "mark", "lab")
    assert story("marks", "main", "--json").json[-1]["label"] == "lab"


def test_the_system_prompt_is_a_text_or_a_file(shell, tmp_path):
    file = tmp_path / "prompt"
    file.write_text("Be careful.\n")
    for name, option in (("one", ["--system", "Be careful."]), ("two", ["--system-file", file])):
        shell("new", name, *option)
        assert shell("show", f"{name}@1", "--content").out == "Be careful."
    assert "not both" in shell("new", "--system", "x", "--system-file", file, code=2).err
    file.write_text(" \n")
    for option in (["--system", ""], ["--system-file", file]):
        assert "the system prompt is empty" in shell("new", *option, code=2).err
    file.write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in shell("new", "--system-file", file, code=2).err


def test_an_event_with_a_key_is_written_once(story):
    head = story("append", "main", "once", "--key", "k").out
    assert story("append", "main", "once", "--key", "k").out == head
    assert "use another key" in story("append", "main", "other", "--key", "k", code=1).err
    line = '{"kind":"user","content":"once","key":"k"}'
    assert story("append", "main", "--jsonl", stdin=line).out == head


def test_a_note_with_a_name_of_ours_is_refused(story):
    refused = story("append", "main", "backstory.settings", "--kind", "note", code=2)
    assert "are the library's own" in refused.err


def test_new_with_a_key_finds_the_agent_again(shell):
    first = shell("new", "work", "--key", "tickets/1", "--system", "Be careful.")
    assert shell("new", "--key", "tickets/1").out == first.out
    assert shell("new", "--key", "tickets/2").out != first.out
    assert shell("log", "tickets/1").rows[0][1] == "system"
    assert "1 to 1,000 characters" in shell("new", "--key", "x" * 1001, code=2).err
    assert len(shell("sessions").lines) == 2


def test_a_key_of_a_fork_or_sub_agent_is_its_own(story):
    story("fork", "main", "--key", "k")
    for command in (["fork", "main"], ["spawn", "main"]):
        assert "'k'" in story(*command, "--key", "k", code=1).err
    assert (
        story("spawn", "main", "--key", "other").out
        == story("agents", "--json").json[-1]["id"] + "\n"
    )


def test_a_label_names_an_earlier_position(story):
    assert story("label", "main@2", "asked").out == "8\n"
    story("clear", "main")
    assert story("show", "main@asked", "--json").json[0]["seq"] == 2
    assert "no position 99" in story("label", "main@99", "x", code=1).err
    assert "is not a label" in story("label", "main", " ", code=2).err


def test_settings_are_set_and_shown(story):
    story("settings", "main", "--model", "large", "--params", '{"temperature": 0}')
    tools = '[{"name": "glob", "description": "Find files.", "parameters": {"type": "object"}}]'
    rows = story("settings", "main", "--tools", tools).rows
    assert rows == [
        ["model", "large"],
        ["tool", "glob", "Find files."],
        ["param", "temperature", "0"],
    ]
    for name, value in (("params", "{"), ("params", "[1]"), ("tools", "{}"), ("model", " ")):
        assert story("settings", "main", f"--{name}", value, code=2).err.count("\n") == 1
    assert "writes at the head" in story("settings", "main@2", "--model", "x", code=2).err
    assert story("settings", "main").rows == rows


def test_keys_are_part_of_the_json(shell):
    [agent] = shell("new", "--key", "tickets/1", "--json").json
    assert agent["key"] == "tickets/1"
    [event] = shell("append", "@", "hello", "--key", "first", "--json").json
    assert event["key"] == "first"
    assert [event.get("key") for event in shell("log", "--json").json] == ["first"]
    assert [agent["key"] for agent in shell("agents", "--json").json] == ["tickets/1"]


# --- titles, tags, notes, settings and compaction ---


def test_sessions_show_their_title_or_their_first_prompt(story):
    assert story("sessions").rows[0][6] == "Which Python files are here?"
    assert story("sessions", "--json").json[0]["prompt"] == "Which Python files are here?"
    story("describe", "main/main", "--title", "Python files", "--tag", "demo", "--tag", "work")
    assert story("sessions").rows[0][6] == "Python files"
    assert "Python files" in story.on_terminal("sessions", width=120).out


def test_sessions_can_be_chosen_by_tag_time_and_number(story):
    for name in ("one", "two"):
        story("new", name)
    story("describe", "one", "--tag", "demo")
    assert [row[1] for row in story("sessions", "--tag", "demo").rows] == ["one"]
    assert [row[1] for row in story("sessions", "--limit", "2").rows] == ["one", "two"]
    assert story("sessions", "--since", "2100-01-01").rows == []
    assert "is not a time" in story("sessions", "--since", "soon", code=2).err


def test_describe_changes_what_is_named_and_prints_all(story):
    story("describe", "main/main", "--title", "A", "--tag", "x")
    assert story("describe", "main/main").rows == [["title", "A"], ["tags", "x"]]
    assert story("describe", "main/main", "--no-title", "--json").json == [{"tags": ["x"]}]
    assert story("describe", "main/main", "--no-tags").rows == [["title", ""], ["tags", ""]]
    assert "not a position" in story("describe", "main@3", code=2).err


def test_notes_and_settings_are_listed(story):
    with backstory.open(story.env["BACKSTORY_STORE"]) as store:
        agent = store.agent("main/main")
        tool = {"name": "glob", "description": "Finds files.", "parameters": {}}
        agent.settings(model="m", tools=[tool], params={"temperature": 0})
        agent.note("mine", {"n": 1})
        agent.clear()
        agent.note("mine", {"n": 2})
    assert [row[1:2] + row[3:] for row in story("notes", "main").rows] == [["mine", '{"n":2}']]
    assert len(story("notes", "main", "--all").rows) == 3
    assert [
        note["data"] for note in story("notes", "main", "--all", "--name", "mine", "--json").json
    ] == [
        {"n": 1},
        {"n": 2},
    ]
    assert story("settings", "main").rows == [["model", ""]]
    assert story("settings", "main@9").rows == [
        ["model", "m"],
        ["tool", "glob", "Finds files."],
        ["param", "temperature", "0"],
    ]
    assert story("settings", "main@9", "--json").json[0]["tools"][0]["name"] == "glob"


def test_compact_puts_a_summary_in_place_of_older_messages_and_undo_takes_it_back(story):
    before = story("context", "main/main").out
    story("compact", "main/main", "They looked for files.", "--keep", "1")
    assert "They looked for files." in story("context", "main/main").out
    story("undo", "main/main")
    assert story("context", "main/main").out.splitlines()[:5] == before.splitlines()[:5]
