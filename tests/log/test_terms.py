"""Words, queries and snippets: one definition for every store."""

import json

import pytest

from backstory import Invalid
from backstory.log.events import StoredRow
from backstory.log.json_text import escape_unseen
from backstory.log.moves import LABEL
from backstory.log.terms import (
    build_snippet,
    extract_text,
    has_phrases,
    parse_phrases,
    score_row,
    score_words,
    split_words,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("read_file src/app.py", ["read", "file", "src", "app", "py"]),
        ("Café ÉCOLE", ["cafe", "ecole"]),
        ("cafe\u0301", ["cafe"]),
        ("Straße", ["strasse"]),
        ("历史 abc搜索", ["历", "史", "abc", "搜", "索"]),
        ("한국어 검색", ["한국어", "검색"]),
        ("ﬁle ½", ["file", "1", "2"]),
        ("x" * 500, ["x" * 200]),
        ("ﬃ" * 100, ["ffi" * 66 + "ff"]),
        ("", []),
        ("… — !", []),
    ],
)
def test_text_is_split_into_words(text, found):
    assert split_words(text) == found


@pytest.mark.parametrize(
    ("asked", "text", "hit"),
    [
        ("two one", "one two", True),
        ("one three", "one two", False),
        ('"one two"', "one two three", True),
        ('"two one"', "one two three", False),
        ("read_file", "call read file now", True),
        ("read_file", "file read", False),
        ("beg*", "the beginning", True),
        ("beg", "the beginning", False),
        ('"the beg"*', "in the beginning", True),
        ("搜索", "在搜索历史", True),
        ("索搜", "在搜索历史", False),
        ("CAFE", "a café", True),
    ],
)
def test_query_matches_words_phrases_and_prefixes(asked, text, hit):
    assert has_phrases(parse_phrases(asked), split_words(text)) is hit


@pytest.mark.parametrize("asked", ["", "  ", '""', "*", "!?"])
def test_query_without_a_word_is_refused(asked):
    with pytest.raises(Invalid, match="no word to search for"):
        parse_phrases(asked)


def test_query_must_be_a_string():
    with pytest.raises(Invalid, match="cannot be searched for"):
        parse_phrases(3)


@pytest.mark.parametrize(
    ("kind", "content", "data", "found"),
    [
        ("user", "said", None, "said"),
        ("user", None, None, ""),
        (
            "assistant",
            "said",
            '{"model":"gpt-x","usage":{"input":77},"native":{"wire":"said"}}',
            "said",
        ),
        ("system", "said", '{"request":{"sha256":"abc"}}', "said"),
        (
            "tool_call",
            None,
            '{"id":"c1","name":"glob","arguments":{"a":["x\\ny",1,null,true]}}',
            "glob\nx\ny\n1",
        ),
        (
            "tool_call",
            "first",
            '{"id":"c1","name":"f","arguments":"not JSON","native":{"wire":"x"}}',
            "first\nf\nnot JSON",
        ),
        (
            "tool_call",
            None,
            '{"id":"c1","name":"f","arguments":"{\\"key\\":\\"value\\"}"}',
            "f\nvalue",
        ),
        (
            "tool_call",
            None,
            '{"id":"c1","function":{"name":"f","arguments":{"a":"older"}}}',
            "f\nolder",
        ),
        ("tool_result", "a.py", '{"id":"c1","name":"glob","error":true}', "a.py"),
        ("tool_result", "a…", '{"id":"c1","whole":"all of it"}', "all of it"),
        ("tool_result", "x", '{"tool_call_id":"c1","output":"older","success":true}', "older"),
        ("mark", None, '{"label":"before"}', "before"),
        ("rewind", None, '{"target_message_id":12}', ""),
        ("jump", None, '{"target_message_id":12}', ""),
        ("poem", "of a later version", '{"by":"nobody"}', "of a later version"),
        ("tool_call", "said", "{broken", "said"),
    ],
)
def test_only_texts_calls_outputs_and_labels_are_searched(kind, content, data, found):
    assert extract_text(kind, content, data) == found


