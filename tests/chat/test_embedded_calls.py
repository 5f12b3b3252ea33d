"""The embedded model and its tools: which it is offered, and what it calls them with."""

import pytest

import backstory
from backstory.log.messages import Message
from backstory.runtime.models import Response
from backstory.runtime.models.download import model_file
from backstory.runtime.models.embedded import EmbeddedModel
from backstory.runtime.models.tool_examples import prompt_for
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation


def glob(pattern: str) -> str:
    """Find files."""
    return pattern


def read_file(path: str, first: int = 1, most: int = 100) -> str:
    """Read a file."""
    return path


def list_dir(path: str = ".") -> str:
    """List a folder."""
    return path


def grep(pattern: str, path: str = ".") -> str:
    """Search in files."""
    return pattern


def bash(command: str, seconds: int = 120) -> str:
    """Run a command."""
    return command


TOOLS = [Tool.of(function) for function in (glob, read_file, list_dir, grep, bash)]
CALLS = [
    ("Which Python files are here?", "glob", "*.py"),
    ("List all Markdown files in docs.", "glob", "docs/*.md"),
    ("Find every *.toml file.", "glob", "*.toml"),
    ("Show me README.md", "read_file", "README.md"),
    ("What is in the file src/main.py?", "read_file", "src/main.py"),
    ("Read setup.cfg and tell me what it says.", "read_file", "setup.cfg"),
    ("What is in the folder tests?", "list_dir", "tests"),
    ("List the folder src/app.", "list_dir", "src/app"),
    ("Where is the word TODO used?", "grep", "TODO"),
    ("Search for def main in the code.", "grep", "def main"),
    ("Run git status.", "bash", "git status"),
    ("Run the tests with pytest.", "bash", "pytest"),
]
RIGHT = 9  # of these twelve; ten were right when it was measured


def answered(model, question):
    *_, whole = model.answer(Conversation([Message("user", question)]), TOOLS)
    assert isinstance(whole, Response)
    return whole


@pytest.fixture(scope="module")
def model():
    model = EmbeddedModel(model_file())
    yield model
    model.close()


@pytest.mark.parametrize(("question", "tool"), [(question, tool) for question, tool, _ in CALLS])
def test_the_words_of_a_question_choose_the_tool(question, tool):
    prompt = prompt_for(question, TOOLS)
    assert prompt is not None
    assert prompt.tool == tool
    assert prompt.messages[-1] == {"role": "user", "content": question}


@pytest.mark.parametrize(
    "question",
    [
        "Hello!",
        "Tell me a joke.",
        "What is the capital of France?",
        "Thank you.",
        "How are you today?",
        "What is the meaning of life?",
        "",
        "word " * 5000,
    ],
)
def test_a_question_about_something_else_is_offered_no_tool(question):
    assert prompt_for(question, TOOLS) is None


def test_a_tool_that_is_not_there_is_not_offered():
    assert prompt_for("Run git status.", TOOLS[:1]) is None
    assert prompt_for("Run git status.", ()) is None


def test_a_tool_of_that_name_without_parameters_is_not_offered():
    bare = Tool("glob", "Find files.", {"type": "object", "properties": {}}, lambda: "")
    assert prompt_for("Which Python files are here?", [bare]) is None


def test_the_schema_is_the_tools_own_without_what_is_optional():
    prompt = prompt_for("Read notes.txt", TOOLS)
    assert prompt is not None
    assert list(prompt.schema["properties"]) == ["path"]
    assert prompt.schema["required"] == ["path"]
    assert prompt.schema["properties"]["path"]["type"] == "string"


@pytest.mark.slow
def test_most_of_twelve_simple_questions_get_the_right_call(model):
    calls = [answered(model, question).calls for question, _, _ in CALLS]
    assert all(len(made) == 1 for made in calls)
    got = [(made[0].name, next(iter(made[0].arguments.values()))) for made in calls]
    right = [
        call
        for call, (_, tool, argument) in zip(got, CALLS, strict=True)
        if call == (tool, argument)
    ]
    assert len(right) >= RIGHT, got


@pytest.mark.slow
def test_a_greeting_is_answered_in_words(model):
    whole = answered(model, "Hello!")
    assert whole.text.strip()
    assert not whole.calls


@pytest.mark.slow
def test_a_history_with_images_and_files_is_answered(model, tmp_path):
    (tmp_path / "report.txt").write_text("All is well.")
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.user("What is this?", images=[b"\x89PNG\r\n\x1a\n"], files=[tmp_path / "report.txt"])
        agent.assistant("A picture.")
        agent.user("Hello!")
        *_, answer = model.answer(agent.conversation(), [])
    assert answer.text


@pytest.mark.slow
def test_after_a_result_it_speaks_and_calls_nothing(model):
    agent = backstory.open(":memory:").start()
    agent.user("Which Python files are here?")
    agent.tool_result(agent.tool_call("glob", {"pattern": "*.py"}), "a.py\nsrc/b.py")
    *_, whole = model.answer(agent.conversation(), TOOLS)
    assert isinstance(whole, Response)
    assert whole.text.strip()
    assert not whole.calls
