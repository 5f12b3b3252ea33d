"""The commands that look, search and check, run as processes."""

import io
import json
import signal
import subprocess

import pytest

import backstory
from backstory.cli.commands import COMMANDS
from backstory.maintenance.indexing import AT_ONCE
from tests.cli.conftest import COMMAND, Shell
from tests.processes import PATIENCE


def test_agents_lists_the_tree(story):
    rows = story("agents").rows
    assert [(row[1], row[2], row[3], row[4], row[6]) for row in rows] == [
        ("main/main", "", "", "7", "two files@5"),
        ("main/idea", "main", "4", "5", ""),
        ("main/reviewer", "main", "7", "0", ""),
    ]
    main, idea, reviewer = story("agents", "--json").json
    assert main["marks"] == [{"seq": 5, "label": "two files"}]
    assert (idea["parent"], idea["fork_seq"], idea["spawned"]) == (main["id"], 4, False)
    assert (reviewer["parent"], reviewer["fork_seq"], reviewer["spawned"]) == (main["id"], 0, True)
    story("new", "other")
    assert len(story("agents", "--session", "idea").lines) == 3


def test_agents_draws_a_tree_on_a_terminal(story):
    shown = story.on_terminal("agents", NO_COLOR="1").out
    assert "├── " in shown
    assert "idea" in shown
    assert "forked at 4" in shown
    assert "⚑ two files@5" in shown


def test_sessions(story):
    story("new", "other")
    story("append", "main/main", "the latest again")
    assert [row[1:4] for row in story("sessions").rows] == [["other", "1", "0"], ["main", "3", "9"]]
    assert story("sessions", "--json").json[1]["agents"] == 3
    assert "last written" in story.on_terminal("sessions").out


def test_log_shows_the_dead_and_why(story):
    rows = story("log", "main").rows
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("1", "system", "live"),
        ("2", "user", "live"),
        ("3", "tool_call", "live"),
        ("4", "tool_result", "live"),
        ("5", "mark", "live"),
        ("6", "user", "rewound by 7"),
        ("7", "rewind", "live"),
    ]
    assert rows[2][4] == 'glob({"pattern":"*.py"})'
    assert [row[0] for row in story("log", "main", "--live").rows] == ["1", "2", "3", "4", "5", "7"]
    assert [row[0] for row in story("log", "main", "--kind", "user", "--kind", "mark").rows] == [
        "2",
        "5",
        "6",
    ]
    assert [row[0] for row in story("log", "main", "--since", "two files").rows] == ["6", "7"]
    assert [row[0] for row in story("log", "main", "--since", "-1").rows] == ["7"]
    assert [row[0] for row in story("log", "main", "-n", "2").rows] == ["6", "7"]
    assert [row[0] for row in story("log", "main", "-n", "1", "--kind", "user").rows] == ["6"]
    assert [row[2] for row in story("log", "main@6").rows] == ["live"] * 6
    assert [row[0] for row in story("log", "idea").rows] == ["1", "2", "3", "4", "5"]


def test_log_as_json(story):
    events = story("log", "main", "--json").json
    assert [(event["seq"], event["status"], event["by"]) for event in events[4:]] == [
        (5, "live", None),
        (6, "rewound", 7),
        (7, "live", None),
    ]
    assert events[2]["data"] == {"id": "c1", "name": "glob", "arguments": {"pattern": "*.py"}}


def test_log_since_a_misspelled_time_says_that_it_is_none(story):
    refused = story("log", "main", "--since", "yesterdy", code=1)
    assert "no mark 'yesterdy', and that is not a time either: its marks are" in refused.err


def test_log_since_a_time(story):
    first = story("log", "main", "--json").json[3]["created_at"]
    assert story("log", "main", "--since", first).rows[0][0] == "5"


def test_show(story):
    shown = story("show", "main@6").out
    assert "Delete b.py." in shown
    assert "event 6 (user) was left behind by the rewind at 7" in shown
    assert story("show", "main@4", "--content").out == "a.py\nb.py"
    found = story("show", "main@6", "--json").json[0]
    assert (found["seq"], found["status"], found["by"]) == (6, "rewound", 7)
    assert "no position 99" in story("show", "main@99", code=1).err


def test_show_as_json_tells_live_events_from_dead_ones(story):
    assert [story("show", f"main@{at}", "--json").json[0]["live"] for at in (5, 6)] == [True, False]


def test_a_repair_of_the_whole_names_no_position(story):
    said = story("context", "reviewer", "--format", "anthropic").err
    assert "repaired: " in said
    assert "None" not in said


