"""The sessions of Google's ADK: what the service is asked, and who else writes to its sessions."""

import asyncio

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

import backstory
from backstory.adapters.adk import BackstorySessionService
from backstory.storage.sqlite.backend import SqliteBackend

IDS = {"app_name": "app", "user_id": "me"}


@pytest.fixture
def service(durable_url):
    service = BackstorySessionService(durable_url)
    yield service
    service.close()


def said(text, id=None, author="user", **actions):
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    more = {} if id is None else {"id": id}
    return Event(author=author, content=content, actions=EventActions(**actions), **more)


def texts(session):
    return [event.content.parts[0].text for event in session.events]


def test_unknown_existing_and_deleted_sessions(service, run):
    assert run(service.get_session(**IDS, session_id="nobody")) is None
    session = run(service.create_session(**IDS, session_id=" s "))
    assert session.id == "s"
    assert run(service.get_session(**IDS, session_id=" s ")) == session
    with pytest.raises(AlreadyExistsError):
        run(service.create_session(**IDS, session_id="s"))
    other = run(service.create_session(app_name="app", user_id="you", session_id="s"))
    run(service.delete_session(**IDS, session_id="s"))
    run(service.delete_session(**IDS, session_id="s"))
    with pytest.raises(SessionNotFoundError):
        run(service.append_event(session, said("late")))
    assert run(service.get_session(app_name="app", user_id="you", session_id="s")) == other
    assert run(service.create_session(**IDS)).id


def test_state_belongs_to_the_app_the_user_or_the_session(service, run):
    one = run(
        service.create_session(
            **IDS, session_id="one", state={"app:a": 1, "user:u": 2, "s": 3, "temp:t": 4}
        )
    )
    assert one.state == {"app:a": 1, "user:u": 2, "s": 3}
    event = said("x", state_delta={"app:a": 5, "user:u": 6, "s": 7, "temp:t": 8})
    run(service.append_event(one, event))
    assert one.state["temp:t"] == 8
    assert "temp:t" not in one.events[-1].actions.state_delta
    two = run(service.create_session(app_name="app", user_id="you", session_id="two"))
    assert two.state == {"app:a": 5}
    assert run(service.get_user_state(**IDS)) == {"u": 6}
    assert run(service.get_user_state(app_name="app", user_id="nobody")) == {}
    listed = run(service.list_sessions(app_name="app")).sessions
    assert {each.id: each.state for each in listed}["one"] == {"app:a": 5, "user:u": 6, "s": 7}
    assert all(each.events == [] for each in listed)
    assert [each.id for each in run(service.list_sessions(**IDS)).sessions] == ["one"]


