"""What is known of each family of models: its vocabulary, how a request is framed, what media cost.

Framing and prices of media are what providers publish or what recorded usages showed; docs/wire.md has
the errors. Only plain text of the models named in EXACT was measured to be counted to the token.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from backstory.wire.file_sizes import Size
from backstory.wire.tokens.vocabulary import NEWEST, OLDER

ImagePrice = Callable[[Size, str], float]

# An image of which only the address is known is taken to be of a usual size.
USUAL = Size(1024, 768)

# Models whose recorded usages were met by the count of plain text, every time. Not gpt-4: Responses charges
# it one token less than Chat Completions does, and a count does not know where it will be sent.
EXACT = re.compile(
    r"(gpt-3\.5-turbo|gpt-35-turbo|gpt-4o(-mini)?|gpt-4\.1(-mini|-nano)?|gpt-4\.5-preview"
    r"|gpt-5(-mini|-nano)?|gpt-5\.[2456](-mini|-nano|-sol|-luna)?|o3-mini)"
    r"(-\d{4}(-\d\d-\d\d|-preview)?)?"
)


class Family(NamedTuple):
    """How the models of one family read a request."""

    name: str
    vocabulary: str | None = None  # None: it is not public, and NEWEST stands in for it
    ratio: float = 1.0  # tokens for each token of that vocabulary
    opening: int = 3  # for the request, whatever it says
    message: int = 4  # around each message, its role included
    system: int | None = None  # around system text; None: the same
    answer: int = 0  # more for each text of the model's
    call: int = 7  # around a call, beside its name and arguments
    result: int = 6  # around a result, beside the tool's name
    parallel: int = 0  # more for each further call of the same answer
    tools: tuple[int, float] = (10, 1.0)  # once there are any, and for each token of their JSON
    image: ImagePrice = lambda size, detail: 1000
    page: int = 1000  # of a document, as a picture
    letter: float = 0.25  # on such a page
    audio: float = 10  # a second of it
    video: float = 260
    seal: tuple[int, float] | None = (
        None  # reasoning that is sealed: characters to leave out, and for a token
    )


def tiles(base: int, tile: int) -> ImagePrice:
    """OpenAI: within 2048 by 2048, the shorter side 768 at most, in tiles of 512 by 512."""

    def price(size: Size, detail: str) -> int:
        if detail == "low":
            return base
        shrink = min(1, 2048 / max(size), 768 / min(size))
        return base + tile * math.prod(math.ceil(side * shrink / 512) for side in size)

    return price


def patches(factor: float) -> ImagePrice:
    """OpenAI's smaller models: in patches of 32 by 32, 1,536 of them at most."""
    return lambda size, detail: factor * min(1536, math.prod(math.ceil(side / 32) for side in size))


def by_area(size: Size, _detail: str) -> float:
    """Anthropic: a token for 750 pixels, 1,568 pixels a side at most, some 1,600 tokens in all."""
    shrink = min(1, 1568 / max(size))
    return min(1600, math.prod(size) * shrink * shrink / 750)


def _flat(price: int) -> ImagePrice:
    return lambda size, detail: price


TILED = Family("gpt-4o", NEWEST, parallel=14, tools=(14, 0.58), image=tiles(85, 170), page=20)
# The newer framing: one token less around the answer, a channel named on each of the model's texts, and
# reasoning of the current turn that is read again.
CHANNELS = Family(
    "gpt-5",
    NEWEST,
    opening=2,
    answer=2,
    call=11,
    result=9,
    tools=(8, 0.74),
    image=tiles(70, 140),
    page=20,
    seal=(900, 7),
)
CLAUDE = Family(
    "claude",
    ratio=1.08,
    opening=4,
    message=3,
    system=0,
    call=34,
    result=24,
    tools=(476, 1.8),  # a system prompt of its own comes with them
    image=by_area,
    page=1590,
    letter=0.37,
    seal=(0, 9),
)
GEMINI = Family(
    "gemini",
    ratio=1.03,
    opening=1,
    message=0,
    call=5,
    result=8,
    tools=(0, 1.1),
    image=_flat(258),
    page=258,
    letter=0,
    audio=32,
    seal=(0, math.inf),
)
NOVA = Family(
    "nova", opening=0, message=1, call=25, result=25, tools=(500, 3), image=_flat(1800), page=2000
)
MISTRAL = Family("mistral", ratio=1.1, opening=0, message=3, tools=(8, 1.4))
GROK = Family(
    "grok", opening=0, call=17, result=16, tools=(122, 1.3), image=_flat(250), seal=(0, 6.2)
)
DEEPSEEK = Family("deepseek", opening=1, message=3, call=25, result=20, tools=(188, 1.8))
OTHER = Family("other")

# The first that is found in a model's name.
FAMILIES: tuple[tuple[str, Family], ...] = (
    (r"gpt-oss", CHANNELS._replace(opening=63)),  # it comes with a system message of its own
    (r"gpt-5.*nano", CHANNELS._replace(image=patches(1.5))),
    (r"gpt-5.*mini", CHANNELS._replace(image=patches(1.2))),
    (r"gpt-5", CHANNELS),
    (r"\bo1-mini", TILED),
    (r"\bo4-mini", CHANNELS._replace(answer=0, image=patches(1.72))),
    (r"\bo[134]\b", CHANNELS._replace(answer=0)),
    (r"gpt-4\.1-nano", TILED._replace(image=patches(2.46))),
    (r"gpt-4\.1-mini", TILED._replace(image=patches(1.62))),
    (r"gpt-4o-mini", TILED._replace(image=tiles(2833, 5667))),
    (r"gpt-4o|gpt-4\.1|gpt-4\.5", TILED),
    (r"gpt-4|gpt-3\.?5", TILED._replace(vocabulary=OLDER)),
    (r"claude-(opus-4[-.][789]|opus-5|sonnet-5|fable)", CLAUDE._replace(ratio=1.35)),
    (r"claude", CLAUDE),
    (r"gemini-3", GEMINI._replace(image=_flat(1090), page=560, video=70, seal=(0, 5.5))),
    (r"gemini-2\.0", GEMINI._replace(image=_flat(1290))),
    (r"gemini", GEMINI),
    (r"nova-2", NOVA._replace(opening=42, message=3)),
    (r"nova", NOVA),
    (r"grok-4\.3", GROK._replace(opening=186, call=7, result=6, image=_flat(20))),
    (r"grok", GROK),
    (r"deepseek-v4", DEEPSEEK._replace(opening=80, call=7, result=6)),
    (r"deepseek", DEEPSEEK),
    (r"(mi|magi|mini)stral-small", MISTRAL._replace(opening=12)),
    (r"(mi|magi|mini|code|dev)stral|pixtral", MISTRAL),
    (r"llama", Family("llama", opening=31)),
    (r"sonar", Family("sonar", opening=1, message=0)),
)


@cache
def family_of(model: str) -> Family:
    """The family of a model, by its name wherever it is served."""
    name = model.lower()
    return next((family for pattern, family in FAMILIES if re.search(pattern, name)), OTHER)


def is_measured(model: str) -> bool:
    """Whether the count of plain text was found exact for this model."""
    return EXACT.fullmatch(model.rpartition("/")[2].lower()) is not None
