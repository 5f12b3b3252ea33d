"""What each provider refuses, in its own words. Must not know how backstory dumps, nor import it.

`violations` is the judge of every dumped body: pure, linear, and it never raises, because garbage is a
violation too. Where services or models differ it takes the strictest reading that a client can still satisfy;
each provider's module says at its top where that is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.wire import rules_anthropic, rules_bedrock, rules_gemini, rules_openai, rules_responses
from tests.wire.rules_basics import json_violations

FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "bedrock")


def violations(
    body: Any, format: str, *, pending: bool = False, gemini_signatures: bool = False
) -> list[str]:
    """Every reason for which the format's service would answer 400; an empty list is a body that it takes.

    pending: the calls of the last step may be open, since the caller is about to run them.
    gemini_signatures: the first call of each step must carry a thoughtSignature, as Gemini 3 wants it.
    """
    check = {
        "openai": rules_openai.violations,
        "openai-responses": rules_responses.violations,
        "anthropic": rules_anthropic.violations,
        "gemini": partial(rules_gemini.violations, signatures=gemini_signatures),
        "bedrock": rules_bedrock.violations,
    }[format]
    if not isinstance(body, dict):
        return ["We could not parse the JSON body of your request. (it is not an object)"]
    return [*json_violations(body, bytes_allowed=format == "bedrock"), *check(body, pending=pending)]
