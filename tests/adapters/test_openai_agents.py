"""The session of the OpenAI Agents SDK: its protocol, and what it means in the log."""

import asyncio
import gc
import json
from functools import reduce

import pytest
from agents import SessionSettings
from agents.extensions.memory import EncryptedSession
from agents.memory import Session
from agents.memory import session as agents_session

import backstory
from backstory.adapters import openai_agents
from backstory.adapters.openai_agents import BackstorySession

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}],
}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "add",
    "arguments": '{"a": 1,  "b":2}',
    "id": "fc_1",
}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
IMAGE = {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"}
SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_2",
    "action": {"commands": ["ls"]},
    "status": "completed",
}
SHELL_OUTPUT = {
    "type": "shell_call_output",
    "call_id": "call_2",
    "output": [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}
SHAPES = {
    "text": {"role": "user", "content": "hi"},
    "order": {"content": "hi", "role": "user"},
    "typed": {"type": "message", "role": "user", "content": "hi"},
    "parts": {"role": "user", "content": [{"type": "input_text", "text": "look"}, IMAGE]},
    "developer": {"role": "developer", "content": "be brief"},
    "empty": {"role": "user", "content": ""},
    "null": {"role": "assistant", "content": None},
    "answer": MESSAGE,
    "call": CALL,
    "call without ids": {"type": "function_call", "name": "f", "arguments": "{}"},
    "broken arguments": CALL | {"arguments": '{"a": '},
    "output": OUTPUT,
    "output as a list": OUTPUT | {"output": [{"type": "input_text", "text": "3"}]},
    "reasoning": REASONING,
    "shell": SHELL,
    "shell output": SHELL_OUTPUT,
    "computer": {
        "type": "computer_call",
        "id": "cu",
        "call_id": "c",
        "action": {"type": "click", "x": 1, "y": 2},
    },
    "mcp": {
        "type": "mcp_call",
        "id": "m",
        "name": "n",
        "arguments": "{}",
        "server_label": "s",
        "output": "o",
    },
    "approval": {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True},
    "web search": {"type": "web_search_call", "id": "ws", "status": "completed"},
    "compaction": {"type": "compaction", "id": "cmp", "encrypted_content": "gAAA"},
    "reference": {"type": "item_reference", "id": "msg_9"},
    "encrypted": {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAA"},
    "unknown role": {"role": "narrator", "content": "meanwhile"},
    "nothing": {},
    "surrogate": {"role": "user", "content": "\ud83d"},
    "nul": {"role": "user", "content": "a\0b"},
    "not a number": {"role": "user", "content": "x", "score": float("nan")},
    "large number": {"role": "user", "content": "x", "score": 2**80},
}


@pytest.fixture
def session(durable_url):
    session = BackstorySession("user-42", durable_url)
    yield session
    session.close()


def texts(items):
    return [item["content"] for item in items]


def users(*names):
    return [{"role": "user", "content": name} for name in names]


def test_it_is_what_the_sdk_calls_a_session():
    assert isinstance(BackstorySession("s"), Session)


def test_settings_may_be_a_dict_without_unknown_fields():
    assert BackstorySession("s", session_settings={"limit": 2}).session_settings == SessionSettings(
        limit=2
    )
    with pytest.raises((TypeError, ValueError)):
        BackstorySession("s", session_settings={"limits": 2})


@pytest.mark.parametrize("shape", SHAPES)
def test_an_item_comes_back_equal_as_json(shape, run):
    session = BackstorySession("s")
    run(session.add_items([SHAPES[shape]]))
    assert json.dumps(run(session.get_items())) == json.dumps([SHAPES[shape]])
    assert json.dumps(run(session.pop_item())) == json.dumps(SHAPES[shape])
    assert run(session.get_items()) == []


def test_all_items_come_back_from_a_database_after_reopening(durable_url, run, sound):
    session = BackstorySession("s", durable_url)
    run(session.add_items(list(SHAPES.values())))
    session.close()
    with backstory.open(durable_url) as store:
        again = BackstorySession("s", store)
        assert json.dumps(run(again.get_items())) == json.dumps(list(SHAPES.values()))
        sound(store)


def test_items_are_messages_for_everything_else(run):
    session = BackstorySession("s")
    run(
        session.add_items([*users("1 + 2?"), REASONING, CALL, OUTPUT, MESSAGE, SHELL, SHELL_OUTPUT])
    )
    kinds = [(message.kind, message.content) for message in session.agent.conversation()]
    assert kinds == [
        ("user", "1 + 2?"),
        ("assistant", ""),
        ("tool_call", None),
        ("tool_result", "3"),
        ("assistant", "Hello."),
        ("tool_call", None),
        ("tool_result", "a.py"),
    ]


def test_the_request_of_the_stored_items_is_the_items(run):
    session = BackstorySession("s")
    items = [
        *users("1 + 2?"),
        REASONING,
        CALL,
        OUTPUT,
        REASONING | {"id": "rs_2"},
        MESSAGE,
        *users("Thanks."),
    ]
    run(session.add_items(items))
    assert session.agent.conversation().to("openai-responses", stored=True)["input"] == items


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, "abcde"), (2, "de"), (5, "abcde"), (99, "abcde"), (0, ""), (-1, "abcde")],
)
def test_a_limit_gives_the_newest_in_order(limit, expected, run):
    session = BackstorySession("s")
    run(session.add_items(users(*"abcde")))
    assert texts(run(session.get_items(limit))) == list(expected)


