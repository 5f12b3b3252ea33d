"""Documents, sounds, films and speakers' names go from every format to every other, or their loss is told."""

import base64
import json
import re

import pytest

from backstory.wire import FORMATS, dump, load
from backstory.wire.json_values import encode_body
from tests.wire.maker import PIXEL
from tests.wire.rules import violations
from tests.wire.sdk_types import check


def blob(text):
    return base64.b64encode(text.encode()).decode()


PDF, TEXT, WAV, MP4 = blob("%PDF-1.7 paper"), "Plain words.", blob("RIFF a sound"), blob("a film..")
URL = "https://example.org/paper.pdf"
AT_S3 = {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/picture.png"}}}


def openai(part):
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}, part]}]}


def responses(part):
    return {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Look."}, part]}]}


def anthropic(block):
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}, block]}]}


def gemini(part):
    return {"contents": [{"role": "user", "parts": [{"text": "Look."}, part]}]}


def bedrock(kind, format, data, **more):
    block = {kind: {"format": format, "source": {"bytes": data}, **more}}
    return {"messages": [{"role": "user", "content": [{"text": "Look."}, block]}]}


def source(type, **fields):
    return anthropic({"type": "document", "source": {"type": type, **fields}, "title": "paper"})


WORDS = {"type": "text", "text": TEXT}
PICTURE = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}

