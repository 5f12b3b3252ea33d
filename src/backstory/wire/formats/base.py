"""The base of all formats: what a service accepts, its writers and its readers."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from backstory.wire.json_values import read_arguments
from backstory.wire.turns import Call, Media, Part, Unit

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
Form = Any
Block = Any


class Answered(NamedTuple):
    """The parts of a provider's answer: its form, and what else is worth keeping."""

    form: Form
    model: str | None
    usage: dict[str, int] | None


def usage_of(read: Any, wrote: Any, cached: Any = 0, cache_written: Any = 0) -> dict[str, int]:
    """Tokens as they are kept: all that was read and written, and of it what came from the cache or was put
    there, where something did. What is not a number counts as nothing."""
    found = {"input": read, "output": wrote, "cached": cached, "cache_written": cache_written}
    numbers = {name: count if type(count) is int else 0 for name, count in found.items()}
    return {name: count for name, count in numbers.items() if count or name in ("input", "output")}


def usage_with_details(usage: Any, read: str, wrote: str) -> dict[str, int] | None:
    """Tokens as they are kept, of a usage that has what came from the cache in an object of details."""
    if not isinstance(usage, dict):
        return None
    details = usage.get(f"{read}_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return usage_of(usage.get(read), usage.get(wrote), cached)


def concatenated(forms: list[Form]) -> Form | None:
    """Lists of blocks as one list; None for several forms that are not lists."""
    if not all(isinstance(form, list) for form in forms):
        return forms[0] if len(forms) == 1 else None
    return forms[0] if len(forms) == 1 else [block for form in forms for block in form]


class Format:
    """One provider's request format. A subclass is everything that is known of one provider.

    Writers and readers are inverse: `read` takes apart whatever the writers make. A *form* is a message, result
    or answer as the provider has it; a *block* is a part of it.
    """

    name: ClassVar[str]
    # A call id that the service accepts; None if the format has no ids.
    ids: ClassVar[re.Pattern[str] | None]
    # A tool name that the service accepts.
    names: ClassVar[re.Pattern[str]] = PLAIN_NAME
    # User and model take turns, and the user has the first and the last word.
    alternates: ClassVar[bool] = True
    # Leading system text has its own field.
    system_on_top: ClassVar[bool] = True
    # System text may stand between other messages.
    system_in_place: ClassVar[bool] = False
    # A tool result can say that it is an error.
    result_errors: ClassVar[bool] = True
    # Every model takes a result without content, unless it is an error.
    empty_results: ClassVar[bool] = True
    # A message can name its speaker.
    names_people: ClassVar[bool] = False
    # An image can have a level of detail.
    has_detail: ClassVar[bool] = False
    # The media of a result go behind the results of its answer.
    media_behind_results: ClassVar[bool] = False
    # The kinds of calls for which `result` can write an output.
    kinds: ClassVar[frozenset[str]] = frozenset({""})

    # --- reading ---

    def units(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """Yield the pieces of a body in the order of the log."""
        raise NotImplementedError

    def read(self, role: str, form: Form, path: str) -> list[Part]:
        """Return the parts of a form."""
        raise NotImplementedError

    def answered(self, response: Mapping[str, Any]) -> Answered:
        """Return an answer's form, model and usage."""
        raise NotImplementedError

    def answer_units(self, form: Form) -> Iterable[Unit]:
        """Return the pieces of an answer. It is one step, unless a service runs tools in the middle of it."""
        return [Unit("step", form, self.read("step", form, "response"), "response")]

    def assembled(self, events: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the events of a stream as one answer."""
        raise NotImplementedError

    # --- writing ---

    def said(self, role: str, content: str | list[Block], name: str | None) -> Form:
        """Write a system or user message; `name` is the speaker's."""
        raise NotImplementedError

    def top(self, text: str) -> Form | None:
        """Write system text on top; None if that is what `said` writes."""
        return None

    def words(self, text: str) -> Block:
        """Write a block of text."""
        raise NotImplementedError

    def media(self, found: Media, in_result: bool) -> Block | str | None:
        """Write a block of media, or text where it goes as text; None if the format cannot carry it."""
        raise NotImplementedError

    def call(self, id: str, name: str, arguments: dict[str, Any], text: str | None) -> Block:
        """Write a call; `text` is the arguments as the model wrote them."""
        raise NotImplementedError

    def step(self, texts: Sequence[str], calls: list[Block], name: str | None) -> Form:
        """Write an answer of texts and written calls."""
        raise NotImplementedError

    def result(
        self, id: str, name: str, content: str | list[Block], error: bool, kind: str
    ) -> Form:
        """Write the result of a call."""
        raise NotImplementedError

    def body(
        self, system: list[Form], roles: list[str], forms: list[Form], names: Iterable[str]
    ) -> dict[str, Any]:
        """Write a body: system forms on top, the roles and forms of the others, the names of the tools called."""
        raise NotImplementedError

    def names_file(self, found: Media) -> bool:
        """Return True if this document can have a name."""
        return True

    # --- what goes back to the provider that gave it ---

    def joined(self, forms: list[Form]) -> Form | None:
        """Join the forms of the events of one answer; None if they cannot be joined."""
        return concatenated(forms)

    def thinks(self, block: Block) -> bool:
        """Return True if a block is thinking that must be the first of an answer."""
        return False

    def mended(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """Return a form without what the service refused in a recording, and a report of each change."""
        return form, []

    def refuses(self, role: str, parts: list[Part]) -> bool:
        """Return True if a recording shows that the service refuses a form of these parts."""
        return False

    def takes_unsigned(self, model: Any) -> bool:
        """Return True if a model takes its thinking back without a signature."""
        return False

    def renamed(self, form: Form, id: str) -> Form:
        """Return the form of a result for the same call with another id."""
        return form

    def finished(self, body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return a body made of forms that we did not make, without what the service refuses in a whole request."""
        return body, []

    def pack(self, form: Form) -> Form:
        """Return a form as the log keeps it: JSON cannot hold bytes."""
        return form

    def unpack(self, form: Form) -> Form:
        """Return a form as the provider's SDK takes it."""
        return form


def call_of(id: str | None, name: str, arguments: str, kind: str = "") -> Call:
    """A call whose arguments are text on the wire."""
    found = read_arguments(arguments)
    return Call(id, name, found.value, arguments, found.is_same, kind)


def merged(
    roles: list[str], forms: list[Form], as_blocks: Callable[[Form], list[Block]]
) -> Iterator[tuple[str, Form]]:
    """Rule 9, the first half: neighbours of one role are one message, results first because they
    come first. A single form stays as it is."""
    run: list[Form] = []
    last = ""
    for role, form in zip(roles, forms, strict=True):
        if role != last and run:
            yield (
                last,
                run[0] if len(run) == 1 else [block for one in run for block in as_blocks(one)],
            )
            run = []
        run.append(form)
        last = role
    if run:
        yield last, run[0] if len(run) == 1 else [block for one in run for block in as_blocks(one)]
