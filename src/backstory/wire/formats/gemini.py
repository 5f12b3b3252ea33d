"""Gemini generateContent, as REST spells it: `{"systemInstruction"?, "contents": [...]}`.

Calls need no ids: a result is known by its name and its place. The first call of each step
carries a thought signature, and where none is known the one that tells the service not to look.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from backstory.wire.body import expect, field, items, name_in, objects, one_of, wrong
from backstory.wire.encoder import compact
from backstory.wire.format import Format, merged
from backstory.wire.images import type_of
from backstory.wire.turns import Answer, Asked, Call, Image, Other, Part, Result, Say, Step, Text, Turn, Unit

NO_SIGNATURE = "skip_thought_signature_validator"
# What was uploaded to Gemini's own file store: the address means nothing to anybody else.
OWN_FILE = re.compile(r"https://generativelanguage\.googleapis\.com/(.*/)?files/")
SDK_SPELLING = "this is an SDK's spelling, REST writes it without underscores"


def write_say(say: Say) -> list[dict[str, Any]]:
    """The parts of a system or user text."""
    parts = [Text(say.text)] if say.parts is None else say.parts
    return [_write_part(part) for part in parts]


def _write_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if part.url is None:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    media_type = type_of(part)
    return {"fileData": {"fileUri": part.url} | ({"mimeType": media_type} if media_type else {})}


def write_step(step: Step) -> list[dict[str, Any]]:
    """Texts, then calls, the first of them signed."""
    parts: list[dict[str, Any]] = [{"text": text} for text in step.texts]
    for index, call in enumerate(step.calls):
        part: dict[str, Any] = {"functionCall": {"name": call.name, "args": call.arguments}}
        parts.append(part if index else part | {"thoughtSignature": NO_SIGNATURE})
    return parts


def write_answer(call: Asked, answer: Answer) -> list[dict[str, Any]]:
    """A response. `output` and `error` are the keys that the service knows."""
    response = {"error" if answer.error else "output": answer.text}
    named = {"id": call.id} if call.id else {}  # a call that went out with an id wants it back
    return [{"functionResponse": named | {"name": call.name, "response": response}}]


def body(system: list[Say], turns: list[Turn]) -> dict[str, Any]:
    """The request's system instruction and contents."""
    on_top = [part for say in system for part in (write_say(say) if say.wire is None else say.wire)]
    contents = [{"role": role, "parts": parts} for role, parts in merged(turns, GEMINI, list)]
    return ({"systemInstruction": {"parts": on_top}} if on_top else {}) | {"contents": contents}


def units(body: Mapping[str, Any]) -> Iterator[Unit]:
    """System parts one by one, then the contents, each user content as its responses and the rest."""
    if "system_instruction" in body:
        raise wrong("system_instruction", SDK_SPELLING)
    if body.get("systemInstruction") is not None:
        instruction = expect(body["systemInstruction"], dict, "systemInstruction")
        for path, part in items(instruction, "parts", "systemInstruction"):
            yield Unit("system", [part], [_read_part(part, path)], path)
    names = Naming()
    for path, content in items(dict(body), "contents"):
        role = one_of(content.get("role", "user"), ("user", "model", "function"), f"{path}.role")
        parts = field(content, "parts", list, path)
        inside = f"{path}.parts"
        if role == "model":
            yield Unit("step", parts, names.called(read("step", parts, inside)), inside)
        else:
            yield from _user_units(parts, inside, names)


def _user_units(parts: list[Any], path: str, names: "Naming") -> Iterator[Unit]:
    rest = []
    for where, part in objects(parts, path):
        if "functionResponse" in part:
            answer = expect(part["functionResponse"], dict, f"{where}.functionResponse")
            yield Unit("result", [part], [names.answered(_read_response(answer, where))], where)
        else:
            rest.append(part)
    if rest:
        yield Unit("user", rest, read("user", rest, path), path)


