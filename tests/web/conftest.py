"""A store with branches, dead ends and a sub-agent."""

import pytest

import backstory


def fill(store):
    """A conversation with a mark, a dead end, a branch, a sub-agent and a failed tool."""
    main = store.start("main", system="Be careful.")
    main.user("Which Python files are here?")
    call = main.tool_call("glob", {"pattern": "*.py"}, id="c1")
    main.tool_result(call, "a.py\nb.py")
    main.mark("two files")
    main.user("Delete b.py.")
    failed = main.tool_call("delete", {"path": "b.py"}, id="c2")
    main.tool_result(failed, "permission denied", error=True)
    main.rewind()
    main.fork("idea", at=4).user("Rename a.py to main.py.")
    main.spawn("reviewer").user("Look at the parser.")
    main.assistant("There are **two** files.")
    return main


@pytest.fixture
def filled():
    with backstory.open(":memory:") as store:
        fill(store)
        yield store