def test_events_come_back_equal_and_the_last_one_dates_the_session(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    blob = types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png"))
    events = [
        Event(
            author="user", content=types.Content(role="user", parts=[types.Part(text="look"), blob])
        ),
        said("yes", author="calc", state_delta={"n": 1}),
        Event(author="calc", long_running_tool_ids={"a", "b"}),
        Event(author="calc", output_transcription=types.Transcription(text="words", finished=True)),
        said("nobody's", author=""),
        said("", author="calc"),
    ]
    events[-1].timestamp = 5.0
    for event in events:
        run(service.append_event(session, event))
    run(service.append_event(session, Event(author="calc", partial=True)))
    found = run(service.get_session(**IDS, session_id="s"))
    assert found.events == events
    assert found.last_update_time == session.last_update_time == 5.0


def test_a_part_of_the_events_is_read_by_number_and_time(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    for n in range(6):
        event = said(str(n))
        event.timestamp = float(n)
        run(service.append_event(session, event))

    def read(**config):
        return texts(
            run(service.get_session(**IDS, session_id="s", config=GetSessionConfig(**config)))
        )

    assert read(num_recent_events=0) == []
    assert read(num_recent_events=2) == ["4", "5"]
    assert read(after_timestamp=3.0) == ["3", "4", "5"]
    assert read(num_recent_events=4, after_timestamp=4.0) == ["4", "5"]
    assert read(after_timestamp=9.0) == []


def test_of_two_stale_writers_one_wins_and_nothing_of_the_other_is_written(service, run):
    run(service.create_session(**IDS, session_id="s"))
    one, two = (run(service.get_session(**IDS, session_id="s")) for _ in range(2))

    async def both():
        writes = [
            service.append_event(each, said("x", state_delta={"n": 1})) for each in (one, two)
        ]
        return await asyncio.gather(*writes, return_exceptions=True)

    outcomes = run(both())
    assert sum(isinstance(each, StaleSessionError) for each in outcomes) == 1
    assert len(run(service.get_session(**IDS, session_id="s")).events) == 1


def test_a_session_object_without_a_marker_is_judged_by_what_it_holds(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    run(service.append_event(session, said("a")))
    copy = session.model_copy(deep=True)
    copy._storage_update_marker = None
    run(service.append_event(copy, said("b")))
    behind = session.model_copy(deep=True)
    behind._storage_update_marker = None
    with pytest.raises(StaleSessionError):
        run(service.append_event(behind, said("c")))


def test_the_same_event_delivered_again_is_stored_once(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    event = said("a", id="e1", state_delta={"user:n": 1})
    before = session.model_copy(deep=True)
    for _ in range(2):
        run(service.append_event(session, event))
    run(
        service.append_event(before, event)
    )  # again, by someone who never heard that it was written
    found = run(service.get_session(**IDS, session_id="s"))
    assert texts(found) == ["a"]


def test_a_fork_a_rewind_and_what_others_wrote(service, run):
    session = run(service.create_session(**IDS, session_id="s", state={"begun": 1}))
    run(service.append_event(session, said("a", state_delta={"n": 1})))
    agent = service.agent("app", "me", "s")
    agent.mark("here")
    session = run(service.get_session(**IDS, session_id="s"))
    run(service.append_event(session, said("b", state_delta={"n": 2})))
    branch = run(service.fork_session(**IDS, session_id="s", new_session_id="t", at="here"))
    assert (texts(branch), branch.state) == (["a"], {"begun": 1, "n": 1})
    agent.rewind("here")
    assert run(service.get_session(**IDS, session_id="s")).state == {"begun": 1, "n": 1}
    agent.user("from the chat")
    call = agent.tool_call("add", {"a": 1}, id="c1")
    agent.tool_result(call, "2")
    agent.assistant("Two.")
    found = run(service.get_session(**IDS, session_id="s"))
    assert [event.author for event in found.events] == ["user", "user", "app", "app", "app"]
    assert found.events[3].content.parts[0].function_response.name == "add"
    run(service.append_event(found, said("c")))
    with pytest.raises(AlreadyExistsError):
        run(service.fork_session(**IDS, session_id="s", new_session_id="t"))


def test_two_processes_lose_nothing(durable_url, two_writers, run, sound, opened):
    two_writers("adk", durable_url)
    service = BackstorySessionService(durable_url)
    found = texts(run(service.get_session(**IDS, session_id="shared")))
    assert sorted(found) == sorted(f"{name} {n}" for name in ("one", "two") for n in range(50))
    assert run(service.get_user_state(**IDS)) == {"one": 49, "two": 49}
    sound(opened)


def test_the_registry_names_a_place_by_its_scheme(tmp_path, run):
    service = BackstorySessionService(uri=f"backstory://{tmp_path}/h.db")
    run(service.create_session(**IDS, session_id="s"))
    service.close()
    with backstory.open(tmp_path / "h.db") as store:
        assert len(store.agents(prefix="adk:")) == 1
    with pytest.raises(TypeError):
        BackstorySessionService()


def test_many_sessions_are_listed_by_a_few_queries(tmp_path, run, monkeypatch):
    service = BackstorySessionService(str(tmp_path / "h.db"))

    async def filled(count):
        for number in range(count):
            ids = {
                "app_name": "app",
                "user_id": f"u{number % 3}",
                "session_id": f"s{count}-{number}",
            }
            session = await service.create_session(**ids, state={"user:n": number, "own": number})
            await service.append_event(session, said(f"hello {number}"))

    def asked():
        calls = []
        run_statement = SqliteBackend._run

        def count(self, *args):
            calls.append(1)
            return run_statement(self, *args)

        monkeypatch.setattr(SqliteBackend, "_run", count)
        found = run(service.list_sessions(app_name="app")).sessions
        monkeypatch.setattr(SqliteBackend, "_run", run_statement)
        for each in found:
            ids = {"app_name": "app", "user_id": each.user_id, "session_id": each.id}
            whole = run(service.get_session(**ids))
            assert (each.state, each.last_update_time, each.events) == (
                whole.state,
                whole.last_update_time,
                [],
            )
        return len(found), len(calls)

    run(filled(6))
    few = asked()
    run(filled(20))
    many = asked()
    assert (few[0], many[0]) == (6, 26)
    assert few[1] == many[1]
    agent = service.agent("app", "u0", "s6-0")
    agent.user("from elsewhere")
    assert asked() == (
        26,
        many[1] + 2,
    )  # the walk and the end of the one session that someone else wrote to


LONG = "a/b@é " * 900


@pytest.mark.parametrize("name", ["app_name", "user_id", "session_id"])
def test_ids_of_any_length_are_listed_as_they_are(service, run, name):
    ids = IDS | {"session_id": "s"} | {name: LONG.strip()}
    session = run(service.create_session(**ids, state={"n": 1, "user:n": 2, "app:n": 3}))
    [listed] = run(service.list_sessions(app_name=ids["app_name"], user_id=ids["user_id"])).sessions
    assert {"app_name": listed.app_name, "user_id": listed.user_id, "session_id": listed.id} == ids
    assert listed.state == session.state == {"n": 1, "user:n": 2, "app:n": 3}
    run(service.delete_session(**ids))
    assert run(service.list_sessions(app_name=ids["app_name"])).sessions == []


def test_a_fork_of_nothing_or_onto_another_session_writes_nothing(service, run, opened):
    with pytest.raises(SessionNotFoundError):
        run(service.fork_session(**IDS, session_id="nobody", new_session_id="new"))
    assert opened.agents() == []
    session = run(service.create_session(**IDS, session_id="s"))
    run(service.append_event(session, said("one")))
    service.fork("app", "me", "s", "t")
    with pytest.raises(AlreadyExistsError):
        run(service.fork_session(**IDS, session_id="s", new_session_id=" t "))
    assert len(run(service.list_sessions(**IDS)).sessions) == 2


def test_a_session_that_another_service_created_again_is_taken(service, durable_url, run):
    run(service.create_session(**IDS, session_id="s"))
    with backstory.open(durable_url) as store:
        other = BackstorySessionService(store)
        run(other.delete_session(**IDS, session_id="s"))
        run(other.create_session(**IDS, session_id="s"))
    with pytest.raises(AlreadyExistsError):
        run(service.create_session(**IDS, session_id="s"))


def test_a_session_that_another_service_deleted_is_not_forked(service, durable_url, run):
    run(service.create_session(**IDS, session_id="s"))
    with backstory.open(durable_url) as store:
        run(BackstorySessionService(store).delete_session(**IDS, session_id="s"))
    with pytest.raises(SessionNotFoundError):
        service.fork("app", "me", "s", "t")


def test_an_agent_whose_key_has_no_session_is_not_listed(service, opened, run):
    run(service.create_session(**IDS, session_id="s"))
    opened.ensure("adk:app/me").user("by another program")
    [listed] = run(service.list_sessions(app_name="app")).sessions
    assert listed.id == "s"


def test_a_mark_or_a_note_does_not_make_a_session_object_stale(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    run(service.append_event(session, said("one")))
    agent = service.agent("app", "me", "s")
    agent.mark("here")
    agent.note("rating", {"stars": 5})
    run(service.append_event(session, said("two")))
    agent.user("someone else's")
    with pytest.raises(StaleSessionError):
        run(service.append_event(session, said("three")))


def test_of_two_creations_at_once_one_wins(service, run):
    async def both():
        creations = (
            service.create_session(**IDS, session_id="s", state={"app:n": 1}) for _ in range(2)
        )
        return await asyncio.gather(*creations, return_exceptions=True)

    found = run(both())
    assert sorted(type(each).__name__ for each in found) == ["AlreadyExistsError", "Session"]


def test_a_stale_event_changes_no_state_of_the_app_or_the_user(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    service.agent("app", "me", "s").user("someone else's")
    event = said("late")
    event.actions.state_delta = {"app:n": 1, "user:n": 2, "n": 3}
    with pytest.raises(StaleSessionError):
        run(service.append_event(session, event))
    assert run(service.get_session(**IDS, session_id="s")).state == {}
    assert run(service.get_user_state(**IDS)) == {}


def test_an_event_and_the_state_that_it_changes_are_written_in_one_step(service, run, opened):
    session = run(service.create_session(**IDS, session_id="s", state={"app:n": 0, "user:n": 0}))
    event = said("one")
    event.actions.state_delta = {"app:n": 1, "user:n": 2, "n": 3}
    run(service.append_event(session, event))
    times = set()
    for agent in opened.agents():
        times.add(agent.last_notes(["adk.update"])["adk.update"].created_us)
    assert len(opened.agents()) == 3
    assert len(times) == 1


def test_an_agent_without_events_is_not_a_session_yet(service, run):
    service.agent("app", "me", "s")
    assert run(service.get_session(**IDS, session_id="s")) is None
    assert run(service.list_sessions(**IDS)).sessions == []
    assert run(service.create_session(**IDS, session_id="s")).id == "s"


def test_sessions_are_listed_with_the_last_one_written_to_at_the_end(service, run):
    async def listed():
        sessions = [await service.create_session(**IDS, session_id=id) for id in "abc"]
        for session, time in zip(sessions, (30, 10, 20), strict=True):
            await service.append_event(
                session, said("hello").model_copy(update={"timestamp": time})
            )
        return (await service.list_sessions(**IDS)).sessions

    assert [(each.id, each.last_update_time) for each in run(listed())] == [
        ("b", 10),
        ("c", 20),
        ("a", 30),
    ]


def test_state_of_a_user_that_another_session_changes_meanwhile_makes_nothing_stale(
    service, run, meanwhile
):
    session, other = (run(service.create_session(**IDS, session_id=id)) for id in "ab")
    change = service.append_event(other, said("there", state_delta={"user:there": 1}))
    meanwhile(lambda: run(change), backstory.Store.write, backstory.Store)
    run(service.append_event(session, said("here", state_delta={"user:here": 1})))
    assert run(service.get_user_state(**IDS)) == {"there": 1, "here": 1}


def test_an_answer_is_stored_once(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    content = types.Content(role="model", parts=[types.Part(text="a rather long answer " * 10)])
    run(service.append_event(session, Event(author="calc", content=content)))
    [answer] = service.agent(**IDS, session_id="s").messages()
    assert answer.content == "a rather long answer " * 10
    assert "rather" not in answer.data_json
    assert run(service.get_session(**IDS, session_id="s")).events[0].content == content
    told = service.agent(**IDS, session_id="s").conversation().to("gemini", pause=True)
    assert told["contents"][-1]["parts"] == [{"text": answer.content}]


@pytest.mark.parametrize("value", [1, "text", {"a": 1}, ["b"]], ids=repr)
def test_what_adk_would_not_pass_is_refused_and_writes_nothing(run, value):
    with backstory.open(":memory:") as store:
        service = BackstorySessionService(store)
        session = run(service.create_session(**IDS, session_id="s"))
        before = [(agent, agent.listed_head, agent.updated_at) for agent in store.agents()]
        calls = [
            lambda: service.append_event(session, value),
            lambda: service.append_event(value, Event(author="user")),
            lambda: service.get_session(**IDS, session_id="s", config=value),
        ]
        if value != "text":
            calls += [
                lambda: service.create_session(**IDS, session_id=value),
                lambda: service.get_session(**IDS, session_id=value),
                lambda: service.delete_session(**IDS, session_id=value),
                lambda: service.fork_session(**IDS, session_id=value, new_session_id="new"),
                lambda: service.fork_session(**IDS, session_id="s", new_session_id=value),
            ]
        if not isinstance(value, dict):
            calls.append(lambda: service.create_session(**IDS, state=value))
        for call in calls:
            with pytest.raises(TypeError, match="is of the type"):
                run(call())
        assert [(agent, agent.listed_head, agent.updated_at) for agent in store.agents()] == before


def test_of_a_large_state_only_the_changes_are_written(service, run, opened):
    state = {"large": "x" * 20_000, "n": 0}
    session = run(service.create_session(**IDS, session_id="s", state=state))
    for number in range(20):
        run(service.append_event(session, said("a", state_delta={"n": number})))
    found = run(service.get_session(**IDS, session_id="s"))
    assert found.state == session.state == state | {"n": 19}
    events = opened.agents()[0].events()
    assert sum(len(event.data_json or "") for event in events) < 2 * 20_000


def test_a_state_is_that_of_the_context_and_after_a_clear_the_newest(service, run):
    session = run(service.create_session(**IDS, session_id="s", state={"n": 0}))
    agent = service.agent("app", "me", "s")
    agent.mark("here")
    for number in (1, 2):
        run(service.append_event(session, said("a", state_delta={"n": number})))
    agent.rewind("here")
    assert run(service.get_session(**IDS, session_id="s")).state == {"n": 0}
    agent.undo()
    agent.clear()
    cleared = run(service.get_session(**IDS, session_id="s"))
    assert (cleared.events, cleared.state) == ([], {"n": 2})
    run(service.append_event(cleared, said("b", state_delta={"m": 3})))
    assert run(service.get_session(**IDS, session_id="s")).state == {"n": 2, "m": 3}


def test_a_rewind_into_an_event_leaves_the_part_that_is_live(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    call = types.FunctionCall(id="c1", name="look", args={})
    parts = [types.Part(text="I will look."), types.Part(function_call=call)]
    content = types.Content(role="model", parts=parts)
    run(service.append_event(session, Event(author="calc", content=content)))
    agent = service.agent("app", "me", "s")
    [text, _] = agent.messages()
    agent.jump(text.seq)
    [event] = run(service.get_session(**IDS, session_id="s")).events
    assert event.author == "app"
    assert [part.text for part in event.content.parts] == ["I will look."]
    agent.undo()
    [event] = run(service.get_session(**IDS, session_id="s")).events
    assert event.content == content


def test_the_usage_of_an_answer_is_recorded_with_its_model(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=100,
        candidates_token_count=5,
        thoughts_token_count=2,
        cached_content_token_count=40,
    )
    event = said("Two.", author="calc")
    event.model_version, event.usage_metadata = "gemini-x", usage
    run(service.append_event(session, event))
    [answer] = service.agent("app", "me", "s").messages()
    assert answer.data["model"] == "gemini-x"
    assert answer.data["usage"] == {"input": 100, "output": 7, "cached": 40}


def test_a_call_that_others_left_open_is_closed_unless_repair_is_off(service, run, durable_url):
    agent = service.agent("app", "me", "s")
    agent.user("Look.")
    agent.tool_call("look", {}, id="c1")
    events = run(service.get_session(**IDS, session_id="s")).events
    assert "interrupted" in events[2].content.parts[0].function_response.response["error"]
    assert len({event.id for event in events}) == 3
    other = BackstorySessionService(durable_url, repair=False)
    assert len(run(other.get_session(**IDS, session_id="s")).events) == 2
    other.close()


def test_an_open_call_of_adk_stays_open_until_someone_else_continues(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    call = types.Part(function_call=types.FunctionCall(id="c1", name="look", args={}))
    content = types.Content(role="model", parts=[call])
    run(service.append_event(session, Event(author="calc", content=content)))
    assert len(run(service.get_session(**IDS, session_id="s")).events) == 1
    service.agent("app", "me", "s").user("Never mind.")
    events = run(service.get_session(**IDS, session_id="s")).events
    assert [event.author for event in events] == ["calc", "calc", "user"]
    assert events[1].content.parts[0].function_response.id == "c1"


def test_of_two_results_of_a_call_the_newest_counts_elsewhere(service, run):
    session = run(service.create_session(**IDS, session_id="s"))
    call = types.FunctionCall(id="c1", name="remove", args={})
    pending = types.FunctionResponse(id="c1", name="remove", response={"error": "asks first"})
    done = types.FunctionResponse(id="c1", name="remove", response={"result": "removed"})
    parts = [
        ("model", types.Part(function_call=call)),
        ("user", types.Part(function_response=pending)),
        ("user", types.Part(function_response=done)),
    ]
    run(service.append_event(session, said("Remove it.")))
    for role, part in parts:
        content = types.Content(role=role, parts=[part])
        run(service.append_event(session, Event(author="calc", content=content)))
    agent = service.agent("app", "me", "s")
    for format in backstory.wire.FORMATS:
        body = str(agent.conversation().to(format))
        assert "removed" in body
        assert "asks first" not in body
    assert len(run(service.get_session(**IDS, session_id="s")).events) == 4
