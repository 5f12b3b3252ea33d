"""What an event says in the form of another framework: files, speakers, results of tools."""

import pytest

from backstory import Event, wire
from backstory.adapters.turns import UNSHOWN, answered, files, message_of, said


def said_by_someone(format, *content):
    role = {"role": "user", "parts" if format == "gemini" else "content": list(content)}
    [event] = wire.load({"contents" if format == "gemini" else "messages": [role]}, format)
    return Event.of(1, *event)


TEXT, STORED = {"type": "text", "text": "Look"}, {"type": "file", "file": {"file_id": "file-1"}}
PIXEL = "data:image/png;base64,AAAA"
PICTURE = {"type": "image_url", "image_url": {"url": PIXEL}}
READ_ALOUD = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "Hello"},
}
AT_URL = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}


UPLOADED = {"type": "container_upload", "file_id": "f"}
NEW = {"type": "something_new"}
NO_DOCUMENT = "(a document that cannot be shown here)"


@pytest.mark.parametrize(
    ("event", "pieces"),
    [
        (said_by_someone("openai", STORED), [UNSHOWN]),
        (said_by_someone("openai", TEXT, STORED), ["Look", UNSHOWN]),
        (said_by_someone("anthropic", UPLOADED), [NO_DOCUMENT]),
        (said_by_someone("anthropic", TEXT, UPLOADED), [f"Look\n\n{NO_DOCUMENT}"]),
        (said_by_someone("anthropic", NEW), [UNSHOWN]),
        (said_by_someone("anthropic", READ_ALOUD), ["<document>\nHello\n</document>"]),
        (said_by_someone("anthropic", AT_URL), [NO_DOCUMENT]),
    ],
    ids=[
        "stored",
        "stored beside text",
        "uploaded",
        "beside text",
        "new",
        "document",
        "document at a url",
    ],
)
def test_what_cannot_be_shown_is_said_in_words(event, pieces):
    assert files(event) == [(None, text) for text in pieces]


@pytest.mark.parametrize("format", ["anthropic", "gemini", "bedrock"])
def test_a_file_that_only_its_service_has_is_told_elsewhere(format):
    [block] = said(said_by_someone("openai", STORED), format)
    assert block["text"] == NO_DOCUMENT
    [block] = said(said_by_someone("openai", TEXT, STORED), format)
    assert block["text"] == f"Look\n\n{NO_DOCUMENT}"


@pytest.mark.parametrize(
    ("content", "pieces"),
    [
        ("Hello", [(None, "ann: Hello")]),
        ([TEXT, PICTURE], [(None, "ann: Look"), ("image/png", PIXEL)]),
        ([PICTURE], [(None, "ann:"), ("image/png", PIXEL)]),
    ],
    ids=["text", "text and picture", "picture"],
)
def test_a_speaker_among_several_is_named_in_front_of_the_text(content, pieces):
    body = {"messages": [{"role": "user", "name": "ann", "content": content}]}
    [event] = wire.load(body, "openai")
    assert files(Event.of(1, *event)) == pieces
    [block, *_] = said(Event.of(1, *event), "anthropic")
    assert block["text"] == pieces[0][1]


# --- what tools gave ---

GIVEN = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
KEPT = {"type": "image", "source": {"type": "file", "file_id": "f"}}
NO_IMAGE = "(an image that cannot be shown here)"


def given_by_a_tool(*content):
    result = {"type": "tool_result", "tool_use_id": "c", "content": list(content)}
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    messages = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return Event.of(1, *wire.load({"messages": messages}, "anthropic")[-1])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([GIVEN], NO_IMAGE),
        ([TEXT, GIVEN], f"Look\n\n{NO_IMAGE}"),
        ([TEXT, KEPT], f"Look\n\n{NO_IMAGE}"),
    ],
    ids=["image", "text and image", "text and a stored image"],
)
def test_a_result_that_is_more_than_text_says_so(content, words):
    assert answered(given_by_a_tool(*content)) == words


def test_a_result_goes_as_it_is_where_the_format_has_a_place_for_it():
    found = given_by_a_tool(TEXT, GIVEN, KEPT)
    assert answered(found, "anthropic") == [TEXT, GIVEN, KEPT]
    assert answered(found, "openai-responses") == [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        {"type": "input_text", "text": NO_IMAGE},
    ]
    assert answered(found, "bedrock") == [
        {"text": "Look"},
        {"image": {"format": "png", "source": {"bytes": bytes(3)}}},
        {"text": NO_IMAGE},
    ]


@pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic", "bedrock"])
@pytest.mark.parametrize("texts", [[], ["a"], ["a", "b"]], ids=str)
def test_a_result_that_is_only_text_is_the_text_of_its_event(texts, format):
    found = given_by_a_tool(*({"type": "text", "text": text} for text in texts))
    assert answered(found, format) == "\n\n".join(texts)


def test_a_result_of_blocks_in_a_form_that_usually_has_text():
    wire_form = {"role": "tool", "tool_call_id": "c", "content": [TEXT, PICTURE]}
    data = {"id": "c", "native": {"provider": "openai", "wire": wire_form}}
    assert answered(Event.of(1, "tool_result", "Look", data)) == f"Look\n\n{UNSHOWN}"


@pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic", "bedrock"])
def test_a_result_of_nothing_is_empty(format):
    data = {"id": "c", "native": {"provider": "openai"}}
    data["native"]["wire"] = {"role": "tool", "tool_call_id": "c", "content": None}
    assert answered(Event.of(1, "tool_result", "", data), format) == ""


def test_a_request_that_was_a_bare_text_is_a_message():
    [event] = wire.load({"input": "Look\0"}, "openai-responses")
    message, is_whole = message_of(Event.of(1, *event), "openai-responses")
    assert (message, is_whole) == ({"role": "user", "content": "Look\0"}, True)


def test_what_openai_has_no_form_for_goes_to_those_who_have():
    assert said(said_by_someone("anthropic", AT_URL), "anthropic") == [AT_URL]
    shared = {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}}
    both = said_by_someone("gemini", {"text": "Look"}, shared)
    assert said(both, "gemini") == [{"text": "Look"}, shared]
    assert said(both, "anthropic") == [TEXT, AT_URL]


@pytest.mark.parametrize("texts", [[""], ["a"], ["a", "b"]], ids=str)
def test_what_is_only_text_stays_the_text_of_the_event(texts):
    assert (
        files(said_by_someone("openai", *({"type": "text", "text": text} for text in texts)))
        is None
    )
