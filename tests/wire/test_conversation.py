"""The conversation: an unchanging sequence of messages, and its way to the wire."""

import json
import logging

import pytest

import backstory
from backstory import Event, Invalid, InvalidEvent
from backstory.log.messages import Message
from backstory.log.settings import Settings
from backstory.wire import FORMATS, dump, load, load_answer
from backstory.wire.conversation import Conversation, conversation_of
from backstory.wire.json_values import encode_body
from tests.wire.logs import PIXEL


@pytest.fixture
def agent():
    with backstory.open(":memory:") as store:
        agent = store.start("main", system="Be careful.")
        agent.user("Which Python files are here?")
        call = agent.tool_call("glob", {"pattern": "*.py"})
        agent.tool_result(call, "a.py")
        agent.mark("found")
        agent.user("Größe?")
        yield agent


def conversation(agent):
    return conversation_of(agent.context().messages)


def test_it_is_a_sequence_of_messages_without_what_steers_the_log(agent):
    found = conversation(agent)
    assert [message.kind for message in found] == [
        "system",
        "user",
        "tool_call",
        "tool_result",
        "user",
    ]
    assert len(found) == 5
    assert found[0] == Message("system", "Be careful.")
    assert found[-1].seq == 6
    assert found[1:3] == Conversation([found[1], found[2]])
    assert Message("user", "Größe?") in found
    assert found == conversation(agent)
    assert hash(found) == hash(conversation(agent))
    assert found != found[1:]
    assert found != list(found)
    assert repr(found) == "<Conversation of 5 messages>"


def test_an_unknown_kind_is_logged_and_skipped(caplog):
    with caplog.at_level(logging.WARNING, "backstory"):
        found = conversation_of(iter([Event.of(1, "user", "hi"), Event.of(2, "thought", "hm")]))
    assert list(found) == [Message("user", "hi")]
    assert "position 2: unknown kind 'thought'" in caplog.text


def test_it_takes_nothing_that_a_model_is_not_given():
    with pytest.raises(InvalidEvent, match="event 3"):
        list(Conversation([Event.of(3, "mark", None)]))


def test_nobody_can_change_what_another_one_sees(agent):
    found = conversation(agent)
    found.to("anthropic")["messages"][1]["content"][0]["input"]["pattern"] = "changed"
    found[2].data["name"] = "changed"
    assert found[2].data["name"] == "glob"
    assert "changed" not in str(found.to("anthropic"))


@pytest.mark.parametrize("format", FORMATS)
def test_to_and_to_bytes_and_repairs_say_what_dump_says(agent, format):
    agent.tool_call("glob", id="open")
    found = conversation(agent)
    body, repairs = dump(list(found), format)
    assert found.to(format) == body
    assert json.loads(found.to_bytes(format)) == body
    assert found.repairs(format) == repairs
    assert [(repair.rule, repair.at) for repair in repairs] == [("close", 7)]
    assert found.repairs(format, pending=True) == []


def test_the_fast_path_says_what_the_slow_path_says(agent):
    agent.extend(
        [("tool_call", None, {"name": "g", "id": "x", "arguments": {"n": 1e22, "ü": "\u2028"}})]
    )
    agent.tool_result("x", "out")
    found = conversation(agent)
    assert found.to_bytes("openai") == Conversation(list(found)).to_bytes("openai")


def test_the_fast_path_leaves_numbers_beyond_64_bits_to_the_long_one(agent):
    agent.tool_result(agent.tool_call("g", {"n": 2**70}), "out")
    assert str(2**70) in conversation(agent).to_bytes("openai").decode()


def test_blobs_are_bytes_for_the_sdk_and_base64_in_json():
    wire = [{"image": {"format": "png", "source": {"bytes": PIXEL}}}]
    found = Conversation([Message("user", "", {"native": {"provider": "bedrock", "wire": wire}})])
    assert isinstance(
        found.to("bedrock")["messages"][0]["content"][0]["image"]["source"]["bytes"], bytes
    )
    assert json.loads(found.to_bytes("bedrock"))["messages"][0]["content"] == wire


def test_json_of_numbers_beyond_64_bits():
    assert encode_body({"n": 2**70, "b": b"x"}) == b'{"n":1180591620717411303424,"b":"eA=="}'


class TestAtAPosition:
    """`agent.conversation(at=…)`: what a model was given at an earlier time."""

    @staticmethod
    def texts(found):
        return [message.content for message in found if message.content]

    def test_it_is_what_was_said_until_then(self, agent):
        assert agent.conversation(at=2) == agent.conversation()[:2]
        assert agent.conversation(at=agent.head) == agent.conversation()
        body, repairs = agent.conversation(at=3).dump("openai")
        assert body["messages"][-1]["role"] == "tool"
        assert [(repair.rule, repair.at) for repair in repairs] == [("close", 3)]

    def test_after_a_rewind_the_time_before_is_still_there(self, agent):
        before = agent.head
        agent.rewind("found")
        agent.user("Other.")
        assert self.texts(agent.conversation()) == [
            "Be careful.",
            "Which Python files are here?",
            "a.py",
            "Other.",
        ]
        assert self.texts(agent.conversation(at=before))[-1] == "Größe?"
        assert "Größe?" not in self.texts(agent.conversation(at=before + 1))

    def test_after_a_jump_as_well(self, agent):
        before = agent.head
        agent.jump(2)
        agent.user("Other.")
        assert self.texts(agent.conversation()) == [
            "Be careful.",
            "Which Python files are here?",
            "Other.",
        ]
        assert len(agent.conversation(at=before)) == 5
        assert len(agent.conversation(at=before + 1)) == 2


