"""Reads of all agents leave out an agent that is deleted in the middle of them, on every backend."""


def act_before(store, monkeypatch, name, act):
    """Do something the first time that a method of the backend is called."""
    real = getattr(store._backend, name)

    def called(*args, **kwargs):
        monkeypatch.setattr(store._backend, name, real)
        act()
        return real(*args, **kwargs)

    monkeypatch.setattr(store._backend, name, called)


def test_notes_of_all_agents_do_without_one_that_is_deleted_meanwhile(store, agent, monkeypatch):
    agent.note("todo")
    passing = agent.fork("passing")
    act_before(store, monkeypatch, "walk", lambda: store.delete(passing))
    assert [owner for owner, _ in store.last_notes("todo")] == [agent]


def test_a_key_is_looked_for_without_an_agent_that_is_deleted_meanwhile(store, agent, monkeypatch):
    agent.append("user", "hello", key="k")
    act_before(store, monkeypatch, "list_agents", lambda: store.delete(agent))
    assert store.find("k") == []


def test_verify_does_without_an_agent_that_is_written_to_and_deleted_meanwhile(
    store, agent, monkeypatch
):
    agent.user("one")
    act_before(store, monkeypatch, "read_rows", lambda: agent.user("two"))
    act_before(store, monkeypatch, "read_head", lambda: store.delete(agent))
    assert store.verify() == []
    assert store.agents() == []
