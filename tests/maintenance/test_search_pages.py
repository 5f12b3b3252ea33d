"""Search page by page, within a session, and while the index is behind."""

import threading

import pytest

import backstory
from backstory.maintenance import indexer
from tests.processes import wait_until


@pytest.fixture
def stories(store):
    """Two sessions, one of them with a fork, that say the same word."""
    main, other = store.start("main"), store.start("other")
    for n in range(10):
        main.user(f"needle {n}")
        other.user(f"needle {n}" + " straw" * n)
    fork = main.fork("fork")
    fork.user("needle of the fork")
    return main, other, fork


def found(hits):
    return [(hit.agent.name, hit.event.seq) for hit in hits]


def test_titles_and_tags_are_searched(store, stories):
    main, other, _ = stories
    main.describe(title="Café in Zanzibar", tags=["holiday plans"])
    other.describe(title="zanzibar", cwd="/holiday")
    assert {agent.name for agent in store.search("ZANZIBAR").titled} == {"main", "other"}
    assert [agent.name for agent in store.search("zanzibar holiday").titled] == ["main"]
    assert [agent.name for agent in store.search("cafe").titled] == ["main"]
    assert [agent.name for agent in store.search('"holiday plans"').titled] == ["main"]
    assert store.search("nothing").titled == []
    assert [agent.name for agent in store.search("zanzibar", session="main").titled] == ["main"]
    assert [agent.name for agent in store.search("zanzibar", agent=other).titled] == ["other"]
    assert [agent.name for agent in store.search("zanzi*", limit=1).titled] == ["other"]


def test_titles_are_only_on_the_first_page_and_not_among_kinds(store, stories):
    main, _, _ = stories
    main.describe(title="needle")
    first = store.search("needle", limit=4)
    assert [agent.name for agent in first.titled] == ["main"]
    assert store.search("needle", limit=4, after=first[-1]).titled == []
    assert store.search("needle", kinds=["user"]).titled == []
    assert store.search("needle", live=True).titled == []


def test_labels_are_found_and_the_names_of_our_notes_are_not(store):
    agent = store.start("main")
    agent.user("hi")
    agent.label("turning point", at=1)
    agent.settings(model="model-x")
    agent.note("todo", {"text": "hidden"})
    assert found(store.search("turning")) == [("main", 2)]
    assert found(store.search("todo")) == [("main", 4)]
    for word in ("backstory", "settings", "label", "model", "hidden"):
        assert store.search(word) == [], word


def test_pages_are_the_whole_in_parts(store, stories):
    whole = store.search("needle", limit=100)
    assert len(whole) == 21
    seen, last = [], None
    while page := store.search("needle", limit=4, after=last):
        seen += page
        last = page[-1]
    assert found(seen) == found(whole)


def test_a_search_within_a_session_finds_what_all_its_agents_wrote(store, stories):
    main, _, fork = stories
    hits = store.search("needle", session="main", limit=100)
    assert len(hits) == 11
    assert {hit.agent.session for hit in hits} == {main.session}
    assert len(store.search("needle", session=fork.id, live=True, limit=100)) == 11
    with pytest.raises(backstory.AgentNotFound):
        store.search("needle", session="missing")


def test_a_long_log_is_indexed_in_the_background_and_the_answer_says_so(durable_url, monkeypatch):
    monkeypatch.setattr("backstory.maintenance.search.AT_ONCE", 5)
    held, pages = threading.Event(), indexer._index_pages
    monkeypatch.setattr(indexer, "_index_pages", lambda *args: held.wait() and pages(*args))
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.extend([("user", f"needle {n}") for n in range(20)])
        hits = store.search("needle")
        assert (len(hits), hits.behind) == (0, 20)
        held.set()
        wait_until(lambda: not store.search("needle").behind, "the index")
        assert len(store.search("needle", limit=100)) == 20


def test_who_wants_to_wait_or_to_be_told_gets_everything(durable_url, monkeypatch):
    monkeypatch.setattr("backstory.maintenance.search.AT_ONCE", 5)
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.extend([("user", f"needle {n}") for n in range(20)])
        hits = store.search("needle", wait=True, limit=100)
        assert (len(hits), hits.behind) == (20, 0)
        agent.extend([("user", f"needle {n}") for n in range(20)])
        told = []
        assert (
            len(store.search("needle", limit=100, progress=lambda *done: told.append(done))) == 40
        )
        assert told[-1] == (20, 20)


def test_one_thread_indexes_however_many_search(durable_url, monkeypatch):
    monkeypatch.setattr("backstory.maintenance.search.AT_ONCE", 0)
    held, runs, pages = threading.Event(), [], indexer._index_pages

    def counted(*args):
        runs.append(args)
        held.wait()
        return pages(*args)

    monkeypatch.setattr(indexer, "_index_pages", counted)
    with backstory.open(durable_url) as store:
        store.start("main").user("needle")
        for _ in range(3):
            assert store.search("needle").behind == 1
        held.set()
        wait_until(lambda: len(store.search("needle")) == 1, "the index")
        assert len(runs) == 1


def test_closing_the_store_ends_the_indexing_without_a_word(durable_url, monkeypatch):
    monkeypatch.setattr("backstory.maintenance.search.AT_ONCE", 0)
    held, pages = threading.Event(), indexer._index_pages
    monkeypatch.setattr(indexer, "_index_pages", lambda *args: held.wait() and pages(*args))
    store = backstory.open(durable_url)
    store.start("main").user("needle")
    store.search("needle")
    thread = indexer._threads[store._backend]
    store.close()
    held.set()
    thread.join(120)
    assert not thread.is_alive()
