"""What each provider refuses, in its own words. Must not know how backstory dumps, nor import it.

`violations` is the judge of every dumped body: pure, linear, and it never raises, because garbage is a
violation too. It reads in two ways. Strictly, the default, it takes the strictest of all services and
models that a client can still satisfy: what backstory writes itself promises that much. Otherwise it
refuses what the service itself was seen to refuse, and takes everything that it was recorded to take.
"""

from __future__ import annotations

import re
from typing import Any

from tests.wire import rules_anthropic, rules_bedrock, rules_gemini, rules_openai, rules_responses
from tests.wire.rules_basics import Request, json_violations

FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "bedrock")
CHECKS = {
    "openai": rules_openai.violations,
    "openai-responses": rules_responses.violations,
    "anthropic": rules_anthropic.violations,
    "gemini": rules_gemini.violations,
    "bedrock": rules_bedrock.violations,
}
# Who refuses thinking without a signature; the other models sign nothing.
SIGNING = re.compile(r"^$|claude|anthropic|deepseek\.r1")
UNSIGNED = "Invalid `signature` in `thinking` block"


def violations(
    body: Any,
    format: str,
    *,
    pending: bool = False,
    strict: bool = True,
    model: str | None = None,
    stored: bool = False,
    compatible: bool = False,
    gemini_signatures: bool = False,
) -> list[str]:
    """Every reason for which the format's service would answer 400; an empty list is a body that it takes.

    pending: the calls of the last step may be open, since the caller is about to run them.
    strict: read as what backstory writes itself promises; otherwise as the service was recorded to read.
    model: who is asked, by default the one that the body names; some rules hold for some models only.
    stored: OpenAI Responses keeps the items and knows them by their ids.
    compatible: another server that speaks OpenAI's language, with parts and habits of its own.
    gemini_signatures: the first call of each step must carry a thoughtSignature, as Gemini 3 wants it.
    """
    if not isinstance(body, dict):
        return ["We could not parse the JSON body of your request. (it is not an object)"]
    named = body.get("model") if model is None else model
    request = Request(
        pending=pending,
        strict=strict,
        model=named if isinstance(named, str) else "",
        stored=stored,
        compatible=compatible,
        signatures=gemini_signatures,
    )
    found = [
        *json_violations(body, bytes_allowed=format == "bedrock"),
        *CHECKS[format](body, request),
    ]
    if request.is_for(SIGNING):
        return found
    return [text for text in found if not text.endswith(UNSIGNED)]
