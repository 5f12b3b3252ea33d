"""The base of all formats: what a service accepts, its writers and its readers."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict, get_args

from backstory.log.settings import Settings
from backstory.wire.json_values import read_arguments
from backstory.wire.turns import Call, Media, Part, Repair, Unit

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
FormatName = Literal["openai", "openai-responses", "anthropic", "gemini", "bedrock"]
FORMAT_NAMES: tuple[str, ...] = get_args(FormatName)
Form = Any
Block = Any
Body = dict[str, Any]
ToolDefinition = Mapping[str, Any]
# "A maximum of 4 blocks with cache_control may be provided"
MAX_BREAKPOINTS = 4
NO_PARAMETERS = {"type": "object", "properties": {}}


class ResponseFacts(TypedDict, total=False):
    """Facts about a response that a log keeps; only those that the provider gave."""

    id: str
    stop: str  # the reason for which the answer ended
    stored: bool  # does the provider keep the response?
    tier: str  # the service tier
    diagnostics: Any  # why the prompt cache was not used, for example


def build_facts(
    *,
    id: Any = None,
    stop: Any = None,
    stored: Any = None,
    tier: Any = None,
    diagnostics: Any = None,
) -> ResponseFacts:
    """Return the facts that have a value of their type."""
    facts: ResponseFacts = {}
    if isinstance(id, str) and id:
        facts["id"] = id
    if isinstance(stop, str) and stop:
        facts["stop"] = stop
    if isinstance(stored, bool):
        facts["stored"] = stored
    if isinstance(tier, str) and tier:
        facts["tier"] = tier
    if diagnostics:
        facts["diagnostics"] = diagnostics
    return facts


class ProviderAnswer(NamedTuple):
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


StreamPiece = tuple[str, str]  # "text" or "thinking", and a piece of it


class StreamAssembler:
    """Assembles the events of one stream to the answer that the provider would have given at once."""

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one event. Return the text and the thinking in it."""
        raise NotImplementedError

    def finish(self) -> Body:
        """Return the answer, as far as it arrived."""
        raise NotImplementedError


