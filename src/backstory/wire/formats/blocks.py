"""The base of formats whose messages are lists of blocks: Anthropic, Bedrock and Gemini."""

import math
from collections.abc import Mapping
from functools import partial
from itertools import takewhile
from typing import Any, ClassVar

from backstory.wire.fields import read_each
from backstory.wire.formats.base import (
    Block,
    Body,
    Format,
    WrittenBody,
)
from backstory.wire.turns import (
    BETWEEN,
    AnswerTurn,
    BodyUnit,
    Call,
    Form,
    MessageTurn,
    Other,
    Part,
    Reasoning,
    Repair,
    Result,
    Text,
    Turn,
    is_blank,
    split_leading_system,
)

# "A maximum of 4 blocks with cache_control may be provided"
MAX_BREAKPOINTS = 4
# The reasons for which Claude and Bedrock cut an answer off; None: its stream ended without one.
CUT_REASONS = (None, "max_tokens", "model_context_window_exceeded")


class BlockFormat(Format):
    """A format whose messages are lists of blocks. A form is the content of a message."""

    # The provider's name of each role.
    role_names: ClassVar[Mapping[str, str]]
    # The keys of the messages in a body, and of the blocks in a message.
    messages_key: ClassVar[str] = "messages"
    content_key: ClassVar[str] = "content"

    # --- writing ---

    def write_message(self, turn: MessageTurn) -> Form:
        """Write the blocks of a system or user message."""
        if turn.content is not None:
            return self.write_content(turn.content)
        return [self.write_text(turn.text)]

    def write_answer(self, turn: AnswerTurn) -> Form:
        """Write texts, then calls. Anything after a call is refused: "tool_use ids were found
        without tool_result blocks immediately after" (recorded by opencode, haiku-4.5,
        2026-05-05)."""
        return [*map(self.write_text, turn.texts), *map(self.write_call, turn.calls)]

    def write_call(self, call: Call) -> Block:
        """Write a call."""
        raise NotImplementedError

    def list_blocks(self, form: Form) -> Any:
        """Return a form as a list of blocks."""
        return form

    def join_blocks(self, forms: list[Form]) -> Form:
        """Return the only form as it is, or a list of the blocks of several."""
        if len(forms) == 1:
            return forms[0]
        blocks: list[Block] = []
        for form in forms:
            blocks.extend(self.list_blocks(form))
        return blocks

    def write_system(self, form: Form) -> Body:
        """Return the field that has the system text on top."""
        return {"system": form}

    def write_body(self, turns: list[Turn]) -> WrittenBody:
        """Write the system text on top, and messages. Neighbours of one role are one message."""
        leading, rest = split_leading_system(turns)
        body: Body = {}
        if leading:
            system = [form for _, form, _ in self.write_forms(leading)]
            body = self.write_system(self.join_blocks(system))
        messages: list[Body] = []
        sources: list[Turn | Result] = []
        starts: list[int] = []
        key = self.content_key
        last_role, is_joined = "", False  # of the last message
        for role, form, source in self.write_forms(rest):
            sources.append(source)
            if role != last_role:
                starts.append(len(sources) - 1)
                messages.append({"role": self.role_names[role], key: form})
                last_role, is_joined = role, False
                continue
            message = messages[-1]
            if not is_joined:  # a form is never changed, only a copy of it
                message[key] = [*self.list_blocks(message[key])]
                is_joined = True
            message[key] += self.list_blocks(form)
        body[self.messages_key] = messages
        return WrittenBody(body, sources, starts)

    # --- reading ---

    def read_form(self, role: str, form: Form) -> list[Part]:
        """Return the parts of a content."""
        return read_each(self.list_blocks(form), partial(self.read_block, role))

    def read_system_blocks(self, blocks: Any) -> list[BodyUnit]:
        """Return the blocks of system text one by one."""
        return read_each(blocks, self._read_system_block)

    def _read_system_block(self, block: Block) -> list[BodyUnit]:
        return [BodyUnit("system", [block], self.read_block("system", block), is_on_top=True)]

    def read_content(self, role: str, content: Form) -> list[BodyUnit]:
        """Return the units of a message: of the user, the results one by one, then the rest."""
        if role != "user" or not isinstance(content, list):
            return [BodyUnit(role, content, self.read_form(role, content))]
        units: list[BodyUnit] = []
        rest = BodyUnit("user", [], [])
        for unit in read_each(content, self._read_user_block):
            if unit.role == "result":
                units.append(unit)
            else:
                rest.form.extend(unit.form)
                rest.parts.extend(unit.parts)
        # An empty message is logged, and its request reports that it is left out.
        if rest.form or not content:
            units.append(rest)
        return units

    def _read_user_block(self, block: Block) -> list[BodyUnit]:
        role = "result" if self.is_result(block) else "user"
        return [BodyUnit(role, [block], self.read_block(role, block))]

    def is_result(self, block: Block) -> bool:
        """Return True if a block is the result of a call."""
        raise NotImplementedError

    def read_block(self, role: str, block: Block) -> list[Part]:
        """Return the parts of a block."""
        raise NotImplementedError

    # --- what goes back to the provider that gave it ---

    def is_thinking(self, block: Block) -> bool:
        """Return True if a block is thinking that has to stay first in an answer."""
        return False

    def put_before(self, written: Form, form: Form) -> list[Form]:
        """Put blocks before the first form of an answer, but after its thinking: "a final
        `assistant` message must start with a thinking block" (claude-code#11978)."""
        blocks = form if isinstance(form, list) else ()
        count = len(list(takewhile(self.is_thinking, blocks)))
        if count == 0:
            return [written, form]
        return [form[:count], written, form[count:]]

    def remove_refused_blocks(self, form: Form, parts: list[Part]) -> tuple[Form, list[str]]:
        """Remove empty text, and then thinking at the end, where an answer has it that was cut off:
        "The final block in an assistant message cannot be `thinking`" (forgecode#3071,
        claude-code#11514)."""
        changes: list[str] = []
        if EMPTY in parts:
            form, changes = remove_empty_text(form)
        if has_empty_result(parts):
            form, changes = self.repair_result(form)
        if not isinstance(form, list):
            return form, changes
        count = len(form)
        while count > 0 and self.is_thinking(form[count - 1]):
            count -= 1
        if count < len(form):
            changes.append("thinking at its end is left out: the service would refuse it")
            form = form[:count]
        return form, changes

    def trim_form(self, form: Form) -> Form:
        """Return the form of an answer without whitespace at its end."""
        if isinstance(form, str):
            return form.rstrip()
        blocks = [*self.list_blocks(form)]
        while blocks and has_text_field(blocks[-1]):
            block = blocks.pop()
            text = block["text"].rstrip()
            if text == block["text"]:
                return form
            if text:
                return [*blocks, block | {"text": text}]
        return blocks

    def repair_result(self, form: Form) -> tuple[Form, list[str]]:
        """Remove empty text from the content of a result."""
        return form, []

    # --- around the messages ---

    def drop_thinking(self, fields: Any, messages: list[Body]) -> list[Repair]:
        """Remove extended thinking from the fields of a request whose last turn began without it,
        as after a change of the model: "Expected `thinking` or `redacted_thinking`, but found
        `tool_use`" (pydantic-ai#2453, haystack-core-integrations#2146)."""
        match fields:
            case {"thinking": {"type": "enabled"}}:
                why = self.explain_lack(messages)
                if why:
                    del fields["thinking"]
                    return [Repair("parameter", None, f"thinking was left out: {why}")]
        return []

    def explain_lack(self, messages: list[Body]) -> str:
        """Return why the last turn cannot be continued with thinking; empty if it can."""
        last = messages[-1] if messages else None
        if last is not None and last["role"] == "assistant":
            blocks = self.list_blocks(last[self.content_key])
            # "a final `assistant` message must start with a thinking block"
            if not any(map(self.is_thinking, blocks[:1])):
                return "the model continues an answer that began without it"
        elif self.lacks_thinking(messages):
            return "the last turn runs tools, and began without it"
        return ""

    def lacks_thinking(self, messages: list[Body]) -> bool:
        """Return True if the last turn runs tools, and no answer in it has thinking."""
        has_results = False
        for message in reversed(messages):
            blocks = self.list_blocks(message[self.content_key])
            if any(map(self.is_thinking, blocks)):
                return False
            if message["role"] == "user":
                if not any(map(self.is_result, blocks)):
                    break
                has_results = True
        return has_results

    # --- the prompt cache ---

    def mark_last(self, blocks: list[Block]) -> list[Block]:
        """Return blocks with a breakpoint at their end."""
        raise NotImplementedError

    def mark_messages(self, body: Body) -> Body:
        """Return a body with breakpoints after the system text and the user's last two messages,
        instead of those of a loaded history. The second last is where the previous request ended,
        so that its cache is found again."""
        bare = MarkRemover().remove(body)
        messages: list[Body] = []
        for message in bare["messages"]:
            # Marked content is a list of blocks, and stays one when the breakpoint moves on.
            messages.append(message | {"content": self.list_blocks(message["content"])})
        asked = [message for message in messages if message["role"] == "user"]
        for message in asked[-2:]:
            message["content"] = self.mark_last(message["content"])
        marked = bare | {"messages": messages}
        system = self.list_blocks(bare.get("system") or [])
        if system:
            marked["system"] = self.mark_last(system)
        else:
            marked.pop("system", None)  # there was nothing but a breakpoint
        return marked

    def drop_extra_marks(self, body: Body) -> tuple[Body, list[str]]:
        """Remove all but the last four breakpoints: tools and a loaded history may have more. The
        one of the whole request, which Anthropic's service moves by itself, is one of them
        ("Automatic caching" in its guide)."""
        limit = MAX_BREAKPOINTS - (body.get("cache_control") is not None)
        count = sum(count_marks(body.get(key)) for key in MARKED_FIELDS) - limit
        if count <= 0:
            return body, []
        why = f"{count} cache breakpoints left out: there may be {MAX_BREAKPOINTS}"
        return MarkRemover(count).remove(body), [why]


