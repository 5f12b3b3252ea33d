"""Choosing a model: from what the user asks for, the environment and the config file, in this
order.

    openai:NAME      an OpenAI-compatible endpoint
    NAME             the same
    responses:NAME   OpenAI's Responses
    gpt-…, o3, …     the same, at OpenAI's own address
    anthropic:NAME   Anthropic
    claude-…         the same
    gemini:NAME      Google
    gemini-…         the same
    embedded         the tiny one on this machine
    (nothing)        the same

A service that costs money is never used just because a key is set: the user has to name a model.
"""

import os
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.runtime.models import Model, ModelError
from backstory.runtime.parameters import parameters

if TYPE_CHECKING:
    from backstory.runtime.models.hosted import HostedModel

EMBEDDED = "embedded"
PREFIXES = {"openai": "openai", "responses": "openai", "anthropic": "anthropic", "gemini": "gemini"}
CLASSES = {"openai": "OpenAIModel", "anthropic": "AnthropicModel", "gemini": "GeminiModel"}
# Providers by the beginning of a model's name.
FAMILIES = {"claude-": "anthropic", "gemini-": "gemini"}
OTHER_TABLES = ("params",)  # tables of the config file that are not about the model
CONFIG_FIELDS = ("model", "base_url", "window")  # keys are in the environment only
VARIABLES = {
    "model": "BACKSTORY_MODEL",
    "base_url": "BACKSTORY_BASE_URL",
    "key": "BACKSTORY_API_KEY",
}

# The context windows of known models, by the beginning of the name; the longest match counts.
WINDOWS = {
    "gpt-4o": 128_000,
    "gpt-4.1": 1_000_000,
    "gpt-5": 400_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4": 200_000,
    "claude-": 200_000,
    "gemini-": 1_000_000,
}


class BadConfig(ModelError):
    """The config file cannot be used; the message says why."""


class ModelSpec(NamedTuple):
    """What was asked for; a field is None if nothing was said about it."""

    model: str | None = None
    base_url: str | None = None
    key: str | None = None
    window: int | None = None

    def fill_from(self, other: "ModelSpec") -> "ModelSpec":
        """Return this, with the values of `other` for the fields that are None."""
        given = {field: value for field, value in self._asdict().items() if value is not None}
        return other._replace(**given)


def resolve(given: ModelSpec, *, config: bool = True) -> ModelSpec:
    """Fill `given` from the environment, then from the config file if `config` is true."""
    spec = given.fill_from(read_environment())
    configured = from_config(config_path()) if config else ModelSpec()
    if spec.model:  # the file's address is used only for a model of the same provider
        configured = replace_model(configured, spec.model)
    return spec.fill_from(configured)


def read_environment() -> ModelSpec:
    """Return what the environment says about the model."""
    values: dict[str, Any] = {}
    for field, variable in VARIABLES.items():
        values[field] = os.environ.get(variable) or None
    return ModelSpec(**values)


def replace_model(before: ModelSpec, model: str) -> ModelSpec:
    """Return `before` with another model; its address and key stay if the provider is the same."""
    after = ModelSpec(model)
    if _provider(before)[0] == _provider(after)[0]:
        return before._replace(model=model, window=None)
    return after


def config_path() -> Path:
    """The path of the config file, whether it exists or not."""
    from platformdirs import user_config_path

    folder: Path = user_config_path("backstory", appauthor=False)
    return folder / "chat.toml"


def from_config(path: Path) -> ModelSpec:
    """Return what the config file says about the model."""
    values = read_config(path)
    for name in OTHER_TABLES:
        values.pop(name, None)
    _check(values, path)
    return ModelSpec(**values)


def read_default_parameters(path: Path) -> dict[str, Any]:
    """Return the table [params] of the config file, checked."""
    table = read_config(path).get("params")
    return {} if table is None else parameters(table)


def read_config(path: Path) -> dict[str, Any]:
    """Return what is in the config file; nothing if there is no file."""
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadConfig(f"the config file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise BadConfig(f"the config file {path} is not TOML: {error}") from error


def _check(values: dict[str, Any], path: Path) -> None:
    unknown = sorted(values.keys() - set(CONFIG_FIELDS))
    if unknown:
        takes = ", ".join((*CONFIG_FIELDS, *OTHER_TABLES))
        advice = "; keys belong into the environment" if "key" in unknown else ""
        raise BadConfig(
            f"the config file {path} has {', '.join(unknown)}: it takes {takes}{advice}"
        )
    for name, value in values.items():
        wanted, example = (int, "200000") if name == "window" else (str, '"…"')
        if type(value) is not wanted:
            raise BadConfig(
                f"{name} in the config file {path} is {value!r:.50}: write {name} = {example}"
            )


def provider_of(wanted: ModelSpec) -> str:
    """The provider of a model, which is also the name of the extra that it needs."""
    return _provider(wanted)[0]


def choose(wanted: ModelSpec, *, progress: Callable[[int, int], None] | None = None) -> Model:
    """The model that was asked for; `progress` is called if its file has to be downloaded."""
    provider, name = _provider(wanted)
    if provider == EMBEDDED:
        from backstory.runtime.models.embedded import EmbeddedModel

        return EmbeddedModel(progress=progress)
    class_name = CLASSES[provider]
    if provider == "openai" and _speaks_responses(wanted):
        class_name = "ResponsesModel"
    module = import_module(f"backstory.runtime.models.{provider}")
    window = wanted.window or find_window(name)
    model_class: type[HostedModel] = getattr(module, class_name)
    return model_class(name, base_url=wanted.base_url, key=wanted.key, window=window)


def _provider(wanted: ModelSpec) -> tuple[str, str]:
    model = wanted.model or ""
    provider, colon, name = model.partition(":")
    if colon and provider in PREFIXES:
        return PREFIXES[provider], name
    if model == EMBEDDED or (not model and not wanted.base_url):
        return EMBEDDED, ""
    if not wanted.base_url:
        for beginning, provider in FAMILIES.items():
            if model.startswith(beginning):
                return provider, model
    return "openai", model


def _speaks_responses(wanted: ModelSpec) -> bool:
    """Whether to use Responses for a model with an OpenAI-compatible API. At another address than
    OpenAI's, it is Chat Completions, which all servers support, unless the user says
    `responses:`."""
    model = wanted.model or ""
    is_elsewhere = wanted.base_url or os.environ.get("OPENAI_BASE_URL")
    return model.startswith("responses:") or (not is_elsewhere and not model.startswith("openai:"))


def find_window(name: str) -> int | None:
    """How many tokens a model can read; None if that is not known."""
    bare = name.rpartition("/")[2]
    known = [prefix for prefix in WINDOWS if bare.startswith(prefix)]
    return WINDOWS[max(known, key=len)] if known else None
