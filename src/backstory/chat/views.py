"""The slash commands that only show something: agents, the log, the context, search results.

If the command line has such a command already, it is run on the chat's store.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.errors import Invalid, NotFound
from backstory.log.kinds import KINDS
from backstory.present.event_text import gist
from backstory.present.measures import count
from backstory.present.names import short_ids
from backstory.present.trees import trees

if TYPE_CHECKING:
    from backstory.chat.terminal import Terminal


def agents(at: "Terminal", _: str) -> None:
    """The trees of all sessions, this one's first."""
    here = at.chat.agent
    found = sorted(at.chat.store.agents(), key=lambda agent: agent.session != here.session)
    ids = short_ids(agent.id for agent in found)
    at.output.draw(*trees(found, ids, width=at.output.console.width, here=here.id))


def marks(at: "Terminal", _: str) -> None:
    """The marks that you can rewind to."""
    if not at.chat.agent.marks():
        raise NotFound("there are no marks in this context: /mark sets one")
    at.shell("marks", at.chat.agent.id)


def context(at: "Terminal", _: str) -> None:
    """What the model sees: each message on a line, then tokens by kind and in total."""
    tokens = at.chat.tokens()
    sizes = tokens.by("position")
    events = [event for event in at.chat.agent.context().messages if KINDS[event.kind].is_message]
    for event in events:
        at.output.line(
            f"{event.seq:>5} {event.kind:<11} {sizes.get(event.seq, 0):>6,}  {gist(event)}"
        )
    for kind, number in tokens.by("kind").items():
        how_many = sum(event.kind == kind for event in events)
        named = f"{kind}: {how_many:,} with" if how_many else "around them:"
        at.output.say(f"{named} {count(number, 'token')}")
    window = f" of {at.chat.model.window:,}" if at.chat.model.window else ""
    at.output.say(f"in all {'' if tokens.exact else 'about '}{tokens:,} tokens{window}")


def log(at: "Terminal", rest: str) -> None:
    """The last events, or all of them."""
    if rest and rest != "all" and (not rest.isdecimal() or int(rest) == 0):
        raise Invalid("how many? /log NUMBER, or /log all")
    last = () if rest == "all" else ("--last", rest or "40")
    at.shell("log", at.chat.agent.id, "--no-pager", *last)


def show(at: "Terminal", rest: str) -> None:
    """One event in full; by default the last result of a tool."""
    results = [
        event.seq for event in at.chat.agent.context().messages if event.kind == "tool_result"
    ]
    if rest and not rest.isdecimal():
        raise Invalid("which event? /show POSITION, as /log shows them")
    if not rest and not results:
        raise NotFound("no tool has been called in this context")
    at.context.draw_event(at.chat.agent.event(int(rest) if rest else results[-1]))


def diff(at: "Terminal", rest: str) -> None:
    """What only another context has, and what only this one has."""
    if not rest:
        raise Invalid("with what? /diff AGENT or /diff @POSITION of this one")
    name, at_sign, moment = rest.partition("@")
    other = at.chat.find(name) if name else at.chat.agent
    if other == at.chat.agent and not at_sign:
        raise Invalid(
            f"you are in {other.name!r}: name another agent, or a position of this one (/diff @12)"
        )
    here, there = at.chat.ref(at.chat.agent), at.chat.ref(other) + at_sign + moment
    at.shell("diff", there, here)
    at.output.say(f"- is only in {there}, + only in {here}")


def search(at: "Terminal", rest: str) -> None:
    """Where words were said, in all sessions."""
    if not rest:
        raise Invalid("for what? /search WORDS")
    at.shell("search", "--", rest)


def export(at: "Terminal", rest: str) -> None:
    """Write the session, or the context as Markdown, to a file."""
    file = rest or f"{at.chat.agent.name}.jsonl"
    if Path(file).exists():
        raise Invalid(f"{file} already exists: /export ANOTHER")
    format = "markdown" if file.endswith(".md") else "jsonl"
    at.shell("export", at.chat.agent.id, "--format", format, "--output", file)
    if Path(file).exists():
        at.output.say(f"written to {file}")