def test_marks(story):
    assert [row[:3] for row in story("marks", "main").rows] == [["5", "two files", "live"]]
    story("clear", "main")
    assert story("marks", "main").out == ""
    assert [row[:3] for row in story("marks", "main", "--all").rows] == [["5", "two files", "dead"]]
    assert story("marks", "main@7", "--json").json[0]["label"] == "two files"
    assert "two files" in story.on_terminal("marks", "main@7").out


def test_in_an_empty_postgresql_database_looking_creates_the_tables(new_url, tmp_path):
    assert Shell(new_url("postgres"), tmp_path)("agents").out == ""  # as docs/cli.md says


def test_an_empty_list_on_a_terminal_names_the_command_that_fills_it(shell):
    with backstory.open(shell.env["BACKSTORY_STORE"]) as store:
        assert "no agents yet; `backstory new` starts one" in shell.on_terminal("agents").out
        store.start("main")
        assert "no marks here; `backstory mark` sets one" in shell.on_terminal("marks").out


def test_explain(story):
    assert story("explain", "main@6").out == "event 6 (user) was left behind by the rewind at 7\n"
    assert story("explain", "main@6", "--at", "6").out == "event 6 (user) is in the context\n"
    assert story("explain", "main@6", "--json").json == [
        {
            "seq": 6,
            "status": "rewound",
            "by": 7,
            "reason": "event 6 (user) was left behind by the rewind at 7",
            "live": False,
        }
    ]


def test_context_to_read(story):
    text = story("context", "main").out
    assert "[2 user]\nWhich Python files are here?\n" in text
    assert "Delete b.py." not in text
    assert "Delete b.py." in story("context", "main@6").out
    assert [event["seq"] for event in story("context", "main", "--json").json] == [1, 2, 3, 4]
    shown = story.on_terminal("context", "main", NO_COLOR="1").out
    assert "── mark 5: two files" not in shown
    assert "4 messages" in shown


def test_control_events_are_in_the_context_on_request_in_every_form(story):
    control = ("context", "main", "--control")
    assert [event["seq"] for event in story(*control, "--json").json] == [1, 2, 3, 4, 5, 7]
    assert "[5 mark]\ntwo files\n" in story(*control).out
    assert "── mark 5: two files" in story.on_terminal(*control, NO_COLOR="1").out
    assert "--control is for reading" in story(*control, "--tokens", code=2).err


def test_context_as_a_request_with_the_repairs_on_the_other_side(story):
    for format, key in (
        ("openai", "messages"),
        ("openai-responses", "input"),
        ("anthropic", "messages"),
        ("gemini", "contents"),
        ("bedrock", "messages"),
    ):
        ran = story("context", "main", "--format", format)
        assert key in json.loads(ran.out)
    ran = story("context", "main@3", "--format", "anthropic")
    assert "interrupted" in ran.out
    assert "repaired at 3: close" in ran.err


def test_context_in_tokens(story):
    ran = story("context", "main", "--tokens")
    assert int(ran.out) > 10
    assert "estimated" in ran.err or "counted" in ran.err
    assert story("context", "main", "--tokens", "--json").json[0]["tokens"] == int(ran.out)


def test_diff_of_branches_and_of_moments(story):
    story("append", "main", "Rename a.py to app.py.")
    assert story("diff", "main", "idea").lines == [
        "4 messages in common; 1 only in main, 1 only in idea",
        "~ 8→5 user",
        "    Rename a.py to [-app-]{+main+}.py.",
    ]
    assert story("diff", "main@4", "main").lines[:2] == [
        "4 messages in common; 0 only in main@4, 1 only in main",
        "+ 8 user",
    ]
    assert (
        story("diff", "main@4").lines[0] == "4 messages in common; 0 only in main@4, 1 only in main"
    )
    [found] = story("diff", "main", "idea", "--json").json
    assert found["common"] == 4
    assert [change["op"] for change in found["changes"]] == ["changed"]
    assert ["-", "app"] in found["changes"][0]["words"]
    assert (found["only_left"], found["only_right"], found["more"]) == (1, 1, False)
    assert found["changes"][0]["why"] is None


def test_diff_with_a_limit_and_the_cause_of_a_removal(story):
    story("clear", "main")
    ran = story("diff", "main@4", "main", "--limit", "1")
    assert ran.lines[0] == "0 messages in common; 4 only in main@4, 0 only in main"
    assert ran.lines[1].startswith("- 1 system (cleared by ")
    assert len([line for line in ran.lines if line.startswith("- ")]) == 1
    assert "a larger --limit shows them" in ran.err


