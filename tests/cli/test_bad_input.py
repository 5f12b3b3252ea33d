"""What cannot be done is said in one line, with the way out, and nothing is changed."""

import io

import pytest

import backstory
from tests.cli.conftest import Shell

REFUSED = {
    "a key that is too long": (2, ["new", "--key", "x" * 1001], "use its hash"),
    "an event's key that is too long": (
        2,
        ["append", "main", "x", "--key", "x" * 1001],
        "use its hash",
    ),
    "a key of an event that says something else": (
        1,
        ["append", "main", "x", "--key", "k"],
        "use another key",
    ),
    "a key of another agent": (1, ["fork", "main", "--key", "taken"], "taken"),
    "a name of our own notes": (
        2,
        ["append", "main", "backstory.x", "--kind", "note"],
        "use another name",
    ),
    "settings that are not JSON": (2, ["settings", "main", "--params", "{"], "nothing was written"),
    "settings that are not an object": (
        2,
        ["settings", "main", "--params", "[]"],
        "an object of names and values",
    ),
    "a compaction of nothing": (1, ["compact", "empty", "In short."], "when something was said"),
    "a compaction without a summary": (2, ["compact", "main", " "], "the summary is empty"),
    "an erasure of what is not there": (
        1,
        ["erase", "main@99", "--why", "x", "--yes"],
        "from 0 to",
    ),
    "an erasure without a reason": (
        2,
        ["erase", "main@1", "--why", " ", "--yes"],
        "say why, in 1 to",
    ),
    "a deletion of nobody": (1, ["delete", "nobody", "--yes"], "lists the agents"),
    "an undo of nothing": (1, ["undo", "empty"], "nothing to undo"),
    "a redo of nothing": (1, ["redo", "main"], "nothing to redo"),
    "a label for a position that is not there": (1, ["label", "main@99", "x"], "from 0 to"),
}


def exported(url):
    lines = io.StringIO()
    with backstory.open(url) as store:
        store.export_to(lines)
    return lines.getvalue()


@pytest.fixture
def filled(shell):
    with backstory.open(shell.env["BACKSTORY_STORE"]) as store:
        main = store.start("main", system="Be careful.")
        main.append("user", "hello", key="k")
        main.spawn("other", key="taken")
        store.start("empty")
    return shell


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_is_one_line_and_nothing_is_changed(filled, what):
    code, arguments, words = REFUSED[what]
    before = exported(filled.env["BACKSTORY_STORE"])
    ran = filled(*arguments, code=code)
    assert ran.out == ""
    assert ran.err.startswith("backstory: ")
    assert len(ran.err.splitlines()) == 1
    assert words in ran.err
    assert exported(filled.env["BACKSTORY_STORE"]) == before


def test_a_seal_of_another_store_is_refused(filled, tmp_path):
    with backstory.open(tmp_path / "another.db") as another:
        another.start("main")
    elsewhere = Shell(str(tmp_path / "another.db"), tmp_path)
    seal = tmp_path / "seal.json"
    seal.write_text(elsewhere("seal").out)
    ran = filled("verify", "--seal", str(seal), code=2)
    assert "the seal of another store" in ran.err
    assert "pass one that was made from this store" in ran.err
