"""The list of models at the first start: what it offers, and what is remembered."""

import tomllib

import pytest

from backstory.chat.first_start import find_host, list_offers, remember_choice
from backstory.runtime.models.choice import BadConfig, ModelSpec
from tests.processes import PATIENCE
from tests.runtime.scripted import Say, scripted

NOTHING = {"OLLAMA_HOST": "127.0.0.1:1"}  # nobody listens there
PAID = "claude-sonnet-4-5: Anthropic, paid with ANTHROPIC_API_KEY"
TOUR = "a guided tour of one minute"


def start_without_model(start, **variables):
    return start(None, env={**NOTHING, **variables})


def config(tmp_path):
    return tmp_path / "config" / "backstory" / "chat.toml"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("backstory.chat.first_start.SERVERS", (("Ollama", 11434),))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.setattr("backstory.chat.first_start.SECONDS", PATIENCE)


def test_without_anything_the_small_model_comes_first_and_the_tour_last():
    small, tour = list_offers()
    assert small.spec == ModelSpec("embedded")
    assert tour.spec == ModelSpec("tour")


def test_models_of_keys_come_before_local_ones(monkeypatch):
    with scripted() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1"))
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        models = [offer.spec.model for offer in list_offers()]
        assert models == ["gpt-5", "scripted-1", "embedded", "tour"]


def test_a_tour_that_has_begun_comes_first(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert list_offers(has_begun_tour=True)[0].spec == ModelSpec("tour")


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("127.0.0.1:7", "127.0.0.1:7"),
        ("http://box:7/", "box:7"),
        ("0.0.0.0", "localhost:11434"),
        ("x:notaport", "x:11434"),
    ],
)
def test_the_address_of_ollama_is_read_as_ollama_reads_it(given, host):
    assert find_host(given, 11434) == host


def test_a_choice_is_written_before_the_rest_of_the_file(tmp_path):
    path = tmp_path / "new" / "chat.toml"
    remember_choice(path, ModelSpec("é", "http://x/v1"))
    assert tomllib.loads(path.read_text()) == {"model": "é", "base_url": "http://x/v1"}
    path.write_text("[params]\neffort = 'low'\n")
    remember_choice(path, ModelSpec("a"))
    assert tomllib.loads(path.read_text()) == {"model": "a", "params": {"effort": "low"}}


@pytest.mark.parametrize(
    "content",
    [b"model = 'gpt-5'\nkey = 'k'\n", b"model = ''\n", b"# \xff\n", b"model = \n"],
)
def test_a_choice_is_not_written_into_a_file_that_is_not_used_with_it(tmp_path, content):
    path = tmp_path / "chat.toml"
    path.write_bytes(content)
    with pytest.raises(BadConfig, match="the config file"):
        remember_choice(path, ModelSpec("a"))
    assert path.read_bytes() == content


def test_a_choice_that_cannot_be_remembered_is_used(start, tmp_path):
    path = config(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"# \xff\n")
    with scripted(Say("From here.")) as server:
        terminal = start_without_model(start, OLLAMA_HOST=server.url.removesuffix("/v1"))
        terminal.wait("scripted-1: Ollama on this machine")
        terminal.type("\r")
        terminal.wait("the choice was not remembered: the config file")
        terminal.send("Hello")
        terminal.answered("From here.")


def test_enter_takes_the_model_of_the_key_and_the_next_start_remembers_it(start, tmp_path):
    with scripted() as server:
        address = server.url.removesuffix("/v1")
        key = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": address}
        terminal = start_without_model(start, **key)
        text = terminal.wait(TOUR)
        assert text.index(PAID) < text.index("98 MB") < text.index(TOUR)
        assert server.bodies == []
        terminal.type("\r")
        terminal.ready()
        assert tomllib.loads(config(tmp_path).read_text()) == {"model": "claude-sonnet-4-5"}
        assert terminal.leave() == 0
        again = start_without_model(start, **key)
        assert "Who should answer?" not in again.ready()


def test_enter_takes_the_local_server(start, tmp_path):
    with scripted(Say("From here.")) as server:
        terminal = start_without_model(start, OLLAMA_HOST=server.url.removesuffix("/v1"))
        terminal.wait("scripted-1: Ollama on this machine")
        terminal.type("\r")
        terminal.send("Hello")
        terminal.answered("From here.")
        assert tomllib.loads(config(tmp_path).read_text())["base_url"] == server.url


@pytest.mark.parametrize("name", ["option", "variable"])
def test_a_named_model_skips_the_list(start, name):
    with scripted() as server:
        variables = {"BACKSTORY_BASE_URL": server.url, "BACKSTORY_MODEL": "scripted-1"}
        terminal = start(server) if name == "option" else start_without_model(start, **variables)
        assert "Who should answer?" not in terminal.ready()


def test_ctrl_c_at_the_list_leaves_and_remembers_nothing(start, tmp_path):
    terminal = start_without_model(start)
    terminal.wait(TOUR)
    terminal.type("\x03")
    assert terminal.ended() == 130
    assert not config(tmp_path).exists()
