"""Runs of the OpenAI Agents SDK with a scripted model: the same with our session as with the SDK's own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    ModelSettings,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    input_guardrail,
)
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseReasoningItem

import backstory
from backstory.adapters.openai_agents import BackstorySession
from tests.adapters import approvals

ROOT = Path(__file__).parents[2]
QUIET = RunConfig(tracing_disabled=True)


@function_tool
def add(a: int, b: int) -> str:
    return str(a + b)


@input_guardrail(run_in_parallel=False)
async def no_secrets(context, agent, given):
    return GuardrailFunctionOutput(
        output_info=None, tripwire_triggered="secret" in json.dumps(given[-1])
    )


def thought(id):
    return ResponseReasoningItem(id=id, type="reasoning", summary=[], encrypted_content="gAAA")


def script():
    return [
        [thought("rs_1"), assistant_message("Hello.", item_id="msg_1")],
        [
            thought("rs_2"),
            function_call("add", {"a": 1, "b": 2}, call_id="call_1"),
            function_call("add", '{"a": 3,  "b": 4}', call_id="call_2"),
        ],
        [assistant_message("3 and 7.", item_id="msg_2")],
        [function_call("transfer_to_poet", {}, call_id="call_3")],
        [assistant_message("Roses are red.", item_id="msg_3")],
        [function_call("add", {"a": "x"}, call_id="call_4")],
        [assistant_message("That went wrong.", item_id="msg_4")],
        [assistant_message("Limited.", item_id="msg_5")],
    ]


async def story(session):
    """Several turns, and everything that the model was given."""
    model = ScriptedModel(script())
    poet = Agent(name="poet", model=model)
    first = Agent(
        name="first",
        model=model,
        tools=[add],
        handoffs=[poet],
        input_guardrails=[no_secrets],
        model_settings=ModelSettings(parallel_tool_calls=True),
    )
    await Runner.run(first, "Hello!", session=session, run_config=QUIET)
    await Runner.run(first, "1 + 2, 3 + 4?", session=session, run_config=QUIET)
    await Runner.run(first, "A poem.", session=session, run_config=QUIET)
    streamed = Runner.run_streamed(first, "Go wrong.", session=session, run_config=QUIET)
    async for _ in streamed.stream_events():
        pass
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(first, "the secret", session=session, run_config=QUIET)
    session.session_settings.limit = 2
    await Runner.run(first, "And now?", session=session, run_config=QUIET)
    session.session_settings.limit = None
    return [call.input for call in model.calls], await session.get_items()


def test_the_model_is_given_the_same_as_with_the_sdks_own_session(
    durable_url, tmp_path, run, sound
):
    theirs = run(story(SQLiteSession("s", tmp_path / "theirs.db")))
    with backstory.open(durable_url) as store:
        session = BackstorySession("s", store)
        ours = run(story(session))
        assert json.dumps(ours) == json.dumps(theirs)
        assert session.agent.conversation().to("openai-responses", stored=True)["input"] == ours[1]
        sound(store)


def test_an_approval_is_given_in_another_process(durable_url, tmp_path, run):
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    for step in ("ask", "approve"):
        command = [sys.executable, "-m", "tests.adapters.approvals", durable_url, str(ours), step]
        subprocess.run(command, cwd=ROOT, check=True)
    own = SQLiteSession("s", tmp_path / "theirs.db")
    for step in ("ask", "approve"):
        run(approvals.main(own, theirs, step))
    session = BackstorySession("s", durable_url)
    assert ours.read_text() == theirs.read_text()
    assert run(session.get_items()) == run(own.get_items())
    assert len(run(session.get_items())) == 4
    session.close()
    own.close()


def test_a_write_that_fails_once_loses_nothing(run):
    class Failing(BackstorySession):
        failures = 1

        async def add_items(self, items):
            if self.failures:
                self.failures -= 1
                raise backstory.StorageError("the disk is full")
            await super().add_items(items)

    session = Failing("s")
    agent = Agent(
        name="a",
        model=ScriptedModel([[assistant_message("Hi.")], [assistant_message("Hi again.")]]),
    )
    with pytest.raises(backstory.StorageError):
        run(Runner.run(agent, "Hello!", session=session, run_config=QUIET))
    assert run(session.get_items()) == []
    run(Runner.run(agent, "Hello!", session=session, run_config=QUIET))
    assert [item.get("role") for item in run(session.get_items())] == ["user", "assistant"]


@pytest.mark.parametrize("tail", ["its own", "someone else's"])
def test_a_retry_takes_back_its_own_items_and_puts_back_those_of_others(run, tail):
    persistence = pytest.importorskip("agents.run_internal.session_persistence")
    items = [{"role": "user", "content": word} for word in ("first", "second", "third")]
    session, own = BackstorySession("s"), SQLiteSession("s")
    for each in (session, own):
        run(each.add_items(items))
        if tail != "its own":
            run(each.add_items([{"role": "user", "content": "from another process"}]))
        run(persistence.rewind_session_items(each, items[1:]))
    assert run(session.get_items()) == run(own.get_items())
    assert len(run(session.get_items())) == (1 if tail == "its own" else 4)


def test_the_compacting_wrapper_works_around_it(run):
    class Compacted:
        output = ({"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},)
        usage = None

    class Client:
        class responses:  # noqa: N801
            @staticmethod
            async def compact(**request):
                Client.given = request
                return Compacted

    session = BackstorySession("s")
    items = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    run(session.add_items(items))
    wrapped = OpenAIResponsesCompactionSession(
        "s",
        session,
        client=Client,
        model="gpt-5",
        compaction_mode="input",
        should_trigger_compaction=lambda _: True,
    )
    run(wrapped.run_compaction({"force": True}))
    assert Client.given["input"] == items
    assert run(session.get_items()) == [Compacted.output[0]]
    session.agent.undo()
    assert run(session.get_items()) == items