def test_without_a_limit_the_settings_decide(run):
    session = BackstorySession("s", session_settings=SessionSettings(limit=2))
    run(session.add_items(users(*"abcde")))
    assert texts(run(session.get_items())) == ["d", "e"]
    assert texts(run(session.get_items(3))) == ["c", "d", "e"]


def test_a_limit_counts_items_and_not_events_over_many_pages_moves_and_notes(run):
    session = BackstorySession("s")
    for n in range(30):
        run(session.add_items([*users(*(f"{n}.{m}" for m in range(10))), {}]))
        session.agent.note("between")
        run(session.add_items(users("gone")))
        run(session.pop_item())
    everything = run(session.get_items())
    assert len(everything) == 330
    for limit in (1, 7, 80, 200, 329, 330):
        assert run(session.get_items(limit)) == everything[-limit:]


def test_pop_gives_the_newest_and_none_at_the_end(session, run):
    assert run(session.pop_item()) is None
    run(session.add_items(users("a", "b")))
    assert [run(session.pop_item()) for _ in range(3)] == [*users("b", "a"), None]


def test_twenty_pops_at_once_give_twenty_items(session, run):
    run(session.add_items(users(*map(str, range(25)))))

    async def pops():
        return await asyncio.gather(*(session.pop_item() for _ in range(20)))

    popped = run(pops())
    assert sorted(map(int, texts(popped))) == list(range(5, 25))
    assert texts(run(session.get_items())) == list("01234")


def write_call(agent):
    agent.tool_call("f", {}, id="c1")


def write_result(agent):
    agent.tool_call("f", {}, id="c1")
    agent.tool_result("c1", "one")


def write_results_in_reverse_order(agent):
    agent.tool_call("f", {}, id="c1")
    agent.tool_call("g", {}, id="c2")
    agent.tool_result("c2", "two")
    agent.tool_result("c1", "one")


def write_late_result(agent):
    agent.tool_call("f", {}, id="c1")
    agent.user("Well?")
    agent.tool_result("c1", "one")


def write_two_texts(agent):
    agent.assistant("One moment.")
    agent.assistant("Now.")


def write_own_message_before_result(agent):
    agent.tool_call("f", {}, id="c1")
    agent.extend(openai_agents.build_drafts(json.dumps(users("Well?")[0])))
    agent.tool_result("c1", "one")


@pytest.mark.parametrize(
    "write",
    [
        write_call,
        write_result,
        write_results_in_reverse_order,
        write_late_result,
        write_two_texts,
        write_own_message_before_result,
    ],
    ids=lambda write: write.__name__,
)
def test_pop_removes_one_item_after_messages_of_others(session, run, write):
    session.agent.user("Go.")
    write(session.agent)
    items = run(session.get_items())
    while items:
        assert run(session.pop_item()) == items[-1]
        assert run(session.get_items()) == items[:-1]
        items = items[:-1]
    assert run(session.pop_item()) is None


def test_clear_and_pop_are_moves_and_the_log_keeps_everything(session, run):
    run(session.add_items(users("a", "b")))
    run(session.pop_item())
    run(session.clear_session())
    assert run(session.get_items()) == []
    run(session.add_items(users("c")))
    assert texts(run(session.get_items())) == ["c"]
    assert [event.content for event in session.agent.events() if event.kind == "user"] == [
        "a",
        "b",
        "c",
    ]
    session.agent.undo()
    assert texts(run(session.get_items())) == ["a"]


