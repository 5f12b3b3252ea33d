"""A program that keeps a history, with the types that its author would write down."""

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any, assert_type

import backstory
from backstory import Agent, Context, Conversation, Event, Explanation, Session, Store


def open_it(path: os.PathLike[str]) -> None:
    assert_type(backstory.open(path), Store)
    with backstory.open("history.db") as store:
        assert_type(store, Store)
        assert_type(store.url, str)
        assert_type(store.agents(session="main"), list[Agent])
        assert_type(store.sessions(), list[Session])


def write(agent: Agent) -> None:
    call = agent.tool_call("glob", {"pattern": "*.py"})
    assert_type(call, Event)
    assert_type(agent.tool_result(call, "a.py"), Event)
    assert_type(agent.user("hello", data={"tokens": 3}), Event)
    assert_type(agent.extend([("user", "hello", None), call]), list[Event])
    assert_type(agent.fork("idea", at=datetime.now()), Agent)
    assert_type(agent.spawn(), Agent)
    assert_type(agent.rewind("here"), Event)
    agent.jump(None)  # type: ignore[arg-type]
    agent.user(3)  # type: ignore[arg-type]
    agent.user("hello", {"tokens": 3})  # type: ignore[call-arg]
    agent.append("user", "hello", expected="3")  # type: ignore[arg-type]


def read(agent: Agent, moment: datetime) -> Sequence[Event]:
    context = agent.context(at=moment)
    assert_type(context, Context)
    assert_type(context.at, int)
    assert_type(agent.head, int)
    assert_type(agent.parent, str | None)
    assert_type(agent.explain(3), Explanation)
    assert_type(agent.conversation(), Conversation)
    assert_type(agent.conversation().to("openai"), dict[str, Any])
    return context.messages


def look(event: Event) -> str:
    assert_type(event.seq, int)
    assert_type(event.kind, str)
    assert_type(event.content, str | None)
    assert_type(event.data, dict[str, Any] | None)
    assert_type(event.label, str | None)
    assert_type(event.created_at, datetime)
    return event.content  # type: ignore[return-value]


def fail(agent: Agent) -> int | None:
    try:
        agent.append("user", "hello", expected=3)
    except backstory.Conflict as conflict:
        return assert_type(conflict.head, int | None)
    except backstory.Ambiguous as ambiguous:
        assert_type(ambiguous.matches, tuple[str, ...])
    except backstory.Error as error:
        assert_type(error.message, str)
    return agent.head


def nothing_is_changed(agent: Agent, event: Event) -> None:
    agent.name = "other"  # type: ignore[misc]
    agent.head = 3  # type: ignore[misc]
    event.seq = 3  # type: ignore[misc]
    event.content = "other"  # type: ignore[misc]
    event.created_at = agent.created_at  # type: ignore[misc]


def misspell() -> None:
    backstory.opne("history.db")  # type: ignore[attr-defined]


def set_settings(agent: Agent) -> None:
    agent.settings(model="large", params={"temperature": 0})
    agent.settings(modle="large")  # type: ignore[call-arg]
    agent.settings(model=3)  # type: ignore[arg-type]