@pytest.mark.parametrize("around", ["", "x" * 20_000], ids=["short", "long"])
def test_data_that_is_too_deep_for_an_encoder_is_cut_off(around):
    deep = "[" * 300 + "]" * 300
    data = f'{{"id":"1","name":"f","arguments":{{"around":"{around}","deep":{deep}}}}}'
    body, repairs = dump([Event.of(1, "tool_call", None, data)], "anthropic")
    assert "(nested too deeply)" in str(body)
    assert repairs[0].rule == "data"


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_cut_off_fits_into_a_store_when_it_is_loaded_again(format):
    deep = "[" * 300 + "]" * 300
    call = Event.of(2, "tool_call", None, f'{{"id":"1","name":"f","arguments":{{"deep":{deep}}}}}')
    body, _ = dump(
        [("user", "Look.", None), call, ("assistant", "a", None), ("assistant", "b", None)], format
    )
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.extend(load(body, format))
        assert agent.conversation().dump(format) == (body, [])


class TestReports:
    OPEN = (Event.of(1, "user", "u"), Event.of(2, "tool_call", None, {"id": "1", "name": "f"}))

    @pytest.mark.parametrize("build", ["to", "request", "to_bytes"])
    def test_repairs_are_logged_at_info(self, build, caplog):
        with caplog.at_level("INFO", logger="backstory"):
            getattr(conversation_of(self.OPEN), build)("openai")
        [record] = caplog.records
        assert record.levelname == "INFO"
        assert record.getMessage().startswith("repair close at 2: the call '1' has no result")

    @pytest.mark.parametrize("build", ["to", "request", "to_bytes", "repairs"])
    def test_a_strict_request_raises_if_it_needs_a_repair(self, build):
        with pytest.raises(Invalid, match="close at 2: the call '1' has no result"):
            getattr(conversation_of(self.OPEN), build)("openai", strict=True)

    def test_a_strict_request_that_needs_no_repair_is_built(self):
        body = conversation_of(self.OPEN).to("openai", strict=True, pending=True)
        assert [message["role"] for message in body["messages"]] == ["user", "assistant"]

    def test_strict_also_refuses_what_was_erased(self, agent):
        agent.erase([agent.user("a secret").seq], why="a test")
        with pytest.raises(Invalid, match="the user event was erased"):
            agent.conversation().to("openai", strict=True)


@pytest.fixture
def erased():
    """A conversation whose first user message was erased."""
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        secret = agent.user("A secret.")
        agent.append("assistant", "I see.")
        agent.user("And now?")
        agent.erase([secret.seq], why="a request")
        yield agent.conversation()


def test_other_settings_do_not_hide_what_was_erased(erased):
    other = erased.with_settings(Settings(model="gpt-4o"))
    assert other.repairs("openai") == erased.repairs("openai") != []
    with pytest.raises(Invalid, match="erased"):
        other.to("openai", strict=True)


def test_a_slice_reports_only_what_was_erased_in_it(erased):
    assert erased[:].repairs("openai") == erased.repairs("openai")
    assert [repair.rule for repair in erased[:1].repairs("openai")] == ["erased"]
    assert erased[1:].repairs("openai") == []
    assert "erased" not in str(erased[:0].repairs("openai"))


def test_every_request_is_for_the_model_of_the_settings():
    content = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
    content += [{"type": "text", "text": "42."}]
    answer = {"type": "message", "model": "claude-x", "content": content}
    events = [("user", "Hi.", None), *load_answer(answer, "anthropic"), ("user", "Yes.", None)]
    messages = [Message(*event) for event in events]
    found = Conversation(messages, Settings(model="claude-x"))
    assert found.dump("anthropic").repairs == []
    assert found.to("anthropic")["messages"][1]["content"] == content
    assert json.loads(found.to_bytes("anthropic")) == found.to("anthropic")
    other = found.to("anthropic", model="claude-y")
    assert other["messages"][1]["content"] == content[1:]


def test_repairs_are_those_of_a_whole_request(agent):
    settings = Settings(params={"seed": 7})
    found = conversation(agent).with_settings(settings)
    assert found.dump("anthropic", strict=True).repairs == []
    [repair] = found.repairs("anthropic")
    assert repair.rule == "parameter"
    assert found.dump_request("anthropic").repairs == [repair]
    with pytest.raises(Invalid, match="seed"):
        found.request("anthropic", strict=True)
