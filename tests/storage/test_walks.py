"""Contexts of very many moves in a row, and the walk that a query's steps describe."""

import random

import pytest

import backstory
from backstory.storage.positions import WalkStep, build_lineage, build_walk
from backstory.storage.protocol import AgentRecord, Piece, Walk
from backstory.wire.conversation import conversation_of
from tests import plain

AGENT = AgentRecord(1, "a", "a", "main", None, 0, 0, False, 0, 900, 0)


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


def test_a_context_of_very_many_moves_follows_the_rules(store):
    source = random.Random(7)
    agent = store.start()
    agent.extend(moves(source, 0, 2_000))
    fork = agent.fork(at=agent.head - 3)
    fork.extend(moves(source, fork.head, 100))
    for one in (agent, fork):
        contexts = plain.contexts(one.events())
        for at in (one.head, one.head - 1, one.head // 2, *source.sample(range(one.head), 5)):
            assert one.context(at=at).messages == contexts[at]
            assert one.conversation(at=at) == conversation_of(contexts[at])


def test_moves_that_all_follow_each_other_are_one_context(store):
    agent = store.start()
    batch = []
    for seq in range(1, 801):
        batch += [("user", "x"), ("jump", None, {"target_message_id": 2 * seq - 1})]
    agent.extend(batch)
    assert plain.positions(agent.context().messages) == list(range(1, agent.head + 1))


def test_a_walk_is_built_from_steps_in_any_order():
    steps = [
        WalkStep(2, 7, 9, 6, 6, 9),
        WalkStep(None, 1, 0, None, 9, 9),
        WalkStep(1, 1, 4, None, 0, 9),
        WalkStep(2, 5, 6, None, 4, 9),
        WalkStep(3, 5, 4, None, 4, 9),
    ]
    pieces = [Piece(1, 1, 4), Piece(2, 5, 6), Piece(2, 7, 9, 6)]
    assert build_walk(AGENT, steps) == Walk(9, pieces, 9)


def test_a_lineage_contains_the_empty_pieces():
    steps = [WalkStep(2, 5, 4, None, 4, 4), WalkStep(1, 1, 4, None, 0, 4)]
    assert build_lineage(AGENT, steps) == [Piece(1, 1, 4), Piece(2, 5, 4)]


@pytest.mark.parametrize("build", [build_walk, build_lineage])
def test_steps_that_do_not_lead_to_the_beginning_are_corrupt(build):
    with pytest.raises(backstory.Corrupt, match="breaks off at position 50"):
        build(AGENT, [WalkStep(1, 60, 900, 59, 59, 900), WalkStep(1, 51, 59, 50, 50, 900)])


@pytest.mark.parametrize("build", [build_walk, build_lineage])
def test_an_agent_without_steps_is_not_found(build):
    with pytest.raises(backstory.AgentNotFound):
        build(AGENT, [])
