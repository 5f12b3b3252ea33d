"""`backstory seal` and what `verify` does with it; `verify --requests`."""

import io
import json

import pytest

import backstory


def test_a_seal_that_was_kept_shows_that_the_newest_events_are_gone(story, tmp_path):
    older = tmp_path / "older.db"
    with backstory.open(story.env["BACKSTORY_STORE"]) as store, backstory.open(older) as other:
        lines = io.StringIO()
        store.export_to(lines)
        other.import_from(lines.getvalue().splitlines())
        store.agent("main/main").user("the newest")
    seal = tmp_path / "seal.json"
    seal.write_text(story("seal").out)
    assert story("verify", "--seal", seal).out == ""
    [finding] = story("verify", "--seal", seal, "--store", older, "--json", code=1).json
    assert "the newest one is 7" in finding["problem"]
    assert story("verify", "--store", older).out == ""


def test_what_is_not_a_seal_is_refused(story, tmp_path):
    (tmp_path / "seal.json").write_text("not JSON")
    assert "is not a seal" in story("verify", "--seal", tmp_path / "seal.json", code=2).err
    story("verify", "--seal", tmp_path / "missing.json", code=2)


def test_requests_are_checked_where_that_is_asked_for(story):
    with backstory.open(story.env["BACKSTORY_STORE"]) as store:
        answer = {"choices": [{"message": {"role": "assistant", "content": "Hi."}}]}
        store.agent("main/main").record(answer, model="m", request={"model": "m", "messages": []})
    assert story("verify").out == ""
    [finding] = story("verify", "--requests", "--json", code=1).json
    assert finding["position"] == 8


def test_what_only_looks_like_a_seal_is_refused_in_the_words_of_the_command_line(story, tmp_path):
    (tmp_path / "seal.json").write_text("{}")
    said = story("verify", "--seal", tmp_path / "seal.json", code=2).err
    assert "this is not a seal: `backstory seal` makes one" in said


@pytest.mark.parametrize("head", [-1, True, "1", 1.5, float("inf"), None])
def test_a_seal_with_a_head_that_is_not_a_position_is_refused(head):
    with backstory.open(":memory:") as store:
        agent = store.start()
        seal = store.seal()
        seal["agents"][agent.id]["head"] = head
        with pytest.raises(backstory.Invalid, match="this is not a seal"):
            store.verify(seal=json.loads(json.dumps(seal)))