def test_snippet_contains_the_matches_and_their_spans():
    text = "word " * 100 + "the Needle is here " + "word " * 100
    found = build_snippet(parse_phrases("needle here"), text)
    assert [found.text[low:high] for low, high in found.spans] == ["Needle", "here"]
    assert len(found.text) <= 160


def test_snippet_leaves_out_matches_that_are_too_far_away():
    found = build_snippet(parse_phrases("needle"), "needle " + "word " * 100 + "needle")
    assert found.spans == ((0, 6),)


@pytest.mark.parametrize("index", range(50, 70))
def test_snippet_begins_with_a_word_at_most_60_characters_before_the_match(index):
    text = ("word " * 20)[: index - 1] + " needle"
    found = build_snippet(parse_phrases("needle"), text)
    start = len(text) - len(found.text)
    if index <= 60:
        assert start == 0
    else:
        assert index - 60 <= start < index
        assert text[start - 1] == " "


def test_snippet_without_a_match_is_the_beginning():
    assert (
        build_snippet(parse_phrases("needle"), "nothing of the kind").text == "nothing of the kind"
    )
    assert build_snippet(parse_phrases("needle"), "a needle").text == "a needle"


def test_snippet_may_begin_within_a_very_long_word():
    assert build_snippet(parse_phrases("needle"), "x" * 300 + "-needle").text.endswith("x-needle")


def test_more_matches_in_less_text_score_higher():
    asked = parse_phrases("one")
    twice = score_words(asked, ["one", "one"])
    once = score_words(asked, ["one", "two"])
    assert twice > once > score_words(asked, ["two"]) == 0


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0x7F, 0x9F),  # delete and C1
        (0xAD, 0xAD),
        (0x61C, 0x61C),
        (0x180E, 0x180E),
        (0x200B, 0x200F),
        (0x2028, 0x202E),
        (0x2060, 0x206F),
        (0xFEFF, 0xFEFF),
        (0xFFF9, 0xFFFB),
        (0xE0000, 0xE007F),  # tags
    ],
)
def test_invisible_characters_are_escaped_in_json(first, last):
    invisible = "".join(map(chr, range(first, last + 1)))
    escaped = escape_unseen(f'"{invisible}"')
    assert escaped.isascii()
    assert "\x7f" not in escaped
    assert json.loads(escaped) == invisible
    neighbours = f'"{chr(first - 1)}{chr(last + 1)}"'
    assert escape_unseen(neighbours) == neighbours


def test_json_without_invisible_characters_stays():
    assert escape_unseen('"plain"') == '"plain"'
    assert escape_unseen('"é\u202e"') == '"é\\u202e"'
    assert escape_unseen('"\x7f"') == '"\\u007f"'


def test_copies_of_a_compaction_are_not_searched():
    assert extract_text("user", "hello", '{"copy_of":3}') == ""
    assert extract_text("tool_result", "hello", '{"id":"c","copy_of":3}') == ""
    assert extract_text("user", "hello", '{"note":"copy_of"}') == "hello"


def test_items_usage_and_requests_are_not_searched():
    data = '{"item":{"of":"x","form":{"secret":"s"}},"usage":{"in":7},"request":{"sha256":"f"}}'
    assert extract_text("assistant", "hello", data) == "hello"
    assert extract_text("tool_call", None, '{"id":"c","name":"glob",' + data[1:]) == "glob"


def test_of_reserved_notes_only_labels_are_searched():
    assert extract_text("note", "todo", '{"text":"x"}') == "todo"
    assert extract_text("note", LABEL, '{"label":"the good plan","at":3}') == "the good plan"
    assert extract_text("note", "backstory.settings", '{"model":"m"}') == ""


def test_a_row_is_scored_if_its_kind_is_searched_and_it_matches():
    query = parse_phrases("hello")
    row = StoredRow(1, "user", "hello you", None, 0, None, None, b"")
    assert score_row(query, row) == score_row(query, row, ["user"])
    assert score_row(query, row) > 0
    assert score_row(query, row, ["assistant"]) is None
    assert score_row(parse_phrases("bye"), row) is None
