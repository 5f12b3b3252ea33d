"""A request as JSON with gaps, made by the format's own writers from placeholders.

    {"role":"user","content":"…"}
    {"id":"…","type":"function","function":{"name":"…","arguments":"…"}}

So the constant parts of a request are encoded once, not ten thousand times.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from backstory.wire.formats.base import Form, Format
from backstory.wire.json_values import orjson

# Marks stand for texts, and for objects. With their quotes, as JSON has them, they are in no other text.
TEXT, ID, NAME, GIVEN = "\x01text", "\x01id", "\x01name", "\x01given"
OBJECT, ONE, OTHER = {"\x01object": 0}, {"\x01one": 0}, {"\x01other": 0}

# What a request is made of, one letter each: what the user says, and the system between others; an answer of
# words alone; the words of an answer with calls, its first call, the first call of an answer without words,
# and a further call; a result, and one that failed.
USER, SYSTEM, ANSWER, SPOKEN, FIRST_CALL, SILENT, CALL, RESULT, FAILED = "USAPDQCRF"
START, END = " ", "."
_OF_MODEL = (ANSWER, SPOKEN, FIRST_CALL, SILENT, CALL)


class Template(NamedTuple):
    """The constant parts of a request, between the gaps."""

    joints: Mapping[tuple[str, str], bytes]  # what is between two letters' gaps
    results: Mapping[str, bytes]  # within a result: between its id (or name) and its text
    calls: Mapping[
        str, bytes
    ]  # a call, with `%b` for its id (where there are ids), name and arguments
    has_ids: bool
    carries_text: bool  # are the arguments a text?
    user: tuple[bytes, bytes]  # what is around the user's forms in their message

    def between(self, letters: str) -> list[bytes]:
        """The constant parts between consecutive letters."""
        return list(map(self.joints.__getitem__, pairwise(letters)))

    def around(
        self, system: list[Form], names: Iterable[str], format: Format
    ) -> tuple[bytes, bytes]:
        """What comes before and after all messages."""
        body = format.body(system, ["user"], [_marked(format, ONE)], names)
        before, behind = self.user
        head, tail = _json(body).split(before + _json(ONE) + behind)
        return head, tail


@cache
def template(format: Format) -> Template:
    """The template of a format."""
    id, key = ("", NAME) if format.ids is None else (ID, ID)
    call = _json(format.call(id, NAME, OBJECT, GIVEN))
    carries_text = _json(GIVEN) in call
    marks = [*([] if format.ids is None else [ID]), NAME, GIVEN if carries_text else OBJECT]
    result = _cut(format.result(id, NAME, TEXT, False, ""), key, TEXT)
    failed = _cut(format.result(id, NAME, TEXT, True, ""), key, TEXT)
    spoken, rest = _cut(format.step([TEXT], [ONE, OTHER], None), TEXT)
    words_to_call, rest = rest.split(_json(ONE)[:-1])
    end_of_first, end = rest.split(b"," + _json(OTHER))
    silent = _inner(format.step([], [ONE], None)).split(_json(ONE)[:-1])[0]
    user = _cut(format.said("user", TEXT, None), TEXT)
    system = _cut(format.said("system", TEXT, None), TEXT)
    answer = _cut(format.step([TEXT], [], None), TEXT)
    forms = {
        USER: user,
        SYSTEM: system,
        ANSWER: answer,
        SPOKEN: [spoken, b""],
        SILENT: [silent, end],
    }
    forms |= {RESULT: [result[0], result[2]], FAILED: [failed[0], failed[2]]}
    forms |= {FIRST_CALL: [b"", end], CALL: [b"", end]}
    messages = _messages(format)
    inside = {(SPOKEN, FIRST_CALL): words_to_call}
    inside |= {(before, CALL): b"," for before in (FIRST_CALL, SILENT, CALL)}
    first = _blank(call[:-1] + end_of_first, marks)
    return Template(
        joints=_joints(forms, messages, format) | inside,
        results={RESULT: result[1], FAILED: failed[1]},
        calls={FIRST_CALL: first, SILENT: first, CALL: _blank(call, marks)},
        has_ids=format.ids is not None,
        carries_text=carries_text,
        user=messages["user"],
    )


def _json(value: Any) -> bytes:
    return orjson.dumps(value)


def _inner(form: Form) -> bytes:
    """A form as it is among others: a list without its brackets."""
    return _json(form)[1:-1] if isinstance(form, list) else _json(form)


def _cut(form: Form, *marks: str) -> list[bytes]:
    """What is around the placeholders. The quotes of a text are constant, too."""
    pieces, rest = [], _inner(form)
    for mark in marks:
        piece, rest = rest.split(_json(mark)[1:-1])
        pieces.append(piece)
    return [*pieces, rest]


def _blank(json: bytes, marks: list[Any]) -> bytes:
    json = json.replace(b"%", b"%%")
    for mark in marks:
        found = _json(mark)
        json = json.replace(found[1:-1] if isinstance(mark, str) else found, b"%b")
    return json


def _marked(format: Format, mark: Any) -> Form:
    """A form that contains only a placeholder."""
    return [mark] if isinstance(format.said("user", TEXT, None), list) else mark


def _messages(format: Format) -> dict[str, tuple[bytes, bytes]]:
    """By role, what is around the forms of one message; nothing if each form is a message."""
    forms = [_marked(format, ONE), _marked(format, OTHER)]
    [(user, model)] = format.body([], ["user", "model"], forms, ()).values()
    before, behind = _json(user).split(_json(ONE))
    model_before, model_behind = _json(model).split(_json(OTHER))
    return {"user": (before, behind), "model": (model_before, model_behind)}


def _joints(
    forms: Mapping[str, list[bytes]], messages: Mapping[str, tuple[bytes, bytes]], format: Format
) -> dict[tuple[str, str], bytes]:
    """What is between the gaps of any two forms: the end of one, perhaps of its message, and the beginning of
    the other."""
    found: dict[tuple[str, str], bytes] = {}
    for letter, (opening, closing) in forms.items():
        role = "model" if letter in _OF_MODEL else "user"
        found[START, letter] = messages[role][0] + opening
        found[letter, END] = closing + messages[role][1]
        for earlier, (_, closing_earlier) in forms.items():
            other = "model" if earlier in _OF_MODEL else "user"
            is_one = format.alternates and role == other
            between = b"," if is_one else messages[other][1] + b"," + messages[role][0]
            found[earlier, letter] = closing_earlier + between + opening
    return found
