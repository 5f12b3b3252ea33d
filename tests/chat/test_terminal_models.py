"""The real chat with models that think, parameters, and another model's answer beside the first."""

import json
import os
import re

import pytest

from tests.chat.screen import contents, edited, page_of
from tests.runtime.anthropic_stream import THINKS, anthropic_events, says
from tests.runtime.event_server import event_server
from tests.runtime.scripted import Say, Send, scripted


def test_thinking_is_folded_and_ctrl_o_shows_it(start):
    with event_server(anthropic_events(THINKS, says("Two of them."))) as server:
        terminal = start(None, "--model", "anthropic:claude-x", "--base-url", server.url)
        terminal.send("How many?")
        text = terminal.answered("Two of them.")
        assert text.index("∴ 1 word of thinking: Ctrl-O shows them") < text.index("Two of them.")
        assert "Hm." not in page_of(text)
        terminal.type("\x0f")
        terminal.wait("── results in full ──")
        page = page_of(terminal.wait(lambda text: "Two of them." in page_of(text)))
        assert page.index("∴ thinking") < page.index("Hm.") < page.index("Two of them.")


def test_after_an_answer_stand_its_time_and_its_tokens(start):
    with event_server(anthropic_events(says("Two of them."))) as server:
        terminal = start(None, "--model", "anthropic:claude-x", "--base-url", server.url)
        terminal.send("How many?")
        text = terminal.answered("Two of them.")
        assert re.search(r"^\d+\.\d s · 7 tokens in, 1 out", text, re.MULTILINE)
        assert re.search(r"main · claude-x · work · [\d,/]+ tokens$", text.rstrip())


def test_parameters_are_set_recorded_and_sent(start, reopened):
    with scripted(Say("Answer 1."), Say("Answer 2.")) as server:
        terminal = start(server, "--set", "temperature=0.5")
        terminal.send("one")
        terminal.answered("Answer 1.")
        terminal.send("/set max_tokens 77")
        terminal.wait("max_tokens = 77")
        terminal.send("/set temperature")
        terminal.ready()
        terminal.send("/set effort loud")
        terminal.wait("effort is 'loud'")
        terminal.send("two")
        terminal.answered("Answer 2.")
        assert [body.get("temperature") for body in server.bodies] == [0.5, None]
        assert server.last["max_tokens"] == 77
        assert reopened().conversation().settings.params == {"max_tokens": 77}
        terminal.send("/undo")
        terminal.wait("── undone ──")
        assert reopened().head > 0


def test_another_model_answers_in_a_fork_and_diff_compares(start, reopened):
    with scripted(Say("The first opinion."), Say("The second opinion.")) as server:
        terminal = start(server, columns=120)
        terminal.send("What do you think?")
        terminal.answered("The first opinion.")
        terminal.ready()
        terminal.type("/retry scr\t")
        terminal.wait("> /retry scripted-1")
        terminal.erase()
        terminal.send("/retry other-2")
        terminal.wait("The second opinion.")
        text = terminal.wait("/diff main compares the answers, /switch main goes back")
        assert "other-2 answers in the fork 'main-other-2'" in text
        assert "this got no answer" not in text
        assert server.last["model"] == "other-2"
        assert contents(reopened("main"))[1:] == ["What do you think?", "The first opinion."]
        assert contents(reopened("@"))[1:] == ["What do you think?", "The second opinion."]
        terminal.send("/diff main")
        terminal.wait("1 only in main")
        terminal.wait(lambda text: "The [-first-]{+second+} opinion." in page_of(text))


RICH_ANSWER = """See [the docs](https://example.org/page):

| name | what it does, in more words than a narrow window has room for |
| --- | --- |
| report.py | sums up the prices of all rows, and prints them with a heading |

```python
def total(rows): return sum(rows)
```
"""


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_thinking_links_tables_and_code_fit_the_window(start, columns):
    with event_server(anthropic_events(THINKS, says(RICH_ANSWER))) as server:
        terminal = start(
            None, "--model", "anthropic:claude-x", "--base-url", server.url, columns=columns
        )
        terminal.send("Show me")
        text = terminal.answered("def total(rows): return sum(rows)")
        assert "the docs (https://example.org/page):" in text
        assert b"\x1b]8;" in terminal.raw  # a link to click on
        words = " ".join(text.split())
        assert all(
            word in words for word in ("report.py", "heading", "∴ 1 word of thinking", "room")
        )
        assert not re.search(
            r"page\):\n\s*\n\s*\n", text
        )  # one empty line before a table is enough
        assert re.search(r"claude-x .*tokens$", text.rstrip())


def billed(text, read, said):
    """An answer as a stream, with what it used."""
    base = {"id": "a", "object": "chat.completion.chunk", "created": 0, "model": "gpt-4o"}
    usage = {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    lines = [f"data: {json.dumps(base | chunk)}\n\n" for chunk in chunks]
    return Send("".join([*lines, "data: [DONE]\n\n"]).encode())


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_what_an_answer_cost_stands_below_it(start, columns):
    pytest.importorskip("genai_prices")
    with scripted(billed("Hello.", 1_000_000, 1_000)) as server:
        terminal = start(server, "--model", "gpt-4o", columns=columns)
        terminal.send("Hi")
        below = r"1,000,000 tokens in, 1,000 out · ≈ \$(\d+\.\d\d)"
        text = terminal.wait(lambda text: re.search(below, text))
        assert float(re.search(below, text)[1]) > 0


SLOW_SDK = """
import os, sys
open(os.environ["GATE"]).close()  # waits until the test opens it, too
sys.path.remove(os.path.dirname(os.path.dirname(__file__)))
del sys.modules[__name__]
__import__(__name__)
"""


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_the_editor_is_open_before_the_sdk_is_imported(start, tmp_path, sdk):
    (tmp_path / "slow" / sdk).mkdir(parents=True)
    (tmp_path / "slow" / sdk / "__init__.py").write_text(SLOW_SDK)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    env = {"PYTHONPATH": str(tmp_path / "slow"), "GATE": str(gate)}
    with event_server(anthropic_events(says("Two of them."))) as server:
        model = ("--model", f"{sdk}:claude-x", "--base-url", server.url)
        terminal = start(None, *model, env=env, cold=True)
        terminal.type("How many?")
        terminal.wait(lambda text: edited(text) == "How many?")
        gate.write_text("")
        if sdk == "anthropic":
            terminal.enter()
            terminal.answered("Two of them.")


def test_the_tour_is_no_model_of_a_real_session(start, reopened):
    with scripted() as server:
        terminal = start(server)
        for command in ("/model tour", "/retry tour"):
            terminal.send(command)
            terminal.wait("the tour has sessions of its own")
        terminal.ready()
        assert "no model answers" not in str(contents(reopened()))
