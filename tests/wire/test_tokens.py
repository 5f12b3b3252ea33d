"""Tokens: exact where that was measured, elsewhere an estimate that says of what; parts sum to the whole."""

import base64
import copy
import pickle
import sys
import zlib
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.log.messages import Message
from backstory.log.settings import Settings
from backstory.wire import dump, load
from backstory.wire.conversation import Conversation
from backstory.wire.file_sizes import Size
from backstory.wire.formats.anthropic import price_by_area
from backstory.wire.formats.openai import price_patches, price_tiles
from backstory.wire.tokens import Tokens, count_tokens, load_vocabulary, remember_counts
from tests.wire.files import png, wav

HELLO = [("user", "hello world", None)]
STEP = [
    ("user", "What is the weather in Paris?", None),
    ("tool_call", None, {"id": "call_1", "name": "get_weather", "arguments": '{"city": "Paris"}'}),
    ("tool_result", "sunny", {"id": "call_1"}),
]


def native(provider, wire, kind="user", text="", **data):
    return (kind, text, {"native": {"provider": provider, "wire": wire}, **data})


def data_url(media_type, data):
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


class TestExact:
    @pytest.mark.parametrize(
        ("model", "number"),
        [
            ("gpt-4o-mini", 9),  # 3 around the message, 1 role, 2 words, 3 around the answer
            ("openai/gpt-4.1-2025-04-14", 9),
            ("gpt-3.5-turbo-0125", 9),
            ("gpt-5-nano", 8),  # one less around the answer
            ("gpt-5.5", 8),
            ("o3-mini", 8),
        ],
    )
    def test_plain_text_counts_as_the_model_was_recorded_to_count_it(self, model, number):
        found = count_tokens(HELLO, model)
        assert found == number
        assert found.exact
        assert found.how.startswith("counted with ")

    def test_an_answer_of_gpt_5_names_its_channel(self):
        answered = [*HELLO, ("assistant", "hello world", None), *HELLO]
        assert count_tokens(answered, "gpt-5") == 2 + 6 + (6 + 2) + 6
        assert count_tokens(answered, "gpt-4o") == 3 + 3 * 6
        assert count_tokens(answered, "o3-mini") == 2 + 3 * 6

    @given(
        st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text()), max_size=6)
    )
    def test_it_is_the_count_of_the_messages_that_are_sent(self, texts):
        messages = [(kind, text, None) for kind, text in texts]
        found = count_tokens(messages, "gpt-4o")
        if found.exact:
            count = load_vocabulary("o200k_base")
            sent = dump(messages, "openai").body["messages"]
            assert found == 3 + sum(
                3 + count(message["role"]) + count(message["content"]) for message in sent
            )

    def test_claude_asks_nothing_around_system_text(self):
        assert (
            count_tokens([("system", "hello", None), *HELLO], "claude-x")
            == count_tokens(HELLO, "claude-x") + 1
        )

    def test_another_spelling_of_the_same_text_is_exact_too(self):
        spelled = [
            {"role": "user", "content": [{"type": "text", "text": "hello world"}]},
            {"role": "developer", "content": "Be brief."},
            {"role": "assistant", "content": "Hi.", "refusal": None, "annotations": []},
        ]
        plain = [*HELLO, ("system", "Be brief.", None), ("assistant", "Hi.", None)]
        found = count_tokens(load({"messages": spelled}, "openai"), "gpt-4o")
        assert found == count_tokens(plain, "gpt-4o")
        assert found.exact
        items = [{"role": "user", "content": [{"type": "input_text", "text": "hello world"}]}]
        assert count_tokens(load({"input": items}, "openai-responses"), "gpt-4o").exact

    @pytest.mark.parametrize(
        ("messages", "model"),
        [
            (HELLO, None),
            (HELLO, "claude-sonnet-4-5"),
            (HELLO, "gpt-oss:120b"),
            (HELLO, "gpt-4"),
            (HELLO, "gpt-4-0613"),
            (HELLO, "gpt-4o-mini-search-preview"),
            (HELLO, "gpt-5-codex"),
            (STEP, "gpt-4o"),
            ([("user", "<|endoftext|>", None)], "gpt-4o"),
            ([*HELLO, ("user", "  ", None)], "gpt-4o"),
            (
                [
                    native(
                        "openai", {"role": "user", "name": "ann", "content": "hello"}, text="hello"
                    )
                ],
                "gpt-4o",
            ),
            (
                [
                    native(
                        "openai",
                        {"role": "user", "content": [{"type": "text", "text": t} for t in "ab"]},
                    )
                ],
                "gpt-4o",
            ),
            ([], "gpt-4o"),
        ],
    )
    def test_what_was_not_measured_is_not_called_exact(self, messages, model):
        assert not count_tokens(messages, model).exact

    def test_without_messages_there_is_nothing_to_count(self):
        assert count_tokens([], "gpt-4o") == 0

    def test_a_number_says_how_it_was_come_by(self):
        assert repr(count_tokens(HELLO, "gpt-4o")) == "9 tokens (counted with o200k_base)"
        assert str(count_tokens(HELLO, "gpt-4")) == "9"
        assert (
            count_tokens(STEP, "gpt-4o").how == "counted with o200k_base; estimated: call, result"
        )
        assert (
            count_tokens(HELLO).how == "counted with o200k_base, as for gpt-4o: no model was named"
        )
        assert "no vocabulary of 'claude-x'" in count_tokens(HELLO, "claude-x").how
        assert "no exact count for 'gpt-oss'" in count_tokens(HELLO, "gpt-oss").how

    def test_it_is_a_stated_estimate_without_the_extra(self, monkeypatch):
        exact = count_tokens(STEP, "gpt-4o")
        monkeypatch.setitem(sys.modules, "splintr", None)
        load_vocabulary.cache_clear()
        try:
            found = count_tokens(STEP, "gpt-4o")
        finally:
            load_vocabulary.cache_clear()
        assert not found.exact
        assert "backstory[tokens]" in found.how
        assert exact / 2 < found < exact * 2


