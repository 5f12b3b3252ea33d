"""Undo by turns, as a person sees it, on each backend."""

import pytest

import backstory


def said(agent):
    return [message.content for message in agent.conversation()]


def test_turns_and_moves_are_taken_back_one_by_one_and_come_again(agent):
    agent.extend([("clear",), ("system", "s")])
    seen = [said(agent)]

    def turn(text):
        agent.user(text)
        agent.assistant(f"{text}!")
        seen.append(said(agent))

    turn("one")
    turn("two")
    agent.jump(2)
    seen.append(said(agent))
    turn("three")
    agent.compact("what was said")
    seen.append(said(agent))
    turn("four")
    states = [seen.pop()]
    while seen:
        agent.undo(turn=True)
        assert said(agent) == seen[-1]
        states.append(seen.pop())
    with pytest.raises(backstory.NotFound, match="nothing to undo"):
        agent.undo(turn=True)
    states.pop()
    while states:
        agent.redo()
        assert said(agent) == states.pop()
    with pytest.raises(backstory.NotFound, match="nothing to redo"):
        agent.redo()


def test_a_fork_takes_back_a_turn_of_its_parent_and_leaves_the_parent_alone(agent):
    agent.extend([("clear",), ("user", "one"), ("assistant", "!")])
    fork = agent.fork("idea")
    fork.mark("here")
    fork.undo(turn=True)
    assert said(fork) == []
    assert said(agent) == ["one", "!"]


def test_after_an_undo_and_a_new_turn_the_new_turn_is_first(agent):
    agent.extend([("clear",), ("user", "one"), ("assistant", "!"), ("user", "two")])
    agent.undo(turn=True)
    agent.user("three")
    for left in (["one", "!"], []):
        agent.undo(turn=True)
        assert said(agent) == left