# By format and what is sent: the body, and the words or data that have to arrive.
SENT = {
    ("openai", "a PDF"): (
        openai(
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            }
        ),
        PDF,
    ),
    ("openai", "a PDF without its type"): (
        openai({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}),
        PDF,
    ),
    ("openai", "a sound"): (
        openai({"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}),
        WAV,
    ),
    ("openai", "a film by URL"): (
        openai({"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}),
        "https://example.org/a.mp4",
    ),
    ("openai", "a document by URL, as Mistral takes it"): (
        openai({"type": "document_url", "document_url": URL}),
        URL,
    ),
    ("openai", "a PDF's bare data for its address, and its name, as Perplexity takes them"): (
        openai({"type": "file_url", "file_url": {"url": PDF}, "file_name": "a.pdf"}),
        PDF,
    ),
    ("openai", "an image whose type is written large"): (
        openai({"type": "image_url", "image_url": {"url": f"data:image/PNG;base64,{PIXEL}"}}),
        PIXEL,
    ),
    ("openai", "an image that is to be looked at closely"): (
        openai(
            {
                "type": "image_url",
                "image_url": {"url": "https://example.org/a.png", "detail": "high"},
            }
        ),
        "https://example.org/a.png",
    ),
    ("openai-responses", "a PDF"): (
        responses(
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": f"data:application/pdf;base64,{PDF}",
            }
        ),
        PDF,
    ),
    ("openai-responses", "a PDF without its type"): (
        responses({"type": "input_file", "filename": "a.pdf", "file_data": PDF}),
        PDF,
    ),
    ("openai-responses", "a PDF by URL"): (responses({"type": "input_file", "file_url": URL}), URL),
    ("anthropic", "a PDF"): (source("base64", media_type="application/pdf", data=PDF), PDF),
    ("anthropic", "a PDF by URL"): (source("url", url=URL), URL),
    ("anthropic", "a text"): (source("text", media_type="text/plain", data=TEXT), TEXT),
    ("anthropic", "a text in blocks"): (
        source("content", content=[{"type": "text", "text": TEXT}]),
        TEXT,
    ),
    ("anthropic", "a text as content"): (source("content", content=TEXT), TEXT),
    ("anthropic", "an image in a text"): (source("content", content=[WORDS, IMAGE]), PIXEL),
    ("anthropic", "a text with an image"): (source("content", content=[WORDS, IMAGE]), TEXT),
    ("anthropic", "an image for a text"): (source("content", content=[IMAGE]), PIXEL),
    ("anthropic", "what a search found"): (
        anthropic(
            {
                "type": "search_result",
                "source": "https://example.org",
                "title": "paper",
                "content": [{"type": "text", "text": TEXT}],
            }
        ),
        TEXT,
    ),
    ("gemini", "a PDF"): (
        gemini({"inlineData": {"mimeType": "application/pdf", "data": PDF}}),
        PDF,
    ),
    ("gemini", "a PDF by URL"): (
        gemini({"fileData": {"mimeType": "application/pdf", "fileUri": URL}}),
        URL,
    ),
    ("gemini", "a text"): (
        gemini({"inlineData": {"mimeType": "text/csv", "data": blob(TEXT)}}),
        TEXT,
    ),
    ("gemini", "a sound"): (gemini({"inlineData": {"mimeType": "audio/wav", "data": WAV}}), WAV),
    ("gemini", "a film"): (gemini({"inlineData": {"mimeType": "video/mp4", "data": MP4}}), MP4),
    ("bedrock", "a PDF"): (bedrock("document", "pdf", PDF, name="a paper"), PDF),
    ("bedrock", "a text"): (bedrock("document", "md", blob(TEXT), name="a paper"), TEXT),
    ("bedrock", "a sound"): (bedrock("audio", "wav", WAV), WAV),
    ("bedrock", "a film"): (bedrock("video", "mp4", MP4), MP4),
    ("bedrock", "an image that is guarded"): (
        {"messages": [{"role": "user", "content": [{"text": "Look."}, {"guardContent": PICTURE}]}]},
        PIXEL,
    ),
}
# What has no way there; everything else arrives.
NOWHERE = {
    "a sound": {"openai-responses", "anthropic"},
    "a film": {"openai", "openai-responses", "anthropic"},
    "a film by URL": {"openai-responses", "anthropic", "bedrock"},
    "a PDF by URL": {"openai", "bedrock"},
    "a document by URL, as Mistral takes it": {"bedrock"},
    "an image that is to be looked at closely": {"bedrock"},
}
# What a format cannot say about what it carries is told, too: test_beside.py.
BESIDE = re.compile("the name|the detail|source left out")
PAIRS = [
    pytest.param(format, what, target, id=f"{format} to {target}: {what}")
    for format, what in SENT
    for target in FORMATS
]


@pytest.mark.parametrize(("format", "what", "target"), PAIRS)
def test_everything_arrives_or_its_loss_is_told(format, what, target):
    body, wanted = SENT[format, what]
    dumped, repairs = dump(load(body, format), target)
    sent = encode_body(dumped).decode()
    arrived = wanted in sent or blob(wanted) in sent
    assert arrived == (target not in NOWHERE.get(what, ()) or target == format)
    lost = [repair for repair in repairs if not BESIDE.match(repair.why)]
    assert arrived == (lost == [])
    assert "Look." in sent
    if target != format:
        assert violations(dumped, target) == []
        check(dumped, target)


@pytest.mark.parametrize(("format", "what"), SENT)
def test_it_goes_back_to_its_own_service_as_it_was(format, what):
    body, _ = SENT[format, what]
    dumped, repairs = dump(load(body, format), format)
    assert json.loads(encode_body(dumped)) == body
    assert repairs == []


@pytest.mark.parametrize("target", FORMATS)
def test_a_message_of_nothing_but_a_film_says_so_where_it_cannot_go(target):
    history = {
        "contents": [
            {"role": "user", "parts": [{"inlineData": {"mimeType": "video/mp4", "data": MP4}}]}
        ]
    }
    sent = encode_body(dump(load(history, "gemini"), target).body).decode()
    assert (MP4 in sent) != ("(a film that cannot be shown here)" in sent)


# What only the service has that it was given to, and what is said of it elsewhere.
AN_IMAGE, A_DOCUMENT, A_FILM = (
    f"({what} that cannot be shown here)" for what in ("an image", "a document", "a film")
)
GEMINI_FILE = "https://generativelanguage.googleapis.com/v1beta/files/abc"
STORED = {
    "openai": (openai({"type": "file", "file": {"file_id": "file-1"}}), A_DOCUMENT),
    "responses file": (responses({"type": "input_file", "file_id": "file-1"}), A_DOCUMENT),
    "responses image": (responses({"type": "input_image", "file_id": "file-1"}), AN_IMAGE),
    "anthropic document": (source("file", file_id="file_1"), A_DOCUMENT),
    "anthropic image": (
        anthropic({"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
        AN_IMAGE,
    ),
    "anthropic upload": (anthropic({"type": "container_upload", "file_id": "file_1"}), A_DOCUMENT),
    "gemini": (gemini({"fileData": {"fileUri": GEMINI_FILE}}), A_DOCUMENT),
    "gemini film": (
        gemini({"fileData": {"fileUri": GEMINI_FILE, "mimeType": "video/mp4"}}),
        A_FILM,
    ),
    "bedrock": (
        {"messages": [{"role": "user", "content": [{"text": "Look."}, {"image": AT_S3}]}]},
        AN_IMAGE,
    ),
}


def loaded(name, alone):
    """The format and the events of a request, with its text or without."""
    first = name.partition(" ")[0]
    format = "openai-responses" if first == "responses" else first
    body = json.loads(json.dumps(STORED[name][0]))
    [message] = next(iter(body.values()))
    blocks = message.get("content") or message["parts"]
    del blocks[: 1 if alone else 0]
    return format, load(body, format)


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("name", STORED)
def test_a_file_in_the_store_of_a_service_goes_nowhere_else_and_that_is_told(name, target):
    words = STORED[name][1]
    for alone in (True, False):
        format, events = loaded(name, alone)
        for placeholders in (True, False):
            body, repairs = dump(events, target, placeholders=placeholders)
            is_told = words in encode_body(body).decode()
            is_foreign = target != format
            assert is_told == (is_foreign and (alone or placeholders))
            assert [repair.rule for repair in repairs] == ["native"] * is_foreign
            assert not is_foreign or violations(body, target) == []


def test_a_placeholder_stands_where_the_file_was():
    said = [{"type": "text", "text": text} for text in ("Before.", "Behind.")]
    said.insert(1, {"type": "container_upload", "file_id": "file_1"})
    events = load({"messages": [{"role": "user", "content": said}]}, "anthropic")
    body, _ = dump(events, "openai", placeholders=True)
    assert body["messages"][0]["content"] == f"Before.\n\n{A_DOCUMENT}\n\nBehind."


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "image_url", "image_url": 1}, AN_IMAGE),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,no!"}}, AN_IMAGE),
        ({"type": "file", "file": 1}, A_DOCUMENT),
        ({"type": "input_audio", "input_audio": 1}, "(a sound that cannot be shown here)"),
    ],
    ids=["no image", "broken image", "no file", "no sound"],
)
def test_broken_media_have_a_placeholder_too(part, words):
    body, repairs = dump(load(openai(part), "openai"), "openai", placeholders=True)
    assert body["messages"][0]["content"] == f"Look.\n\n{words}"
    assert [repair.rule for repair in repairs] == ["native"]