def test_clearing_one_session_leaves_the_others_alone(durable_url, run):
    one, two = BackstorySession("one", durable_url), BackstorySession("two", durable_url)
    run(one.add_items(users("a")))
    run(two.add_items(users("b")))
    run(one.clear_session())
    assert texts(run(two.get_items())) == ["b"]
    one.close()
    two.close()


def test_a_session_that_someone_deleted_begins_again(session, durable_url, run):
    run(session.add_items(users("a")))
    with backstory.open(durable_url) as store:
        store.delete(session.agent.id)
    run(session.add_items(users("b")))
    assert texts(run(session.get_items())) == ["b"]


def test_a_closed_session_refuses_everything(run):
    session = BackstorySession("s")
    run(session.add_items(users("a")))
    session.close()
    calls = (
        session.get_items,
        session.pop_item,
        session.clear_session,
        lambda: session.add_items([]),
    )
    for call in (*calls, lambda: session.add_items(users("b"))):
        with pytest.raises(RuntimeError):
            run(call())


def test_ids_of_any_text_are_sessions_of_their_own(durable_url, run):
    ids = ["", " ", "a/b", "a_b", "a@b", "x" * 5_000, "x" * 5_001, "é", "%2F", "/"]
    with backstory.open(durable_url) as store:
        sessions = [BackstorySession(id, store) for id in ids]
        for n, session in enumerate(sessions):
            run(session.add_items(users(str(n))))
        assert [texts(run(session.get_items())) for session in sessions] == [
            [str(n)] for n in range(len(ids))
        ]


@pytest.mark.parametrize("strange", ["a set", "itself", "3,000 levels"])
def test_what_is_not_json_writes_nothing(session, run, strange):
    item = {"role": "user"}
    deep = reduce(lambda inner, _: [inner], range(3_000), "deep")
    item["content"] = {"a set": {1, 2}, "itself": item, "3,000 levels": deep}[strange]
    with pytest.raises(TypeError):
        run(session.add_items([*users("a"), item]))
    assert run(session.get_items()) == []


def test_reading_a_session_that_is_not_there_makes_none(durable_url, run):
    with backstory.open(durable_url) as store:
        session = BackstorySession("s", store)
        assert run(session.get_items()) == []
        run(session.clear_session())
        assert store.agents() == []


def test_batches_of_two_processes_stay_together_and_the_store_is_sound(
    durable_url, two_writers, run, sound
):
    two_writers("openai_agents", durable_url)
    with backstory.open(durable_url) as store:
        session = BackstorySession("shared", store)
        written = [
            event.content.rsplit(" ", 1) for event in session.agent.events() if event.kind == "user"
        ]
        assert len(written) == 200
        assert all(one[0] == two[0] for one, two in zip(written[::2], written[1::2], strict=True))
        assert len(run(session.get_items())) == 190
        sound(store)