class Naming:
    """Gives ids to calls that have none, and to results those of the calls they answer: in a step,
    the oldest call of that name that is still open."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def called(self, parts: list[Part]) -> list[Part]:
        """The parts of a step, its calls with ids."""
        self._open = []
        return [self._named(part) if isinstance(part, Call) else part for part in parts]

    def _named(self, call: Call) -> Call:
        self._count += 1
        call = call if call.id else call._replace(id=f"call_{self._count}")
        self._open.append((call.name, call.id or ""))
        return call

    def answered(self, result: Result) -> Result:
        """A result with the id of its call; one that answers nothing keeps its name as its id."""
        for index, (name, id) in enumerate(self._open):
            if (result.id == id) if result.id else (result.name == name):
                del self._open[index]
                return result._replace(id=id)
        return result if result.id else result._replace(id=result.name)


def read(_role: str, form: Any, path: str) -> list[Part]:
    """The parts of a content's parts."""
    return [_read_part(part, where) for where, part in objects(form, path)]


def _read_part(part: dict[str, Any], path: str) -> Part:
    for key in part:
        if "_" in key:
            raise wrong(f"{path}.{key}", SDK_SPELLING)
    if "functionCall" in part:
        call = expect(part["functionCall"], dict, f"{path}.functionCall")
        arguments = expect(call.get("args") or {}, dict, f"{path}.functionCall.args")
        id = _id(call, f"{path}.functionCall")
        return Call(id, name_in(call, "name", f"{path}.functionCall"), arguments)
    if "functionResponse" in part:
        return _read_response(expect(part["functionResponse"], dict, f"{path}.functionResponse"), path)
    if part.get("thought") or (part.get("text") == "" and "thoughtSignature" in part):
        return Other("thought")
    if "text" in part:
        return Text(field(part, "text", str, path))
    if "inlineData" in part or "fileData" in part:
        return _read_image(part, path)
    if not part:
        raise wrong(path, "a part without data")
    return Other(next(iter(part)))


def _id(value: dict[str, Any], path: str) -> str | None:
    return expect(value["id"], str, f"{path}.id") if value.get("id") is not None else None


def _read_response(answer: dict[str, Any], path: str) -> Result:
    inside = f"{path}.functionResponse"
    id, name = _id(answer, inside), name_in(answer, "name", inside)
    match field(answer, "response", dict, inside):
        case {"error": str(text), **rest} if not rest:
            return Result(id, [Text(text)], True, name)
        case {"output": str(text), **rest} | {"result": str(text), **rest} if not rest:
            return Result(id, [Text(text)], False, name)
        case response:
            return Result(id, [Text(_as_text(response, inside))], False, name)


def _as_text(response: dict[str, Any], path: str) -> str:
    try:
        return compact(response)
    except (TypeError, ValueError) as error:
        raise wrong(f"{path}.response", f"this is not JSON: {error}") from error


def _read_image(part: dict[str, Any], path: str) -> Part:
    if "inlineData" in part:
        blob = expect(part["inlineData"], dict, f"{path}.inlineData")
        media_type = field(blob, "mimeType", str, f"{path}.inlineData")
        data = field(blob, "data", str, f"{path}.inlineData")
        return Image(media_type, data, None) if media_type.startswith("image/") else Other(media_type)
    file = expect(part["fileData"], dict, f"{path}.fileData")
    image = Image(file.get("mimeType"), None, field(file, "fileUri", str, f"{path}.fileData"))
    if OWN_FILE.match(image.url or ""):
        return Other("a file in Gemini's store")
    return image if str(type_of(image)).startswith("image/") else Other("fileData")


GEMINI = Format(
    name="gemini",
    ids=None,
    names=re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"),
    alternates=True,
    system_on_top=True,
    system_in_place=False,
    calls_come_last=False,
    image_types=frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
    image_urls=True,
    result_images=False,
    result_errors=True,
    units=units,
    read=read,
    write_say=write_say,
    write_step=write_step,
    write_answer=write_answer,
    body=body,
)
