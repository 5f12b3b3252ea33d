"""Codex's forks repeat what they were copied from, without ids: whatever is imported first, and alone."""

import json
import os
from itertools import count

import backstory
from tests.transcripts.test_codex import CHILD, ID, call, event, item, meta, output, said, write

GRANDCHILD = "019e8c81-1800-7f02-a000-0000000000cc"
moments = count(1)


def family(folder, *, of_fork=False):
    """A thread, a fork of it that goes on, and perhaps a fork of that: the paths of their files."""
    base = [said("user", "one"), said("assistant", "first"), said("user", "two")]
    own = [said("user", "other"), said("assistant", "elsewhere")]
    paths = [write(folder, meta(), *base)]
    paths.append(write(folder, meta(CHILD, forked_from_id=ID), *base[:2], *own, id=CHILD))
    if of_fork:
        more = [meta(GRANDCHILD, forked_from_id=CHILD), *base[:2], *own, said("user", "third")]
        paths.append(write(folder, *more, id=GRANDCHILD))
    return paths


def words(agent):
    return [event.content for event in agent.context().messages if event.kind != "jump"]


def import_touched(store, *paths):
    """Import files as if all of them were new: each is read again."""
    for path in paths:
        os.utime(path, ns=(0, next(moments)))
    store.import_transcripts(paths, settle=0)


def test_a_fork_that_came_before_what_it_was_copied_from_stays_as_it_is(tmp_path):
    first, second, third = family(tmp_path, of_fork=True)
    with backstory.open(":memory:") as store:
        for paths in ([second], [second, third], [first, second, third], [first, second, third]):
            import_touched(store, *paths)
        assert words(store.agent(CHILD)) == ["one", "first", "other", "elsewhere"]
        assert words(store.agent(GRANDCHILD)) == ["one", "first", "other", "elsewhere", "third"]
        assert sum(agent.head - agent.fork_seq for agent in store.agents()) == 4 + 3 + 1


def test_a_fork_of_a_fork_that_came_before_what_it_was_copied_from_stands_for_itself(tmp_path):
    first, second, third = family(tmp_path, of_fork=True)
    with backstory.open(":memory:") as store:
        for paths in ([second], [first, second], [first, second, third], [first, second, third]):
            import_touched(store, *paths)
        assert words(store.agent(GRANDCHILD)) == ["one", "first", "other", "elsewhere", "third"]


def test_a_fork_that_is_imported_again_without_what_it_was_copied_from_adds_only_what_is_new(
    tmp_path,
):
    first, second = family(tmp_path)
    with backstory.open(":memory:") as store:
        import_touched(store, first, second)
        second.write_text(second.read_text() + json.dumps(said("user", "more")) + "\n")
        import_touched(store, second)
        fork = store.agent(CHILD)
        assert words(fork) == ["one", "first", "other", "elsewhere", "more"]
        assert fork.head - fork.fork_seq == 3


def test_a_rollback_of_all_that_a_fork_copied_leaves_the_instructions(tmp_path):
    told = {"base_instructions": {"text": "Be Codex."}}
    write(tmp_path, meta(**told), said("user", "one"), said("assistant", "first"))
    back = event("thread_rolled_back", num_turns=2)
    own = [said("user", "one"), said("user", "other"), back, said("user", "again")]
    write(tmp_path, meta(CHILD, forked_from_id=ID, **told), *own, id=CHILD)
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        assert words(store.agent(CHILD)) == ["Be Codex.", "again"]


def test_a_fork_whose_copy_grows_has_all_of_it(tmp_path):
    thought = item(type="reasoning", summary=[], encrypted_content="c2Vhb")
    base = [said("user", "one", 1), thought, said("assistant", "first", 2), said("user", "two", 3)]
    copy = [meta(CHILD, forked_from_id=ID), *base, said("assistant", "elsewhere", 31)]
    write(tmp_path, meta(), *base)
    with backstory.open(":memory:") as store:
        for end in range(1, len(copy) + 1):
            write(tmp_path, *copy[:end], id=CHILD)
            store.import_transcripts(tmp_path, settle=3600)
        store.import_transcripts(tmp_path, settle=0)
        assert words(store.agent(CHILD)) == ["one", "first", "two", "elsewhere"]


def test_a_fork_that_said_nothing_yet_is_a_fork(tmp_path):
    base = [said("user", "one", 1), said("assistant", "first", 2)]
    write(tmp_path, meta(), *base)
    write(tmp_path, meta(CHILD, forked_from_id=ID), *base, id=CHILD)
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        fork = store.agent(CHILD)
        assert words(fork) == ["one", "first"]
        assert fork.head == fork.fork_seq


def test_a_paginated_fork_need_not_say_anything(tmp_path):
    lines = [meta(), said("user", "one"), said("assistant", "first")]
    write(tmp_path, *({**line, "ordinal": number} for number, line in enumerate(lines)))
    base = {"thread_id": ID, "end_ordinal_exclusive": 3}
    write(tmp_path, meta(CHILD, forked_from_id=ID, history_base=base) | {"ordinal": 0}, id=CHILD)
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        fork = store.agent(CHILD)
        assert words(fork) == ["one", "first"]
        assert fork.head == fork.fork_seq