NAMED = {
    "messages": [
        {"role": "system", "name": "host", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": "Hello."},
        {"role": "assistant", "name": "bot", "content": "Hi, Ann."},
        {"role": "user", "name": "bob", "content": [{"type": "text", "text": "And me?"}]},
        {
            "role": "user",
            "name": "cy",
            "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}],
        },
    ]
}


def test_names_of_speakers_stay_fields_in_chat_completions():
    assert dump(load(NAMED, "openai"), "openai") == (NAMED, [])
    # Not only in the form that was loaded: another model gets the names, too.
    events = load(NAMED, "openai", model="m1")
    names = [message.get("name") for message in dump(events, "openai", model="m2").body["messages"]]
    assert names == ["host", "ann", "bot", "bob", "cy"]


@pytest.mark.parametrize("target", [format for format in FORMATS if format != "openai"])
def test_elsewhere_they_go_in_front_of_the_text_and_are_told(target):
    dumped, repairs = dump(load(NAMED, "openai"), target)
    sent = encode_body(dumped).decode()
    for words in ("host: Be brief.", "ann: Hello.", "bot: Hi, Ann.", "bob: And me?", '"cy:"'):
        assert words in sent
    told = [repair.why for repair in repairs if "has no place for the name" in repair.why]
    assert len(told) == len(NAMED["messages"])


def test_a_film_or_document_that_only_a_store_has_is_told():
    stored = [
        ("openai", openai({"type": "file", "file": {"file_id": "file_1"}})),
        ("openai-responses", responses({"type": "input_file", "file_id": "file_1"})),
        ("openai-responses", responses({"type": "input_image", "file_id": "file_1"})),
        ("anthropic", source("file", file_id="file_1")),
        ("gemini", gemini({"fileData": {"fileUri": "gs://bucket/a.pdf"}})),
        ("bedrock", bedrock_by({"s3Location": {"uri": "s3://bucket/a.pdf"}})),
    ]
    for format, body in stored:
        assert dump(load(body, format), format).repairs == []
        for target in FORMATS:
            if target != format:
                assert [repair.rule for repair in dump(load(body, format), target).repairs] == [
                    "native"
                ]


def test_a_file_of_unknown_kind_goes_back_to_the_server_that_took_it_and_is_told_elsewhere():
    body = openai({"type": "file_url", "file_url": {"url": blob("any file")}})
    assert dump(load(body, "openai"), "openai") == (body, [])
    for target in FORMATS[1:]:
        dumped, repairs = dump(load(body, "openai"), target)
        assert [repair.why for repair in repairs] == [
            f"document left out: {target} has no such thing here"
        ]
        assert violations(dumped, target) == []


def bedrock_by(place):
    block = {"document": {"format": "pdf", "name": "a", "source": place}}
    return {"messages": [{"role": "user", "content": [{"text": "Look."}, block]}]}


def bedrock_image(image):
    return {"messages": [{"role": "user", "content": [{"text": "Look."}, {"image": image}]}]}


BROKEN = [
    ("openai", openai({"type": "file", "file": 5})),
    ("openai", openai({"type": "input_audio", "input_audio": {"data": 5}})),
    ("openai", openai({"type": "image_url", "image_url": {}})),
    ("openai", openai({"type": "image_url", "image_url": {"url": ""}})),
    ("openai", openai({"type": "image_url", "image_url": {"url": "data:image/png;base"}})),
    ("anthropic", source("url", url="https:")),
    ("openai", openai({"type": "file", "file": {"filename": "a.pdf", "file_data": "?"}})),
    (
        "bedrock",
        bedrock_image({"format": "p", "source": {"s3Location": {"uri": "s3://bucket/a.png"}}}),
    ),
    ("bedrock", bedrock_image({"source": {"s3Location": {"uri": "s3://bucket/a.png"}}})),
    ("openai-responses", responses({"type": "input_file"})),
    ("openai-responses", responses({"type": "input_image"})),
    ("anthropic", source("base64", data=5)),
    ("anthropic", anthropic({"type": "document", "source": 5})),
    ("gemini", gemini({"inlineData": {"mimeType": "application/pdf"}})),
    ("gemini", gemini({"inlineData": {"mimeType": "", "data": PDF}})),
    ("gemini", gemini({"fileData": {"fileUri": 5}})),
    ("gemini", gemini({"inlineData": 5})),
    ("bedrock", bedrock("document", "exe", PDF, name="a")),
    ("bedrock", bedrock("video", "mp4", "?")),
]


@pytest.mark.parametrize(("format", "body"), BROKEN)
def test_what_is_broken_is_left_out_everywhere_and_told(format, body):
    for target in FORMATS:
        dumped, repairs = dump(load(body, format), target)
        assert [repair.rule for repair in repairs] == ["native"]
        assert violations(dumped, target) == []


@pytest.mark.parametrize("target", FORMATS)
def test_a_document_without_words_goes_back_and_is_told_elsewhere(target):
    empty = source("text", media_type="text/plain", data=" ")
    dumped, repairs = dump(load(empty, "anthropic"), target)
    assert violations(dumped, target, strict=False) == []
    assert [repair.why for repair in repairs] == (
        [] if target == "anthropic" else ["document left out: it is broken"]
    )


@pytest.mark.parametrize("target", ["openai", "anthropic", "gemini", "bedrock"])
def test_an_image_under_an_unregistered_name_of_its_type_goes_under_the_registered_one(target):
    url = openai({"type": "image_url", "image_url": {"url": f"data:image/jpg;base64,{PIXEL}"}})
    sent = encode_body(dump(load(url, "openai", model="m1"), target, model="m1").body).decode()
    assert PIXEL in sent
    assert ("image/jpg" in sent) == (target == "openai")  # whoever took it takes it again


def test_anthropic_refuses_other_types_of_images_so_they_go_under_the_registered_name_or_not_at_all():
    for type, sent in [("image/jpg", "image/jpeg"), ("image/tiff", None)]:
        image = {"type": "base64", "media_type": type, "data": PIXEL}
        body, repairs = dump(
            load(anthropic({"type": "image", "source": image}), "anthropic"), "anthropic"
        )
        assert [repair.rule for repair in repairs][:1] == ["native"]
        assert (PIXEL in str(body), type in str(body)) == (sent is not None, False)
        assert violations(body, "anthropic") == []


def test_a_document_of_another_kind_goes_where_its_kind_is_known():
    sheet = bedrock("document", "xlsx", blob("rows"), name="a")
    for target in FORMATS:
        assert bool(dump(load(sheet, "bedrock"), target).repairs) == (target != "bedrock")


def test_a_text_that_is_not_unicode_is_not_sent_as_words():
    latin = base64.b64encode("café".encode("latin-1")).decode()
    body = gemini({"inlineData": {"mimeType": "text/plain", "data": latin}})
    assert dump(load(body, "gemini"), "gemini").repairs == []
    assert [repair.rule for repair in dump(load(body, "gemini"), "openai").repairs] == ["native"]


def test_a_text_of_a_kind_that_bedrock_does_not_know_is_plain_text_there():
    body = gemini({"inlineData": {"mimeType": "application/json", "data": blob("{}")}})
    [_, block] = dump(load(body, "gemini"), "bedrock").body["messages"][0]["content"]
    assert (block["document"]["format"], block["document"]["source"]["bytes"]) == ("txt", b"{}")


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("data", [PDF, blob(TEXT)])
def test_a_document_in_a_result_arrives_or_its_loss_is_told(target, data):
    type = "application/pdf" if data == PDF else "text/plain"
    shown = {"type": "document", "source": {"type": "base64", "media_type": type, "data": data}}
    result = {
        "type": "tool_result",
        "tool_use_id": "1",
        "content": [{"type": "text", "text": "Read."}, shown],
    }
    history = {
        "messages": [
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "read", "input": {}}],
            },
            {"role": "user", "content": [result]},
        ]
    }
    dumped, repairs = dump(load(history, "anthropic"), target)
    sent = encode_body(dumped).decode()
    assert "Read." in sent
    assert (data in sent or TEXT in sent) == (repairs == [])
    assert violations(dumped, target, gemini_signatures=True) == []


