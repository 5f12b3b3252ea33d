"""Token rules by the name of a model, and models whose plain text is counted to the token.

The rules of a provider's own models are in its format.
"""

import re
from functools import cache

from backstory.wire.file_sizes import Size
from backstory.wire.formats import FORMATS
from backstory.wire.formats.base import TokenRules, price_flat

# An image of which only the address is known is taken to be of a usual size.
USUAL = Size(1024, 768)

# Models whose recorded usages were met by the count of plain text, every time. Not gpt-4: Responses charges
# it one token less than Chat Completions does, and a count does not know where it will be sent.
EXACT = re.compile(
    r"(gpt-3\.5-turbo|gpt-35-turbo|gpt-4o(-mini)?|gpt-4\.1(-mini|-nano)?|gpt-4\.5-preview"
    r"|gpt-5(-mini|-nano)?|gpt-5\.[2456](-mini|-nano|-sol|-luna)?|o3-mini)"
    r"(-\d{4}(-\d\d-\d\d|-preview)?)?"
)


MISTRAL = TokenRules("mistral", ratio=1.1, opening=0, message=3, tools=(8, 1.4))
GROK = TokenRules(
    "grok",
    opening=0,
    call=17,
    result=16,
    tools=(122, 1.3),
    image=price_flat(250),
    seal=(0, 6.2),
)
DEEPSEEK = TokenRules("deepseek", opening=1, message=3, call=25, result=20, tools=(188, 1.8))
OTHER = TokenRules("other")
# Models of which no format is the own one.
OTHER_MODELS: tuple[tuple[str, TokenRules], ...] = (
    (r"grok-4\.3", GROK._replace(opening=186, call=7, result=6, image=price_flat(20))),
    (r"grok", GROK),
    (r"deepseek-v4", DEEPSEEK._replace(opening=80, call=7, result=6)),
    (r"deepseek", DEEPSEEK),
    (r"(mi|magi|mini)stral-small", MISTRAL._replace(opening=12)),
    (r"(mi|magi|mini|code|dev)stral|pixtral", MISTRAL),
    (r"llama", TokenRules("llama", opening=31)),
    (r"sonar", TokenRules("sonar", opening=1, message=0)),
)


@cache
def family_of(model: str) -> TokenRules:
    """Return the token rules of a model, by its name wherever it is served."""
    name = model.lower()
    rules = [rule for format in FORMATS.values() for rule in format.token_rules]
    for pattern, found in (*rules, *OTHER_MODELS):
        if re.search(pattern, name):
            return found
    return OTHER


def is_measured(model: str) -> bool:
    """Whether the count of plain text was found exact for this model."""
    return EXACT.fullmatch(model.rpartition("/")[2].lower()) is not None
