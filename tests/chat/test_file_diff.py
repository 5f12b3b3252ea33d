"""What a change does to a file: the lines that change, with their numbers and some around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.chat.file_diff import changed_lines, new_lines

FORTY = "".join(f"line {number}\n" for number in range(1, 41))


def shown(lines):
    return [line.text for line in lines]


def test_changes_that_are_far_apart_have_a_gap_between_them():
    new = FORTY.replace("line 5\n", "").replace("line 30\n", "LINE 30\n")
    assert shown(changed_lines(FORTY, new)) == [
        " 2   line 2", " 3   line 3", " 4   line 4", " 5 - line 5",
        " 5   line 6", " 6   line 7", " 7   line 8",
        " ⋮",
        "26   line 27", "27   line 28", "28   line 29", "30 - line 30", "29 + LINE 30",
        "30   line 31", "31   line 32", "32   line 33",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("", "x\n", ["1 + x"]),
        ("x\n", "", ["1 - x"]),
        ("a\nb\n", "a\nb", ["1   a", "2 - b", "2 + b", "  + (no newline at the end of the file)"]),
        ("a\n", "a\n", []),
        ("a  \n", "a\n", ["1 - a  ", "1 + a"]),
    ],
)
def test_small_changes(old, new, lines):
    assert shown(changed_lines(old, new)) == lines


def test_a_new_file_has_no_line_behind_its_last():
    assert shown(new_lines("a\nb\n")) == ["1 + a", "2 + b"]
    assert shown(new_lines("")) == []


def test_a_huge_change_is_shown_whole():
    lines = changed_lines("a\n" * 30_000, "b\n" * 30_000)
    assert [line.sign for line in lines] == ["-"] * 30_000 + ["+"] * 30_000


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_each_line_has_its_number_in_the_file_that_it_is_of(old, new):
    texts = ["".join(f"{word}\n" for word in words) for words in (old, new)]
    lines = [line for line in changed_lines(*texts) if "⋮" not in line.text]
    for text, sign in lines:
        number, word = text.split()[0], text.split()[-1]
        assert (old if sign == "-" else new)[int(number) - 1] == word
    signs = [line.sign for line in lines]
    assert len(new) - len(old) == signs.count("+") - signs.count("-")