class Format:
    """One provider's request format. A subclass is everything that is known of one provider.

    Writers and readers are inverse: `read_form` takes apart whatever the writers make. A *form* is a message, result
    or answer as the provider has it; a *block* is a part of it.
    """

    name: ClassVar[str]
    # A call id that the service accepts; None if the format has no ids.
    call_ids: ClassVar[re.Pattern[str] | None]
    # A tool name that the service accepts.
    tool_names: ClassVar[re.Pattern[str]] = PLAIN_NAME
    # User and model take turns, and the user has the first and the last word.
    alternates_roles: ClassVar[bool] = True
    # Leading system text has its own field.
    system_on_top: ClassVar[bool] = True
    # System text may stand between other messages.
    system_in_place: ClassVar[bool] = False
    # A tool result can say that it is an error.
    has_error_flag: ClassVar[bool] = True
    # Every model takes a result without content, unless it is an error.
    takes_empty_results: ClassVar[bool] = True
    # A message can name its speaker.
    has_speakers: ClassVar[bool] = False
    # An image can have a level of detail.
    has_detail: ClassVar[bool] = False
    # The media of a result go behind the results of its answer.
    media_after_results: ClassVar[bool] = False
    # The kinds of calls for which `write_result` can write an output.
    call_kinds: ClassVar[frozenset[str]] = frozenset({""})
    # The key of the model's name in a request.
    model_key: ClassVar[str] = "model"
    # The path of each canonical parameter in a request.
    parameters: ClassVar[Mapping[str, str]]

    # --- reading ---

    def read_body(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """Yield the pieces of a body in the order of the log."""
        raise NotImplementedError

    def read_form(self, role: str, form: Form, path: str) -> list[Part]:
        """Return the parts of a form."""
        raise NotImplementedError

    def read_response(self, response: Mapping[str, Any]) -> ProviderAnswer:
        """Return an answer's form, model and usage."""
        raise NotImplementedError

    def read_answer(self, form: Form) -> Iterable[Unit]:
        """Return the pieces of an answer. It is one step, unless a service runs tools in the middle of it."""
        return [Unit("step", form, self.read_form("step", form, "response"), "response")]

    def read_facts(self, response: Mapping[str, Any]) -> ResponseFacts:
        """Return the id, the stop reason and other facts of a response."""
        raise NotImplementedError

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the events of one stream."""
        raise NotImplementedError

    def assemble_stream(self, events: Iterable[Mapping[str, Any]]) -> Body:
        """Return the answer in the events of a stream."""
        stream = self.open_stream()
        for event in events:
            stream.add(event)
        return stream.finish()

    # --- writing ---

    def write_message(self, role: str, content: str | list[Block], name: str | None) -> Form:
        """Write a system or user message; `name` is the speaker's."""
        raise NotImplementedError

    def write_top(self, text: str) -> Form | None:
        """Write system text on top; None if that is what `write_message` writes."""
        return None

    def write_text(self, text: str) -> Block:
        """Write a block of text."""
        raise NotImplementedError

    def write_media(self, found: Media, in_result: bool) -> Block | str | None:
        """Write a block of media, or text where it goes as text; None if the format cannot carry it."""
        raise NotImplementedError

    def write_call(self, id: str, name: str, arguments: dict[str, Any], text: str | None) -> Block:
        """Write a call; `text` is the arguments as the model wrote them."""
        raise NotImplementedError

    def write_answer(self, texts: Sequence[str], calls: list[Block], name: str | None) -> Form:
        """Write an answer of texts and written calls."""
        raise NotImplementedError

    def write_result(
        self, id: str, name: str, content: str | list[Block], error: bool, kind: str
    ) -> Form:
        """Write the result of a call."""
        raise NotImplementedError

    def write_body(
        self, system: list[Form], roles: list[str], forms: list[Form], names: Iterable[str]
    ) -> dict[str, Any]:
        """Write a body: system forms on top, the roles and forms of the others, the names of the tools called."""
        raise NotImplementedError

    def can_name_file(self, found: Media) -> bool:
        """Return True if this document can have a name."""
        return True

    # --- what goes back to the provider that gave it ---

    def join_forms(self, forms: list[Form]) -> Form | None:
        """Join the forms of the events of one answer; None if they cannot be joined."""
        return concatenated(forms)

    def put_before(self, written: Form, form: Form) -> list[Form]:
        """Put a written form before the first form of an answer."""
        return [written, form]

    def repair_form(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """Return a form without what the service refused in a recording, and a report of each change."""
        return form, []

    def find_refusal(self, role: str, parts: list[Part], model: str | None) -> str:
        """Return the rule by which the service refuses a form of these parts; empty if it takes it.
        `model` is the one that the form came from."""
        return ""

    def rename_result(self, form: Form, id: str) -> Form:
        """Return the form of a result for the same call with another id."""
        return form

    def finish_body(self, body: Body) -> tuple[Body, list[str]]:
        """Return a body of forms that we did not make without what the service refuses in a whole
        request, and a report of each change."""
        return body, []

    # --- around the messages ---

    def add_settings(
        self, body: Body, settings: Settings, model: str | None
    ) -> tuple[Body, list[Repair]]:
        """Return a whole request, and a report of what the format cannot express.

        `model` replaces that of the settings.
        """
        repairs: list[Repair] = []
        model = model or settings.model
        request: Body = {} if model is None else {self.model_key: model}
        request.update(body)
        tools = self._choose_tools(settings.tools, repairs)
        if tools:
            merge_fields(request, self.write_tools(tools))
        own = settings.params.get(self.name)
        if isinstance(own, Mapping):
            merge_fields(request, deepcopy(dict(own)))
        for name, value in settings.params.items():
            if name in FORMAT_NAMES or (name == "tool_choice" and not tools):
                continue
            fields = self.write_parameter(name, value, model)
            if not fields:
                why = f"the format {self.name} cannot say {name} = {value!r:.60}: it was left out"
                repairs.append(Repair("parameter", None, why))
            for path, field in fields.items():
                set_field(request, path, field)
        return request, repairs

    def _choose_tools(self, tools: Iterable[ToolDefinition], repairs: list[Repair]) -> list[Block]:
        """Write the tools that the format can express."""
        written: list[Block] = []
        for tool in tools:
            native = tool.get("native")
            form = native.get("wire") if native and native.get("format") == self.name else None
            if isinstance(form, Mapping):
                written.append(dict(form))
            elif native is None or "parameters" in tool:
                written.append(self.write_tool(tool))
            else:
                owner = native.get("format")
                why = f"the tool {tool['name']!r} is known to {owner!r} only and was left out"
                repairs.append(Repair("tools", None, why))
        return written

    def write_tool(self, tool: ToolDefinition) -> Block:
        """Write the definition of a tool."""
        raise NotImplementedError

    def write_tools(self, tools: list[Block]) -> Body:
        """Return the field that has the tools."""
        return {"tools": tools}

    def write_parameter(self, name: str, value: Any, model: str | None) -> Body:
        """Return the fields of a canonical parameter by their paths; none if there are none."""
        if name == "tool_choice":
            return self.write_tool_choice(*read_tool_choice(value))
        if name not in self.parameters:
            return {}
        # All but OpenAI want a list of stop sequences, even for one.
        if name == "stop" and isinstance(value, str):
            value = [value]
        return {self.parameters[name]: value}

    def write_tool_choice(self, mode: str, name: str | None) -> Body:
        """Return the fields of a tool choice by their paths: `mode` is auto, none, required or tool.
        None if the format cannot express it."""
        raise NotImplementedError

    def mark_cache(self, body: Body, model: str | None) -> Body:
        """Return a body with breakpoints of the prompt cache: cached input costs a tenth.

        A breakpoint says "cache everything up to here". Most providers cache by themselves.
        """
        return body

    def pack_form(self, form: Form) -> Form:
        """Return a form as the log keeps it: JSON cannot hold bytes."""
        return form

    def unpack_form(self, form: Form) -> Form:
        """Return a form as the provider's SDK takes it."""
        return form


def read_tool_choice(value: Any) -> tuple[str, str | None]:
    """Return the mode and the name of a canonical tool choice: "auto", "none", "required", or
    {"name": …} for one tool."""
    if value in ("auto", "none", "required"):
        return str(value), None
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return "tool", value["name"]
    return "", None


def describe_tool(tool: ToolDefinition) -> Body:
    """Return the name of a tool, and its description if there is one."""
    if tool.get("description"):
        return {"name": tool["name"], "description": tool["description"]}
    return {"name": tool["name"]}


def get_schema(tool: ToolDefinition) -> Any:
    """Return the JSON schema of a tool's arguments."""
    return tool.get("parameters", NO_PARAMETERS)


def set_field(body: Body, path: str, value: Any) -> None:
    """Set the field at a path such as `generationConfig.topP`."""
    *outer, last = path.split(".")
    for key in outer:
        body = body.setdefault(key, {})
    body[last] = value


def merge_fields(body: Body, fields: Body) -> None:
    """Add fields to a body. Objects on both sides are merged."""
    for key, value in fields.items():
        before = body.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = before | value
        body[key] = value


def find_turn_ends(messages: list[Body]) -> list[int]:
    """Return the messages that get a breakpoint: the user's last one, and the one where the previous
    request ended, so that its cache is found again."""
    indexes = [index for index, message in enumerate(messages) if message["role"] == "user"]
    return indexes[-2:]


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
