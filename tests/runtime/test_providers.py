"""OpenAI's Responses and Gemini through their own SDKs, against local servers that speak their formats."""

import pytest

from backstory.runtime.loop import Loop
from backstory.runtime.models import ContextTooLong, ModelError, TextDelta, ThinkingDelta
from backstory.runtime.models.choice import ModelSpec, choose, provider_of
from backstory.runtime.models.gemini import GeminiModel
from backstory.runtime.models.openai import OpenAIModel, ResponsesModel
from backstory.runtime.tools.workspace import working_tools
from tests.runtime.event_server import (
    event_server,
    function_call,
    gemini_chunk,
    message,
    reasoning,
    responses_events,
)
from tests.wire.rules import violations


def thoughts(happened):
    return "".join(update.text for update in happened if isinstance(update, ThinkingDelta)).strip()


def words(happened):
    return "".join(update.text for update in happened if isinstance(update, TextDelta)).strip()


def spoken(agent):
    return [
        (event.kind, event.content) for event in agent.context().messages if event.kind != "note"
    ][1:]


def test_responses_keep_what_was_thought_and_send_it_back_sealed(memory, agent, folder):
    first = responses_events(
        reasoning("Look.", "sealed"), function_call("c1", "glob", '{"pattern": "*.py"}')
    )
    with event_server(first, responses_events(message("Two files."))) as server:
        model = ResponsesModel("gpt-5", base_url=server.url, key="k")
        happened = list(Loop(agent, model, working_tools(folder)).ask("Which?"))
        model.close()
    assert thoughts(happened) == "Look."
    assert words(happened) == "Two files."
    assert spoken(agent) == [
        ("user", "Which?"), ("tool_call", None), ("tool_result", "a.py\nb.py"), ("assistant", "Two files."),
    ]  # fmt: skip
    first_body, second = server.bodies
    assert first_body["store"] is False
    assert first_body["include"] == ["reasoning.encrypted_content"]
    assert first_body["reasoning"] == {"summary": "auto"}
    sealed = next(item for item in second["input"] if item.get("type") == "reasoning")
    assert sealed["encrypted_content"] == "sealed"
    assert [violations(body, "openai-responses") for body in server.bodies] == [[], []]
    assert memory.verify(requests=True) == []


def test_responses_go_without_summaries_where_they_are_refused(agent):
    refused = (
        400,
        {"error": {"message": "must be verified to generate reasoning summaries", "type": "x"}},
    )
    with event_server(refused, responses_events(message("Hello."))) as server:
        model = ResponsesModel("gpt-5", base_url=server.url, key="k")
        list(Loop(agent, model).ask("Hi"))
        model.close()
    assert spoken(agent)[-1] == ("assistant", "Hello.")
    assert "reasoning" not in server.bodies[-1]


def test_responses_say_when_an_answer_was_cut(agent):
    end = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    with event_server(responses_events(message("Hel"), **end)) as server:
        model = ResponsesModel("gpt-4o", base_url=server.url, key="k")
        list(Loop(agent, model).ask("Hi"))
        model.close()
    assert agent.context().messages[-1].data["cut"] is True
    assert "include" not in server.bodies[0]


def test_responses_that_fail_in_the_middle_are_one_line(agent, monkeypatch):
    monkeypatch.setattr("backstory.runtime.models.retry.RETRY_SECONDS", 0.0)
    failed = [
        {
            "type": "response.failed",
            "response": {"error": {"message": "out of order"}, "output": []},
        }
    ]
    with event_server(failed) as server:
        model = ResponsesModel("gpt-5", base_url=server.url, key="k")
        with pytest.raises(ModelError, match=r"broke off the answer \(out of order\)"):
            list(Loop(agent, model).ask("Hi"))
        model.close()


