"""An exported session that the tool continues goes on where it was exported."""

import json
from random import Random

import pytest
from hypothesis import assume, example, given

import backstory
from backstory.transcripts import export_transcript
from backstory.wire.repair import CONTINUE, RESUMED
from tests.transcripts.reading import write_lines
from tests.transcripts.stories import seeds
from tests.transcripts.test_growth import encoded, ends_of, growth, joined, request
from tests.transcripts.wild_claude import SESSION, Wild

NEW = "a new prompt"
TIME = "2026-11-01T00:00:00.000Z"
ROLLOUT = "rollout-2026-11-01T00-00-00-019e8c7f-1800-7f02-a000-000000000001"


def for_claude_code(records):
    last = [record for record in records if "uuid" in record][-1]
    more = {"uuid": "new", "parentUuid": last["uuid"], "timestamp": TIME, "type": "user"}
    return last["sessionId"], last | more | {"message": {"role": "user", "content": NEW}}


def for_codex(records):
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": NEW}]}
    return ROLLOUT, {"timestamp": TIME, "type": "response_item", "payload": said}


def for_pi(records):
    said = {"role": "user", "content": NEW, "timestamp": 1_793_491_200_000}
    more = {"id": "deadbeef", "parentId": records[-1]["id"], "timestamp": TIME, "type": "message"}
    return "session", more | {"message": said}


CONTINUED = {"claude-code": for_claude_code, "codex": for_codex, "pi": for_pi}


def asked(agent):
    """What a model is given, without what a request has if nobody asked anything."""
    return [(role, said) for role, content in request(agent) if (said := without_fillers(content))]


def without_fillers(content):
    return joined([block for block in content if block.get("text") not in (CONTINUE, RESUMED)])


@growth
@given(seed=seeds)
@example(seed=543472201)  # both answers continue the prompt: that is not iFlow's
@pytest.mark.parametrize("target", CONTINUED)
def test_what_the_tool_adds_continues_the_context_that_was_exported(tmp_path, target, seed):
    random = Random(seed)
    lines = encoded(Wild(random, length=random.randint(3, 30)).records)
    path = tmp_path / f"{SESSION}.jsonl"
    with backstory.open(":memory:") as store:
        for end in ends_of(random, lines):  # what was imported while it grew has copies
            path.write_bytes(b"".join(lines)[:end])
            store.import_transcripts(path, settle=0)
        [agent] = store.agents()
        before = asked(agent)
        assume(before)  # there is nothing to continue after a clear
        assume("<command-name>" not in str(before[-1:]))  # of an echo, Claude Code may not go on
        records = list(
            map(
                json.loads,
                export_transcript(store, store.resolve(agent.id), target).text.splitlines(),
            )
        )
        name, new = CONTINUED[target](records)
        store.import_transcripts(
            write_lines(tmp_path / target / f"{name}.jsonl", [*records, new]), settle=0
        )
        assert len(store.agents()) == 1
        prompt = [{"type": "text", "text": NEW}]
        if before and before[-1][0] == "user":
            before[-1] = ("user", joined(before[-1][1] + prompt))
        else:
            before.append(("user", prompt))
        assert asked(agent) == before
