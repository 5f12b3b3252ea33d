"""An agent that gives a task to a sub-agent: `python examples/subagent.py [gpt-… | claude-…]`."""

import sys

import backstory
from backstory import Agent
from backstory.runtime.loop import Loop
from backstory.runtime.models import Model
from backstory.runtime.models.choice import ModelSpec, choose
from backstory.runtime.tools import Tool, working_tools


def make_task_tool(parent: Agent, model: Model) -> Tool:
    """Return a tool that runs a task in an agent of its own, with a log of its own."""

    def task(prompt: str) -> str:
        """Give a task to a helper that can read files. It sees only the prompt."""
        child = parent.spawn()
        for _ in Loop(child, model, working_tools()).ask(prompt):
            pass  # everything is in the child's log
        return child.messages()[-1].content or "the helper said nothing"

    return Tool.of(task, seconds=600)


def main(name: str = "gpt-5") -> None:
    """Answer one question from standard input, with the help of a sub-agent."""
    model = choose(ModelSpec(name))
    with backstory.open("subagent.db") as store:
        agent = store.ensure("example", system="Give each task to a helper, then report.")
        loop = Loop(agent, model, [make_task_tool(agent, model)])
        for _ in loop.ask(sys.stdin.read().strip()):
            pass
        print(agent.messages()[-1].content)
        for child in store.agents(session=agent.session):
            print(f"{child.name}: {child.head} events")


if __name__ == "__main__":
    main(*sys.argv[1:])
