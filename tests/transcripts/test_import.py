"""Sessions into a store: trees, times and sub-agents; again, growing, killed in the middle, two at once."""

import json
import os
from random import Random
from types import SimpleNamespace
from weakref import WeakSet

import pytest
from hypothesis import given

import backstory
from backstory.transcripts.claude_code import sessions as claude_code
from backstory.transcripts.claude_code.sessions import ClaudeFile
from tests.threads import in_threads
from tests.transcripts.reading import context, everything, mutated, write_lines
from tests.transcripts.stories import Story, seeds, tree
from tests.transcripts.test_stories import joined, without_instructions, without_order
from tests.transcripts.writers import TOOLS


@pytest.fixture
def url(every_url):
    """Every backend: these tests write while others do, or what others must read."""
    return every_url


SESSION = "0c5f2f0e-0000-4000-8000-0000000000a1"


@pytest.fixture(params=TOOLS)
def tool(request):
    return TOOLS[request.param]


def user(id, text, parent, second, **more):
    return line(id, parent, second, "user", {"role": "user", "content": text}, **more)


def answer(id, blocks, parent, second, message=None, **more):
    body = {
        "role": "assistant",
        "id": message or f"msg_{id}",
        "model": "claude-x",
        "content": blocks,
    }
    return line(id, parent, second, "assistant", body | {"usage": {"input_tokens": 7}}, **more)


def line(id, parent, second, type_, message, **more):
    record = {
        "uuid": id,
        "parentUuid": parent,
        "type": type_,
        "message": message,
        "sessionId": SESSION,
    }
    time = f"2026-03-01T09:00:{second:02}.000Z"
    return (
        record | {"timestamp": time, "isSidechain": False, "cwd": "/src", "version": "2.1.0"} | more
    )


def text(words):
    return [{"type": "text", "text": words}]


def call(id, **given):
    return [{"type": "tool_use", "id": id, "name": "Task", "input": given}]


def result(id, tool_use, words, parent, second, **more):
    content = [{"type": "tool_result", "tool_use_id": tool_use, "content": words}]
    return user(id, content, parent, second, **more)


REWOUND = [
    user("u1", "one", None, 1),
    answer("a1", text("first"), "u1", 2),
    user("u2", "two", "a1", 3),
    answer("a2", text("second"), "u2", 4),
    user("u3", "two again", "a1", 5),
    answer("a3", text("third"), "u3", 6),
]


def said(agent):
    spoken = agent.context().messages
    return [event.content for event in spoken if event.kind in ("user", "assistant")]


def main(store):
    return store.agent(SESSION)


def settle(path):
    """Make a file old: nobody is writing to it."""
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def test_a_session_comes_in_with_its_tree_times_and_details(store, tmp_path):
    path = write_lines(
        tmp_path / f"{SESSION}.jsonl", [*REWOUND, {"type": "custom-title", "customTitle": "Parser"}]
    )
    outcome = store.import_transcripts(settle(path))
    agent = main(store)
    assert said(agent) == ["one", "first", "two again", "third"]
    assert [event.kind for event in agent.events()].count("jump") == 1
    assert [event.created_at.second for event in agent.events() if event.kind != "jump"] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    assert agent.about["title"] == "Parser"
    assert (agent.about["cwd"], agent.about["source"]["tool"]) == ("/src", "claude-code")
    first = agent.find("a1")
    assert (first.data["model"], first.data["usage"], first.data["answer"]) == (
        "claude-x", {"input": 7}, "msg_a1",
    )  # fmt: skip
    assert store.agent("Parser") == store.agent(SESSION[:6]) == agent
    [session] = outcome.sessions
    assert (session.agent, session.new_events, session.branches, session.is_new) == (
        agent.id,
        7,
        1,
        True,
    )
    assert session.title == "Parser"
    assert store.verify() == []


