"""The base of all formats: what a service accepts, its writers and its readers."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict, get_args

from backstory.log.settings import Settings
from backstory.wire.file_sizes import Size
from backstory.wire.json_values import read_arguments
from backstory.wire.turns import (
    AnswerTurn,
    Call,
    Form,
    Media,
    MessageTurn,
    Other,
    Part,
    Repair,
    Result,
    Text,
    Turn,
    Unit,
    is_blank,
)

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
FormatName = Literal["openai", "openai-responses", "anthropic", "gemini", "bedrock"]
FORMAT_NAMES: tuple[str, ...] = get_args(FormatName)
Block = Any
Body = dict[str, Any]
ToolDefinition = Mapping[str, Any]
NO_PARAMETERS = {"type": "object", "properties": {}}


ImagePrice = Callable[[Size, str], float]  # by the size and the detail of an image
# Vocabularies of OpenAI's models.
OLDER_VOCABULARY = "cl100k_base"
NEWEST_VOCABULARY = "o200k_base"


def price_flat(price: int) -> ImagePrice:
    """Return a price that is the same for all images."""
    return lambda size, detail: price


class TokenRules(NamedTuple):
    """How the models of one family count the tokens of a request.

    Framing and prices of media are what providers publish or what recorded usages showed;
    docs/wire.md has the errors.
    """

    name: str
    vocabulary: str | None = None  # None: it is not public, and OpenAI's newest stands in for it
    ratio: float = 1.0  # tokens for each token of that vocabulary
    opening: int = 3  # for the request, whatever it says
    message: int = 4  # around each message, its role included
    system: int | None = None  # around system text; None: the same
    answer: int = 0  # more for each text of the model
    call: int = 7  # around a call, beside its name and arguments
    result: int = 6  # around a result, beside the tool's name
    parallel: int = 0  # more for each further call of the same answer
    tools: tuple[int, float] = (10, 1.0)  # once there are any, and for each token of their JSON
    image: ImagePrice = price_flat(1000)
    page: int = 1000  # of a document, as a picture
    letter: float = 0.25  # on such a page
    audio: float = 10  # a second of it
    video: float = 260
    # Sealed reasoning: characters to leave out, and characters for a token. None: it is not read
    # again.
    seal: tuple[int, float] | None = None


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


StreamPiece = tuple[str, str]  # "text" or "thinking", and a piece of it


class StreamAssembler:
    """Assembles the events of one stream to the answer that the provider would have given at
    once."""

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one event. Return the text and the thinking in it."""
        raise NotImplementedError

    def finish(self) -> Body:
        """Return the answer, as far as it arrived. An error that the provider reported is in its
        field `error`."""
        raise NotImplementedError


class WrittenForm(NamedTuple):
    """A turn, or one result of a turn, in a format's own form."""

    role: str  # system, user, model
    form: Form
    positions: list[int]  # of its events


class WrittenBody(NamedTuple):
    """A body, and for each message in it the positions of its events."""

    body: Body
    origins: list[list[int]]


