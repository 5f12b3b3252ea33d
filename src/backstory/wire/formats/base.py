"""The base of all formats: what a service accepts, its writers and its readers."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from backstory.log.settings import Settings
from backstory.wire.file_sizes import Size
from backstory.wire.json_values import clean_value, read_arguments
from backstory.wire.turns import (
    AnswerTurn,
    BodyUnit,
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
    is_blank,
)

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
FormatName = Literal["openai", "openai-responses", "anthropic", "gemini", "bedrock"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
NO_NAME = "unknown_tool"
Block = Any
Body = dict[str, Any]
ToolDefinition = Mapping[str, Any]


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
    benchmarks/README.md has the errors.
    """

    name: str
    vocabulary: str | None = None  # None: it is not public, and OpenAI's newest is used
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


# Facts about a response that a log keeps: its id, the reason for which it ended, whether the
# provider keeps it, its service tier, and why the prompt cache was not used.
FACT_TYPES = {"id": str, "stop": str, "stored": bool, "tier": str, "diagnostics": object}


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


# A role (system, user, answer), a form, and the turn or result that it was written from. Not a
# named tuple: there is one for each message, and it takes 20 times as long to create.
WrittenForm = tuple[str, Form, Turn | Result]


class WrittenBody(NamedTuple):
    """A body, and the turns and results that its messages were written from."""

    body: Body
    sources: list[Turn | Result]
    starts: Sequence[int]  # for each message, the index of its first source


