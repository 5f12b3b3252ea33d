"""The MCP server: asked by a real client, over standard input and output."""

import asyncio
import sys

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import backstory
from backstory.maintenance.indexing import AT_ONCE
from backstory.mcp import Histories


@pytest.fixture
def story(tmp_path):
    """A store with a conversation that was rewound."""
    path = str(tmp_path / "history.db")
    with backstory.open(path) as store:
        agent = store.start("main", system="Be brief.")
        agent.user("Where is the treasure?")
        agent.mark("here")
        agent.assistant("Below the palm tree.")
        agent.rewind("here")
        agent.assistant("I do not know.")
        agent.describe(title="A treasure hunt")
    return path


def asked(path, *questions):
    """What the real server answers to a real client."""

    async def main():
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "backstory", "--store", path, "mcp"]
        )
        async with Client(stdio_client(command)) as client:
            tools = (await client.list_tools()).tools
            assert all(tool.annotations.read_only_hint for tool in tools)
            names = sorted(tool.name for tool in tools)
            answers = [await client.call_tool(name, arguments) for name, arguments in questions]
        return names, [(bool(one.is_error), one.content[0].text) for one in answers]

    return asyncio.run(main())


def test_a_search_is_complete_however_much_is_new(tmp_path):
    with backstory.open(str(tmp_path / "history.db")) as store:
        agent = store.start("long")
        agent.extend([("user", f"straw {n}") for n in range(AT_ONCE)] + [("user", "needle")])
        assert Histories(store).search("needle").endswith("\tuser\tneedle")


def test_sessions_whose_root_was_deleted_are_listed(tmp_path):
    path = str(tmp_path / "history.db")
    with backstory.open(path) as store:
        root = store.start("root")
        root.fork("a fork").user("Which way?")
        store.delete(root)
    _, answers = asked(path, ("sessions", {}))
    [(_, text)] = answers
    assert "Which way?" in text


def test_a_client_lists_searches_and_reads(story):
    names, answers = asked(
        story,
        ("sessions", {}),
        ("search", {"query": "palm"}),
        ("read", {"reference": "main", "after": 1, "limit": 2}),
        ("context", {"reference": "main"}),
        ("read", {"reference": "nobody"}),
    )
    assert names == ["context", "read", "search", "sessions"]
    assert [failed for failed, _ in answers] == [False, False, False, False, True]
    sessions, found, read, context, nobody = (text for _, text in answers)
    assert "A treasure hunt" in sessions
    assert "@4\tassistant\t" in found
    assert read.splitlines() == [
        "[2] user: Where is the treasure?",
        "[3] mark: here",
        "(3 more: read on with after=3)",
    ]
    assert "I do not know." in context
    assert "palm" not in context
    assert "nobody" in nobody


def test_one_event_is_read_in_full_and_a_long_one_is_cut_in_a_list(store):
    agent = store.start("main")
    agent.user("x" * 10_000)
    histories = Histories(store)
    assert len(histories.read("main")) < 5_000
    assert histories.read("main@1").endswith("x" * 10_000)
    assert histories.read("main", after=7) == "there are no events"
    with pytest.raises(backstory.Invalid, match="which conversation"):
        histories.read(" ")


def test_the_context_has_the_messages_and_no_marks_or_notes(store):
    agent = store.start("main", system="Be brief.")
    agent.mark("here")
    agent.note("seen", {})
    agent.user("hi")
    assert Histories(store).context("main").splitlines() == [
        "[1] system: Be brief.",
        "[4] user: hi",
    ]
    assert Histories(store).context("main@2") == "[1] system: Be brief."


def test_the_server_writes_nothing(story):
    with backstory.open(story) as store:
        before = store.seal()
    asked(story, ("search", {"query": "treasure"}), ("context", {"reference": "main"}))
    with backstory.open(story) as store:
        assert store.seal() == before
