"""The base of formats whose messages are lists of blocks: Anthropic, Bedrock and Gemini."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from backstory.wire.formats.base import (
    Block,
    Body,
    Format,
    make_usage,
    to_count,
)
from backstory.wire.formats.fields import objects, wrong
from backstory.wire.json_values import write_json
from backstory.wire.turns import (
    BETWEEN,
    Call,
    Form,
    MessageTurn,
    Other,
    Part,
    Reasoning,
    Text,
    Turn,
    Unit,
    count_leading_system,
    is_blank,
)

# "A maximum of 4 blocks with cache_control may be provided"
MAX_BREAKPOINTS = 4


class WrittenMessages(NamedTuple):
    """System text on top (None if there is none), messages, and the positions of each message."""

    system: Form | None
    messages: list[Body]
    origins: list[list[int]]


class BlockFormat(Format):
    """A format whose messages are lists of blocks. A form is the content of a message."""

    # The provider's name of each role.
    role_names: ClassVar[Mapping[str, str]]
    # The key of a message's blocks.
    content_key: ClassVar[str] = "content"

    def write_message(self, turn: MessageTurn) -> Form:
        """Write the blocks of a system or user message."""
        if turn.content is not None:
            return self.write_content(turn.content)
        return [self.write_text(turn.text)]

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

    def write_messages(self, turns: list[Turn]) -> WrittenMessages:
        """Write the system text on top, and messages. Neighbours of one role are one message: the
        first half of rule 9."""
        count = count_leading_system(turns)
        system = [written.form for written in self.write_forms(turns[:count])]
        top = self.join_blocks(system) if system else None
        messages: list[Body] = []
        origins: list[list[int]] = []
        role, joined = "", -1  # of the last message, and the index of the last one that was joined
        for written in self.write_forms(turns[count:]):
            if written.role != role:
                role = written.role
                messages.append({"role": self.role_names[role], self.content_key: written.form})
                origins.append(written.positions)
                continue
            message = messages[-1]
            if joined != len(messages) - 1:  # a form is never changed, only a copy of it
                joined = len(messages) - 1
                message[self.content_key] = [*self.list_blocks(message[self.content_key])]
                origins[-1] = [*origins[-1]]
            message[self.content_key] += self.list_blocks(written.form)
            origins[-1] += written.positions
        return WrittenMessages(top, messages, [sorted(set(places)) for places in origins])

    def read_form(self, role: str, form: Form, path: str) -> list[Part]:
        """Return the parts of a content."""
        parts: list[Part] = []
        for where, block in objects(self.list_blocks(form), path):
            parts.extend(self.read_block(role, block, where))
        return parts

    def read_block(self, role: str, block: Block, path: str) -> list[Part]:
        """Return the parts of a block."""
        raise NotImplementedError

    def is_result(self, block: Block) -> bool:
        """Return True if a block is the result of a call."""
        raise NotImplementedError

    def read_system_blocks(self, blocks: Any, path: str) -> Iterator[Unit]:
        """Yield the blocks of system text one by one."""
        for where, block in objects(blocks, path):
            parts = self.read_block("system", block, where)
            yield Unit("system", [block], parts, where)

    def read_user_blocks(self, blocks: Any, path: str) -> Iterator[Unit]:
        """Yield the results in a user message one by one, then the rest of it."""
        rest: list[Block] = []
        for where, block in objects(blocks, path):
            if self.is_result(block):
                parts = self.read_block("result", block, where)
                yield Unit("result", [block], parts, where)
            else:
                rest.append(block)
        # An empty message is logged, and its request reports that it is left out.
        if rest or not blocks:
            parts = self.read_form("user", rest, path)
            yield Unit("user", rest, parts, path)


# --- reading ---


def read_name(value: Any) -> str | None:
    """Return the name of a file, or None if it is not a string."""
    return value if isinstance(value, str) else None


def join_texts(blocks: Any) -> str:
    """Return the texts of the blocks of a document."""
    texts: list[str] = []
    for block in blocks if isinstance(blocks, list) else ():
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str):
            texts.append(text)
    return BETWEEN.join(texts)


def read_json(value: Any, path: str) -> str:
    """Return the JSON of a tool's output as text."""
    try:
        return write_json(value)
    except (TypeError, ValueError) as error:
        raise wrong(path, f"this is not JSON: {error}") from error


def sum_usage(usage: Any, read: tuple[str, str, str], written: str) -> dict[str, int] | None:
    """Return tokens as they are kept. These services count apart the tokens that were read from the
    cache and those that were written to it."""
    if not isinstance(usage, dict):
        return None
    new, cached, cache_written = [to_count(usage.get(name)) for name in read]
    total = new + cached + cache_written
    return make_usage(total, usage.get(written), cached, cache_written)


# --- what goes back, and what is refused ---


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


def find_turn_ends(messages: list[Body]) -> list[int]:
    """Return the messages that get a breakpoint: the user's last one, and the one where the
    previous request ended, so that its cache is found again."""
    indexes: list[int] = []
    for index, message in enumerate(messages):
        if message["role"] == "user":
            indexes.append(index)
    return indexes[-2:]