class Format:
    """One provider's request format. A subclass is everything that is known of one provider, with
    its methods in the order of this class.

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
    # Does the service take whitespace at the end of an answer that the model continues?
    takes_trailing_space: ClassVar[bool] = True
    # A message can name its speaker.
    has_speakers: ClassVar[bool] = False
    # An image can have a level of detail.
    has_detail: ClassVar[bool] = False
    # The media of a result come after all results of its answer.
    media_after_results: ClassVar[bool] = False
    # The kinds of calls for which `write_result` can write an output.
    call_kinds: ClassVar[frozenset[str]] = frozenset({""})
    # A request can continue a conversation in the service's store.
    stores_conversations: ClassVar[bool] = False
    # The key of the model's name in a request.
    model_key: ClassVar[str] = "model"
    # The token rules of the provider's own models: the first whose pattern is found in a model's
    # name.
    token_rules: ClassVar[Sequence[tuple[str, TokenRules]]] = ()
    # The path of each canonical parameter in a request.
    parameters: ClassVar[Mapping[str, str]]
    # The provider's own parameters, which pass through as they are.
    own_parameters: ClassVar[frozenset[str]]
    # The path of a tool choice in a request, and the value of each mode.
    choice_path: ClassVar[str] = "tool_choice"
    tool_choices: ClassVar[Mapping[str, Any]]
    # Of a response: the path of the model, of the usage, of each fact (the first that there is),
    # and of the numbers of tokens in the usage, which are added up.
    model_path: ClassVar[str] = "model"
    usage_path: ClassVar[str] = "usage"
    fact_paths: ClassVar[Mapping[str, Sequence[str]]]
    usage_paths: ClassVar[Mapping[str, Sequence[str]]]
    # The fields of a request that have the conversation: no parameter replaces them.
    conversation_fields: ClassVar[frozenset[str]] = frozenset({"messages", "system"})

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

    def can_name_file(self, found: Media) -> bool:
        """Return True if this document can have a name."""
        return True

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

    def get_result_kind(self, kind: str) -> str:
        """Return the kind of the results that `write_result` writes for a kind of call."""
        return kind if kind in self.call_kinds else ""

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
            forms.append(("user", form, result))
        return forms

    def write_forms(self, turns: Iterable[Turn]) -> Iterator[WrittenForm]:
        """Write turns one by one, the results of an answer after it. A turn that has a form keeps
        it."""
        for turn in turns:
            form = turn.form
            if isinstance(turn, MessageTurn):
                if form is None:
                    form = self.write_message(turn)
                yield turn.role, form, turn
                continue
            if form is None:
                form = self.write_answer(turn)
            yield "answer", form, turn
            if turn.calls:
                yield from self.write_results(turn)

    def write_body(self, turns: list[Turn]) -> WrittenBody:
        """Write the messages of a request, and the system text that leads them."""
        raise NotImplementedError

    def convert_for_sdk(self, body: Body) -> Body:
        """Return a body as the provider's SDK takes it."""
        return body

    def takes_on_top(self, form: Form) -> bool:
        """Return True if the form of a system message between others may also go to the top."""
        return True

    def find_system_places(self, turns: list[Turn], wanted: set[int]) -> set[int]:
        """Return the indexes of the system turns that may stand between others. `wanted` are those
        that should stay there."""
        return set()

    # --- reading ---

    def read_body(self, body: Mapping[str, Any]) -> list[BodyUnit]:
        """Return the units of a body in the order of the log."""
        raise NotImplementedError

    def read_form(self, role: str, form: Form) -> list[Part]:
        """Return the parts of a form."""
        raise NotImplementedError

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this
        format."""
        raise NotImplementedError

    def read_response(self, response: Mapping[str, Any]) -> Form:
        """Return the form of an answer."""
        raise NotImplementedError

    def read_answer(self, form: Form) -> list[BodyUnit]:
        """Return the units of an answer. It is one, unless a service runs tools in the middle of
        it."""
        return [BodyUnit("answer", form, self.read_form("answer", form))]

    def get_field(self, value: Mapping[str, Any], key: str) -> Any:
        """Return a field of a response; None if it is missing."""
        return value.get(key)

    def find_value(self, value: Any, path: str) -> Any:
        """Return the value at a path such as `choices.0.finish_reason`; None if there is none."""
        for key in path.split("."):
            if isinstance(value, list) and value and key == "0":
                value = value[0]
            elif isinstance(value, Mapping):
                value = self.get_field(value, key)
            else:
                return None
        return value

    def read_model(self, response: Mapping[str, Any]) -> str | None:
        """Return the model that a response names."""
        model = self.find_value(response, self.model_path)
        return model if isinstance(model, str) else None

    def read_facts(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a log keeps about a response: its id, why it stopped, whether it is stored,
        its service tier, and the provider's diagnostics. Only what the provider gave."""
        facts: dict[str, Any] = {}
        for name, paths in self.fact_paths.items():
            for path in paths:
                value = self.find_value(response, path)
                is_fact = value not in (None, "", [], {}) and isinstance(value, FACT_TYPES[name])
                if is_fact and name not in facts:
                    facts[name] = value
        cleaned: dict[str, Any] = clean_value(facts)
        return cleaned

    def read_usage(self, usage: Any) -> dict[str, int] | None:
        """Return tokens as they are kept: all that were read and written, and of these the ones
        that came from the cache or were put there, unless there are none. A value that is not a
        number counts as 0."""
        if not isinstance(usage, Mapping):
            return None
        counts: dict[str, int] = {}
        for name, paths in self.usage_paths.items():
            found = [self.find_value(usage, path) for path in paths]
            tokens = sum(value for value in found if type(value) is int)
            if tokens or name in ("input", "output"):
                counts[name] = tokens
        return counts

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

    def pack_form(self, form: Form) -> Form:
        """Return a form as the log keeps it: JSON cannot hold bytes."""
        return form

    # --- what goes back to the provider that gave it ---

    def join_forms(self, forms: list[Form]) -> Form | None:
        """Join the forms of the events of one answer; None if they cannot be joined."""
        return concatenate_forms(forms)

    def put_before(self, written: Form, form: Form) -> list[Form]:
        """Put a written form before the first form of an answer."""
        return [written, form]

    def find_refusal(self, role: str, parts: list[Part], model: str | None) -> str:
        """Return the rule by which the service refuses a form of these parts; empty if it takes it.
        `model` is the one that the form came from."""
        return ""

    def repair_form(self, form: Form, parts: list[Part], stored: bool) -> tuple[Form, list[str]]:
        """Return a form of these parts without what the service refused in a recording, and a
        report of each change."""
        return form, []

    def continues_paused(self, before: Form, form: Form) -> bool:
        """Return True if an answer continues one that the service paused."""
        return False

    def trim_form(self, form: Form) -> Form:
        """Return the form of an answer without whitespace at its end."""
        return form

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
        """Return a whole request, and a report of what the format cannot express. It shares nothing
        with the settings.

        `model` replaces that of the settings.
        """
        repairs: list[Repair] = []
        model = model or settings.model
        request: Body = {} if model is None else {self.model_key: model}
        request.update(body)
        tools = self._choose_tools(settings.tools, repairs)
        if tools:
            forms = [self._write_tool_form(tool, repairs) for tool in tools]
            merge_fields(request, self.write_tools(forms))
        parameters = drop_absent(deepcopy(dict(settings.params)))
        own = parameters.get(self.name)
        if not isinstance(own, Mapping):
            own = {}
        merge_fields(request, self._choose_own_fields(own, repairs))
        if not own.get("tools"):
            drop_tool_choice(parameters, [tool["name"] for tool in tools], repairs)
        for name, value in parameters.items():
            self._add_parameter(request, name, value, model, repairs)
        return request, repairs

    def _add_parameter(
        self, request: Body, name: str, value: Any, model: str | None, repairs: list[Repair]
    ) -> None:
        """Add a parameter. Report it if its value is of another type than providers take."""
        expected = find_expected_value(name, value)
        if expected:
            why = f"{name} = {value!r:.60} is not {expected}: it was left out"
            repairs.append(Repair("parameter", None, why))
        elif name in self.own_parameters:
            merge_fields(request, self.write_own_parameter(name, value))
        elif name not in FORMATS:
            self._add_canonical_parameter(request, name, value, model, repairs)

    def _add_canonical_parameter(
        self, request: Body, name: str, value: Any, model: str | None, repairs: list[Repair]
    ) -> None:
        """Add a parameter that all providers know. Report it if the format cannot express it."""
        fields = self.write_parameter(name, value, model)
        is_set = bool(fields)
        for path, field in fields.items():
            is_set = set_field(request, path, field) and is_set
        if not is_set:
            why = f"the format {self.name} cannot say {name} = {value!r:.60}: it was left out"
            repairs.append(Repair("parameter", None, why))

    def _choose_own_fields(self, own: Mapping[str, Any], repairs: list[Repair]) -> Body:
        """Return the fields that are for this format only, without those of the conversation."""
        fields: Body = {}
        for name, value in drop_absent(own).items():
            if name not in self.conversation_fields:
                fields[name] = value
                continue
            why = f"the parameter {name} would replace the conversation: it was left out"
            repairs.append(Repair("parameter", None, why))
        return fields

    def write_tool(self, tool: ToolDefinition) -> Block:
        """Write the definition of a tool."""
        raise NotImplementedError

    def write_tools(self, tools: list[Block]) -> Body:
        """Return the field that has the tools."""
        return {"tools": tools}

    def write_tool_choice(self, mode: str, name: str | None) -> Body:
        """Return the fields of a tool choice by their paths: `mode` is auto, none, required or
        tool. There are none if the format cannot express it."""
        if mode == "tool":
            return {self.choice_path: self.write_named_choice(name)}
        choice = deepcopy(self.tool_choices.get(mode))
        return {self.choice_path: choice} if choice else {}

    def write_named_choice(self, name: str | None) -> Any:
        """Write the choice of the tool of this name."""
        raise NotImplementedError

    def write_parameter(self, name: str, value: Any, model: str | None) -> Body:
        """Return the fields of a canonical parameter by their paths; none if there are none."""
        if name == "tool_choice":
            mode, tool = read_tool_choice(value)
            return self.write_tool_choice(mode, tool and self.make_legal_name(tool))
        if name not in self.parameters:
            return {}
        # All but OpenAI want a list of stop sequences, even for one.
        if name == "stop" and isinstance(value, str):
            value = [value]
        return {self.parameters[name]: value}

    def write_own_parameter(self, name: str, value: Any) -> Body:
        """Return the field of one of the provider's own parameters."""
        return {name: value}

    def _choose_tools(
        self, tools: Iterable[ToolDefinition], repairs: list[Repair]
    ) -> list[ToolDefinition]:
        """Return the tools that the format can express, and report the others."""
        chosen: list[ToolDefinition] = []
        for tool in tools:
            native = tool.get("native")
            if native is None or "parameters" in tool or self._find_own_form(tool) is not None:
                chosen.append(tool)
                continue
            owner = native.get("format")
            why = f"the tool {tool['name']!r} is known to {owner!r} only and was left out"
            repairs.append(Repair("tools", None, why))
        return chosen

    def _find_own_form(self, tool: ToolDefinition) -> Block | None:
        """Return the definition of a tool in this format, if the settings have it."""
        native = tool.get("native")
        form = native.get("wire") if native and native.get("format") == self.name else None
        return dict(form) if isinstance(form, Mapping) else None

    def _write_tool_form(self, tool: ToolDefinition, repairs: list[Repair]) -> Block:
        """Write the definition of a tool under the name that its calls have in the request."""
        tool = deepcopy(tool)
        form = self._find_own_form(tool)
        if form is not None:
            return form
        name = self.make_legal_name(tool["name"])
        if name != tool["name"]:
            repairs.append(Repair("name", None, self.explain_name(tool["name"], name)))
        return self.write_tool({**tool, "name": name})

    def make_legal_name(self, name: str) -> str:
        """Return the name of a tool as the service accepts it: still readable, and unique."""
        if self.tool_names.fullmatch(name):
            return name
        if is_blank(name):
            return NO_NAME
        readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40].strip("_") or "tool"
        if not readable[0].isalpha():
            readable = f"tool_{readable}"
        return f"{readable}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    def is_legal_call(self, call: Call) -> bool:
        """Return True if the service accepts the id and the name of a call."""
        if self.tool_names.fullmatch(call.name) is None:
            return False
        return self.call_ids is None or self.call_ids.fullmatch(call.id or "") is not None

    def explain_name(self, name: str, legal: str) -> str:
        """Return why a tool has another name in a request."""
        return f"{self.name} refuses the tool name {name!r}: it is {legal!r}"

    # --- the prompt cache ---

    def mark_cache(self, body: Body, model: str | None) -> Body:
        """Return a body with breakpoints of the prompt cache: cached input costs a tenth.

        A breakpoint says "cache everything up to here". Most providers cache by themselves.
        """
        return body

    def drop_extra_marks(self, body: Body) -> tuple[Body, list[str]]:
        """Return a whole request without the breakpoints that are too many, and a report of
        that."""
        return body, []


