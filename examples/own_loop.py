"""Ask an agent that survives every crash: `python examples/own_loop.py ID QUESTION`."""

import sys
from pathlib import Path

import anthropic

import backstory
from backstory import Agent, Event, ToolSettings

MODEL = "claude-haiku-4-5"
NO_ARGUMENTS = {"type": "object", "properties": {}}
TOOLS: list[ToolSettings] = [
    {"name": "list_files", "description": "List the current folder.", "parameters": NO_ARGUMENTS}
]


def run_tool(call: Event) -> str:
    """Return the output of a tool call."""
    if (call.data or {})["name"] != "list_files":
        return "there is no such tool"
    return "\n".join(sorted(path.name for path in Path.cwd().iterdir()))


def ask_model(agent: Agent, client: anthropic.Anthropic) -> None:
    """Send the conversation, print the answer and record it."""
    request = agent.conversation().request("anthropic")
    with client.messages.stream(**request) as stream:
        for text in stream.text_stream:
            print(text, end="", flush=True)
        agent.record(stream.get_final_message(), request=request)


def finish_turn(agent: Agent, client: anthropic.Anthropic) -> None:
    """Run the tools that were called, and ask the model until nothing is unanswered."""
    while agent.open_calls() or agent.unanswered():
        for call in agent.open_calls():
            agent.tool_result(call, run_tool(call))
        ask_model(agent, client)


def compact(agent: Agent, client: anthropic.Anthropic) -> None:
    """Replace all but the last messages with a summary, which is asked for on a fork."""
    side = agent.fork()
    side.user("Summarize what was done and what is still open.")
    finish_turn(side, client)
    summary = side.conversation()[-1].content
    if summary:  # a model may answer nothing; then the next start tries again
        agent.compact(summary, keep=4)


def main(id: str, question: str) -> None:
    """Ask a question. A repeat with the same id continues where the first call ended."""
    with backstory.open("agent.db") as store, anthropic.Anthropic() as client:
        agent = store.ensure("main", system="Be brief.")
        agent.settings(model=MODEL, tools=TOOLS, params={"max_tokens": 1000})
        finish_turn(agent, client)  # what an earlier process left
        if agent.conversation().tokens() > 50_000:
            compact(agent, client)
        agent.user(question, key=id)
        finish_turn(agent, client)


if __name__ == "__main__":
    main(*sys.argv[1:])
