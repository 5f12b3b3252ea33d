"""The storage protocol itself: every backend gives the answers of a naive filter."""

import itertools
from contextlib import closing

import pytest

from backstory.errors import AgentNotFound, Conflict, KeyTaken
from backstory.log.events import Draft
from backstory.log.kinds import ALWAYS_SHOWN
from backstory.storage import connect
from backstory.storage.ids import new_id
from backstory.storage.protocol import (
    AgentChange,
    AgentQuery,
    EventFilter,
    NewAgent,
    Piece,
    SourceRecord,
)
from backstory.storage.write import decide_bases

NOW = 1_700_000_000_000_000
DRAFTS = [
    Draft("system", "be careful"),
    Draft("user", "hello", '{"name":"apple"}', key="first"),
    Draft("note", "seen", '{"name":"pear"}'),
    Draft("mark", None, '{"label":"here"}'),
    Draft("note", "label", '{"label":"x"}', key="second"),
    Draft("clear"),
    Draft("assistant", "yes", '{"model":"apple"}'),
    Draft("telepathy", "of an unknown kind"),
    Draft("note", "seen", None),
    Draft("user", "again", None, key="third"),
]
KINDS = [
    None,
    frozenset({"mark"}),
    frozenset({"note"}),
    frozenset({"user", "note"}),
    frozenset(),
]
NOTE_NAMES = [None, (), ("seen",), ("seen", "label")]
FILTERS = [
    EventFilter(kinds, names, newest, moves)
    for kinds, names, newest, moves in itertools.product(
        KINDS, NOTE_NAMES, [False, True], [False, True]
    )
]


@pytest.fixture
def backend(url):
    with closing(connect(url)) as backend:
        yield backend


@pytest.fixture
def root(backend):
    id = new_id()
    new = NewAgent(id=id, session=id, name="main")
    return backend.create_agent(new, decide_bases(DRAFTS, 0).drafts, NOW)


@pytest.fixture
def fork(backend, root):
    new = NewAgent(
        id=new_id(root.session),
        session=root.session,
        name="fork",
        parent_pk=root.pk,
        fork_seq=9,
        born_seq=9,
        key="fork of the first",
    )
    return backend.create_agent(new, decide_bases(DRAFTS[1:4], 0).drafts, NOW + 1)


def read_all_rows(backend, agent):
    return backend.read_rows(agent, 0, 1_000)


def matches(row, where):
    if where.kinds is not None and row.kind not in where.kinds:
        return False
    if where.note_names is not None and row.kind == "note" and row.content not in where.note_names:
        return False
    return not where.irregular_only or row.base is not None or row.kind not in ALWAYS_SHOWN


def select(rows, where):
    found = [row for row in rows if matches(row, where)]
    return found[-1:] if where.newest_only else found


def test_every_filter_selects_the_events_of_a_lineage(backend, root, fork):
    lineage = backend.read_lineage(fork)
    rows = read_all_rows(backend, root)[:9] + read_all_rows(backend, fork)
    for where in FILTERS:
        expected = [row.event for row in select(rows, where)]
        assert backend.read_events(fork, lineage, where) == expected, where


def test_every_filter_selects_the_rows_that_agents_own(backend, root, fork):
    for where in FILTERS:
        expected = []
        for agent in (root, fork):
            expected += [(agent.id, row) for row in select(read_all_rows(backend, agent), where)]
        assert backend.read_owned(AgentQuery(session=root.session), where) == expected, where
        assert backend.read_owned(AgentQuery(key_prefix="fork"), where) == [
            found for found in expected if found[0] == fork.id
        ]


def test_events_are_counted_by_owner_and_kind(backend, root, fork):
    everywhere = backend.count_events()
    counts = {(one.agent_id, one.kind): one for one in everywhere}
    assert counts[root.id, "note"].events == 3
    assert counts[fork.id, "note"].events == 1
    assert counts[fork.id, "user"].bytes == len("hello") + len('{"name":"apple"}')
    assert (root.id, "user") in counts
    assert sum(one.events for one in everywhere) == len(DRAFTS) + 3


