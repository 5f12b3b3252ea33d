"""What a model was asked is in the log, with the answer's digest, and `verify` proves it."""

import pytest

from backstory.runtime.loop import Loop
from backstory.runtime.models import ModelError
from backstory.runtime.models.anthropic import AnthropicModel
from backstory.runtime.models.openai import OpenAIModel
from backstory.runtime.tools.workspace import working_tools
from backstory.wire.answers import request_digest
from tests.runtime.scripted import Refuse, Say, scripted
from tests.wire.stub_server import stub_server


def answers(agent):
    return [event for event in agent.events() if "request" in (event.data or {})]


def test_an_answer_names_the_request_that_led_to_it(memory, agent, folder):
    with scripted(
        Say("Let me look.", calls=(("c1", "glob", '{"pattern": "*.py"}'),)), Say("Two.")
    ) as server:
        model = OpenAIModel("m", base_url=server.url)
        list(Loop(agent, model, working_tools(folder)).ask("Which files are here?"))
        model.close()
        sent = [
            {k: v for k, v in body.items() if not k.startswith("stream")} for body in server.bodies
        ]
    found = [event.data["request"] for event in answers(agent)]
    assert [request["sha256"] for request in found] == [request_digest(body) for body in sent]
    assert [(request["format"], request["model"]) for request in found] == [("openai", "m")] * 2
    assert all(type(request["ms"]) is int for request in found)
    assert agent.conversation().settings.model == "m"
    assert memory.verify(requests=True) == []


def test_an_answer_of_anthropic_is_proved_with_its_breakpoints(memory, agent, folder):
    with stub_server() as server:
        model = AnthropicModel("claude-x", base_url=server.url, key="none")
        list(Loop(agent, model, working_tools(folder)).ask("Hello!"))
        model.close()
        sent = {k: v for k, v in server.last.body.items() if k != "stream"}
    [answer] = answers(agent)
    request = answer.data["request"]
    assert request["sha256"] == request_digest(sent)
    assert request["options"] == {"cache": "auto"}
    assert request["usage"]["output_tokens"] == answer.data["usage"]["output"]
    assert memory.verify(requests=True) == []


def test_the_settings_are_written_when_they_change_and_not_again(agent, folder):
    with scripted(Say("A."), Say("B."), Say("C.")) as server:
        model = OpenAIModel("m", base_url=server.url)
        for tools in (working_tools(folder), working_tools(folder), ()):
            list(Loop(agent, model, tools).ask("Hello!"))
        model.close()
        assert [len(body.get("tools", ())) > 0 for body in server.bodies] == [True, True, False]
    assert len(agent.notes("backstory.settings")) == 2


def test_parameters_of_the_log_are_sent(agent):
    agent.settings(params={"temperature": 0.5})
    with scripted(Say("A.")) as server:
        model = OpenAIModel("m", base_url=server.url)
        list(Loop(agent, model).ask("Hello!"))
        model.close()
        assert server.last["temperature"] == 0.5


def test_failed_attempts_are_notes_with_status_text_and_number(agent, monkeypatch):
    monkeypatch.setattr("backstory.runtime.models.retry.FIRST_PAUSE", 0.0)
    with scripted(Refuse(429, "slow down"), Refuse(500, "oh"), Say("Here.")) as server:
        model = OpenAIModel("m", base_url=server.url)
        list(Loop(agent, model).ask("Hello!"))
        model.close()
    failures = [note.data for note in agent.notes("backstory.failure")]
    assert [(data["status"], data["attempt"], data["model"]) for data in failures] == [
        (429, 1, "m"),
        (500, 2, "m"),
    ]
    assert "slow down" in failures[0]["text"]
    assert agent.context().messages[-1].content == "Here."


def test_the_failure_that_ends_it_is_a_note_too(agent):
    with scripted(Refuse(400, "bad")) as server:
        model = OpenAIModel("m", base_url=server.url)
        with pytest.raises(ModelError):
            list(Loop(agent, model).ask("Hello!"))
        model.close()
    assert agent.last_notes(["backstory.failure"])["backstory.failure"].data["status"] == 400


# --- verify ---


def recorded(agent, **more):
    agent.user("Hello!")
    body = agent.conversation().request("openai", model="m")
    answer = {"choices": [{"message": {"role": "assistant", "content": "Hi."}}]}
    return agent.record(answer, model="m", request=body, **more)[0]


def test_what_was_recorded_by_hand_is_proved_too(memory, agent):
    recorded(agent)
    agent.fork("child").user("more")
    agent.compact("They greeted.", keep=1)
    assert memory.verify(requests=True) == []


def test_an_answer_to_another_request_is_found(memory, agent):
    body = {"model": "m", "messages": [{"role": "user", "content": "Something else."}]}
    answer = {"choices": [{"message": {"role": "assistant", "content": "Hi."}}]}
    [event] = agent.record(answer, model="m", request=body)
    [finding] = memory.verify(requests=True)
    assert (finding.agent_id, finding.position, finding.severity) == (agent.id, event.seq, "error")
    assert "not the one that led to this answer" in finding.problem
    assert memory.verify() == []


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"sha256": "x", "format": "openai", "at": 9}, "not before it"),
        ({"sha256": "x", "format": "openai", "at": "1"}, "not before it"),
        ({"sha256": "x", "format": "smoke", "at": 1}, "cannot be built"),
        ({"sha256": "x", "format": "openai", "at": 1, "options": {"odd": 1}}, "cannot be built"),
        ({"sha256": "x"}, "cannot be built"),
    ],
)
def test_a_request_that_makes_no_sense_is_found(memory, agent, request_, problem):
    agent.append("assistant", "Hi.", {"request": request_})
    [finding] = memory.verify(requests=True)
    assert problem in finding.problem


@pytest.mark.parametrize(
    "data", [{"request": {}}, {"request": "x"}, {"request": {"sha256": 3}}, {"sha256": "x"}]
)
def test_what_names_no_request_is_not_judged(memory, agent, data):
    agent.append("assistant", "Hi.", data)
    assert memory.verify(requests=True) == []
