"""What is kept beside an agent: changed key by key, and refused where it cannot be kept."""

import json

import pytest

from backstory import Invalid
from backstory.log.about import LARGEST, described, told


def test_keys_are_added_changed_and_taken_out():
    text = described(None, {"title": "Plan", "tags": ["a"], "folder": "/src"})
    assert json.loads(text) == {"title": "Plan", "tags": ["a"], "folder": "/src"}
    text = described(text, {"title": "Other", "tags": None})
    assert json.loads(text) == {"title": "Other", "folder": "/src"}
    assert described(text, {"title": None, "folder": None}) is None


@pytest.mark.parametrize(
    ("about", "found"),
    [
        (None, ""),
        ('{"title":"Plan","tags":["a","b"],"folder":"/src"}', "Plan\na\nb"),
        ('{"title":7,"tags":"ab"}', ""),  # as only another program would write it
    ],
)
def test_a_search_finds_the_title_and_the_tags(about, found):
    assert told(about) == found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"title": " "}, "a title must be a non-empty string"),
        ({"title": 3}, "a title must be"),
        ({"tags": "a"}, "tags must be a list"),
        ({"tags": ["a", ""]}, "tags must be a list"),
        ({"x": object()}, "must be JSON"),
        ({"x": float("nan")}, "must be JSON"),
        ({"x": "y" * LARGEST}, "may take 65,536 bytes"),
    ],
)
def test_what_cannot_be_kept_is_refused(change, words):
    with pytest.raises(Invalid, match=words):
        described(None, change)
