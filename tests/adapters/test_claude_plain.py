"""The plainest lines of Claude take a shorter way to their events, and become just the same."""

from typing import Any

import pytest

from backstory.adapters import claude_lines
from backstory.adapters.claude import BackstorySessionStore
from backstory.adapters.claude_lines import NewLine, _plain, _said
from backstory.transcripts import claude_entries
from tests.adapters.claude_lines import KEY, Transcript, text, thinking, use

LONG = "what somebody said, long enough for a hole "
TEXTS = (
    *(
        LONG,
        LONG * 40,
        "short",
        "",
        " ",
        "zażółć " * 20,
        "nul \0" * 20,
        "\ud800" * 50,
        '"quotes" \\ ' * 10,
    ),
    *('"$backstory":' * 10, '{"$backstory":"content"}' * 4, "costs $5 " * 10, "\u2028" * 50),
)


def nested(levels):
    value = LONG
    for _ in range(levels):
        value = {"k": value}
    return value


ODD: tuple[dict[str, Any], ...] = (
    *({}, {"x": {"$backstory": "content"}}, {"again": LONG}, {"again": [LONG * 40]}, {"n": 2**70}),
    *(
        {"n": 1e400},
        {"native": {}},
        {"message": None},
        {"type": ["user"]},
        {"uuid": 5},
        {"uuid": ""},
    ),
    *({"deep": nested(60)}, {"deep": nested(120)}, {"n": float("nan")}),
)


def lines_that_say(words):
    """One line of each kind that says this."""
    lines = Transcript()
    lines.says(words)
    lines.says([text(words)])
    lines.says([text(words), text("more")])
    lines.answers(
        text(words), thinking(words), use("toolu_1", command=words), {"type": "odd", "text": words}
    )
    lines.answers(use("toolu_2", one=1, two=True, three=[words], four={"a": words}))
    lines.answers(use("toolu_3"), use("", command=words), use("toolu_4", within=nested(60)))
    lines.answers(use("toolu_5", within=nested(98)))
    lines.answers(
        text(words) | {"citations": [{"cited": words}]}, text(words) | {"citations": None}
    )
    lines.results("toolu_1", words)
    lines.results("toolu_1", [text(words)])
    lines.results(None, words)
    lines.add("user", {"role": "user", "content": words, "name": words})
    lines.add("user", {"role": "user", "content": words}, toolUseResult={"stdout": words})
    lines.add("system", subtype="compact_boundary", content=words)
    lines.add("summary", summary=words)
    return lines.lines


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("words", TEXTS)
def test_a_plain_line_becomes_what_the_longer_way_makes_of_it(monkeypatch, words, odd):
    lines = [NewLine.of(line | odd) for line in lines_that_say(words)]
    quickly = [_said(new, claude_entries(new.line)) for new in lines]
    monkeypatch.setattr(claude_lines, "_plain", lambda new, entry: None)
    assert quickly == [_said(new, claude_entries(new.line)) for new in lines]


def test_the_lines_of_an_ordinary_session_are_plain():
    lines = Transcript()
    lines.says(LONG)
    lines.says([text(LONG)])
    lines.answers(text(LONG), use("toolu_1", command=LONG))
    lines.results("toolu_1", LONG)
    for line in lines.lines:
        new = NewLine.of(line)
        [entry] = claude_entries(new.line)
        assert _plain(new, entry) is not None


@pytest.mark.parametrize("odd", ODD)
def test_lines_come_back_whichever_way_they_took(durable_url, run, odd):
    store = BackstorySessionStore(durable_url)
    lines = [line | odd for words in TEXTS for line in lines_that_say(words)]
    run(store.append(KEY, lines))
    found = run(store.load(KEY))
    assert repr(found) == repr(lines)
    store.close()
