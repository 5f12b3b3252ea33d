"""Asks the model for the title of a session: on request, or together with a summary."""

import re
from collections.abc import Generator

from backstory.agent import Agent
from backstory.errors import NotFound
from backstory.log.events import Event
from backstory.present.safe_text import one_line
from backstory.runtime.compaction import reply
from backstory.runtime.models import Model, ModelError, Retrying, TextDelta, ThinkingDelta
from backstory.runtime.models.arguments import storable
from backstory.wire.conversation import conversation_of

WANTED = (
    "Give the conversation above a title of at most eight words, in its own language, so that the user "
    "finds it again in a list. Answer with the title and nothing else."
)
READ = 6  # messages that a title is made from
LONGEST = 80  # characters


def suggested(agent: Agent, model: Model) -> Generator[Retrying, None, str]:
    """Ask the model for a title. Nothing is drawn or written."""
    messages = [event for event in agent.context().messages if event.kind in ("user", "assistant")]
    if not messages:
        raise NotFound("there is nothing to name yet: say something")
    asked = Event.of(agent.head + 1, "user", WANTED)
    items = reply(model, (), conversation_of([*messages[:READ], asked]), "title")
    try:
        while True:
            item = next(items)
            if not isinstance(item, TextDelta | ThinkingDelta):
                yield item
    except StopIteration as end:
        return _title(str(end.value), model.name)


def _title(text: str, model: str) -> str:
    """The title, without the quotes and marks that models put around it."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    title = re.sub(
        r"^[\s#*\"'“«]*(title\s*:)?[\s*\"'“«]*|[\s*\"'”».]*$", "", line, flags=re.IGNORECASE
    )
    if not title:
        raise ModelError(f"{model} gave no title: nothing was changed", remedy="try again")
    return storable(one_line(title)[:LONGEST])
