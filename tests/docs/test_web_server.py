"""The server of docs/web-server.md, asked as a browser would ask it."""

import pytest
from starlette.testclient import TestClient

from tests.docs.test_pages import ROOT, code_of
from tests.runtime.event_server import event_server

ANSWER = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [{"type": "text", "text": "Hello!"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Return a function that sends a message of a user."""
    monkeypatch.setenv("BACKSTORY_STORE", str(tmp_path / "history.db"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("NO_PROXY", "*")
    with event_server((200, ANSWER), (200, ANSWER)) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        names = {"__name__": "page"}
        exec(compile(code_of(ROOT / "docs" / "web-server.md"), "web-server.md", "exec"), names)
        with TestClient(names["app"]) as client:

            def ask(user, id, text):
                sent = {"id": id, "text": text}
                return client.post("/chat", json=sent, headers={"x-user": user}).json()

            ask.requests = model.bodies
            yield ask


def test_each_user_has_a_conversation_and_a_repeated_message_is_answered_once(ask):
    assert ask("ada", "1", "Hi.") == {"answer": "Hello!"}
    assert ask("ada", "1", "Hi.") == {"answer": "Hello!"}
    assert len(ask.requests) == 1
    assert ask("bob", "1", "Good day.") == {"answer": "Hello!"}
    assert len(ask.requests[1]["messages"]) == 1
