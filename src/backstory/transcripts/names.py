"""What imported things are called: keys from the ids of other tools, and names that people can type."""

from hashlib import blake2b

from backstory.storage.ids import name_from_key

LONGEST_KEY = 300  # characters of an id that are a key as they are
LONGEST_NAME = 60


def key_of(id: str) -> str:
    """An id as a key: what is too long or cannot be kept is known by its digest."""
    if id and len(id) <= LONGEST_KEY and id.isprintable():
        return id
    return f"digest:{blake2b(id.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"


def unique_name(text: str, taken: set[str]) -> str:
    """A name for an agent that its session does not have yet."""
    name = name_from_key(" ".join(text.split())[:LONGEST_NAME])
    number = 2
    unique = name
    while unique in taken:
        unique, number = f"{name}-{number}", number + 1
    return unique
