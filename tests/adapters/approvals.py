"""One process asks for approval of a call, another one gives it.

python -m tests.adapters.approvals URL STATE ask|approve
"""

import asyncio
import json
import sys
from pathlib import Path

from agents import Agent, RunConfig, Runner, RunState, function_tool
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message, function_call

from backstory.adapters.openai_agents import BackstorySession

QUIET = RunConfig(tracing_disabled=True)


@function_tool(needs_approval=True)
def delete(name: str) -> str:
    return f"deleted {name}"


async def main(session: Session, state: Path, step: str) -> None:
    if step == "ask":
        model = ScriptedModel([[function_call("delete", {"name": "b.py"}, call_id="call_1")]])
        result = await Runner.run(agent(model), "Delete b.py.", session=session, run_config=QUIET)
        state.write_text(result.to_state().to_string())
    else:
        model = ScriptedModel([[assistant_message("Gone.")]])
        resumed = await RunState.from_string(agent(model), state.read_text())
        resumed.approve(resumed.get_interruptions()[0])
        await Runner.run(agent(model), resumed, session=session, run_config=QUIET)
        state.write_text(json.dumps([call.input for call in model.calls]))


def agent(model: ScriptedModel) -> Agent:
    return Agent(name="a", model=model, tools=[delete])


if __name__ == "__main__":
    url, state, step = sys.argv[1:]
    asyncio.run(main(BackstorySession("s", url), Path(state), step))
