"""A model that plays a part: for tests of the loop that need no server."""

from backstory.runtime.models import Response, TextDelta


class Actor:
    """Yields what it was given, one list of pieces for each answer."""

    name = "actor"

    def __init__(self, *acts, window=None):
        self.window = window
        self.acts = list(acts)
        self.heard = []

    def answer(self, conversation, tools):
        self.heard.append(conversation.to("openai")["messages"])
        act = self.acts.pop(0) if self.acts else [Response("(the play is over)")]
        for piece in act:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


def speaks(text, *calls):
    """An answer in words, then calls."""
    return [
        *(TextDelta(word) for word in text.split()),
        Response(text, tuple(calls), {"model": "actor"}),
    ]
