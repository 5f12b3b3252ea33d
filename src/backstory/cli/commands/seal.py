"""seal: digests that later show whether anything is missing."""

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.stores import opened


@command(
    "seal", example="backstory seal > seal.json\nbackstory verify --seal seal.json", json=False
)
def seal_command(url: str | None) -> None:
    """Prints a small JSON object with the digest of every agent's head. Keep it outside the store: with it,
    `verify` also notices if the newest events were removed, which nothing in the store itself could show."""
    with opened(url) as store:
        screen.answer_json(store.seal())
