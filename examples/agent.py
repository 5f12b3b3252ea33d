"""An agent with a tool and a memory: `python examples/agent.py claude-…`, or `gpt-…`."""

import sys
from pathlib import Path

import backstory
from backstory.runtime.loop import Loop
from backstory.runtime.models import Model, TextDelta
from backstory.runtime.tools import Tool


def list_files() -> str:
    """List the files in the current folder."""
    return "\n".join(sorted(path.name for path in Path.cwd().iterdir()))


def choose_model(name: str) -> Model:
    """Return a model of Anthropic or OpenAI. Its key is in ANTHROPIC_API_KEY or OPENAI_API_KEY."""
    if name.startswith("claude-"):
        from backstory.runtime.models.anthropic import AnthropicModel

        return AnthropicModel(name)
    from backstory.runtime.models.openai import OpenAIModel

    return OpenAIModel(name)


def main(name: str) -> None:
    """Answer the questions on standard input, one per line."""
    with backstory.open("agent.db") as store:
        agent = store.ensure("example", system="You are a careful assistant. Be brief.")
        loop = Loop(agent, choose_model(name), [Tool.of(list_files)])
        for question in sys.stdin:
            for update in loop.ask(question.strip()):
                if isinstance(update, TextDelta):
                    print(update.text, end="", flush=True)
            print()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name a model: python examples/agent.py claude-… or gpt-…")
    main(sys.argv[1])
