"""The quick way of a Codex item to its entry, beside the wire's own."""

import json

import orjson
from hypothesis import given
from hypothesis import strategies as st

from backstory.transcripts.codex import items as codex_items
from backstory.transcripts.entries import loaded_answer

words = st.one_of(st.text("ab_9", min_size=1, max_size=5), st.text(max_size=5))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def arguments(draw):
    """The text of some arguments: compact as most models write it, with blanks, or not JSON at all."""
    given = draw(st.dictionaries(words, values, max_size=3) | values)
    try:
        compact = orjson.dumps(given).decode()
    except TypeError:
        compact = "{"
    return draw(
        st.sampled_from([compact, json.dumps(given), compact[:-1], '{"a":1e16}', '{"a":1e400}', ""])
    )


frames = {"id": words | st.none(), "status": words, "namespace": words, "phase": words}
reasoning = st.fixed_dictionaries(
    {
        "type": st.just("reasoning"),
        "summary": st.lists(st.just({"type": "summary_text", "text": "so"})),
    },
    optional={
        "id": words,
        "encrypted_content": words,
        "content": st.none() | st.lists(words, max_size=1),
    },
)
calls = st.fixed_dictionaries(
    {"type": st.just("function_call"), "call_id": words, "name": words, "arguments": arguments()},
    optional=frames,
)
custom = st.fixed_dictionaries(
    {
        "type": st.just("custom_tool_call"),
        "call_id": words | st.just("xs_call_1"),
        "name": words,
        "input": words,
    },
    optional=frames,
)
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["output_text", "output_text", "refusal"]), "text": words},
    optional={"annotations": st.lists(words)},
)
messages = st.fixed_dictionaries(
    {
        "type": st.just("message"),
        "role": st.sampled_from(["assistant", "user"]),
        "content": st.lists(parts, min_size=1, max_size=1) | st.lists(parts, max_size=2) | words,
    },
    optional=frames,
)
others = st.fixed_dictionaries(
    {"type": st.sampled_from(["web_search_call", "compaction"])}, optional=frames
)


@given(
    st.lists(reasoning | others, max_size=2),
    calls | custom | messages | reasoning | others,
    st.sampled_from([None, "gpt-x"]),
)
def test_the_quick_way_says_what_the_wire_says(before, last, model):
    items = [*before, last]
    usual = codex_items.usual_answer(items, model)
    if usual is not None:
        # As JSON, because to Python 1 and true are equal, and with the order of the keys.
        assert json.dumps(usual) == json.dumps(loaded_answer(items, "openai-responses", model))


def test_arguments_that_are_nested_too_deep_are_left_to_the_wire():
    deep = '{"a":' * 95 + "1" + "}" * 95
    call = {"type": "function_call", "name": "shell", "arguments": deep, "call_id": "call_1"}
    assert codex_items.usual_answer([call], None) is None


def test_the_usual_items_take_the_quick_way():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {
        "type": "function_call",
        "name": "shell",
        "arguments": '{"command":["ls"]}',
        "call_id": "call_1",
    }
    patch = {
        "type": "custom_tool_call",
        "call_id": "call_2",
        "name": "apply_patch",
        "input": "*** Begin",
    }
    words = [{"type": "output_text", "text": "Done."}]
    said = {"type": "message", "role": "assistant", "content": words, "phase": "final_answer"}
    for items in (
        [call],
        [thought, call],
        [patch],
        [thought, patch],
        [said],
        [thought, thought, said],
    ):
        usual = codex_items.usual_answer(items, "gpt-x")
        assert usual is not None
        assert json.dumps(usual) == json.dumps(loaded_answer(items, "openai-responses", "gpt-x"))
