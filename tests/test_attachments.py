"""Images and files that go with a message: kept once, and sent where a format can."""

import base64
import json

import pytest

import backstory

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4 nothing much"
FORMATS = backstory.wire.FORMATS
QUESTION = "What is on this picture, and does it fit what the report says about it?"


def sent(agent, format):
    dump = agent.conversation().dump(format)
    return json.dumps(dump.body, default=lambda blob: base64.b64encode(blob).decode()), dump.repairs


@pytest.fixture
def agent():
    with backstory.open(":memory:") as store:
        yield store.start("main")


@pytest.mark.parametrize("format", FORMATS)
def test_an_image_from_a_path_and_from_bytes_goes_to_every_format(agent, format, tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)
    agent.user(QUESTION, images=[path, str(path), PNG])
    body, repairs = sent(agent, format)
    assert body.count(base64.b64encode(PNG).decode()) == 3
    assert body.count(QUESTION) == 1
    assert repairs == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_pdf_and_a_text_go_to_every_format(agent, format, tmp_path):
    (tmp_path / "report.pdf").write_bytes(PDF)
    (tmp_path / "notes.md").write_text("# Read me")
    agent.user(QUESTION, files=[tmp_path / "report.pdf", tmp_path / "notes.md"])
    body, repairs = sent(agent, format)
    assert base64.b64encode(PDF).decode() in body
    assert "# Read me" in body or base64.b64encode(b"# Read me").decode() in body
    unsaid = "the name 'report.pdf', the name 'notes.md' left out: gemini has no such thing here"
    assert [repair.why for repair in repairs] == ([unsaid] if format == "gemini" else [])


def test_an_image_by_url_goes_where_it_can_and_is_reported_where_it_cannot(agent):
    agent.user(QUESTION, images=["https://example.com/photo.png", "https://example.com/photo"])
    for format in FORMATS:
        body, repairs = sent(agent, format)
        if format == "bedrock":
            assert "example.com" not in body
            assert {repair.rule for repair in repairs} == {"native"}
        else:
            assert "https://example.com/photo.png" in body


def test_an_image_is_stored_once_and_the_native_form_has_the_text_before_it(agent):
    event = agent.user(QUESTION, images=[PNG], data={"by": "ann"})
    image = base64.b64encode(PNG).decode()
    assert event.content == QUESTION
    assert event.data_json.count(image) == event.data_json.count(QUESTION) == 1
    assert event.data_json.index(QUESTION) < event.data_json.index(image)
    assert event.data["by"] == "ann"


def test_an_image_may_come_without_words(agent):
    event = agent.user("", images=[PNG])
    body, _ = sent(agent, "anthropic")
    assert event.content == ""
    assert "image/png" in body
    with pytest.raises(backstory.InvalidEvent):
        agent.user("")


def test_tokens_of_an_image_are_counted(agent):
    agent.user(QUESTION)
    plain = agent.conversation().tokens("gpt-4o")
    agent.user(QUESTION, images=[PNG])
    assert agent.conversation().tokens("gpt-4o") > 2 * plain


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"images": ["/no/such/photo.png"]}, "cannot read"),
        ({"images": [PDF]}, "is not an image"),
        ({"images": "photo.png"}, "images must be a list, not 'photo.png'"),
        ({"images": None}, "images must be a list, not None"),
        ({"files": 5}, "files must be a list, not 5"),
        ({"files": ["a\0b"]}, "cannot read"),
        ({"files": ["\ud800"]}, "cannot read"),
        ({"images": [3]}, "not an attachment"),
        ({"files": [b"\x00\x01\xff"]}, "cannot tell what is in"),
        ({"images": [PNG], "data": {"native": {}}}, "do not go together"),
    ],
)
def test_what_cannot_be_attached_is_refused_and_nothing_is_written(agent, wrong, problem):
    with pytest.raises(backstory.Invalid, match=problem):
        agent.user("Look!", **wrong)
    assert agent.head == 0


@pytest.mark.parametrize(
    ("content", "data", "problem"),
    [
        (None, None, "this user event has no content"),
        (b"Look!", None, "must be a string, not bytes"),
        ("Look!", ["by", "ann"], "must be a dict or None, not list"),
        ("Look!", 5, "must be a dict or None, not int"),
    ],
)
def test_a_message_with_attachments_is_checked_like_one_without(agent, content, data, problem):
    for images in ([PNG], ()):
        with pytest.raises(backstory.InvalidEvent, match=problem):
            agent.user(content, images=images, data=data)
    assert agent.head == 0


def test_a_message_with_only_attachments_describes_them(agent):
    from backstory.present.event_text import gist

    assert gist(agent.user("", images=[PNG], files=[b"text"])) == "(image) (document)"