def test_search_in_one_session(story):
    story("new", "other", "--system", "b.py is elsewhere.")
    assert [row[0] for row in story("search", "b.py", "--session", "other").rows] == ["other@1"]
    assert {row[0] for row in story("search", "b.py", "--session", "idea").rows} == {
        "main@4",
        "main@6",
    }
    assert "no agent " in story("search", "b.py", "--session", "missing", code=1).err
    assert [row[0] for row in story("search", "b.py", "--session", "@").rows] == ["other@1"]


def test_search(story):
    assert sorted(row[:3] for row in story("search", "b.py").rows) == [
        ["main@4", "tool_result", "live"],
        ["main@6", "user", "dead"],
    ]
    assert [row[0] for row in story("search", "b.py", "--live").rows] == ["main@4"]
    assert [row[0] for row in story("search", "python files").rows] == ["main@2"]
    assert [row[0] for row in story("search", "files python", code=1).rows] == []
    assert [row[0] for row in story("search", "files", "python").rows] == ["main@2"]
    assert [row[0] for row in story("search", "rename", "--agent", "idea").rows] == ["idea@5"]
    assert [row[0] for row in story("search", "py", "--kind", "tool_call").rows] == ["main@3"]
    found = story("search", "rename", "--json").json[0]
    assert [found["snippet"][low:high] for low, high in found["spans"]] == ["Rename"]
    assert story("show", found["ref"], "--json").json[0]["seq"] == 5
    assert "nothing found" in story("search", "absent", code=1).err
    assert "no word" in story("search", "!!", code=2).err


def test_options_that_take_an_agent_refuse_a_position(story):
    for arguments in (
        ["export", "main@3"],
        ["search", "py", "--agent", "main@3"],
        ["agents", "--session", "main@3"],
    ):
        assert "leave out the @" in story(*arguments, code=2).err


def test_search_is_complete_without_a_terminal_however_much_is_new(shell):
    with backstory.open(shell.env["BACKSTORY_STORE"]) as store:
        agent = store.start("long")
        agent.extend([("user", f"needle {n}") for n in range(AT_ONCE + 1)])
    assert len(shell("search", "needle", "--limit", "3000").rows) == AT_ONCE + 1


def test_search_finds_what_is_live_in_a_fork_only(story):
    story("clear", "main")
    assert [row[0] for row in story("search", "python", "--live").rows] == ["idea@2"]


def test_verify(story):
    ran = story("verify")
    assert (ran.out, ran.err) == ("", "the store is sound\n")
    damage(story.env["BACKSTORY_STORE"])
    ran = story("verify", code=1)
    assert "its base is 1, but the rules make it None" in ran.out
    assert ran.err == f"{len(ran.lines)} problems found\n"
    found = story("verify", "--json", code=1).json
    assert (found[0]["position"], found[0]["severity"]) == (2, "error")


def damage(url):
    with backstory.open(url) as store:
        events = "backstory.events" if "postgresql" in url else "events"
        store._backend._run(f"UPDATE {events} SET base = 1 WHERE seq = 2")


def test_stats(story):
    found = story("stats", "--json").json[0]
    assert {key: found[key] for key in ("sessions", "agents", "events", "live", "dead")} == {
        "sessions": 1,
        "agents": 3,
        "events": 8,
        "live": 7,
        "dead": 1,
    }
    assert found["kinds"]["user"] == 3
    assert [agent["name"] for agent in found["largest"]] == ["main", "idea", "reviewer"]
    assert found["largest"][0]["context"] == 6
    assert dict(story("stats").rows)["dead"] == "1"
    shown = story.on_terminal("stats", NO_COLOR="1").out
    assert "8 events: 7 live, 1 dead; 3 agents in 1 session" in shown
    assert "largest agents" in shown
    assert "token" not in shown


def test_stats_counts_tokens_as_the_context_does(story):
    assert "tokens" not in dict(story("stats").rows)
    found = story("stats", "--tokens", "--json").json[0]
    for agent in found["largest"]:
        assert (
            agent["tokens"] == story("context", agent["id"], "--tokens", "--json").json[0]["tokens"]
        )
    assert dict(story("stats", "--tokens").rows)["tokens"] == str(found["tokens"])
    assert (
        f"; {found['tokens']} tokens in all contexts" in story.on_terminal("stats", "--tokens").out
    )


