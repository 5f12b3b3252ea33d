"""The conversations that every peer is given: the same ones in every run.

`chat` is two messages of about 500 bytes a turn. `coding` is shaped like a coding agent's: a short request,
some calls with results of 1 to 50 KB each, and a long answer.
"""

import itertools
import json
import random
from collections.abc import Iterator
from typing import NamedTuple


class Message(NamedTuple):
    """One message: of a person, the model, a call to a tool or its result."""

    kind: str
    """user, assistant, tool_call or tool_result."""
    text: str
    """What was said, a call's arguments as JSON, or a result's output."""
    call: str = ""
    """What pairs a call with its result."""
    tool: str = ""
    """The tool's name."""


Turn = list[Message]

WORDS = """
    the agent reads a file and finds that nothing of it was ever what it seemed so it looks into the log asks
    why the branch of the test returns early and what the person meant by it then writes one line and runs it
""".split()  # noqa: SIM905


def chat(turns: int, seed: int = 0) -> list[Turn]:
    """A person and a model take turns."""
    source = random.Random(seed)
    return [
        [Message("user", text_of(source, 500)), Message("assistant", text_of(source, 500))]
        for _ in range(turns)
    ]


def coding(turns: int, seed: int = 0) -> list[Turn]:
    """A coding agent at work: few long messages, many results of 1 to 50 KB."""
    source = random.Random(seed)
    return [list(_coding_turn(source, number)) for number in range(turns)]


def _coding_turn(source: random.Random, number: int) -> Iterator[Message]:
    yield Message("user", text_of(source, source.randint(40, 400)))
    for step in range(source.randint(2, 6)):
        call = f"call_{number}_{step}"
        tool = source.choice(["read_file", "grep", "bash"])
        yield Message(
            "tool_call", json.dumps({"path": f"src/{text_of(source, 20)}.py"}), call, tool
        )
        yield Message("tool_result", code_of(source, int(1000 * 50 ** source.random())), call, tool)
    yield Message("assistant", text_of(source, source.randint(500, 3000)))


def together(turn: Turn) -> list[list[Message]]:
    """The messages one by one, but the calls that the model made at once as one group."""
    groups = itertools.groupby(turn, key=lambda message: message.kind == "tool_call")
    return [
        part
        for calls, group in groups
        for part in ([list(group)] if calls else [[m] for m in group])
    ]


def cut() -> Iterator[tuple[str, Turn]]:
    """Histories that were cut between a tool call and its result, by name; each has its own words."""
    hello, words = Message("user", "What is in a and b?"), Message("assistant", "Let me look.")
    a, b = (Message("tool_call", f'{{"path": "{x}"}}', f"call_{x}", "read_file") for x in "ab")
    result_a, result_b = (Message("tool_result", f"in {x}", f"call_{x}", "read_file") for x in "ab")
    more, done = Message("user", "Are you there?"), Message("assistant", "Yes, I am.")
    histories = {
        "the call is the last thing": [hello, a],
        "words, then the call": [hello, words, a],
        "two calls, no result": [hello, a, b],
        "two calls, the first result": [hello, a, b, result_a],
        "two calls, the second result": [hello, a, b, result_b],
        "a whole pair, then a call": [hello, a, result_a, b],
        "the person went on": [hello, a, more],
        "the person went on after one of two": [hello, a, b, result_b, more],
        "the model went on": [hello, a, more, done],
        "a result without its call": [hello, result_a, done],
    }
    for name, turn in histories.items():
        yield (
            name,
            [m if m.kind == "tool_call" else m._replace(text=f"{m.text} ({name})") for m in turn],
        )


def code_of(source: random.Random, length: int) -> str:
    """Lines as a file has them: indented, with quotes, and here and there a letter beyond ASCII."""
    lines, taken = [], 0
    while taken < length:
        indent, word = "    " * source.randrange(5), text_of(source, 8)
        call = f'{word.replace(" ", "_")}("{text_of(source, 20)}", {source.randrange(1000)})'
        lines.append(f"{indent}{call}{'  # naïve → fix' if source.random() < 0.05 else ''}\n")
        taken += len(lines[-1])
    return "".join(lines)[:length].strip()


def text_of(source: random.Random, length: int) -> str:
    """Words of a length, with some numbers so that they do not repeat."""
    words, taken = [], 0
    while taken < length:
        words.append(f"{source.choice(WORDS)}{source.randrange(100)}")
        taken += len(words[-1]) + 1
    return " ".join(words)[:length].strip()
