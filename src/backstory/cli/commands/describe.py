"""describe: the title and the tags of an agent."""

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, reference
from backstory.cli.stores import opened


@command(
    "describe",
    example='backstory describe main --title "Cleaning up" --tag work\nbackstory describe main --no-title',
)
@reference()
@click.option("--title", help="The title.")
@click.option("--no-title", is_flag=True, help="Remove the title.")
@click.option(
    "--tag", "tags", multiple=True, help="A tag (may be repeated); replaces the tags that it had."
)
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
def describe_command(
    url: str | None,
    ref: str,
    title: str | None,
    no_title: bool,
    tags: tuple[str, ...],
    no_tags: bool,
    as_json: bool,
) -> None:
    """The title and tags of a session's first agent are those of the session. They are kept beside the log,
    and no model sees them. Prints them as they are now."""
    with opened(url) as store:
        agent = agent_of(store.resolve(ref), "describe takes an agent, not a position")
        change: dict[str, object] = {}
        if title is not None or no_title:
            change["title"] = None if no_title else title
        if tags or no_tags:
            change["tags"] = None if no_tags else list(tags)
        about = agent.describe(**change) if change else agent.about
    if as_json:
        screen.answer_json(about)
        return
    screen.answer(f"title\t{about.get('title') or ''}")
    screen.answer(f"tags\t{', '.join(about.get('tags') or ())}")