def test_gemini_calls_tools_and_gets_its_signatures_back(memory, agent, folder):
    call = {
        "functionCall": {"name": "glob", "args": {"pattern": "*.py"}},
        "thoughtSignature": "c2lnbmVk",
    }
    first = [gemini_chunk({"text": "Look.", "thought": True}), gemini_chunk(call, ended="STOP")]
    second = [gemini_chunk({"text": "Two "}), gemini_chunk({"text": "files."}, ended="STOP")]
    with event_server(first, second) as server:
        model = GeminiModel("gemini-x", base_url=server.url, key="k")
        happened = list(Loop(agent, model, working_tools(folder)).ask("Which?"))
        model.close()
    assert thoughts(happened) == "Look."
    assert words(happened) == "Two files."
    assert spoken(agent)[-1] == ("assistant", "Two files.")
    assert "/models/gemini-x:streamGenerateContent" in server.paths[0]
    body = server.bodies[1]
    assert list(body["generationConfig"]["thinkingConfig"].values()) == [
        True
    ]  # the SDK spells its name
    sent_back = [
        part for content in body["contents"] for part in content["parts"] if "functionCall" in part
    ]
    assert sent_back[0]["thoughtSignature"] == "c2lnbmVk"
    assert body["systemInstruction"]["parts"][0]["text"] == "Be careful."
    assert {tool["name"] for tool in body["tools"][0]["functionDeclarations"]} >= {
        "glob",
        "read_file",
    }
    usage = agent.context().messages[-1].data["usage"]
    assert (usage["input"], usage["output"]) == (4, 3)
    assert memory.verify(requests=True) == []


@pytest.mark.parametrize(
    ("status", "text", "kind", "said"),
    [
        (400, "API key not valid", ModelError, "refused the request"),
        (404, "models/x is not found", ModelError, "has no model gemini-x"),
        (
            400,
            "The input token count (9) exceeds the maximum",
            ContextTooLong,
            "too long for gemini-x",
        ),
    ],
)
def test_what_gemini_refuses_is_one_line_that_says_why(agent, status, text, kind, said):
    with event_server(
        (status, {"error": {"code": status, "message": text, "status": "X"}})
    ) as server:
        model = GeminiModel("gemini-x", base_url=server.url, key="k")
        with pytest.raises(kind, match=said) as caught:
            list(Loop(agent, model).ask("Hi"))
        model.close()
    assert text.partition(" (")[0] in caught.value.message
    assert caught.value.status == status


def test_geminis_own_parameters_reach_the_service(agent):
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    agent.settings(params={"safetySettings": safety, "seed": 7})
    with event_server([gemini_chunk({"text": "Hi."}, ended="STOP")]) as server:
        model = GeminiModel("gemini-x", base_url=server.url, key="k")
        list(Loop(agent, model).ask("Hi"))
        model.close()
    [body] = server.bodies
    assert (body["safetySettings"], body["generationConfig"]["seed"]) == (safety, 7)


def test_a_prompt_that_gemini_blocks_is_refused(agent):
    with event_server([{"promptFeedback": {"blockReason": "SAFETY"}}]) as server:
        model = GeminiModel("gemini-x", base_url=server.url, key="k")
        happened = list(Loop(agent, model).ask("Hi"))
        model.close()
    assert "refused" in happened[-1].why


@pytest.mark.parametrize(
    ("params", "format", "wanted"),
    [
        ({"effort": "low"}, "openai", {"reasoning_effort": "low"}),
        ({"effort": "low"}, "openai-responses", {"reasoning": {"effort": "low"}}),
        ({"effort": "low"}, "anthropic", {"output_config": {"effort": "low"}}),
        (
            {"thinking": 2000, "max_tokens": 500},
            "anthropic",
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2500},
        ),
        (
            {"thinking": 2000, "temperature": 0.5, "gemini": {"generationConfig": {"seed": 7}}},
            "gemini",
            {
                "generationConfig": {
                    "thinkingConfig": {"thinkingBudget": 2000}, "temperature": 0.5, "seed": 7,
                }
            },
        ),
    ],
)  # fmt: skip
def test_effort_and_thinking_are_said_in_each_formats_way(agent, params, format, wanted):
    agent.settings(model="m", params=params)
    agent.user("Hi")
    body = agent.conversation().request(format)
    assert {key: body[key] for key in wanted} == wanted
    assert agent.conversation().settings.params == params


def test_a_model_is_known_by_its_name(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for spec, kind in [
        (ModelSpec("gpt-5"), ResponsesModel),
        (ModelSpec("openai:gpt-5"), OpenAIModel),
        (ModelSpec("m", base_url="http://localhost:1/v1"), OpenAIModel),
        (ModelSpec("responses:m", base_url="http://localhost:1/v1"), ResponsesModel),
        (ModelSpec("gemini-3"), GeminiModel),
    ]:
        model = choose(spec)
        assert type(model) is kind
        model.close()
    assert provider_of(ModelSpec("gemini:x", base_url="http://localhost:1")) == "gemini"
