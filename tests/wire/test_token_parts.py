"""What of a native form costs tokens, and how large the files in it are."""

import base64
import struct

import pytest

from backstory.wire.file_sizes import image_size, pdf, seconds
from backstory.wire.tokens.extras import extras
from tests.wire.files import png, wav

FORMS = [
    ({"type": "image_url", "image_url": "data:image/png;base64,AAAA"}, "image", "AAAA"),
    ({"type": "input_image", "file_id": "f"}, "image", None),
    ({"type": "file", "file": {"file_data": "AAAA"}}, "document", "AAAA"),
    ({"type": "document_url", "document_url": "https://example.org/a.pdf"}, "document", None),
    ({"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}, "video", None),
    ({"type": "image", "source": {"type": "base64", "data": "AAAA"}}, "image", "AAAA"),
    (
        {"type": "document", "source": {"type": "content", "content": [{"text": "a"}]}},
        "document",
        None,
    ),
    ({"type": "thinking", "thinking": "hm", "signature": "AAAA"}, "reasoning", "AAAA"),
    ({"type": "redacted_thinking", "data": "AAAA"}, "reasoning", "AAAA"),
    ({"inline_data": {"mime_type": "image/png", "data": "AAAA"}}, "image", "AAAA"),
    ({"text": "hm", "thought": True}, "reasoning", None),
    ({"functionCall": {"name": "f"}, "thoughtSignature": "AAAA"}, "reasoning", "AAAA"),
    ({"executableCode": {"code": "1+1"}}, "server tool", None),
    ({"video": {"source": {"bytes": "AAAA"}}}, "video", "AAAA"),
    ({"document": {"source": {"text": "a"}}}, "document", None),
    (
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "AAAA"}}},
        "reasoning",
        "AAAA",
    ),
    ({"reasoningContent": {"redactedContent": "AAAA"}}, "reasoning", "AAAA"),
    (
        {"type": "server_tool_use", "name": "web_search", "input": {"query": "a"}},
        "server tool",
        None,
    ),
    ({"type": "web_search_call", "id": "ws_1"}, "server tool", None),
    ({"toolResult": {"content": [{"image": {"source": {"bytes": "AAAA"}}}]}}, "image", "AAAA"),
    (
        {"type": "tool_result", "content": [{"type": "image", "source": {"data": "AAAA"}}]},
        "image",
        "AAAA",
    ),
    (
        {
            "functionResponse": {
                "parts": [{"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}]
            }
        },
        "audio",
        "AAAA",
    ),
]


@pytest.mark.parametrize(
    ("form", "what", "data"), FORMS, ids=[str(form)[:60] for form, _, _ in FORMS]
)
def test_every_formats_parts_are_recognised(form, what, data):
    [found] = extras([form])
    assert (found.what, found.data) == (what, data)


@pytest.mark.parametrize(
    "form",
    [
        {"type": "text", "text": "a"},
        {"text": "a"},
        {
            "type": "tool_use",
            "id": "a",
            "name": "b",
            "input": {"type": "image", "source": {"data": "A"}},
        },
        {"type": "tool_result", "content": "a"},
        {"functionCall": {"name": "b", "args": {"inlineData": {}}}},
        {"toolUse": {"toolUseId": "a", "name": "b", "input": {}}},
    ],
)
def test_text_calls_and_results_are_the_events_own(form):
    assert list(extras([form])) == []


def test_the_words_of_a_server_tool_leave_out_what_no_model_reads():
    result = {
        "type": "web_search_result",
        "title": "Paris",
        "encrypted_content": "x" * 99,
        "page_id": "y" * 99,
    }
    [found] = extras([{"type": "web_search_tool_result", "content": [result]}])
    assert "Paris" in found.text
    assert len(found.text) < 50


class TestSizes:
    JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x01\xe0\x02\x80" + bytes(20)
    WEBP = b"RIFF\x00\x00\x00\x00WEBP"

    @pytest.mark.parametrize(
        ("file", "size"),
        [
            (png(640, 480), (640, 480)),
            (png(640, 0), None),
            (b"GIF89a" + struct.pack("<HH", 640, 480) + bytes(30), (640, 480)),
            (JPEG, (640, 480)),
            (b"\xff\xd8\xff\xe0\x00\x04ab" + bytes(30), None),
            (WEBP + b"VP8X" + bytes(8) + b"\x7f\x02\x00\xdf\x01\x00", (640, 480)),
            (
                WEBP + b"VP8L" + bytes(5) + (639 | 479 << 14).to_bytes(4, "little") + bytes(9),
                (640, 480),
            ),
            (WEBP + b"VP8 " + bytes(10) + struct.pack("<HH", 640, 480), (640, 480)),
            (WEBP + b"ABCD" + bytes(20), None),
            (bytes(40), None),
            (b"\x89PNG", None),
        ],
    )
    def test_an_image_says_its_size_in_its_first_bytes(self, file, size):
        assert image_size(base64.b64encode(file).decode()) == size

    def test_both_alphabets_of_base64_and_line_breaks_are_read(self):
        data = base64.urlsafe_b64encode(png(640, 480) + b"\xff" * 6).decode()
        assert image_size(data[:8] + "\n" + data[8:]) == (640, 480)

    def test_a_wav_file_says_its_length_and_others_are_taken_for_the_usual_rate(self):
        assert round(seconds(base64.b64encode(wav(2)).decode(), 1)) == 2
        assert seconds("A" * 64_000, 128_000) == 3

    def test_what_is_no_pdf_has_no_pages(self):
        assert pdf("") is None
        assert pdf("not base64!") is None
