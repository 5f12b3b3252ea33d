"""The tokens of a context: one number wherever it is shown, in the page, the chat and the command line."""

import pytest

import backstory
from backstory.log.messages import Message
from backstory.web.outline import build_block, build_frame
from backstory.wire import estimate_tokens
from tests.wire.files import png

TOOL = {"name": "glob", "description": "Find files.", "parameters": {"type": "object"}}
IMAGE = png(400, 350) + bytes(420_000)


@pytest.fixture
def agent(monkeypatch):
    # Texts are counted by their length: with a vocabulary, a page that reads a million events would wait.
    monkeypatch.setattr("backstory.wire.tokens.load_vocabulary", lambda name: None)
    with backstory.open(":memory:") as store:
        agent = store.start("main", system="Be brief.")
        agent.settings(model="claude-x", tools=[TOOL], params={"temperature": 0})
        agent.user("What is this?", images=[IMAGE])
        agent.mark("here")
        agent.assistant("A tree, " * 50, data={"model": "claude-x", "usage": {"input": 9}})
        call = agent.tool_call("glob", {"pattern": "*.py"})
        agent.tool_result(call, "a.py\nb.py")
        agent.note("state", {"n": "x" * 999})
        agent.user("Thanks.")
        yield agent


def count_in_page(agent):
    return build_frame(agent)["request"] + sum(build_block(agent, 0, agent.head)["tokens"])


def test_the_page_counts_a_context_as_the_command_line_does(agent):
    assert count_in_page(agent) == int(agent.conversation().tokens())


def test_an_image_costs_what_its_provider_asks_for_its_size(agent):
    image = agent.context().messages[2]
    assert estimate_tokens(image, "claude-x") == 3 + 4 + 187  # 400 by 350 pixels, 750 for a token
    assert estimate_tokens(image, "gpt-4o") == 4 + 4 + 255


@pytest.mark.parametrize("kind", ["mark", "note", "clear", "rewind", "jump"])
def test_what_is_not_sent_to_a_model_costs_nothing(kind):
    assert estimate_tokens((kind, "x" * 999, {"label": "x" * 999})) == 0


def test_reasoning_alone_costs_nothing_because_only_that_of_the_current_turn_is_read():
    form = [{"type": "thinking", "thinking": "x" * 999, "signature": "c2ln"}]
    data = {"native": {"provider": "anthropic", "wire": form}}
    assert estimate_tokens(Message("assistant", "Yes.", data)) == 4 + 1
