"""Writes a store to look at: branches, rewinds, sub-agents, a compaction and a failed tool.

python -m tools.demo demo.db [TURNS]
"""

import random
import sys
from pathlib import Path

import backstory
from backstory import Agent

MODEL = "gpt-4o"
ASKED = [
    "Which of these files are tests?",
    "The parser fails on empty input. Find out why.",
    "Write a test that shows it.",
    "Now fix it, and keep the function short.",
    "Is there anything else in the parser that could break?",
    "Rename `load` to `read_config` everywhere.",
    "Explain what `retry` does when the server is slow.",
    "Add a timeout, with a default of ten seconds.",
]
CAUSE = """`parse` reads the first line without looking whether there is one:

```python
def parse(text: str) -> Config:
    head, *rest = text.splitlines()  # fails for ""
    return Config(head, rest)
```

An empty file has no lines, so there is nothing to unpack."""
MORE = """Two more things:

1. a line without `=` is dropped silently;
2. a byte order mark ends up in the first key.

| input | today | better |
| --- | --- | --- |
| `a` | dropped | an error |
| `\\ufeffa=1` | wrong key | `a` |"""
SAID = [
    "The tests are in `tests/`: **test_parser.py** and **test_retry.py**.",
    CAUSE,
    "Done. It fails now with `ValueError: not enough values to unpack`, as you said.",
    "I return an empty `Config` when there are no lines. All tests pass.",
    MORE,
]
TOOLS = [
    (
        "grep",
        {"pattern": "def parse", "path": "src"},
        "src/config/parser.py:14:def parse(text: str) -> Config:",
    ),
    (
        "read_file",
        {"path": "src/config/parser.py"},
        "14  def parse(text: str) -> Config:\n15      head, *rest = text.splitlines()",
    ),
    ("run", {"command": "pytest -q tests/test_parser.py"}, "1 failed, 11 passed in 0.4s"),
    ("edit_file", {"path": "src/config/parser.py", "old": "head, *rest", "new": "lines"}, "1 replacement"),
]


def write(url: str, turns: int = 24) -> None:
    """Fill a store that is not there yet."""
    dice = random.Random(7)
    with backstory.open(url) as store:
        main = store.start(
            "main", system="You are a careful programmer. Run the tests before you say that they pass."
        )
        main.describe(
            title="Parser fails on empty input", tags=["demo"], cwd="~/projects/config", model=MODEL
        )
        main.settings(
            model=MODEL,
            tools=[
                {"name": name, "description": f"Runs {name}.", "parameters": {"type": "object"}}
                for name, *_ in TOOLS
            ],
        )
        for turn in range(turns):
            _turn(main, dice)
            if turn % 4 == 1:
                main.mark(f"step {turn // 4 + 1}")
            if turn % 7 == 5:
                _dead_end(main, dice)
            if turn % 6 == 3:
                _branch(main, turn, dice)
        main.compact(
            "The parser was fixed for empty input; `read_config` is the new name. Left: the byte order mark.",
            keep=4,
        )
        _turn(main, dice)
        _second(store, dice)


def _turn(agent: Agent, dice: random.Random) -> None:
    agent.user(dice.choice(ASKED))
    for name, arguments, output in dice.sample(TOOLS, dice.randint(0, 3)):
        call = agent.tool_call(name, arguments)
        agent.tool_result(call, output, error="failed" in output)
    taken = {"input": 900 + 40 * agent.head, "output": dice.randint(40, 400)}
    taken["cost"] = round(taken["input"] * 2.5e-6 + taken["output"] * 1e-5, 6)
    agent.assistant(dice.choice(SAID), data={"model": MODEL, "usage": taken})


def _dead_end(agent: Agent, dice: random.Random) -> None:
    agent.user("Try to do it with a regular expression.")
    _turn(agent, dice)
    agent.rewind()


def _branch(main: Agent, turn: int, dice: random.Random) -> None:
    idea = main.fork(f"try {turn}: {dice.choice(['pathlib', 'a state machine', 'one pass', 'no regex'])}")
    for _ in range(dice.randint(2, 5)):
        _turn(idea, dice)
    helper = idea.spawn(f"reviewer {turn}")
    helper.system("You review changes.")
    _turn(helper, dice)


def _second(store: backstory.Store, dice: random.Random) -> None:
    review = store.start("review", system="You review changes.")
    for _ in range(3):
        _turn(review, dice)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.unlink(missing_ok=True)
    write(str(path), int(sys.argv[2]) if len(sys.argv) > 2 else 24)
    print(path)