ARGUMENTS = {
    "jump": ["main@1"],
    "rename": ["main", "x"],
    "diff": ["main"],
    "label": ["main", "x"],
    "search": ["word"],
    "append": ["main", "x"],
    "backup": ["copy.db"],
    "restore": ["copy.db"],
    "compact": ["main", "what was said"],
    "delete": ["main", "--yes"],
    "erase": ["main@1", "--why", "x", "--yes"],
    "expire": ["--before", "2026-01-01", "--yes"],
}
CREATE_A_STORE = {"new", "import", "chat", "ask"}  # as docs/cli.md says
NEED_NO_STORE = {"shell-completion", "help"}


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - CREATE_A_STORE - NEED_NO_STORE))
def test_a_store_that_does_not_exist_is_not_created_by_looking(sqlite_shell, tmp_path, name):
    assert "no store at" in sqlite_shell(name, *ARGUMENTS.get(name, []), code=1).err
    assert not list(tmp_path.glob("*.db"))


def test_search_finds_titles_before_events(story):
    story("describe", "main", "--title", "About b.py", "--tag", "python")
    rows = story("search", "b.py").rows
    assert rows[0] == ["main", "title", "", "About b.py #python"]
    assert len(rows) == 3
    assert story("search", "b.py", "--json").json[0].keys() == {"ref", "agent", "title", "tags"}
    assert story("search", "about").rows == rows[:1]


def test_search_shows_one_page_after_the_other(story):
    first = story("search", "b.py", "--limit", "1")
    second = story("search", "b.py", "--limit", "1", "--page", "2")
    assert {first.rows[0][0], second.rows[0][0]} == {"main@4", "main@6"}
    assert "--page 2" in first.err
    assert second.err == ""
    assert "on page 3" in story("search", "b.py", "--limit", "1", "--page", "3", code=1).err


# --- log -f ---


def test_log_follows_what_is_written_until_ctrl_c(story):
    command = [COMMAND, "log", "main", "-f", "-n", "1", "--kind", "user", "--kind", "clear"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=story.env, text=True
    ) as process:
        assert process.stdout.readline().split("\t")[0] == "6"  # the newest user event
        with backstory.open(story.env["BACKSTORY_STORE"]) as store:
            agent = store.agent("main/main")
            agent.assistant("not asked for")
            agent.user("hello")
            agent.clear()
        rows = [process.stdout.readline().rstrip("\n").split("\t") for _ in range(2)]
        assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
            ("9", "user", "live", "hello"),
            ("10", "clear", "clear", "the context is empty from here"),
        ]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == ""


def test_a_position_cannot_be_followed(story):
    assert "leave out the @" in story("log", "main@4", "-f", code=2).err


# --- seal and verify ---


def test_an_older_seal_shows_that_the_newest_events_are_missing(story, tmp_path):
    older = tmp_path / "older.db"
    with backstory.open(story.env["BACKSTORY_STORE"]) as store, backstory.open(older) as other:
        lines = io.StringIO()
        store.export_to(lines)
        other.import_from(lines.getvalue().splitlines())
        store.agent("main/main").user("the newest")
    seal = tmp_path / "seal.json"
    seal.write_text(story("seal").out)
    assert story("verify", "--seal", seal).out == ""
    [finding] = story("verify", "--seal", seal, "--store", older, "--json", code=1).json
    assert "the newest one is 7" in finding["problem"]
    assert story("verify", "--store", older).out == ""


def test_a_file_that_is_not_a_seal_is_refused(story, tmp_path):
    (tmp_path / "seal.json").write_text("not JSON")
    assert "is not a seal" in story("verify", "--seal", tmp_path / "seal.json", code=2).err
    story("verify", "--seal", tmp_path / "missing.json", code=2)


def test_requests_are_checked_with_an_option(story):
    with backstory.open(story.env["BACKSTORY_STORE"]) as store:
        answer = {"choices": [{"message": {"role": "assistant", "content": "Hi."}}]}
        store.agent("main/main").record(answer, model="m", request={"model": "m", "messages": []})
    assert story("verify").out == ""
    [finding] = story("verify", "--requests", "--json", code=1).json
    assert finding["position"] == 8


def test_an_object_that_is_not_a_seal_is_refused_in_the_words_of_the_command_line(story, tmp_path):
    (tmp_path / "seal.json").write_text("{}")
    said = story("verify", "--seal", tmp_path / "seal.json", code=2).err
    assert "this is not a seal: `backstory seal` makes one" in said


@pytest.mark.parametrize("head", [-1, True, "1", 1.5, float("inf"), None])
def test_a_seal_with_a_head_that_is_not_a_position_is_refused(head):
    with backstory.open(":memory:") as store:
        agent = store.start()
        seal = store.seal()
        seal["agents"][agent.id]["head"] = head
        with pytest.raises(backstory.Invalid, match="this is not a seal"):
            store.verify(seal=json.loads(json.dumps(seal)))
