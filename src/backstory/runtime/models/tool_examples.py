"""Examples of good tool calls, for a model that is too small to read a description. Pure.

The embedded model's template drops the tools, and describing them in the system prompt does not help. But the
model learns from examples, if they are few and similar to the question. So the examples that share most words
with a question decide which tool is offered, if any, and are put before the question. The schema of the tool
becomes a grammar for llama.cpp, so that a call always has the required arguments.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from backstory.runtime.tools import Tool

NEAREST = 4  # examples before a question; more did not help
LEAST = (
    0.1  # the least similarity of the nearest one: a question about something else calls no tool
)
LONGEST = 200  # characters of an argument
NO_TOOL = ""
PATH = re.compile(r"[*/]|\w\.\w")


class Example(NamedTuple):
    """A question, the tool that answers it, and the argument to call it with."""

    question: str
    tool: str
    argument: str = ""


EXAMPLES = (
    Example("List all files.", "glob", "*"),
    Example("Which files are here?", "glob", "*"),
    Example("Which files are in lib?", "glob", "lib/*"),
    Example("Which text files are here?", "glob", "*.txt"),
    Example("Are there any text files?", "glob", "*.txt"),
    Example("List all text files in notes.", "glob", "notes/*.txt"),
    Example("Which Java files are here?", "glob", "*.java"),
    Example("Find all Java files in app.", "glob", "app/*.java"),
    Example("Which C files are in the folder lib?", "glob", "lib/*.c"),
    Example("Find all shell scripts.", "glob", "*.sh"),
    Example("Find every *.log file.", "glob", "*.log"),
    Example("Are there any C files?", "glob", "*.c"),
    Example("Read notes.txt", "read_file", "notes.txt"),
    Example("What does a.json contain?", "read_file", "a.json"),
    Example("Show me the file app.js", "read_file", "app.js"),
    Example("Open doc/index.html and sum it up.", "read_file", "doc/index.html"),
    Example("What is in the file lib/b.c?", "read_file", "lib/b.c"),
    Example("What does notes.txt say?", "read_file", "notes.txt"),
    Example("What is in the folder lib?", "list_dir", "lib"),
    Example("List the directory bin/tools.", "list_dir", "bin/tools"),
    Example("Show me the doc folder.", "list_dir", "doc"),
    Example("What is in this folder?", "list_dir", "."),
    Example("Where is the word import used?", "grep", "import"),
    Example("Search for class Dog in the files.", "grep", "class Dog"),
    Example("Which files mention FIXME?", "grep", "FIXME"),
    Example("Find the text good day.", "grep", "good day"),
    Example("Where is the function start defined?", "grep", "start"),
    Example("Run ls -l.", "bash", "ls -l"),
    Example("Run the program make.", "bash", "make"),
    Example("Execute git log for me.", "bash", "git log"),
    Example("Run the linter with ruff.", "bash", "ruff"),
    Example("Hi, how are you?", NO_TOOL),
    Example("Hello! Say hello.", NO_TOOL),
    Example("What is two plus two?", NO_TOOL),
    Example("Write a poem about the sea.", NO_TOOL),
    Example("Tell me a story.", NO_TOOL),
    Example("Thanks a lot!", NO_TOOL),
    Example("Who are you?", NO_TOOL),
    Example("What is the largest city of Spain?", NO_TOOL),
)


class Prompt(NamedTuple):
    """A request that makes the model write the arguments of one tool."""

    tool: str
    messages: list[dict[str, Any]]
    schema: dict[str, Any]


def prompt_for(question: str, tools: Sequence[Tool]) -> Prompt | None:
    """The prompt for a call that answers a question; None if no tool seems to be needed."""
    offered = {tool.name: tool for tool in tools if tool.parameters.get("properties")}
    known = [example for example in EXAMPLES if example.tool in offered or example.tool == NO_TOOL]
    said = _features(question)
    nearest = sorted(known, key=lambda example: _likeness(said, _features(example.question)))
    best = nearest[-1]
    if best.tool == NO_TOOL or _likeness(said, _features(best.question)) < LEAST:
        return None
    tool = offered[best.tool]
    name = next(iter(tool.parameters["properties"]))
    alike = [example for example in nearest if example.tool == tool.name][-NEAREST:]
    return Prompt(tool.name, _messages(tool, name, alike, question), _schema(tool.parameters, name))


def _messages(
    tool: Tool, name: str, examples: list[Example], question: str
) -> list[dict[str, Any]]:
    messages = [{"role": "system", "content": f"Call {tool.name} with JSON."}]
    for example in examples:
        arguments = json.dumps({name: example.argument})
        messages.append({"role": "user", "content": example.question})
        messages.append({"role": "assistant", "content": arguments})
    return [*messages, {"role": "user", "content": question}]


def _schema(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The part of a tool's schema that the examples use: the model would make up optional arguments."""
    value = {**parameters["properties"][name], "maxLength": LONGEST}
    return {
        "type": "object",
        "properties": {name: value},
        "required": [name],
        "additionalProperties": False,
    }


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))


def _features(question: str) -> frozenset[str]:
    """The words of a question, its pairs of words, and how it begins. All paths count as the same word."""
    words = [
        "<path>" if PATH.search(word.strip(".,!?")) else word.strip(".,!?;:\"'").lower()
        for word in question.split()
    ]
    pairs = {f"{one} {other}" for one, other in pairwise(words)}
    return frozenset({*words, *pairs, *(f"^{word}" for word in words[:1])})
