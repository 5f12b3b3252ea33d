from hypothesis import given
from hypothesis import strategies as st

from backstory.transcripts import entries

words = st.one_of(st.text("ab_9", min_size=1, max_size=5), st.text(min_size=1, max_size=5))
# U+0000 is escaped when a session is made holdable, and by the wire in a way of its own.
spoken = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)
blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": spoken}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": words, "signature": words}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": words}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": words, "name": words, "input": st.just({"a": [1]})},
        optional={"caller": st.sampled_from([{"type": "direct"}, {"type": "code"}])},
    ),
)


@given(st.lists(blocks, min_size=1, max_size=5), st.sampled_from([None, "claude-x"]))
def test_the_quick_way_says_what_the_wire_says(content, model):
    tidy = [entries._tidy(block) for block in content]
    usual = entries._usual_answer(tidy, model)
    if usual is not None:
        (kind, text, data), *rest = entries.loaded_answer(tidy, "anthropic", model)
        named = {key: value for key, value in (data or {}).items() if key != "model"}
        assert [part[:3] for part in usual] == [(kind, text, named or None), *rest]


@given(st.lists(blocks, min_size=1, max_size=5))
def test_each_event_knows_its_block(content):
    parts = entries.anthropic_answer(content, None, "m")
    assert len({part.block for part in parts}) == len(parts)
    for part in parts:
        if part.kind == "tool_call":
            assert part.data["id"] in (content[part.block]["id"], f"m:{part.block}")
        elif part.content:
            assert content[part.block]["type"] == "text"


def test_times_are_texts_seconds_or_milliseconds_and_never_nonsense():
    exact = 1_785_072_160_726_000
    assert entries.microseconds("2026-07-26T13:22:40.726Z") == exact
    assert entries.microseconds("2026-07-26 15:22:40.726+02:00") == exact
    assert entries.microseconds("2026-07-26T13:22:40.726") == exact
    assert entries.microseconds(1785072160726) == exact
    assert entries.microseconds(1785072160.726) == exact
    for nonsense in (None, "", "yesterday", True, 0, -5, float("nan"), float("inf"), 1e300, [], {}):
        assert entries.microseconds(nonsense) is None


def test_arguments_are_what_their_text_says_if_that_is_an_object():
    assert entries.arguments_of('{"a": 1}') == {"a": 1}
    assert entries.arguments_of("ls -l") == "ls -l"
    assert entries.arguments_of("[1]") == "[1]"
    assert entries.arguments_of(None) == {}


def test_a_number_of_more_than_64_bits_is_a_text_like_any_other():
    assert entries.as_text({"id": 2**70}) == '{"id": 1180591620717411303424}'
