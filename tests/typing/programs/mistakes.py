"""Each misspelling that a new user made: a type checker reports every one."""

from typing import Any

import backstory
from backstory import Agent, Store, wire


def misspell_formats(agent: Agent) -> None:
    conversation = agent.conversation()
    conversation.to("opnai")  # type: ignore[arg-type]
    conversation.request("opnai")  # type: ignore[arg-type]
    conversation.dump_request("opnai")  # type: ignore[arg-type]
    conversation.to_bytes("opnai")  # type: ignore[arg-type]
    conversation.repairs("opnai")  # type: ignore[arg-type]
    conversation.origins("opnai")  # type: ignore[arg-type]
    wire.dump(agent.context().messages, "opnai")  # type: ignore[arg-type]
    wire.load({}, "opnai")  # type: ignore[arg-type]
    wire.load_answer({}, "opnai")  # type: ignore[arg-type]


def misspell_options(agent: Agent) -> None:
    conversation = agent.conversation()
    conversation.to("openai", modle="gpt-4o")  # type: ignore[call-arg]
    conversation.dump("openai", pendign=True)  # type: ignore[call-arg]
    conversation.request("openai", cache="always")  # type: ignore[arg-type]


def misspell_settings(agent: Agent) -> None:
    agent.settings(modle="gpt-4o")  # type: ignore[call-arg]
    agent.settings(tools=3)  # type: ignore[arg-type]
    agent.settings(tools=[{"name": "f", "parametres": {}}])  # type: ignore[typeddict-unknown-key]
    agent.settings(tools=[{"description": "no name"}])  # type: ignore[typeddict-item]
    agent.describe(anything="is allowed")


def misspell_events(agent: Agent, store: Store) -> None:
    agent.append("usr", "hello")  # type: ignore[arg-type]
    agent.append("user", "hello", once="contxt")  # type: ignore[arg-type]
    agent.extend([("usr", 3, "x", 4, 5)])  # type: ignore[list-item]
    agent.extend([("user", 3)])  # type: ignore[list-item]
    store.start("main", events=[("user", 3)])  # type: ignore[list-item]


def misspell_moves(agent: Agent) -> None:
    agent.preview("rewnd")  # type: ignore[arg-type]
    agent.undo(trun=True)  # type: ignore[call-arg]


def misspell_listings(store: Store) -> None:
    store.agents(order="newest")  # type: ignore[arg-type]
    store.import_transcripts("folder", masked=True)  # type: ignore[call-arg]


def write_down_tools() -> list[backstory.ToolSettings]:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    return [{"name": "list_files", "parameters": schema}]


def choose_format(name: str) -> wire.FormatName:
    for format in wire.FORMATS:
        if format == name:
            return format
    raise ValueError(name)
