"""Text from logs is hostile: what becomes an element is on a list, and everything else stays text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.log.events import Event
from backstory.web.images import find_images
from backstory.web.render import (
    MOST_COLOURED,
    MOST_LOADED,
    TAGS,
    render_code,
    render_event,
    render_markdown,
)

ATTRIBUTES = {"class", "title", "href"}


def nodes(tree):
    if isinstance(tree, list):
        if tree and isinstance(tree[0], str) and len(tree) > 1 and isinstance(tree[1], dict):
            yield tree
            tree = tree[2:]
        for inner in tree:
            yield from nodes(inner)


def words(tree):
    if isinstance(tree, str):
        return tree
    inner = tree[2:] if tree and isinstance(tree[0], str) and isinstance(tree[1], dict) else tree
    return "".join(map(words, inner))


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    "[a](vbscript:x) <javascript:alert(1)>",
    "[a](file:///etc/passwd) [b](/api/sessions) [c](ftp://x.example) [d](#key=x)",
    "![a](https://evil.example/x.png)",
    "<svg onload=alert(1)>",
    "<style>*{display:none}</style>",
    "&#x202e;&lt;script&gt;",
    '[a](https://ok.example "onclick=alert(1)")',
    "[x]: javascript:alert(1)\n[x]",
    "```html\n<script>alert(1)</script>\n```",
    "\u202eevil\u2066 \x00 \x1b[31m",
    "| a |\n| - |\n| <b>x</b> |",
]


def check(tree):
    for tag, attributes, *_ in nodes(tree):
        assert tag in TAGS | {"span"}
        assert set(attributes) <= ATTRIBUTES
        assert attributes.get("href", "https:").partition(":")[0].lower() in (
            "http",
            "https",
            "mailto",
        )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_becomes_listed_elements_and_loses_no_text(text):
    tree = render_markdown(text)
    check(tree)
    for letter in ("\u202e", "\x00", "\x1b"):
        assert letter not in words(tree)
    if "alert(1)" in text and "](" not in text and "[x]" not in text:
        assert "alert(1)" in words(tree)


@given(st.text(max_size=400))
def test_whatever_is_written_only_listed_elements_come_out(text):
    check(render_markdown(text))
    check(render_event(Event.of(1, "assistant", text))["tree"])
    check(render_code(text, "python"))


def test_a_link_leads_where_it_says():
    assert render_markdown("[here](https://ok.example/a?b=c)")[0][2] == [
        "a",
        {"href": "https://ok.example/a?b=c", "title": "https://ok.example/a?b=c"},
        "here",
    ]


def test_the_items_of_a_close_list_have_no_paragraphs():
    assert render_markdown("- a\n- b") == [["ul", {}, ["li", {}, "a"], ["li", {}, "b"]]]


def test_long_texts_are_folded_and_very_long_ones_are_left_out_until_they_are_asked_for():
    def of(length):
        return Event.of(1, "assistant", "x" * length)

    assert not render_event(of(MOST_COLOURED))["folded"]
    assert render_event(of(MOST_COLOURED + 1)) == {
        "tree": [["pre", {}, "x" * (MOST_COLOURED + 1)]],
        "folded": True,
    }
    assert render_event(of(MOST_LOADED + 1)) == {
        "tree": [],
        "folded": True,
        "left_out": MOST_LOADED + 1,
    }
    assert render_event(of(MOST_LOADED + 1), full=True)["tree"]


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.mark.parametrize(
    ("data", "types"),
    [
        (
            {"native": {"source": {"type": "base64", "media_type": "text/html", "data": PNG}}},
            ["image/png"],
        ),
        ({"native": [{"image_url": {"url": f"data:image/png;base64,{PNG}"}}]}, ["image/png"]),
        ({"a": f"data:text/html;base64,{PNG}"}, []),
        ({"a": "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+PC9zdmc+PC9zdmc+"}, []),
        ({"a": "iVBORw0KGgo not base64 at all, whatever it looks like"}, []),
        ({"a": "UklGRgAAAABBVkkgTElTVAAAAAAAAAAAAAAAAAAAAAA="}, []),
        ({"a": PNG[:20]}, []),
        (None, []),
    ],
)
def test_only_what_is_an_image_by_its_own_bytes_is_one(data, types):
    assert [image.type for image in find_images(data)] == types
