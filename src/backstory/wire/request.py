"""Builds a request: the one path from the messages of a context to a provider's body."""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypedDict

from backstory.errors import Invalid
from backstory.log.settings import Settings
from backstory.wire.formats import FORMATS, get_format
from backstory.wire.native import is_same_model
from backstory.wire.reading import Readable, TurnReader
from backstory.wire.repair import RULES
from backstory.wire.turns import AnswerTurn, Call, Form, Native, Repair, Turn

AUTO = "auto"


class RequestOptions(TypedDict, total=False):
    """What the caller knows about a request.

    `model`: the model to ask; the native content of an answer is sent back only to the model that gave it.
    `pending`: the caller is about to run the open calls of the last answer, so they stay open.
    `stored`: the service keeps what it was sent (OpenAI Responses with `store: true`), so its items may
    be named by their ids, which are left out otherwise.
    `pause`: the last message is the model's, which continues it (prefill, Anthropic's `pause_turn`).
    `system_inside`: the model takes system messages between others (some of Anthropic's do).
    `placeholders`: a text stands in place of a file that the format cannot carry, also beside other text.
    `cache`: "auto" sets the breakpoints of the prompt cache, for Anthropic and Bedrock.
    `strict`: raise Invalid if the request needs a repair.
    """

    model: str | None
    pending: bool
    stored: bool
    pause: bool
    system_inside: bool
    placeholders: bool
    cache: Literal["auto"] | None
    strict: bool


class BuiltRequest(NamedTuple):
    """A request, its differences from the log, and where each of its messages comes from."""

    body: dict[str, Any]
    repairs: list[Repair]
    origins: list[list[int]]  # for each message of the body, the positions of its events


class WrittenTurn(NamedTuple):
    """One turn, or one result of a turn, in a format's own form."""

    role: Literal["system", "user", "model", "result"]
    position: int | None  # of its first event; None: a repair put it there
    form: Form
    calls: list[Call]  # of an answer; of a result, the call that it belongs to


class RequestBuilder:
    """Builds one request: the format, the options, and the repairs so far."""

    def __init__(
        self,
        format: str,
        *,
        model: str | None = None,
        pending: bool = False,
        stored: bool = False,
        pause: bool = False,
        system_inside: bool = False,
        placeholders: bool = False,
        cache: Literal["auto"] | None = None,
        strict: bool = False,
        any_model: bool = False,
    ) -> None:
        """`any_model`: it is for a file, which keeps the native content of each of a provider's models.

        The other options are those of `RequestOptions`.
        """
        if cache not in (None, AUTO):
            raise Invalid(f"cache={cache!r} is not known: use {AUTO!r} or None")
        self.format = get_format(format)
        self.formats = FORMATS
        self.model = model
        self.pending = pending
        self.stored = stored
        self.pause = pause
        self.system_inside = system_inside
        self.placeholders = placeholders
        self.cache = cache
        self.strict = strict
        self.any_model = any_model
        self.repairs: list[Repair] = []
        self.continued: dict[str, Any] = {}  # names the stored conversation that is continued
        self._has_native = False

    def report(self, rule: str, position: int | None, why: str) -> None:
        """Record a repair."""
        self.repairs.append(Repair(rule, position, why))

    def is_home_of(self, native: Native) -> bool:
        """Return True if the request goes to the provider and model that `native` came from."""
        if native.provider != self.format.name:
            return False
        return self.any_model or is_same_model(native.model, self.model)

    def continues(self, after: Mapping[str, Any]) -> bool:
        """Return True if the service's store has what a loaded request continues. A request with
        `store: false` says so itself."""
        if self.format.name != "openai-responses":
            return False
        return self.stored or after.get("store") is False

    def build(self, messages: Iterable[Readable], settings: Settings | None = None) -> BuiltRequest:
        """Build the request for `messages`, with the model, tools and parameters of `settings`."""
        with pause_garbage_collector():
            return self._build(messages, settings)

    def _build(self, messages: Iterable[Readable], settings: Settings | None) -> BuiltRequest:
        written = self.format.write_body(self.read_turns(messages))
        body = written.body | self.continued
        if self._has_native:
            body, changes = self.format.finish_body(body)
            for why in changes:
                self.report("native", None, why)
        if settings is not None:
            body, changed = self.format.add_settings(body, settings, self.model)
            self.repairs += changed
        if self.cache == AUTO:
            body = self.format.mark_cache(body, self.model)
        repairs = sort_repairs(self.repairs)
        if self.strict and repairs:
            raise Invalid(describe_repairs(repairs, self.format.name))
        return BuiltRequest(body, repairs, written.origins)

    def read_turns(self, messages: Iterable[Readable]) -> list[Turn]:
        """Return the repaired turns of `messages`."""
        reader = TurnReader(self)
        reader.read(messages)
        self._has_native = reader.has_native
        turns: list[Any] = reader.turns
        for apply_rule in RULES:
            turns = apply_rule(turns, self)
        return turns


@contextmanager
def pause_garbage_collector() -> Iterator[None]:
    """Hold off the garbage collector.

    A request of 10,000 messages creates 100,000 objects, which are no garbage. The collector would look at
    them again and again: 30 % of the time, if the answers have thinking.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def sort_repairs(repairs: list[Repair]) -> list[Repair]:
    """Return repairs in the order of the log; those of the whole request come last."""
    return sorted(repairs, key=lambda repair: (repair.at is None, repair.at or 0))


def describe_repairs(repairs: list[Repair], format: str) -> str:
    """Return a text that names each repair."""
    lines = [f"the request for {format} differs from the log:"]
    for repair in repairs:
        where = "" if repair.at is None else f" at {repair.at}"
        lines.append(f"- {repair.rule}{where}: {repair.why}")
    return "\n".join(lines)


def write_turns(messages: Iterable[Readable], format: str) -> Iterator[WrittenTurn]:
    """Yield each turn of a repaired history in a format's own form, for files in which every message is
    separate."""
    request = RequestBuilder(format, pause=True, any_model=True)
    for turn in request.read_turns(messages):
        first = request.format.write_forms([turn])[0]
        if not isinstance(turn, AnswerTurn):
            yield WrittenTurn(turn.role, turn.position, first.form, [])
            continue
        yield WrittenTurn("model", turn.position, first.form, turn.calls)
        for call, result in zip(turn.calls, turn.results, strict=True):
            alone = turn._replace(calls=[call], results=[result], arrivals=[])
            blocks: list[Any] = []
            for written in request.format.write_results(alone):
                blocks += written.form if isinstance(written.form, list) else [written.form]
            position = result.position if result else None
            yield WrittenTurn("result", position, blocks, [call])
