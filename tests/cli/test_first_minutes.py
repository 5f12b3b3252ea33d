"""What new users type from habit, and what they are told."""

import ast
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import backstory
from backstory.cli.times import parse_time
from tests.cli.conftest import fill
from tools.manual import build_commands_page


@pytest.fixture
def story(sqlite_shell):
    fill(sqlite_shell)
    return sqlite_shell


# What is typed, the exit code, and a part of the error.
HINTS = [
    (["ls"], 2, "Did you mean sessions or agents?"),
    (["list"], 2, "Did you mean sessions or agents?"),
    (["rm", "main"], 2, "Did you mean delete or erase?"),
    (["help", "ls"], 2, "Did you mean sessions or agents?"),
    (["serach", "x"], 2, "Did you mean search"),
    (["frobnicate"], 2, "See backstory --help."),
    (["sessions", "--since", "soon"], 2, "'soon' is not a time: write 2026-11, "),
    (["expire", "--before", "2026-13"], 2, "'2026-13' is not a time: write 2026-11, "),
    (["log", "main", "--since", "soon"], 1, "has no mark 'soon'"),
    (["undo", "main", "--turn", "--dry-run"], 2, "leave out --turn"),
    (["rewind", "main@2"], 1, "`backstory jump "),
]


@pytest.mark.parametrize(("arguments", "code", "words"), HINTS)
def test_a_mistake_is_answered_with_what_may_be_meant(story, arguments, code, words):
    ran = story(*arguments, code=code)
    assert words in ran.err
    assert ran.out == ""


def test_without_a_store_the_error_names_the_commands_that_make_one(sqlite_shell):
    said = sqlite_shell("log", code=1).err
    for name in ("import", "chat", "new"):
        assert f"`backstory {name}`" in said


def test_help_is_a_command(story):
    assert story("help").out == story("--help").out
    assert story("help", "log").out == story("log", "--help").out
    assert story("help", "tree").out == story("agents", "--help").out.replace(
        " agents ", " tree ", 1
    )


def test_a_name_that_exists_gets_a_number(shell):
    for name in ("main", "main-2", "main-3"):
        ran = shell("new")
        assert ("'main' exists" in ran.err) == (name != "main")
        assert shell("agents", "--json").json[-1]["name"] == name
    with backstory.open(shell.env["BACKSTORY_STORE"]) as store:
        store.start("twice")
        store.start("twice")
    shell("new", "twice")
    assert shell("agents", "--json").json[-1]["name"] == "twice-2"
    assert shell("log", "main").out == ""


def test_a_title_or_the_beginning_of_an_id_is_not_taken_for_a_name(story):
    story("describe", "main/main", "--title", "work")
    beginning = story("agents", "--json").json[0]["id"][:8]
    for name in ("work", beginning):
        story("new", name)
        assert story("agents", "--json").json[-1]["name"] == name


def test_undo_of_a_turn_takes_a_question_back(story):
    story("append", "main", "One more question.")
    ran = story("undo", "main", "--turn")
    assert "One more question." not in story("context", "main").out
    assert ran.err.startswith("1 event left the context, 0 came back\n")


def find_printed_texts(path):
    """Yield the texts of a module that may be printed: all but docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstrings.add(ast.get_docstring(node, clean=False))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node.value not in docstrings:
            yield node.value


def test_no_message_names_a_file_that_is_not_installed():
    for path in Path(backstory.__file__).parent.rglob("*.py"):
        for text in find_printed_texts(path):
            assert "docs/" not in text, path
    assert "docs/" not in build_commands_page()


# --- times ---

FORMS = ["2000", "2000-11", "2000-11-05", "2000-11-05T12:00", "2000-11-05T12:00Z", "52w"]


@pytest.mark.parametrize("form", FORMS)
def test_every_option_and_reference_takes_the_same_forms_of_times(story, form):
    assert len(story("sessions", "--since", form).lines) == 1
    assert story("expire", "--before", form, "--dry-run").lines[0].startswith("0 agents ")
    story("import", "--since", form, "--dry-run", code=1)  # there are no transcripts
    if form != "2000":  # a position
        assert len(story("log", "main", "--since", form).lines) == 7
        assert story("context", f"main@{form}").out == ""


def test_yesterday_and_a_few_days_ago_are_times():
    now = datetime.now().astimezone()
    assert abs(now - timedelta(days=7) - parse_time("7d")) < timedelta(minutes=1)
    assert abs(now - timedelta(hours=12) - parse_time("12h")) < timedelta(minutes=1)
    today, yesterday = parse_time("today"), parse_time("yesterday")
    assert (today.hour, today.minute, yesterday.hour) == (0, 0, 0)
    assert today.date() - yesterday.date() == timedelta(days=1)


def test_a_label_counts_before_a_time(story):
    story("label", "main@2", "yesterday")
    assert story("show", "main@yesterday", "--json").json[0]["seq"] == 2