def test_a_cancelled_write_is_seen_through(session, run):
    async def cancelled():
        task = asyncio.ensure_future(session.add_items(users("a")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await session.get_items()

    assert texts(run(cancelled())) == ["a"]


def test_what_the_chat_wrote_is_an_item(session, run):
    agent = session.agent
    agent.system("Be brief.")
    agent.user("1 + 2?")
    agent.assistant("")
    call = agent.tool_call("add", {"a": 1}, id="c1")
    agent.tool_result(call, "3")
    agent.assistant("3.")
    assert run(session.get_items()) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 + 2?"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"role": "assistant", "content": "3."},
    ]


def test_what_the_agent_rewound_is_gone_at_the_next_read(session, run):
    run(session.add_items(users("a")))
    session.agent.mark("here")
    run(session.add_items(users("b")))
    session.agent.rewind("here")
    assert texts(run(session.get_items())) == ["a"]


def test_a_fork_goes_on_from_any_position_without_touching_the_first(session, durable_url, run):
    run(session.add_items(users("a", "b")))
    branch = session.fork("user-42/b", at=1)
    run(branch.add_items(users("c")))
    assert texts(run(branch.get_items())) == ["a", "c"]
    assert texts(run(session.get_items())) == ["a", "b"]
    assert branch.agent.parent == session.agent.id
    again = BackstorySession("user-42/b", durable_url)
    assert texts(run(again.get_items(1))) == ["c"]


@pytest.mark.parametrize("place", ["history.db", ":memory:"])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_fork_outlives_its_parent(place, is_closed, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parent = BackstorySession("a", place)
    run(parent.add_items(users("a")))
    branch = parent.fork("b")
    agent = branch.agent
    if is_closed:
        parent.close()
    del parent
    gc.collect()
    assert texts(run(branch.get_items())) == ["a"]
    branch.close()
    with pytest.raises(backstory.StorageError, match="closed"):
        agent.messages()


def test_a_fork_has_the_settings_of_its_parent(run):
    parent = BackstorySession("a", session_settings=SessionSettings(limit=1), repair=True)
    run(parent.add_items([*users("a"), OUTPUT]))
    branch = parent.fork("b")
    assert branch.session_id == "b"
    assert run(branch.get_items()) == [OUTPUT]
    branch.session_settings = None
    assert texts(run(branch.get_items())) == ["a"]


def test_outputs_without_calls_are_left_out_when_asked(run):
    nameless = {"type": "function_call_output", "output": "3"}
    items = [*users("a"), OUTPUT, nameless, CALL | {"call_id": "x"}, OUTPUT | {"call_id": "x"}]
    for repair, expected in ((False, items), (True, [items[0], *items[3:]])):
        session = BackstorySession("s", repair=repair)
        run(session.add_items(items))
        assert run(session.get_items()) == expected
        assert run(session.get_items(1)) == items[-1:]  # its call is there, beyond the limit


compacting_in_one_step = pytest.mark.skipif(
    not hasattr(agents_session, "_CompactionSnapshot"), reason="the SDK asks for it from 0.23 on"
)


@compacting_in_one_step
def test_the_newest_items_are_replaced_in_one_step_unless_someone_wrote(session, run):
    run(session.add_items(users("a", "b", "c")))
    snapshot = run(session._get_compaction_snapshot(2))
    assert (texts(snapshot.items), snapshot.complete) == (["b", "c"], False)
    assert run(snapshot.replace_suffix(1, users("C"))) is True
    assert texts(run(session.get_items())) == ["a", "b", "C"]
    assert run(snapshot.replace_suffix(1, users("D"))) is False
    assert texts(run(session.get_items())) == ["a", "b", "C"]
    assert run(session._get_compaction_snapshot(9)).complete


@compacting_in_one_step
def test_a_late_result_of_others_stays_if_a_later_item_is_replaced(session, run):
    session.agent.user("Go.")
    write_late_result(session.agent)
    items = run(session.get_items())
    snapshot = run(session._get_compaction_snapshot(1))
    assert run(snapshot.replace_suffix(0, users("B"))) is True
    assert run(session.get_items()) == [*items[:-1], *users("B")]


@compacting_in_one_step
def test_the_first_items_are_pruned_with_the_replacement(session, run):
    run(session.add_items(users("old", "older", "a", "old", "b")))
    snapshot = run(
        session._get_compaction_snapshot(1, prune_prefix=lambda item: "old" in item["content"])
    )
    assert texts(run(session.get_items())) == ["old", "older", "a", "old", "b"]
    assert run(snapshot.replace_suffix(0, users("B"))) is True
    assert texts(run(session.get_items())) == ["a", "old", "B"]
    session.agent.undo()
    assert texts(run(session.get_items())) == ["old", "older", "a", "old", "b"]


def test_the_encrypting_wrapper_works_around_it_and_nothing_is_in_the_clear(session, run):
    wrapped = EncryptedSession("user-42", session, encryption_key="a secret that is long enough")
    run(wrapped.add_items(users("the treasure")))
    assert texts(run(wrapped.get_items())) == ["the treasure"]
    assert all(
        "treasure" not in f"{event.content}{event.data_json}" for event in session.agent.events()
    )
    assert texts([run(wrapped.pop_item())]) == ["the treasure"]


def test_a_session_opens_an_agent_that_something_else_began(run):
    with backstory.open(":memory:") as store:
        store.ensure("mine").user("Hello?")
        session = BackstorySession("s", store, key="mine")
        assert run(session.get_items()) == users("Hello?")


@pytest.mark.parametrize(
    "items", ["text", [1], [b"x"], [None], [{"role": "user", "content": "a"}, "b"]]
)
def test_what_is_not_an_item_writes_nothing(session, run, items):
    with pytest.raises(TypeError):
        run(session.add_items(items))
    assert run(session.get_items()) == []


def test_a_jump_restores_what_was_popped_with_a_wrong_key(session, run):
    run(EncryptedSession("s", session, "the right secret").add_items(users("one", "two")))
    before = run(session.get_items())
    head = session.agent.head
    assert run(EncryptedSession("s", session, "another secret").pop_item()) is None
    assert run(session.get_items()) == []
    session.agent.jump(head)
    assert run(session.get_items()) == before