class TestParts:
    def test_they_sum_to_the_whole_and_name_the_events(self):
        found = count_tokens([("system", "Be careful.", None), *STEP], "gpt-4o")
        assert sum(part.tokens for part in found.parts) == found
        assert list(found.by("position")) == [0, 1, 2, 3, None]
        assert list(found.by("kind")) == ["system", "user", "tool_call", "tool_result", "request"]
        assert list(found.by("what")) == ["text", "call", "result", "frame"]
        for field in ("position", "kind", "what"):
            assert sum(found.by(field).values()) == found

    def test_what_was_counted_and_what_was_estimated_is_known_of_each(self):
        found = count_tokens(STEP, "gpt-4o")
        assert [part.what for part in found.parts if part.exact] == ["text", "frame"]

    def test_the_conversation_counts_the_same_way(self):
        messages = [Message(*message) for message in STEP]
        found = Conversation(messages).tokens("gpt-4o")
        assert isinstance(found, Tokens)
        assert found == count_tokens(STEP, "gpt-4o")


class TestTools:
    GLOB: ClassVar[dict[str, Any]] = {
        "name": "glob",
        "parameters": {"type": "object", "properties": {}},
    }

    def test_they_are_part_of_the_request_and_an_estimate(self):
        found = count_tokens(HELLO, "gpt-4o", tools=[self.GLOB])
        assert found - count_tokens(HELLO, "gpt-4o") == found.by("what")["tools"] == 23
        assert not found.exact
        assert found.how == "counted with o200k_base; estimated: tools"
        native = {"native": {"provider": "openai", "wire": {"x": "y" * 99}}}
        assert found == count_tokens(HELLO, "gpt-4o", tools=[self.GLOB | native])

    def test_a_conversation_counts_for_the_model_and_the_tools_of_its_settings(self):
        settings = Settings("gpt-4o", (self.GLOB,))
        found = Conversation([Message("user", "hello world")], settings).tokens()
        assert found == count_tokens(HELLO, "gpt-4o", tools=[self.GLOB])
        assert Conversation([Message("user", "hello world")], settings).tokens("gpt-5") != found

    def test_nothing_is_asked_of_nobody(self):
        assert count_tokens([], "gpt-4o", tools=[self.GLOB]) == 0


