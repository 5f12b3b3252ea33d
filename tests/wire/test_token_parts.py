"""What of a native form costs tokens, and how large the files in it are."""

import base64
import struct
import zlib

import pytest

from backstory.wire.file_sizes import measure_image, measure_pdf, measure_seconds
from backstory.wire.tokens import count_tokens
from tests.wire.files import png, wav

URL = "https://example.org/a"
IMAGE, PDF_FILE, TEXT_FILE = "iVBORw0KGgo=", "JVBERi0=", "aGk="
# Each row: the format, the kind of event, its native form, and what else than the event's text is counted.
FORMS = [
    ("openai", "user", [{"type": "image_url", "image_url": f"data:image/png;base64,{IMAGE}"}], "image"),
    ("openai", "user", [{"type": "file", "file": {"file_data": PDF_FILE}}], "document"),
    ("openai", "user", [{"type": "file", "file": {"file_id": "f"}}], "document by address"),
    ("openai", "user", [{"type": "document_url", "document_url": URL}], "document by address"),
    ("openai", "user", [{"type": "video_url", "video_url": {"url": URL}}], "video by address"),
    ("openai", "user", [{"type": "input_audio", "input_audio": {"data": IMAGE, "format": "mp3"}}], "audio"),
    ("openai", "assistant", [{"type": "thinking", "thinking": "hm"}], "reasoning"),
    ("openai-responses", "user", [{"type": "input_image", "file_id": "f"}], "image by address"),
    ("openai-responses", "answer", [{"type": "reasoning", "summary": [], "encrypted_content": "x"}], "reasoning"),
    ("openai-responses", "answer", [{"type": "web_search_call", "query": "a"}], "server tool"),
    ("anthropic", "user", [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}], "image"),
    ("anthropic", "user", [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}}], "document"),
    ("anthropic", "assistant", [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}], "reasoning"),
    ("anthropic", "assistant", [{"type": "redacted_thinking", "data": "c2ln"}], "reasoning"),
    ("anthropic", "assistant", [{"type": "server_tool_use", "id": "a", "name": "web_search", "input": {"query": "a"}}], "server tool"),
    ("anthropic", "tool_result", [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}]}], "image"),
    ("gemini", "user", [{"inline_data": {"mime_type": "image/png", "data": IMAGE}}], "image"),
    ("gemini", "assistant", [{"text": "hm", "thought": True}], "reasoning"),
    ("gemini", "assistant", [{"text": "hi", "thoughtSignature": "c2ln"}], "reasoning"),
    ("gemini", "assistant", [{"executableCode": {"code": "1+1"}}], "server tool"),
    ("bedrock", "user", [{"video": {"format": "mp4", "source": {"bytes": IMAGE}}}], "video"),
    ("bedrock", "user", [{"document": {"format": "txt", "name": "a", "source": {"text": "a"}}}], "document"),
    ("bedrock", "assistant", [{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}], "reasoning"),
    ("bedrock", "tool_result", [{"toolResult": {"toolUseId": "a", "content": [{"image": {"format": "png", "source": {"bytes": IMAGE}}}]}}], "image"),
    ("backstory", "user", [{"type": "document", "media_type": "text/plain", "data": TEXT_FILE}], "document"),
]  # fmt: skip


def event(format, kind, form):
    """An event with a native form; Chat Completions and Responses have the content in a message."""
    role = "user" if kind == "user" else "assistant"
    if format == "openai":
        form = {"role": role, "content": form}
    elif format == "openai-responses" and kind == "user":
        form = [{"role": role, "content": form}]
    data = {"id": "a", "native": {"provider": format, "wire": form}}
    return ("assistant" if kind == "answer" else kind, "hi", data)


@pytest.mark.parametrize(("format", "kind", "form", "what"), FORMS)
def test_every_formats_parts_are_counted(format, kind, form, what):
    parts = count_tokens([event(format, kind, form)], "gpt-4o").parts
    assert [part.what for part in parts[1:-1]] == [what]


@pytest.mark.parametrize(
    ("format", "kind", "form"),
    [
        ("anthropic", "assistant", [{"type": "text", "text": "hi"}]),
        ("gemini", "assistant", [{"text": "hi"}]),
        (
            "anthropic",
            "tool_result",
            [{"type": "tool_result", "tool_use_id": "a", "content": "hi"}],
        ),
        ("gemini", "tool_call", [{"functionCall": {"name": "b", "args": {"inlineData": {}}}}]),
        ("bedrock", "tool_call", [{"toolUse": {"toolUseId": "a", "name": "b", "input": {}}}]),
        ("nobody", "user", [{"type": "image", "source": {"data": "A"}}]),
    ],
)
def test_text_calls_and_results_are_counted_once(format, kind, form):
    counted = count_tokens([event(format, kind, form)], "gpt-4o")
    assert len(counted.parts) == 2
    assert counted == count_tokens([(kind, "hi", {"id": "a"})], "gpt-4o")


def test_the_words_of_a_server_tool_leave_out_what_no_model_reads():
    result = {"type": "web_search_result", "title": "Paris", "url": URL}
    sealed = {"encrypted_content": "x" * 999, "page_id": "y" * 999}
    form = [{"type": "web_search_tool_result", "tool_use_id": "a", "content": [result | sealed]}]
    counted = count_tokens([event("anthropic", "assistant", form)], "gpt-4o")
    assert 5 < counted.by("what")["server tool"] < 50


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
        assert measure_image(base64.b64encode(file).decode()) == size

    def test_both_alphabets_of_base64_and_line_breaks_are_read(self):
        data = base64.urlsafe_b64encode(png(640, 480) + b"\xff" * 6).decode()
        assert measure_image(data[:8] + "\n" + data[8:]) == (640, 480)

    def test_base64_in_short_lines_is_read_wherever_it_is_cut(self):
        lines = base64.encodebytes(png(640, 480) + bytes(600_000)).decode()
        for removed in range(4):
            assert measure_image(lines[:60] + lines[60 + removed * 77 :]) == (640, 480)

    def test_a_wav_file_says_its_length_and_others_are_taken_for_the_usual_rate(self):
        assert round(measure_seconds(base64.b64encode(wav(2)).decode(), 1)) == 2
        assert measure_seconds("A" * 64_000, 128_000) == 3

    def test_each_stream_of_a_pdf_is_looked_into(self):
        stream = b"stream\n" + zlib.compress(b"/Type/Page ") + b"endstream\n"
        data = base64.b64encode(b"%PDF-1.5 " + stream * 3).decode()
        assert measure_pdf(data) == (3, 0)

    def test_a_pdf_of_streams_without_an_end_is_read_once(self):
        # A search from each beginning to the end of the file would take hours.
        data = base64.b64encode(b"%PDF" + b"stream\n" * 300_000).decode()
        assert measure_pdf(data) == (1, 0)

    def test_what_is_no_pdf_has_no_pages(self):
        assert measure_pdf("") is None
        assert measure_pdf("not base64!") is None
