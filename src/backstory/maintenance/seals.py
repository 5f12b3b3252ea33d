"""A seal: the digest of every agent's head, small enough to keep elsewhere.

A chain alone cannot show that its newest rows are gone. A seal can: everything that was there when it was
made must still be there, unchanged.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from backstory.errors import Invalid, Remedy
from backstory.log.chain import START, overall
from backstory.storage.protocols import AgentRecord, Agents, StoredRows, Wanted

FORMAT = "backstory-seal"
VERSION = 1
MAKE_ONE = Remedy("{} makes one", "seal")


class Sealed(Agents, StoredRows, Protocol):
    """What a seal is made of: agents and their rows."""


def seal(backend: Sealed) -> dict[str, Any]:
    """The seal of a store as it is now."""
    by_id = {agent.id: agent for agent in backend.agents(Wanted(deleted=True))}
    agents = [agent for agent in by_id.values() if agent.deleted_us is None]
    heads = {agent.id: _digest(backend, by_id, agent, agent.head) for agent in agents}
    return {
        "format": FORMAT,
        "version": VERSION,
        "agents": {
            agent.id: {"head": agent.head, "digest": heads[agent.id].hex()} for agent in agents
        },
        "digest": overall(heads.items()).hex(),
    }


def broken_seals(backend: Sealed, sealed: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """What is missing or changed according to a seal: the agent's id, the position, and the problem."""
    known = _checked(sealed)
    by_id = {agent.id: agent for agent in backend.agents(Wanted(deleted=True))}
    if not known.keys() & by_id.keys() and known:
        raise Invalid(
            "this is the seal of another store: none of its agents are here",
            remedy="pass one that was made from this store",
        )
    for id, (head, digest) in known.items():
        agent = by_id.get(id)
        if agent is None or agent.deleted_us is not None:
            yield id, 0, "the seal names this agent, and it is gone"
        elif agent.head < head:
            yield (
                id,
                agent.head,
                f"the seal was made at position {head}, and the newest one is {agent.head}",
            )
        elif _digest(backend, by_id, agent, head) != digest:
            yield id, head, "the history up to here is not the one that was sealed"


def _checked(sealed: Mapping[str, Any]) -> dict[str, tuple[int, bytes]]:
    try:
        if sealed["format"] != FORMAT or sealed["version"] != VERSION:
            raise Invalid(f"this is not a seal of version {VERSION}", remedy=MAKE_ONE)
        known = {
            id: (one["head"], bytes.fromhex(one["digest"])) for id, one in sealed["agents"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Invalid("this is not a seal", remedy=MAKE_ONE) from error
    if not all(type(head) is int and head >= 0 for head, _ in known.values()):
        raise Invalid("this is not a seal: a head in it is not a position", remedy=MAKE_ONE)
    if overall((id, digest) for id, (_, digest) in known.items()).hex() != sealed.get("digest"):
        raise Invalid("the seal does not fit its own digest: it was changed")
    return known


def _digest(
    backend: Sealed, agents: dict[str, AgentRecord], agent: AgentRecord, position: int
) -> bytes:
    """The digest at a position of an agent's lineage; empty if there is none."""
    owner: AgentRecord | None = agent
    while owner is not None and position <= owner.fork_seq:
        owner = agents.get(owner.parent or "") if owner.fork_seq else None
    if not position:
        return START
    rows = backend.stored(owner, position - 1, 1) if owner else []
    return rows[0].digest if rows and rows[0].seq == position else b""