def test_a_thought_of_geminis_whose_text_is_none_is_left_out_and_told():
    native = {
        "provider": "gemini",
        "model": "m1",
        "wire": [{"thought": True, "text": 5}, {"text": "So."}],
    }
    events = [("user", "Why?"), ("assistant", "So.", {"native": native}), ("user", "And?")]
    body, repairs = dump(events, "gemini", model="m1")
    assert violations(body, "gemini", strict=False) == []
    assert [repair.rule for repair in repairs] == ["native"]


def test_the_pieces_of_a_bedrock_document_are_its_words():
    pieces = [{"text": "The sea."}, {"text": "The tide."}]
    document = {"document": {"name": "notes", "source": {"content": pieces}}}
    body = {"messages": [{"role": "user", "content": [{"text": "Read."}, document]}]}
    events = load(body, "bedrock")
    assert dump(events, "bedrock") == (body, [])
    assert "The sea.\\n\\nThe tide." in encode_body(dump(events, "openai").body).decode()


def test_text_around_an_image_in_a_result_goes_to_gemini_once():
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    content = [{"type": "text", "text": "Before."}, image, {"type": "text", "text": "After."}]
    history = {
        "messages": [
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "see", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "1", "content": content}],
            },
        ]
    }
    body, _ = dump(load(history, "anthropic"), "gemini")
    [answered, shown] = body["contents"][2]["parts"]
    assert answered["functionResponse"]["response"] == {"output": "Before.\n\nAfter."}
    assert shown == {"inlineData": {"mimeType": "image/png", "data": PIXEL}}


