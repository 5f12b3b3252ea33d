"""The list of what can answer, shown at the first start: keys, local servers, the small model, the
tour.

Nothing is used that was not chosen. The choice is remembered in chat.toml.
"""

import json
import os
import tomllib
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from backstory.chat.tour import TOUR
from backstory.present.text import one_line
from backstory.runtime.models.choice import EMBEDDED, BadConfig, ModelSpec, from_config

SECONDS = 2.0  # for a local server to say which models it has; where none is, nobody waits
MAX_MODELS = 5  # of one server
QUESTION = "Who should answer?"
SMALL = "a tiny model, 98 MB once: its answers are often wrong"
TOURED = "a guided tour of one minute: scripted, no download"
CONTINUED = "continue the guided tour"

# The variables of a key, the provider, and a model that is good for most things.
KEYS = (
    ("ANTHROPIC_API_KEY", "Anthropic", "claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "OpenAI", "gpt-5"),
    ("GEMINI_API_KEY", "Google", "gemini-2.5-pro"),
)
# The ports on which these programs usually listen.
SERVERS = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080))


class ModelOffer(NamedTuple):
    """A model that can be chosen."""

    text: str
    spec: ModelSpec


def list_offers(*, has_begun_tour: bool = False) -> list[ModelOffer]:
    """Return what can answer here, best first."""
    tour = ModelOffer(CONTINUED if has_begun_tour else TOURED, ModelSpec(TOUR))
    offers = [*list_keys(), *list_local_models(), ModelOffer(SMALL, ModelSpec(EMBEDDED))]
    return [tour, *offers] if has_begun_tour else [*offers, tour]


def list_keys() -> Iterator[ModelOffer]:
    """Yield the default model of each provider whose key is in the environment."""
    for variable, provider, model in KEYS:
        if os.environ.get(variable):
            yield ModelOffer(f"{model}: {provider}, paid with {variable}", ModelSpec(model))


def list_local_models() -> Iterator[ModelOffer]:
    """Yield the models of the servers that run on this machine."""
    with ThreadPoolExecutor() as pool:
        answers = pool.map(request_models, list_addresses())
    for (program, url), models in zip(list_addresses(), answers, strict=True):
        for model in models[:MAX_MODELS]:
            text = f"{one_line(model)}: {program} on this machine"
            yield ModelOffer(text, ModelSpec(model, url))


def list_addresses() -> list[tuple[str, str]]:
    """Return each program and its address. Ollama's is read from its own variable, if that is
    set."""
    found = []
    for program, port in SERVERS:
        host = f"localhost:{port}"
        if program == "Ollama" and os.environ.get("OLLAMA_HOST"):
            host = find_host(os.environ["OLLAMA_HOST"], port)
        found.append((program, f"http://{host}/v1"))
    return found


def find_host(given: str, port: int) -> str:
    """Return host and port of an address such as 127.0.0.1:11434. 0.0.0.0 means all of this
    machine."""
    parts = urlsplit(given if "//" in given else f"//{given}")
    name = parts.hostname or "localhost"
    with suppress(ValueError):
        port = parts.port or port
    return f"{'localhost' if name == '0.0.0.0' else name}:{port}"


def request_models(server: tuple[str, str]) -> list[str]:
    """Return the names of a server's models; none if it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    names = []
    try:
        with opener.open(f"{server[1]}/models", timeout=SECONDS) as response:
            listed = json.load(response)["data"]
        for model in listed:
            if "embed" not in model["id"]:  # these answer nothing
                names.append(str(model["id"]))
    except (OSError, ValueError, LookupError, TypeError):
        return []  # nothing listens there, or something else
    return names


def choose_offer(offers: list[ModelOffer]) -> ModelSpec:
    """Let the person choose; Enter takes the first. Raises KeyboardInterrupt."""
    from prompt_toolkit.shortcuts import choice

    options = [(offer.spec, offer.text) for offer in offers]
    return choice(QUESTION, options=options)


def remember_choice(path: Path, spec: ModelSpec) -> None:
    """Write the model and its address to chat.toml, before what the file contains. Raises BadConfig
    if the file would not be used with them."""
    before = ""
    if path.exists():
        from_config(path)
        before = path.read_text(encoding="utf-8")
    lines = [f"model = {json.dumps(spec.model, ensure_ascii=False)}\n"]
    if spec.base_url:
        lines.append(f"base_url = {json.dumps(spec.base_url, ensure_ascii=False)}\n")
    text = "".join(lines) + before
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"the config file {path} names a model or an address already") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