class TestCalls:
    def test_a_call_and_its_result_cost_what_openai_was_recorded_to_ask(self):
        # Both name the tool, arguments are counted without spaces, and 13 stand around the two.
        count = load_vocabulary("o200k_base")
        expected = 13 + 2 * count("get_weather") + count('{"city":"Paris"}') + count("sunny")
        assert count_tokens(STEP, "gpt-4o") - count_tokens(STEP[:1], "gpt-4o") == expected

    def test_further_calls_of_one_answer_cost_more(self):
        second = (
            "tool_call",
            None,
            {"id": "call_2", "name": "get_weather", "arguments": {"city": "Paris"}},
        )
        together = count_tokens([*STEP[:2], second], "gpt-4o")
        in_turn = count_tokens([*STEP, second], "gpt-4o") - count_tokens([STEP[2]], "gpt-4o")
        assert together > in_turn

    def test_older_shapes_and_broken_arguments_are_counted(self):
        old = {"tool_call_id": "c", "tool_name": "glob", "tool_args": "{broken"}
        result = {"tool_call_id": "c", "name": "glob", "output": "a.py", "success": True}
        found = count_tokens([("tool_call", None, old), ("tool_result", "?", result)], "gpt-4o")
        assert found > 20
        assert count_tokens([("tool_call", None, {"id": [], "name": {}})], "gpt-4o") > 5