# --- writing ---


def list_result_order(turn: AnswerTurn) -> Sequence[int]:
    """Return the indexes of the calls in the order of their results: that of the calls, unless all
    results came in another one."""
    if len(turn.arrivals) < len(turn.calls):
        return range(len(turn.calls))
    return turn.arrivals


# --- reading ---


# Arguments of a call that was cut off before any of them arrived. They are not JSON, so that no
# tool runs with them, as it would with empty ones.
CUT_ARGUMENTS = "{"


def cut_arguments(text: str) -> str:
    """Return the arguments of a call that was cut off, which are not JSON, even if all of them
    arrived."""
    if read_arguments(text).is_same:
        return text.rstrip()[:-1] or CUT_ARGUMENTS
    return text


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
    return Other(what, words=text)


def is_unread(key: str) -> bool:
    """Return True if a field is nothing for a model to read."""
    return key.startswith("encrypted") or key.endswith(("signature", "id", "type"))


def list_lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts in a value, each after the name of its field."""
    if isinstance(value, dict):
        for key, item in value.items():
            if is_readable_field(value, str(key)):
                yield from list_lines(item, str(key))
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


# --- settings ---


def read_tool_choice(value: Any) -> tuple[str, str | None]:
    """Return the mode and the name of a canonical tool choice: "auto", "none", "required", or
    {"name": …} for one tool."""
    if value in ("auto", "none", "required"):
        return str(value), None
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return "tool", value["name"]
    return "", None


def drop_tool_choice(parameters: Body, tools: Sequence[str], repairs: list[Repair]) -> None:
    """Remove a tool choice that none of the tools fits: "'tool_choice' is only allowed when 'tools'
    are specified" (OpenAI). Report it, if it means that a tool must be called."""
    choice = parameters.get("tool_choice", "auto")
    _, name = read_tool_choice(choice)
    if tools and (name is None or name in tools):
        return
    parameters.pop("tool_choice", None)
    if choice not in ("auto", "none"):
        missing = f"there is no tool {name!r}" if tools else "there are no tools to choose from"
        repairs.append(Repair("parameter", None, f"{missing}: tool_choice was left out"))


