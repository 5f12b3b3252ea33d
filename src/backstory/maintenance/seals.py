"""Seals: the digest of every agent's head, small enough to be kept elsewhere.

A chain of digests alone cannot show that its newest rows are gone. A seal can: everything that was
there when it was made must still be there, unchanged.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from backstory.errors import AgentNotFound, Corrupt, Invalid, Remedy
from backstory.log.chain import combine_digests
from backstory.storage.agent_trees import AgentTree
from backstory.storage.lineage import read_digest
from backstory.storage.protocol import AgentQuery, AgentRecord, Backend

FORMAT = "backstory-seal"
VERSION = 2  # in version 1, digests had no salts
MAKE_ONE = Remedy("{} makes one", "seal")


class SealedHead(NamedTuple):
    """The head of an agent in a seal."""

    seq: int
    digest: bytes


def make_seal(backend: Backend) -> dict[str, Any]:
    """Return the seal of a store as it is now. Raises Corrupt if the event at a head is missing."""
    tree = _list_agents(backend)
    digests: dict[str, bytes] = {}
    sealed = {}
    for agent in tree.agents.values():
        if agent.deleted_us is not None:
            continue
        owner = tree.find_owner(agent, agent.head)
        try:
            digest = read_digest(backend, agent, owner.pk, agent.head)
        except AgentNotFound:
            continue  # it was deleted since the agents were listed
        digests[agent.id] = digest
        sealed[agent.id] = {"head": agent.head, "digest": digest.hex()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "agents": sealed,
        "digest": combine_digests(digests.items()).hex(),
    }


def find_broken_seals(backend: Backend, seal: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Yield the agent's id, the position and the problem of everything that is missing or changed
    according to a seal."""
    heads = _parse_seal(seal)
    tree = _list_agents(backend)
    if heads and not heads.keys() & tree.agents.keys():
        raise Invalid(
            "this is the seal of another store: none of its agents are here",
            remedy="pass one that was made from this store",
        )
    for id, head in heads.items():
        agent = tree.agents.get(id)
        if agent is None or agent.deleted_us is not None:
            yield id, 0, "the seal names this agent, and it is gone"
        elif agent.head < head.seq:
            problem = (
                f"the seal was made at position {head.seq}, and the newest one is {agent.head}"
            )
            yield id, agent.head, problem
        elif not _has_digest(backend, tree, agent, head):
            yield id, head.seq, "the history up to here is not the one that was sealed"


def _parse_seal(seal: Mapping[str, Any]) -> dict[str, SealedHead]:
    heads = {}
    try:
        if seal["format"] != FORMAT or seal["version"] != VERSION:
            raise Invalid(
                f"this is not a seal of version {VERSION}: before, digests had no salts, so "
                "nothing can be compared",
                remedy=MAKE_ONE,
            )
        for id, sealed in seal["agents"].items():
            heads[id] = SealedHead(sealed["head"], bytes.fromhex(sealed["digest"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Invalid("this is not a seal", remedy=MAKE_ONE) from error
    for head in heads.values():
        if type(head.seq) is not int or head.seq < 0:
            raise Invalid("this is not a seal: a head in it is not a position", remedy=MAKE_ONE)
    digest = combine_digests((id, head.digest) for id, head in heads.items())
    if digest.hex() != seal.get("digest"):
        raise Invalid("the seal does not fit its own digest: it was changed")
    return heads


def _list_agents(backend: Backend) -> AgentTree:
    return AgentTree(backend.list_agents(AgentQuery(include_deleted=True)))


def _has_digest(backend: Backend, tree: AgentTree, agent: AgentRecord, head: SealedHead) -> bool:
    """Return True if an agent's lineage has the digest of a sealed head at its position."""
    try:
        owner = tree.find_owner(agent, head.seq)
        return read_digest(backend, agent, owner.pk, head.seq) == head.digest
    except (AgentNotFound, Corrupt):
        return False