class TestMedia:
    @pytest.mark.parametrize(
        ("model", "tokens"),
        [
            ("gpt-4o", 425),  # the recorded prices of a picture of 640 by 480
            ("gpt-4o-mini", 14167),
            ("gpt-4.1-mini", 486),
            ("gpt-5", 350),
            ("gpt-5-mini", 360),
            ("o4-mini", 516),
            ("claude-3-5-haiku-20241022", 410),
            ("gemini-2.0-flash", 1290),
            ("gemini-2.5-flash", 258),
        ],
    )
    def test_an_image_costs_what_its_size_says(self, model, tokens):
        url = data_url("image/png", png(640, 480))
        wire = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
        assert count_tokens([native("openai", wire)], model).by("what")["image"] == tokens

    def test_a_small_detail_is_cheap_and_a_large_image_is_shrunk(self):
        price = price_tiles(85, 170)
        assert price(Size(4096, 4096), "low") == 85
        assert price(Size(4096, 8192), "high") == 85 + 6 * 170
        assert price_patches(1.0)(Size(8000, 8000), "") == 1536
        assert price_by_area(Size(8000, 100), "") < 800 * 100 / 50
        assert price_by_area(Size(8000, 8000), "") == 1600

    def test_audio_counts_by_its_seconds_not_by_its_base64(self):
        data = base64.b64encode(wav(6)).decode()
        wire = {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}],
        }
        found = count_tokens([native("openai", wire)], "gpt-4o-audio-preview")
        assert found.by("what")["audio"] == 60

    def test_a_pdf_counts_by_its_pages_and_the_letters_on_them(self):
        plain = b"%PDF-1.4" + b"<</Type /Page>>" * 3 + b"<</Type /Pages>>"
        packed = b"%PDF-1.5 stream\n" + zlib.compress(b"<</Type/Page>>" * 2) + b"\nendstream"
        text = b"BT (" + b"a" * 300 + b") Tj <" + b"00" * 200 + b"> Tj ET"
        written = b"%PDF-1.4 /Type /Page stream\r\n" + zlib.compress(text) + b"endstream"
        broken = b"%PDF-1.5 stream\nnot compressed\nendstream"
        for file, tokens in ((plain, 60), (packed, 40), (written, 20 + 100), (broken, 20)):
            data = base64.b64encode(file).decode()
            source = {"type": "base64", "media_type": "application/pdf", "data": data}
            found = count_tokens(
                [native("anthropic", [{"type": "document", "source": source}])], "gpt-4o"
            )
            assert found.by("what")["document"] == tokens

    def test_a_text_document_counts_by_its_words_and_an_office_file_by_its_length(self):
        text = "one two three four five six seven eight"
        inside = native(
            "anthropic", [{"type": "document", "source": {"type": "text", "data": text}}]
        )
        encoded = native(
            "bedrock",
            [{"document": {"source": {"bytes": base64.b64encode(text.encode()).decode()}}}],
        )
        packed = native(
            "gemini", [{"inlineData": {"mimeType": "application/zip", "data": "/////w" * 100}}]
        )
        assert count_tokens([inside], "gpt-4o").by("what")["document"] == 8
        assert count_tokens([encoded], "gpt-4o").by("what")["document"] == 8
        assert count_tokens([packed], "gpt-4o").by("what")["document"] == 24

    def test_what_is_only_an_address_is_assumed_to_be_of_a_usual_size(self):
        image = {"type": "input_image", "image_url": "https://example.org/a.png"}
        found = count_tokens(
            [
                native(
                    "openai-responses",
                    [{"role": "user", "content": [image, {"type": "input_file", "file_id": "f"}]}],
                )
            ],
            "gpt-4o",
        )
        assert found.by("what") == {
            "text": 4, "image by address": 765, "document by address": 520, "frame": 3
        }  # fmt: skip
        for media_type, tokens in (("audio/mpeg", 320), ("video/mp4", 2600)):
            file = [{"fileData": {"mimeType": media_type, "fileUri": "https://example.org/a"}}]
            assert count_tokens([native("gemini", file)], "gemini-2.5-flash") == tokens + 1

    def test_a_broken_native_form_is_counted_by_what_can_be_read(self):
        for wire in (
            {},
            [[[]]],
            [{"type": 7}],
            [{"image": {"source": {"bytes": "%%%"}}}],
            "text",
            5,
            {"content": 3},
        ):
            assert count_tokens([native("bedrock", wire)], "gpt-4o") >= 0


class TestReasoning:
    def test_it_counts_in_the_current_turn_by_its_seal(self):
        sealed = {"type": "reasoning", "summary": [], "encrypted_content": "x" * 1600}
        thought = native("openai-responses", [sealed], "assistant")
        assert count_tokens([*HELLO, thought], "gpt-5").by("what")["reasoning"] == 100
        assert "reasoning" not in count_tokens([*HELLO, thought, *HELLO], "gpt-5").by("what")

    def test_where_nothing_is_known_of_seals_it_counts_by_its_words(self):
        wire = {"role": "assistant", "content": "hi", "reasoning_content": "one two three"}
        found = count_tokens([*HELLO, native("openai", wire, "assistant", "hi")], "qwen3")
        assert found.by("what")["reasoning"] == 3


def test_a_text_that_was_counted_is_not_counted_again(monkeypatch):
    counted = []
    count = remember_counts(lambda text: counted.append(text) or len(text))
    long = ["a" * 100, "b" * 100, "\ud800" * 100]
    assert [count(text) for text in [*long, *long]] == [100] * 6
    assert counted == long
    monkeypatch.setattr("backstory.wire.tokens.MOST_REMEMBERED", 3)
    assert (count("c" * 90), count(long[0])) == (90, 100)  # so many are kept, then it begins anew
    assert counted == [*long, "c" * 90, long[0]]


def test_a_count_can_be_pickled_and_copied():
    counted = count_tokens([("user", "Hello", None)], "gpt-4o")
    for restored in (pickle.loads(pickle.dumps(counted)), copy.deepcopy(counted)):
        assert (restored, restored.parts) == (counted, counted.parts)
        assert (restored.how, restored.exact) == (counted.how, counted.exact)
