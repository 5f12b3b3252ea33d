"""Titles, tags, notes, settings and compaction on the command line."""

import backstory


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


def test_describe_changes_what_is_named_and_shows_it_all(story):
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