# --- reading ---


def join_texts(blocks: Any) -> str:
    """Return the texts of the blocks of a document."""
    if not isinstance(blocks, list):
        return ""
    return BETWEEN.join([block["text"] for block in blocks if has_text_field(block)])


def has_text_field(block: Any) -> bool:
    """Return True if a block has text, even blank text."""
    return isinstance(block, dict) and isinstance(block.get("text"), str)


# --- what goes back, and what is refused ---


EMPTY = Text("")


def has_empty_result(parts: list[Part]) -> bool:
    """Return True if there is empty text in a result."""
    return any(isinstance(part, Result) and EMPTY in (part.content or ()) for part in parts)


def remove_empty_text(form: Form) -> tuple[Form, list[str]]:
    """Return blocks without empty texts, and a report of that."""
    if not isinstance(form, list):
        return form, []
    blocks = [block for block in form if not is_empty_text(block)]
    if len(blocks) == len(form):
        return form, []
    return blocks, ["empty text in it is left out"]


def is_empty_text(block: dict[str, Any]) -> bool:
    """Return True if a block is an empty text. Only Anthropic's blocks have a type."""
    return block.get("text") == "" and block.get("type", "text") == "text"


def is_without_words(parts: list[Part]) -> bool:
    """Return True if there is nothing but blank text. A result may come without any parts."""
    for part in parts:
        if not isinstance(part, Text) or not is_blank(part.text):
            return False
    return bool(parts)