@pytest.mark.parametrize("format", FORMATS)
def test_an_unknown_field_of_our_own_form_is_reported(format):
    image = {"type": "image", "media_type": "image/png", "data": PIXEL, "caption": "the sea"}
    native = {"provider": "backstory", "wire": [{"type": "text", "text": "Look."}, image]}
    _, [repair] = dump([("user", "Look.", {"native": native})], format)
    assert repair.why == f"caption left out: {format} has no such thing here"


def test_gemini_gets_media_behind_the_text_of_a_result_and_says_so():
    image = {"type": "image", "media_type": "image/png", "data": PIXEL}
    seen, below = {"type": "text", "text": "Seen."}, {"type": "text", "text": "Below."}
    for blocks, is_moved in (([seen, below, image], False), ([seen, image, below], True)):
        native = {"provider": "backstory", "wire": blocks}
        events = [
            ("user", "?", None),
            ("tool_call", None, {"id": "1", "name": "look", "arguments": {}}),
            ("tool_result", "Seen.\n\nBelow.", {"id": "1", "native": native}),
        ]
        repairs = dump(events, "gemini").repairs
        assert [repair.rule for repair in repairs] == ["group"] * is_moved
        assert dump(events, "anthropic").repairs == []


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("type_", ["image/png", "application/pdf", "audio/wav", "video/mp4"])
def test_url_safe_base64_goes_elsewhere_in_the_standard_alphabet(type_, target):
    loaded = load(gemini({"inlineData": {"mimeType": type_, "data": "-_8="}}), "gemini")

    body, repairs = dump(loaded, target)

    if not repairs and target != "gemini":
        text = encode_body(body).decode()
        assert "+/8=" in text
        assert "-_8=" not in text
