"""Words: one definition of them for every store."""

import pytest

from backstory import Invalid
from backstory.core.terms import matches, query, searchable, snippet, words


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
        ("", []),
        ("… — !", []),
    ],
)
def test_words(text, found):
    assert words(text) == found


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
def test_what_a_query_matches(asked, text, hit):
    assert matches(query(asked), words(text)) is hit


@pytest.mark.parametrize("asked", ["", "  ", '""', "*", "!?"])
def test_a_query_without_a_word_is_refused(asked):
    with pytest.raises(Invalid, match="no word to search for"):
        query(asked)


def test_searchable_is_the_text_and_the_values_of_the_data_but_not_a_providers_own_form():
    data = '{"id":"c1","name":"glob","arguments":{"a":["x\\ny",1,null,true]},"native":{"wire":"secret"}}'
    assert searchable("text", data) == "text\nglob\nx\ny\n1\nc1"
    assert searchable(None, None) == ""
    assert searchable("text", "{broken") == "text\n{broken"


def test_a_snippet_is_around_the_match_and_says_where_it_is():
    text = "word " * 100 + "the Needle is here " + "word " * 100
    found = snippet(query("needle here"), text)
    assert [found.text[low:high] for low, high in found.spans] == ["Needle", "here"]
    assert len(found.text) <= 160