def paginated_family(folder):
    """A thread, and a fork of it that points at it: the paths of their files."""
    told = {"base_instructions": {"text": "Be Codex."}}
    base = [
        meta(**told),
        said("user", "one", 1),
        said("assistant", "first", 2),
        said("user", "two", 3),
    ]
    points = {"thread_id": ID, "end_ordinal_exclusive": 3}
    fork = meta(CHILD, forked_from_id=ID, history_base=points, **told)
    own = [fork, said("user", "other", 11), said("assistant", "elsewhere", 12)]
    files = ((ID, base), (CHILD, own))
    return [
        write(folder, *(line | {"ordinal": n} for n, line in enumerate(lines)), id=id)
        for id, lines in files
    ]


def test_a_paginated_fork_that_came_before_what_it_points_at_gets_that_later(tmp_path):
    first, second = paginated_family(tmp_path)
    with backstory.open(":memory:") as store:
        import_touched(store, second)
        assert words(store.agent(CHILD)) == ["Be Codex.", "other", "elsewhere"]
        import_touched(store, first, second)
        whole = ["Be Codex.", "one", "first", "other", "elsewhere"]
        assert words(store.agent(CHILD)) == whole
        second.write_text(
            second.read_text() + json.dumps(said("user", "more", 21) | {"ordinal": 3}) + "\n"
        )
        import_touched(store, second)
        assert words(store.agent(CHILD)) == [*whole, "more"]
        head = store.agent(CHILD).head
        import_touched(store, first, second)
        assert (words(store.agent(CHILD)), store.agent(CHILD).head) == ([*whole, "more"], head)


def test_a_paginated_fork_that_is_imported_again_without_what_it_points_at_keeps_that(tmp_path):
    first, second = paginated_family(tmp_path)
    with backstory.open(":memory:") as store:
        import_touched(store, first, second)
        second.write_text(
            second.read_text() + json.dumps(said("user", "more", 21) | {"ordinal": 3}) + "\n"
        )
        import_touched(store, second)
        fork = store.agent(CHILD)
        assert words(fork) == ["Be Codex.", "one", "first", "other", "elsewhere", "more"]
        assert fork.head - fork.fork_seq == 3


def test_a_paginated_fork_whose_parent_is_not_all_here_yet_gets_the_rest_later(tmp_path):
    first, second = paginated_family(tmp_path)
    whole = first.read_text()
    first.write_text("".join(whole.splitlines(keepends=True)[:2]))
    with backstory.open(":memory:") as store:
        import_touched(store, first, second)
        first.write_text(whole)
        import_touched(store, first, second)
        assert words(store.agent(CHILD)) == ["Be Codex.", "one", "first", "other", "elsewhere"]


def test_a_sub_agent_whose_copy_lacks_the_calls_stands_at_its_call_by_itself(tmp_path):
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": ID, "depth": 1}}}
    base = [
        said("user", "one", 1),
        call("c1", 2),
        output("c1", "seen", 3),
        said("assistant", "first", 4),
    ]
    base += [said("user", "two", 5), call("c2", 6), output("c2", f'{{"agent_id": "{CHILD}"}}', 7)]
    copy = [line for line in base if line["payload"]["type"] == "message"]
    own = [said("user", "look", 31), said("assistant", "looked", 32)]
    write(tmp_path, meta(), *base, said("assistant", "second", 8))
    write(tmp_path, meta(CHILD, forked_from_id=ID, source=spawn), *copy, *own, id=CHILD)
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        parent, child = store.agent(ID), store.agent(CHILD)
        assert words(child) == ["one", "first", "two", "look", "looked"]
        [called] = [
            e.seq for e in parent.events() if e.kind == "tool_call" and e.data["id"] == "c2"
        ]
        assert (child.parent, child.born_seq, child.fork_seq) == (parent.id, called, 0)


def test_a_sub_agent_whose_copy_was_not_complete_when_it_was_imported_lacks_nothing_later(tmp_path):
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": ID, "depth": 1}}}
    base = [
        said("user", "one", 1),
        said("assistant", "first", 2),
        said("user", "two", 3),
        call("c1", 4),
    ]
    write(tmp_path, meta(), *base, output("c1", f'{{"agent_id": "{CHILD}"}}', 5))
    copy = [meta(CHILD, forked_from_id=ID, source=spawn), *base, output("c1", "You are new.", 31)]
    with backstory.open(":memory:") as store:
        for end in (2, len(copy)):
            write(tmp_path, *copy[:end], id=CHILD)
            store.import_transcripts(tmp_path, settle=0)
        assert words(store.agent(CHILD)) == ["one", "first", "two", None, "You are new."]


def test_a_fork_that_was_born_when_its_copy_was_cut_has_the_rest_of_it(tmp_path):
    base = [said("user", "one", 1), said("assistant", "first", 2), said("user", "two", 3)]
    origin = write(tmp_path, meta(), *base)
    start = meta(CHILD, forked_from_id=ID)
    with backstory.open(":memory:") as store:
        import_touched(store, origin, write(tmp_path, start, *base[:1], id=CHILD))
        fork = write(tmp_path, start, *base, said("user", "other", 31), id=CHILD)
        for _ in range(2):
            import_touched(store, origin, fork)
            agent = store.agent(CHILD)
            assert (words(agent), agent.fork_seq, agent.head) == (
                ["one", "first", "two", "other"],
                1,
                4,
            )