def test_a_sub_agent_is_born_at_its_call_and_one_without_a_session_gets_a_root(store, tmp_path):
    write_lines(
        tmp_path / f"{SESSION}.jsonl",
        [
            user("u1", "go", None, 1),
            answer("a1", call("toolu_1", prompt="look around"), "u1", 2),
            result("r1", "toolu_1", "done", "a1", 9, toolUseResult={"agentId": "abc"}),
        ],
    )
    side = {"isSidechain": True, "agentId": "abc"}
    write_lines(
        tmp_path / SESSION / "subagents" / "agent-abc.jsonl",
        [
            user("s1", "look around", None, 3, **side),
            answer("s2", text("nothing"), "s1", 4, **side),
        ],
    )
    lost = {"isSidechain": True, "agentId": "def", "sessionId": "gone"}
    write_lines(tmp_path / "agent-def.jsonl", [user("w1", "Warmup", None, 3, **lost)])
    store.import_transcripts(tmp_path, settle=0)
    agent = main(store)
    sub = store.agent(f"{SESSION}/abc")
    assert (sub.parent, sub.spawned, sub.fork_seq) == (agent.id, True, 0)
    assert agent.events([sub.born_seq])[0].data["id"] == "toolu_1"
    assert said(sub) == ["look around", "nothing"]
    orphan = store.agent("gone/def")
    assert store.agent("gone").head == 0
    assert orphan.parent == store.agent("gone").id
    assert store.verify() == []


def test_a_fork_goes_on_from_its_parent_and_has_only_its_own_events(store, tmp_path):
    write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND[:4])
    other = "0c5f2f0e-0000-4000-8000-0000000000a2"
    copied = [
        record | {"sessionId": other, "forkedFrom": {"sessionId": SESSION}}
        for record in REWOUND[:2]
    ]
    write_lines(tmp_path / f"{other}.jsonl", [*copied, user("f1", "elsewhere", "a1", 9)])
    store.import_transcripts(tmp_path, settle=0)
    fork = store.agent(other)
    assert (fork.parent, fork.fork_seq, fork.head) == (main(store).id, 2, 3)
    assert said(fork) == ["one", "first", "elsewhere"]


def test_a_second_import_adds_nothing_and_does_not_open_what_did_not_change(store, tmp_path):
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND))
    assert store.import_transcripts(path).has_news
    size = path.stat().st_size
    path.write_bytes(b"x" * size)  # who opens it now, sees that it is no transcript
    outcome = store.import_transcripts(settle(path))
    assert not outcome.has_news
    assert outcome.sessions == []
    assert not outcome.merge_reports()
    settle(write_lines(path, REWOUND))
    os.utime(path)  # touched: it is read again, and all of it is known
    outcome = store.import_transcripts(path, settle=0)
    assert [session.new_events for session in outcome.sessions] == [0]


def test_only_what_changed_and_what_is_tied_to_it_is_read_again(store, tmp_path):
    other = "0c5f2f0e-0000-4000-8000-0000000000b2"
    write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND)
    write_lines(tmp_path / f"{other}.jsonl", [user("z1", "alone", None, 1)])
    store.import_transcripts(tmp_path, settle=0)
    write_lines(
        tmp_path / f"{other}.jsonl", [user("z1", "alone", None, 1), user("z2", "more", "z1", 2)]
    )
    outcome = store.import_transcripts(tmp_path, settle=0)
    assert [(session.id, session.new_events) for session in outcome.sessions] == [(other, 1)]


def test_a_session_is_let_go_when_it_is_written(store, tmp_path, monkeypatch):
    alive, counts = WeakSet(), []

    class Counted(ClaudeFile):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            alive.add(self)
            counts.append(len(alive))

    monkeypatch.setattr(claude_code, "ClaudeFile", Counted)
    for number in range(8):
        records = [user(f"{number}", "alone", None, number)]
        write_lines(tmp_path / f"0c5f2f0e-0000-4000-8000-{number:012}.jsonl", records)
    assert len(store.import_transcripts(tmp_path, settle=0).sessions) == 8
    assert max(counts) <= 2


