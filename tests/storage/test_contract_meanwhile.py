"""Every backend: what is asked of whole stores does without an agent that is deleted in the middle of it."""


def before(store, monkeypatch, name, act):
    """Do something the first time that a method of the backend is called."""
    real = getattr(store._log.backend, name)

    def called(*given, **named):
        monkeypatch.setattr(store._log.backend, name, real)
        act()
        return real(*given, **named)

    monkeypatch.setattr(store._log.backend, name, called)


def test_notes_of_all_agents_do_without_one_that_is_deleted_meanwhile(store, agent, monkeypatch):
    agent.note("todo")
    passing = agent.fork("passing")
    before(store, monkeypatch, "walk", lambda: store.delete(passing))
    assert [owner for owner, _ in store.last_notes("todo")] == [agent]


def test_a_key_is_looked_for_without_an_agent_that_is_deleted_meanwhile(store, agent, monkeypatch):
    agent.append("user", "hello", key="k")
    before(store, monkeypatch, "lineage", lambda: store.delete(agent))
    assert store.find("k") == []


def test_verify_does_without_an_agent_that_is_written_to_and_deleted_meanwhile(
    store, agent, monkeypatch
):
    agent.user("one")
    before(store, monkeypatch, "stored", lambda: agent.user("two"))
    before(store, monkeypatch, "head", lambda: store.delete(agent))
    assert store.verify() == []
    assert store.agents() == []