def test_keys_are_found_in_a_lineage_or_everywhere(backend, root, fork):
    keys = ["first", "third", "nobody's"]
    lineage = backend.read_lineage(fork)
    assert set(backend.find_keys(keys, fork, lineage)) == {
        ("first", root.id, 2),
        ("first", fork.id, 10),
    }
    assert set(backend.find_keys(keys)) == {
        ("first", root.id, 2),
        ("third", root.id, 10),
        ("first", fork.id, 10),
    }


def test_an_append_with_a_key_of_the_agent_writes_nothing(backend, root):
    drafts = [Draft("user", "new"), Draft("user", "other", key="first")]
    with pytest.raises(KeyTaken):
        backend.append(root, drafts)
    assert backend.read_head(root) == len(DRAFTS)


def test_an_append_after_another_head_writes_nothing(backend, root):
    with pytest.raises(Conflict):
        backend.append(root, [Draft("user", "new")], 3)
    assert backend.read_head(root) == len(DRAFTS)


def test_an_error_in_a_transaction_undoes_all_of_it(backend, root):
    def write_and_fail():
        with backend.begin(agents=[root]) as rows:
            rows.append(root, [Draft("user", "new")], None, NOW)
            rows.update_agent(root, AgentChange(name="other"))
            rows.remember_sources([SourceRecord("tool", "id")])
            assert rows.read_head(root) == len(DRAFTS) + 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert backend.read_head(root) == len(DRAFTS)
    assert backend.list_agents()[0].name == "main"
    assert backend.list_sources() == []


def test_details_are_changed_and_removed(backend, root):
    with backend.begin(agents=[root]) as rows:
        rows.update_agent(root, AgentChange(about='{"title":"x"}'))
    assert backend.list_agents(AgentQuery(title="x"))[0].id == root.id
    with backend.begin(agents=[root]) as rows:
        rows.update_agent(root, AgentChange(about=""))
    assert backend.list_agents()[0].about is None


def test_every_method_refuses_an_agent_that_was_deleted(backend, root):
    with backend.begin(sessions=[root.session]) as rows:
        rows.remove_agent(root, None, NOW)
    pieces = [Piece(root.pk, 1, 3)]
    notes = EventFilter(kinds=frozenset({"note"}))
    for call in (
        lambda: backend.read_head(root),
        lambda: backend.walk(root),
        lambda: backend.read_lineage(root),
        lambda: backend.find_position_at_time(root, NOW),
        lambda: backend.read_events(root, pieces),
        lambda: backend.read_events(root, pieces, notes),
        lambda: backend.read_outline(root, pieces),
        lambda: backend.find_keys(["first"], root, pieces),
        lambda: backend.append(root, [Draft("user", "x")]),
        lambda: backend.begin(agents=[root]).__enter__(),
    ):
        with pytest.raises(AgentNotFound, match="was deleted"):
            call()
    assert backend.read_rows(root, 0, 10) == []


def test_every_read_refuses_a_deleted_fork_whose_inherited_events_exist(backend, root, fork):
    with backend.begin(sessions=[fork.session]) as transaction:
        transaction.remove_agent(fork, None, NOW)
    pieces = [Piece(root.pk, 1, 9)]
    assert len(backend.read_events(root, pieces)) == 9
    for call in (
        lambda: backend.read_events(fork, pieces),
        lambda: backend.read_events(fork, pieces, EventFilter(newest_only=True)),
        lambda: backend.read_outline(fork, pieces),
        lambda: backend.find_keys(["first"], fork, pieces),
    ):
        with pytest.raises(AgentNotFound, match="was deleted"):
            call()


def test_an_agent_that_others_need_is_removed_but_for_the_events_that_they_inherit(
    backend, root, fork
):
    before = backend.read_events(fork, backend.read_lineage(fork))
    with backend.begin(sessions=[root.session]) as rows:
        rows.remove_agent(root, 9, NOW)
    assert backend.read_events(fork, backend.read_lineage(fork)) == before
    [remainder, _] = backend.list_agents(AgentQuery(include_deleted=True))
    assert (remainder.id, remainder.head, remainder.deleted_us) == (root.id, 9, NOW)
    assert backend.list_agents() == [fork._replace(parent=root.id)]