class Format:
    """One provider's request format. A subclass is everything that is known of one provider.

    Writers and readers are inverse: `read_form` takes apart whatever the writers make. A *form* is
    a message, result or answer as the provider has it; a *block* is a part of it.
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
    # The token rules of the provider's own models: the first whose pattern is found in a model's
    # name.
    token_rules: ClassVar[Sequence[tuple[str, TokenRules]]] = ()
    # The path of each canonical parameter in a request.
    parameters: ClassVar[Mapping[str, str]]
    # The provider's own parameters, which pass through as they are.
    own_parameters: ClassVar[frozenset[str]]

    # --- reading ---

    def read_body(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """Yield the pieces of a body in the order of the log."""
        raise NotImplementedError

    def read_form(self, role: str, form: Form, path: str) -> list[Part]:
        """Return the parts of a form."""
        raise NotImplementedError

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this
        format."""
        raise NotImplementedError

    def read_response(self, response: Mapping[str, Any]) -> ProviderAnswer:
        """Return an answer's form, model and usage."""
        raise NotImplementedError

    def read_answer(self, form: Form) -> Iterable[Unit]:
        """Return the pieces of an answer. It is one step, unless a service runs tools in the middle
        of it."""
        return [Unit("step", form, self.read_form("step", form, "response"), "response")]

    def read_facts(self, response: Mapping[str, Any]) -> ResponseFacts:
        """Return the id, the stop reason and other facts of a response."""
        raise NotImplementedError

    def is_compaction(self, response: Mapping[str, Any]) -> bool:
        """Return True if an answer begins with a summary that replaces all messages before it."""
        return False

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

    def write_message(self, turn: MessageTurn) -> Form:
        """Write a system or user message."""
        raise NotImplementedError

    def write_text(self, text: str) -> Block:
        """Write a block of text."""
        raise NotImplementedError

    def write_media(self, found: Media, in_result: bool) -> Block | str | None:
        """Write a block of media, or text where it goes as text; None if the format cannot carry
        it."""
        raise NotImplementedError

    def write_content(self, parts: Iterable[Part], *, in_result: bool = False) -> list[Block]:
        """Write text and media as blocks."""
        blocks: list[Block] = []
        for part in parts:
            if isinstance(part, Text):
                blocks.append(self.write_text(part.text))
            elif isinstance(part, Media):
                blocks.append(self.write_media(part, in_result))
        return blocks

    def write_answer(self, turn: AnswerTurn) -> Form:
        """Write an answer of the model: its texts and its calls."""
        raise NotImplementedError

    def write_result(self, call: Call, result: Result) -> Form:
        """Write the result of a call."""
        raise NotImplementedError

    def write_results(self, turn: AnswerTurn) -> list[WrittenForm]:
        """Write the results of an answer's calls."""
        forms: list[WrittenForm] = []
        for index in list_result_order(turn):
            result = turn.results[index]
            if result is None:
                continue
            form = result.form
            if form is None:
                form = self.write_result(turn.calls[index], result)
            forms.append(WrittenForm("user", form, list_positions(result)))
        return forms

    def write_forms(self, turns: Iterable[Turn]) -> list[WrittenForm]:
        """Write turns one by one, the results of an answer after it. A turn that has a form keeps
        it."""
        forms: list[WrittenForm] = []
        for turn in turns:
            form = turn.form
            positions = list_positions(turn)
            if isinstance(turn, MessageTurn):
                if form is None:
                    form = self.write_message(turn)
                forms.append(WrittenForm(turn.role, form, positions))
                continue
            if form is None:
                form = self.write_answer(turn)
            for call in turn.calls:
                if call.position is not None and call.position != turn.position:
                    positions.append(call.position)
            forms.append(WrittenForm("model", form, positions))
            if turn.calls:
                forms += self.write_results(turn)
        return forms

    def write_body(self, turns: list[Turn]) -> WrittenBody:
        """Write the messages of a request, and the system text that leads them."""
        raise NotImplementedError

    def convert_for_sdk(self, body: Body) -> Body:
        """Return a body as the provider's SDK takes it."""
        return body

    def can_name_file(self, found: Media) -> bool:
        """Return True if this document can have a name."""
        return True

    def takes_on_top(self, form: Form) -> bool:
        """Return True if the form of a system message between others may also go to the top."""
        return True

    def find_system_places(self, turns: list[Turn], wanted: set[int]) -> set[int]:
        """Return the indexes of the system turns that may stand between others. `wanted` are those
        that should stay there."""
        return set()

    # --- what goes back to the provider that gave it ---

    def join_forms(self, forms: list[Form]) -> Form | None:
        """Join the forms of the events of one answer; None if they cannot be joined."""
        return concatenate_forms(forms)

    def put_before(self, written: Form, form: Form) -> list[Form]:
        """Put a written form before the first form of an answer."""
        return [written, form]

    def repair_form(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """Return a form without what the service refused in a recording, and a report of each
        change."""
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
            is_choice = name == "tool_choice"
            if name in self.own_parameters:
                merge_fields(request, self.write_own_parameter(name, deepcopy(value)))
            elif name not in FORMAT_NAMES and (tools or not is_choice):
                self._add_parameter(request, name, value, model, repairs)
        return request, repairs

    def _add_parameter(
        self, request: Body, name: str, value: Any, model: str | None, repairs: list[Repair]
    ) -> None:
        """Add a canonical parameter. Report it if the format cannot express it."""
        fields = self.write_parameter(name, value, model)
        for path, field in fields.items():
            set_field(request, path, field)
        if not fields:
            why = f"the format {self.name} cannot say {name} = {value!r:.60}: it was left out"
            repairs.append(Repair("parameter", None, why))

    def write_own_parameter(self, name: str, value: Any) -> Body:
        """Return the field of one of the provider's own parameters."""
        return {name: value}

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
        """Return the fields of a tool choice by their paths: `mode` is auto, none, required or
        tool. There are none if the format cannot express it."""
        raise NotImplementedError

    def mark_cache(self, body: Body, model: str | None) -> Body:
        """Return a body with breakpoints of the prompt cache: cached input costs a tenth.

        A breakpoint says "cache everything up to here". Most providers cache by themselves.
        """
        return body

    def pack_form(self, form: Form) -> Form:
        """Return a form as the log keeps it: JSON cannot hold bytes."""
        return form


# --- writing ---


def list_result_order(turn: AnswerTurn) -> Sequence[int]:
    """Return the indexes of the calls in the order of their results: that of the calls, unless all
    results came in another one."""
    if len(turn.arrivals) < len(turn.calls):
        return range(len(turn.calls))
    return turn.arrivals


def list_positions(turn: Turn | Result) -> list[int]:
    """Return the position of a turn or a result, if it has one."""
    return [] if turn.position is None else [turn.position]


# --- reading ---


def make_call(id: str | None, name: str, arguments: str, kind: str = "") -> Call:
    """Return a call whose arguments are text in a form."""
    found = read_arguments(arguments)
    return Call(id, name, found.value, arguments, found.is_same, kind)


def has_text(value: Any) -> bool:
    """Return True if a field has a text that is not blank."""
    return isinstance(value, str) and not is_blank(value)


# Fields of a block that are settings of the request: how to cache, and to cite.
SETTING_KEYS = frozenset({"type", "cache_control", "prompt_cache_breakpoint", "citations"})
CALLED_BY_MODEL = {"type": "direct"}


def list_unread_keys(block: Block, read: frozenset[str]) -> tuple[str, ...]:
    """Return the fields of a block that are not read: no other provider can express them."""
    keys: list[str] = []
    for key, value in block.items():
        is_read = key in read or key in SETTING_KEYS or value == CALLED_BY_MODEL
        if value and not is_read:
            keys.append(key)
    return tuple(keys)


def list_unread(block: Block, read: frozenset[str]) -> list[Part]:
    """Return a part for each field of a block that is not read."""
    return [Other(key) for key in list_unread_keys(block, read)]


def concatenate_forms(forms: list[Form]) -> Form | None:
    """Return lists of blocks as one list; None for several forms that are not lists."""
    if len(forms) == 1:
        return forms[0]
    blocks: list[Block] = []
    for form in forms:
        if not isinstance(form, list):
            return None
        blocks.extend(form)
    return blocks


# An inference profile's resource name does not say which model it is.
CLAUDE = re.compile(
    r"claude|anthropic|sonnet|opus|haiku|inference-profile/[a-z0-9]*$", re.IGNORECASE
)


def is_claude(model: str) -> bool:
    """Return True if a model is Claude, or may be."""
    return CLAUDE.search(model) is not None


# --- tools that a service runs itself ---


FILE_KEYS = frozenset({"bytes", "b64_json", "result"})  # text has other names everywhere


def describe_run(what: str, name: Any, *values: Any) -> Other:
    """Return a part that only its provider understands, with text for all others: the texts in the
    values, each after the name of its field.

    <web_search>
    query: high tide today
    </web_search>
    """
    lines: list[str] = []
    for value in values:
        lines.extend(list_lines(value))
    if not lines:
        return Other(what)
    tag = re.sub(r"\W+", "_", name) if isinstance(name, str) else "tool"
    text = "\n".join([f"<{tag}>", *lines, f"</{tag}>"])
    return Other(what, told=text)


def is_unread(key: str) -> bool:
    """Return True if a field is nothing for a model to read."""
    return key.startswith("encrypted") or key.endswith(("signature", "id", "type"))


def list_lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts in a value, each after the name of its field."""
    if isinstance(value, dict):
        for key, item in value.items():
            if is_readable_field(value, key):
                yield from list_lines(item, key)
        return
    if isinstance(value, list):
        for item in value:
            yield from list_lines(item, name)
        return
    text = "" if value is None or isinstance(value, bool) else str(value)
    if not is_blank(text):
        yield f"{name}: {text}" if name else text


def is_readable_field(value: dict[str, Any], key: str) -> bool:
    """Return True if a field has something to read, and is not a file."""
    if key in FILE_KEYS or is_unread(key):
        return False
    return key != "data" or value.get("type") != "base64"


# --- usage ---


def make_usage(read: Any, written: Any, cached: Any = 0, cache_written: Any = 0) -> dict[str, int]:
    """Return tokens as they are kept: all that were read and written, and of these the ones that
    came from the cache or were put there, unless there are none. A value that is not a number
    counts as 0."""
    usage = {"input": to_count(read), "output": to_count(written)}
    if to_count(cached):
        usage["cached"] = cached
    if to_count(cache_written):
        usage["cache_written"] = cache_written
    return usage


def to_count(value: Any) -> int:
    """Return a number of tokens, or 0 if the value is not a number."""
    return value if type(value) is int else 0


def make_detailed_usage(usage: Any, read: str, written: str) -> dict[str, int] | None:
    """Return tokens as they are kept. These services have the tokens that were read from the cache
    in an object of details."""
    if not isinstance(usage, dict):
        return None
    details = usage.get(f"{read}_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return make_usage(usage.get(read), usage.get(written), cached)


# --- settings ---


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
            merged = dict(before)
            merge_fields(merged, value)
            value = merged
        body[key] = value