def test_a_line_of_an_answer_is_complete_although_more_of_the_answer_may_come(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [user("u1", "go", None, 1), answer("a1", text("We"), "u1", 2, "m1")]
    outcome = store.import_transcripts(write_lines(path, lines))
    assert [session.unfinished for session in outcome.sessions] == [0]
    assert said(main(store)) == ["go", "We"]
    lines.append(answer("a2", text("can."), "a1", 3, "m1"))
    store.import_transcripts(write_lines(path, lines))
    assert said(main(store)) == ["go", "We", "can."]


def test_the_rest_of_an_answer_that_paused_comes_once_and_stays_in_the_context(store, tmp_path):
    """Claude Code writes a line a block; some models begin with a blank one before they think for long."""
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [user("u1", "go", None, 1), answer("a1", text("\n\n"), "u1", 2, "m1")]
    store.import_transcripts(write_lines(path, lines), settle=0)
    lines += [answer("a2", text("We"), "a1", 3, "m1"), answer("a3", call("c1"), "a2", 4, "m1")]
    store.import_transcripts(write_lines(path, lines), settle=0)
    head = main(store).head
    os.utime(path, (1, 1))
    store.import_transcripts(path, settle=0)
    assert main(store).head == head
    lines += [result("r1", "c1", "done", "a3", 5), user("u2", "more", "r1", 6)]
    store.import_transcripts(write_lines(path, lines), settle=0)
    heard = [event.content for event in main(store).context().messages if event.kind != "jump"]
    assert heard == ["go", "\n\n", "We", None, "done", "more"]


def test_a_title_that_a_person_gave_stays(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    title = {"type": "custom-title", "customTitle": "Theirs"}
    store.import_transcripts(write_lines(path, [*REWOUND[:2], title]), settle=0)
    main(store).describe(title="Mine")
    store.import_transcripts(write_lines(path, [*REWOUND, title]), settle=0)
    assert main(store).about["title"] == "Mine"
    store.import_transcripts(
        write_lines(path, [*REWOUND, title | {"customTitle": "New"}]), settle=0
    )
    assert main(store).about["title"] == "New"


def test_the_head_stays_with_a_person_and_what_the_tool_added_is_a_branch(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    store.import_transcripts(write_lines(path, REWOUND[:2]), settle=0)
    main(store).user("asked here")
    outcome = store.import_transcripts(write_lines(path, REWOUND[:4]), settle=0)
    assert said(main(store)) == ["one", "first", "asked here"]
    assert {"two", "second"} <= {event.content for event in main(store).events()}
    assert "is a branch" in outcome.merge_reports().notes[0].what


def test_two_imports_at_once_do_no_harm(durable_url, tmp_path):
    records = [user("u0", "0", None, 0)]
    records += [user(f"u{n}", str(n), f"u{n - 1}", n % 60) for n in range(1, 300)]
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", records))

    def import_it(_):
        with backstory.open(durable_url) as store:
            store.import_transcripts(path)

    in_threads(import_it, 3)
    with backstory.open(durable_url) as store:
        assert said(main(store)) == [str(n) for n in range(300)]
        assert store.verify() == []


def test_an_import_that_stops_in_the_middle_is_gone_on_with(store, tmp_path, monkeypatch):
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND))
    monkeypatch.setattr("backstory.transcripts.writing.BATCH", 2)
    seen = []

    def stop(*_):
        raise KeyboardInterrupt

    real = backstory.Intake.commit

    def commit(self):
        seen.append(self)
        return stop() if len(seen) == 4 else real(self)

    monkeypatch.setattr(backstory.Intake, "commit", commit)
    with pytest.raises(KeyboardInterrupt):
        store.import_transcripts(path)
    assert 0 < main(store).head < 7
    monkeypatch.undo()
    store.import_transcripts(path)
    assert said(main(store)) == ["one", "first", "two again", "third"]
    assert main(store).head == 7
    assert store.verify() == []


def test_secrets_are_replaced_and_counted_if_that_is_asked_for(store, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    records = [
        user("u1", f"use {secret}", None, 1),
        answer("a1", call("toolu_1", token=secret), "u1", 2),
    ]
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", records))
    outcome = store.import_transcripts(path, mask=True)
    everything = "".join(f"{event.content}{event.data_json}" for event in main(store).events())
    assert secret not in everything
    assert everything.count("[github secret ") == 2
    assert outcome.masked == {"github": 2}


@pytest.mark.parametrize("secret", ["ghp_" + "a1B2" * 9, "AKIA" + "A1B2" * 4])
def test_an_answer_with_a_secret_that_was_replaced_is_completed(store, tmp_path, secret):
    path = tmp_path / f"{SESSION}.jsonl"
    records = [user("u1", "go", None, 1), answer("a1", text(f"It is {secret}."), "u1", 2, "m1")]
    records += [
        answer("a2", text(f" {secret}"), "a1", 3, "m1"),
        answer("a3", text("!"), "a2", 4, "m1"),
    ]
    for end in (2, 3, 4):
        store.import_transcripts(write_lines(path, records[:end]), settle=0, mask=True)
    pieces = [
        event.content for event in main(store).context().messages if event.kind == "assistant"
    ]
    marked = pieces[0][len("It is ") : -1]
    assert pieces == [f"It is {marked}.", f" {marked}", "!"]
    assert marked.startswith("[")


def test_an_answer_with_a_secret_that_was_kept_is_completed_without_further_ones(store, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    path = tmp_path / f"{SESSION}.jsonl"
    records = [user("u1", "go", None, 1), answer("a1", text(f"It is {secret}."), "u1", 2, "m1")]
    store.import_transcripts(write_lines(path, records), settle=0)
    records += [answer("a2", text(f" {secret}"), "a1", 3, "m1")]
    store.import_transcripts(write_lines(path, records), settle=0, mask=True)
    pieces = [
        event.content for event in main(store).context().messages if event.kind == "assistant"
    ]
    assert pieces[0] == f"It is {secret}."
    assert pieces[1].startswith(" [github secret ")


def test_what_is_said_about_a_session_has_no_secrets_if_that_is_asked_for(store, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    path = tmp_path / f"{SESSION}.jsonl"
    records = [line | {"cwd": f"/{secret}"} for line in REWOUND]
    title = {"type": "custom-title", "customTitle": "x" * 40 + secret}
    store.import_transcripts(write_lines(path, records[:2]), settle=0, mask=True)
    outcome = store.import_transcripts(
        write_lines(path, [*records[:4], title]), settle=0, mask=True
    )
    [session] = outcome.sessions
    assert session.title == main(store).about["title"]
    named = "".join(f"{agent.name}{agent.about}" for agent in store.agents())
    assert "ghp_" not in f"{named}{session.title}{store.intake().source('claude-code', SESSION)}"
    assert named.count("[github secret ") == 3  # in the folder, the title and the name
    assert outcome.masked == {"github": 1}
    again = store.import_transcripts(write_lines(path, [*records, title]), settle=0, mask=True)
    assert again.masked == {}


def test_images_are_left_out_if_that_is_asked_for(store, tmp_path):
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "what is this?"}]
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", [user("u1", content, None, 1)]))
    store.import_transcripts(path, images=False)
    [event] = main(store).events()
    assert "iVBORw0KGgo" not in event.data_json
    assert "what is this?" in json.dumps(main(store).conversation().to("anthropic"))


def test_raw_keeps_every_record_beside_the_conversation(store, tmp_path):
    records = [*REWOUND, {"type": "bridge-session", "odd": 1}]
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", records))
    store.import_transcripts(path, raw=True)
    [keeper] = [agent for agent in store.agents() if agent.name.startswith("raw ")]
    assert keeper.parent == main(store).id
    assert [note.data["record"] for note in keeper.notes("backstory.raw")] == records
    os.utime(path)
    store.import_transcripts(path, raw=True, settle=0)
    assert keeper.head == len(records)


def test_raw_records_have_no_secrets_and_no_images_if_that_is_asked_for(store, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": source}, {"type": "text", "text": f"use {secret}"}]
    path = settle(
        write_lines(tmp_path / f"{SESSION}.jsonl", [user("u1", content, None, 1, odd=secret)])
    )
    store.import_transcripts(path, raw=True, mask=True, images=False)
    kept = "".join(event.data_json or "" for agent in store.agents() for event in agent.events())
    assert "backstory.raw" in {
        event.content for agent in store.agents() for event in agent.events()
    }
    assert secret not in kept
    assert "iVBORw0KGgo" not in kept


def test_raw_keeps_a_document_of_one_session_and_says_what_it_cannot_keep(store, tmp_path):
    info = {"id": "ses_1", "title": "T", "directory": "/w", "odd": [1]}
    part = {"id": "prt_1", "type": "text", "text": "hello"}
    asked = {"info": {"id": "msg_1", "role": "user", "time": {"created": 1}}, "parts": [part]}
    document = {"info": info, "messages": [asked]}
    folder = tmp_path / "transcripts"
    folder.mkdir()
    path = folder / "export.json"
    path.write_text(json.dumps(document))
    settle(path)
    chats = [{"messages": [{"role": "user", "content": str(n)}]} for n in range(2)]
    settle(write_lines(folder / "chats.jsonl", chats))
    outcome = store.import_transcripts(folder, raw=True)
    [keeper] = [agent for agent in store.agents() if agent.name.startswith("raw ")]
    assert keeper.parent == store.agent("ses_1").id
    assert [note.data for note in keeper.notes("backstory.raw")] == [{"record": document}]
    [note] = outcome.report.notes
    assert note.source.endswith("chats.jsonl")
    assert "one session" in note.what
    os.utime(path)
    store.import_transcripts(folder, raw=True, settle=0)
    assert keeper.head == 1


def test_sessions_can_be_chosen_by_time_and_by_folder(store, tmp_path):
    from datetime import UTC, datetime

    write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND)
    for options in (
        {"since": datetime(2026, 4, 1, tzinfo=UTC)},
        {"project": "/elsewhere"},
        {"project": "/sr"},
        {"dry": True},
    ):
        store.import_transcripts(tmp_path, settle=0, **options)
        assert store.agents() == []
    store.import_transcripts(
        tmp_path, settle=0, since=datetime(2026, 2, 1, tzinfo=UTC), project="/src"
    )
    assert said(main(store))[0] == "one"


def test_progress_is_told_in_bytes(store, tmp_path):
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND))
    told = []
    store.import_transcripts(path, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (path.stat().st_size, path.stat().st_size)


def test_progress_is_told_within_a_large_file(store, tmp_path):
    words = "word " * 300
    lines = [user(f"u{n}", words, f"u{n - 1}" if n else None, 1) for n in range(1_500)]
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", lines))
    told = []
    store.import_transcripts(path, progress=lambda done, total: told.append(done))
    assert told == sorted(told)
    assert len(set(told)) > 4


# --- what holds for every format ---


@tree
@given(seed=seeds)
def test_a_source_that_grows_ends_in_the_store_where_a_fresh_import_would(tmp_path, tool, seed):
    random = Random(seed)
    story = Story(random, **tool.options)
    name, lines = tool.write(story)
    with backstory.open(":memory:") as store:
        ends = [*sorted(random.sample(range(1, len(lines) + 1), min(4, len(lines)))), len(lines)]
        for end in ends:
            path = write_lines(tmp_path / name, lines[:end])
            quiet = 0 if end == len(lines) or random.random() < 0.5 else 1e9
            store.import_transcripts(path, format=tool.format, settle=quiet)
            if quiet == 0:  # touched: it is read again, and all of it is known
                os.utime(path, (end, end))
                assert not store.import_transcripts(path, format=tool.format).has_news
        [agent] = store.agents()
        kept = logged(store, agent)
        assert without_order(without_instructions(context(kept))) == without_order(
            story.leaf.context()
        )
        assert joined(without_instructions(everything(kept))) == joined(story.everything())
        assert store.verify() == []


def logged(store, agent):
    """The events of an agent with their bases, as the tests of the parsers have them."""
    rows = store._backend.read_rows(agent._record, 0, 100_000)
    return [
        SimpleNamespace(seq=r.seq, kind=r.kind, content=r.content, data=r.event.data, base=r.base)
        for r in rows
    ]


@tree
@given(seed=seeds)
def test_a_broken_file_never_raises_and_never_breaks_the_store(tmp_path, tool, seed):
    random = Random(seed)
    name, lines = tool.write(Story(random, **tool.options))
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with backstory.open(":memory:") as store:
        for _ in range(2):
            with mutated(data, random) as broken:
                (tmp_path / name).write_bytes(broken)
            store.import_transcripts(tmp_path / name, format=tool.format, settle=0)
            assert store.verify() == []
