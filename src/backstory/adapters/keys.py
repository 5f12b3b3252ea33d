"""What an adapter's agents are found by: the ids of the framework as keys and names. Pure."""

from hashlib import sha256
from urllib.parse import quote

LONGEST_KEY = 1_000  # characters of an agent's key
LONGEST_NAME = 200


def agent_key(adapter: str, *ids: str) -> str:
    """The key of the agent that a framework knows by these ids: `ADAPTER:part/part`."""
    parts = [_part(id) for id in ids]
    for index in reversed(range(len(parts))):
        if len(key := _joined(adapter, parts)) <= LONGEST_KEY:
            return key
        parts[index] = sha256(ids[index].encode(errors="surrogatepass")).hexdigest()
    return _joined(adapter, parts)


def key_prefix(adapter: str, *ids: str) -> str:
    """How the keys begin of all agents whose first ids are these."""
    return _joined(adapter, [*map(_part, ids), ""])


def agent_name(id: str) -> str:
    """A name that shows which session it is: the id, as far as a name can have its characters."""
    text = "".join(char if char.isprintable() and char not in "/@" else "_" for char in id).strip()
    return text[:LONGEST_NAME].strip() or "session"


def other_name(name: str, key: str) -> str:
    """Another name for the agent with a key, where the first one is taken."""
    return f"{name[: LONGEST_NAME - 9].strip()}-{sha256(key.encode()).hexdigest()[:8]}"


def _part(id: str) -> str:
    return quote(id, safe="", errors="surrogatepass")


def _joined(adapter: str, parts: list[str]) -> str:
    return f"{adapter}:{'/'.join(parts)}"
