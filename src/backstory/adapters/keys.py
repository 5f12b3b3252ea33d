"""What an adapter's agents are found by: the ids of the framework as keys and names. Pure."""

from hashlib import sha256
from urllib.parse import quote, unquote

LONGEST_KEY = 1_000  # characters of an agent's key
LONGEST_PART = 400  # of a part that others follow: two of them and a hash are a key
LONGEST_NAME = 200


def agent_key(adapter: str, *ids: str) -> str:
    """The key of the agent that a framework knows by these ids: `ADAPTER:part/part`."""
    *above, last = ids
    key = key_prefix(adapter, *above) + _part(last)
    return key if len(key) <= LONGEST_KEY else key_prefix(adapter, *above) + _hash(last)


def key_prefix(adapter: str, *ids: str) -> str:
    """How the keys begin of all agents whose first ids are these. It depends on nothing else."""
    parts = [part if len(part := _part(id)) <= LONGEST_PART else _hash(id) for id in ids]
    return _joined(adapter, [*parts, ""])


def whole_path(adapter: str, *ids: str) -> str:
    """What the key would be if keys had no limit: the ids can be read from it."""
    return _joined(adapter, [_part(id) for id in ids])


def ids_in(path: str) -> list[str]:
    """The ids in a path, or in a key that is one."""
    return [unquote(part, errors="surrogatepass") for part in path.partition(":")[2].split("/")]


def agent_name(id: str) -> str:
    """A name that shows which session it is: the id, as far as a name can have its characters."""
    text = "".join(char if char.isprintable() and char not in "/@" else "_" for char in id).strip()
    return text[:LONGEST_NAME].strip() or "session"


def other_name(name: str, key: str) -> str:
    """Another name for the agent with a key, where the first one is taken."""
    return f"{name[: LONGEST_NAME - 9].strip()}-{sha256(key.encode()).hexdigest()[:8]}"


def _part(id: str) -> str:
    if not isinstance(id, str):
        raise TypeError(f"an id is a text, not {type(id).__name__}")
    return quote(id, safe="", errors="surrogatepass")


def _hash(id: str) -> str:
    return sha256(id.encode(errors="surrogatepass")).hexdigest()


def _joined(adapter: str, parts: list[str]) -> str:
    return f"{adapter}:{'/'.join(parts)}"
