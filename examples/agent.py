"""An agent with a tool and a memory: `python examples/agent.py [gpt-… | claude-…]`; no name: embedded."""

import sys
from pathlib import Path

import backstory
from backstory.runtime.loop import Loop
from backstory.runtime.models import Model, TextDelta
from backstory.runtime.tools import Tool


def list_files() -> str:
    """List the files in the current folder."""
    return "\n".join(sorted(path.name for path in Path.cwd().iterdir()))


def model_named(name: str) -> Model:
    """The model that answers: OpenAI's, Anthropic's, or the small embedded one."""
    if name.startswith("claude-"):
        from backstory.runtime.models.anthropic import AnthropicModel

        return AnthropicModel(name)  # with the key in ANTHROPIC_API_KEY
    if name:
        from backstory.runtime.models.openai import OpenAIModel

        return OpenAIModel(name)  # with the key in OPENAI_API_KEY
    from backstory.runtime.models.embedded import EmbeddedModel

    return EmbeddedModel()


def main(name: str = "") -> None:
    """Answer the questions on standard input, one per line."""
    with backstory.open("agent.db") as store:
        agent = store.ensure("example", system="You are a careful assistant. Be brief.")
        loop = Loop(agent, model_named(name), [Tool.of(list_files)])
        for question in sys.stdin:
            for update in loop.ask(question.strip()):
                if isinstance(update, TextDelta):
                    print(update.text, end="", flush=True)
            print()


if __name__ == "__main__":
    main(*sys.argv[1:])