def drop_absent(parameters: Mapping[str, Any]) -> Body:
    """Return the parameters that have a value."""
    return {name: value for name, value in parameters.items() if value is not None}


def is_text_or_texts(value: Any) -> bool:
    """Return True if a value is a text or a list of texts."""
    texts = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(text, str) for text in texts)


# What canonical parameters take (a bool is no number), and its description.
EXPECTED_VALUES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "max_tokens": (lambda value: type(value) is int and value > 0, "a number of tokens"),
    "temperature": (lambda value: type(value) in (int, float), "a number"),
    "top_p": (lambda value: type(value) in (int, float), "a number"),
    "stop": (is_text_or_texts, "a text or a list of texts"),
    "effort": (lambda value: isinstance(value, str), "a word such as 'low'"),
    # A number of tokens, or a provider's own description.
    "thinking": (
        lambda value: type(value) is int or isinstance(value, Mapping),
        "a number of tokens",
    ),
}


def find_expected_value(name: str, value: Any) -> str:
    """Return a description of the values that a canonical parameter takes; empty if `value` is one
    of them."""
    if name not in EXPECTED_VALUES:
        return ""
    is_expected, description = EXPECTED_VALUES[name]
    return "" if is_expected(value) else description


def describe_tool(tool: ToolDefinition) -> Body:
    """Return the name of a tool, and its description if there is one."""
    if tool.get("description"):
        return {"name": tool["name"], "description": tool["description"]}
    return {"name": tool["name"]}


def get_schema(tool: ToolDefinition) -> Any:
    """Return the JSON schema of a tool's arguments."""
    return tool.get("parameters", {"type": "object", "properties": {}})


def set_field(body: Body, path: str, value: Any) -> bool:
    """Set the field at a path such as `generationConfig.topP`. Return False if a field on the way
    is not an object."""
    *outer, last = path.split(".")
    for key in outer:
        body = body.setdefault(key, {})
        if not isinstance(body, dict):
            return False
    body[last] = value
    return True


def merge_fields(body: Body, fields: Body) -> None:
    """Add fields to a body. Objects on both sides are merged."""
    for key, value in fields.items():
        before = body.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged = dict(before)
            merge_fields(merged, value)
            value = merged
        body[key] = value
