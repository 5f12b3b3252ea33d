"""Agents in lists: short ids and trees."""

from types import SimpleNamespace

from rich.console import Console

import backstory
from backstory.present.agent_lists import TreeBuilder, short_ids, short_ref


def draw(agents):
    console = Console(width=60)
    ids = {agent.id: agent.id[:8] for agent in agents}
    with console.capture() as captured:
        for tree in TreeBuilder(agents, ids, 60).build():
            console.print(tree)
    return [line.partition("  head")[0] for line in captured.get().splitlines()]


def test_an_id_is_as_short_as_is_unique_but_never_ends_with_a_hyphen():
    assert short_ids(["0123456789ab", "fedc"]) == {"0123456789ab": "01234567", "fedc": "fedc"}
    assert short_ids(["01234567-a", "01234567-b"]) == {
        "01234567-a": "01234567-a",
        "01234567-b": "01234567-b",
    }
    assert short_ids(["0123456-89", "0123456"]) == {"0123456-89": "0123456", "0123456": "0123456"}


def test_a_reference_is_a_name_only_if_it_is_unique(store):
    main, other = store.start("main"), store.start("other")
    assert short_ref(main, store.agents()) == "main"
    other.rename("main")
    assert main.id.startswith(short_ref(main, store.agents()))


def test_a_tree_has_each_agent_below_its_parent():
    with backstory.open(":memory:") as store:
        root = store.start("root")
        child = root.fork("child")
        child.spawn("grandchild")
        root.fork("second")
        assert draw(store.agents()) == [
            "root",
            "├── child forked at 0",
            "│   └── grandchild spawned at 0",
            "└── second forked at 0",
        ]


def test_agents_whose_ancestry_is_a_circle_are_shown():
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        fields = ("name", "about", "marks", "spawned", "born_seq", "listed_head", "updated_at")
        known = {field: getattr(agent, field) for field in fields}
        circle = [
            SimpleNamespace(id="a", parent="b", **known),
            SimpleNamespace(id="b", parent="a", **known),
        ]
        assert draw(circle) == ["main forked at 0", "main forked at 0"]
