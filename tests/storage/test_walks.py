"""Contexts of very many moves in a row: what a recursive query begins, blocks of moves go on with."""

import random

import pytest

import backstory
from backstory.log.events import columns_of
from backstory.storage.protocols import AgentRecord
from backstory.storage.walks import BLOCK, RUN, walked
from backstory.wire.conversation import conversation_in
from tests import plain

AGENT = AgentRecord(1, "a", "a", "main", None, 0, 0, False, 0, 900, 0, None, None, None)


def moves(source, head, count):
    """Messages and jumps: mostly to one of the last few positions, now and then to any."""
    for seq in range(head + 1, head + count + 1):
        if source.random() < 0.5 and seq > 1:
            far = source.random() < 0.01
            target = (
                source.randrange(1, seq) if far else max(1, seq - source.choice((1, 1, 1, 2, 5)))
            )
            yield "jump", None, {"target_message_id": target}
        else:
            yield "user", str(seq)


def test_a_context_of_very_many_moves_is_what_the_rules_say(store):
    source = random.Random(7)
    agent = store.start()
    agent.extend(moves(source, 0, 2 * RUN + 2 * BLOCK + 500))
    fork = agent.fork(at=agent.head - 3)
    fork.extend(moves(source, fork.head, 3 * RUN))
    for one in (agent, fork):
        wanted = plain.contexts(one.events())
        for at in (one.head, one.head - 1, one.head // 2, *source.sample(range(one.head), 5)):
            assert one.context(at=at).messages == wanted[at]
            assert one.conversation(at=at) == conversation_in(columns_of(wanted[at]))


def test_moves_that_all_follow_each_other_are_one_context(store):
    agent = store.start()
    agent.extend([event for seq in range(1, 801) for event in one_after_another(seq)])
    assert plain.positions(agent.context().messages) == list(range(1, agent.head + 1))


def one_after_another(seq):
    return ("user", "x"), ("jump", None, {"target_message_id": 2 * seq - 1})


def cut_at(seq):
    """A walk that a query left at a position."""
    return [(1, seq + 1, 900, seq, seq, 1, RUN, 900)]


def test_a_damaged_move_that_goes_forward_does_not_walk_for_ever():
    with pytest.raises(backstory.Corrupt, match="breaks off at position 50"):
        walked(AGENT, None, lambda no, at: cut_at(500), lambda no, at: [(60, 59), (50, 50)])


def test_an_agent_that_is_deleted_in_the_middle_of_a_walk_is_not_found():
    found = iter([cut_at(500), []])
    with pytest.raises(backstory.AgentNotFound):
        walked(AGENT, None, lambda no, at: next(found), lambda no, at: [])