def has_unsigned(parts: list[Part]) -> bool:
    """Return True if there is reasoning without its signature."""
    return any(isinstance(part, Reasoning) and not part.is_signed for part in parts)


def has_more_after_call(parts: list[Part]) -> bool:
    """Return True if something other than a call follows a call. The results of tools that the
    service runs itself come with its next answer."""
    is_called = False
    for part in parts:
        if isinstance(part, Call):
            is_called = True
        elif is_called and not (isinstance(part, Other) and part.what == "server_tool_use"):
            return True
    return False


# --- the prompt cache ---

# The fields of a request that can have breakpoints, in the order in which the services read them.
MARKED_FIELDS = ("tools", "toolConfig", "system", "messages")
# The fields within them.
INNER_FIELDS = ("tools", "content", "source")
# Breakpoints: a field of Anthropic's blocks, and a block of its own of Bedrock.
MARKS = ("cache_control", "cachePoint")


MARK_PLACES = frozenset({*MARKS, *INNER_FIELDS})


def count_marks(value: Any) -> int:
    """Return the number of breakpoints in a block, or in a list of blocks."""
    count = 0
    for block in value if isinstance(value, list) else [value]:
        # Most blocks have none of these fields.
        if not isinstance(block, dict) or MARK_PLACES.isdisjoint(block):
            continue
        for key, inner in block.items():
            if key in INNER_FIELDS:
                count += count_marks(inner)
            elif key in MARKS and inner is not None:
                count += 1
    return count


class MarkRemover:
    """Removes the first breakpoints of a body."""

    def __init__(self, most: float = math.inf) -> None:
        self._rest = most

    def remove(self, body: Body) -> Body:
        """Return a body without the breakpoints."""
        bare = dict(body)
        for key in MARKED_FIELDS:
            if key in body:
                bare[key] = self._copy(body[key])
        return bare

    def _copy(self, value: Any) -> Any:
        """Return a copy without breakpoints. Those within a block (a result, a document, a search
        result) come before that of the block itself."""
        if isinstance(value, list):
            copies = [self._copy(item) for item in value]
            return [copy for copy in copies if copy != {}]
        if not isinstance(value, dict):
            return value
        block = dict(value)
        for key in INNER_FIELDS:
            if key in block:
                block[key] = self._copy(block[key])
        for key in MARKS:
            if self._rest and block.get(key) is not None:
                del block[key]
                self._rest -= 1
        return block
