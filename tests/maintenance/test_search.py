"""Search: the same on every store, complete whenever it is asked, page by page."""

import subprocess
import sys
import threading

import apsw
import pytest

import backstory
from backstory.log.terms import parse_phrases, split_words
from backstory.maintenance import indexing
from backstory.reading import get_record
from backstory.storage.protocol import CANDIDATES, SearchQuery, SearchScope
from tests.maintenance.raw import run_sql
from tests.processes import wait_until


@pytest.fixture
def agent(store):
    agent = store.start("main", system="Be careful.")
    agent.user("Which Python files are here?")
    call = agent.tool_call("glob", {"pattern": "*.py", "note": "line one\nline two"}, id="call_1")
    agent.tool_result(call, "a.py\nb.py")
    agent.mark("two files")
    agent.user("Delete b.py.")
    agent.rewind("two files")
    return agent


@pytest.fixture
def stories(store):
    """Two sessions, one of them with a fork, that contain the same word."""
    main, other = store.start("main"), store.start("other")
    for n in range(10):
        main.user(f"needle {n}")
        other.user(f"needle {n}" + " straw" * n)
    fork = main.fork("fork")
    fork.user("needle of the fork")
    return main, other, fork


def positions(hits):
    return [(hit.agent.name, hit.event.seq) for hit in hits]


def sorted_positions(hits):
    return sorted(positions(hits))


def names(agents):
    return [agent.name for agent in agents]


def find_matches(store, text):
    """Ask the index itself."""
    return store._backend.find_matches(SearchQuery(parse_phrases(text)), 10_000)


# --- words ---


def test_words_are_found_in_texts_arguments_and_labels_dead_or_alive(store, agent):
    assert sorted_positions(store.search("py")) == [("main", 3), ("main", 4), ("main", 6)]
    assert sorted_positions(store.search("two")) == [("main", 3), ("main", 5)]
    assert sorted_positions(store.search("glob")) == [("main", 3)]
    assert store.search("nothing") == []
    assert {hit.event.seq: hit.live for hit in store.search("py")} == {3: True, 4: True, 6: False}


def test_bookkeeping_is_not_found(store, agent):
    bookkeeping = {"model": "gpt-x", "usage": {"input": 7777}, "request": {"sha256": "feedbeef"}}
    agent.assistant("The files are a.py and b.py.", data=bookkeeping)
    for word in ("gpt", "7777", "feedbeef", "call_1", "target", "pattern", "5"):
        assert store.search(word) == [], word
    [hit] = store.search('"the files"')
    assert hit.snippet == "The files are a.py and b.py."


def test_labels_are_found_and_the_names_of_reserved_notes_are_not(store):
    agent = store.start("main")
    agent.user("hi")
    agent.label("turning point", at=1)
    agent.settings(model="model-x")
    agent.note("todo", {"text": "hidden"})
    assert positions(store.search("turning")) == [("main", 2)]
    assert positions(store.search("todo")) == [("main", 4)]
    for word in ("backstory", "settings", "label", "model", "hidden"):
        assert store.search(word) == [], word


def test_all_words_must_occur_and_phrases_side_by_side(store, agent):
    assert positions(store.search("files python")) == [("main", 2)]
    assert positions(store.search('"python files"')) == [("main", 2)]
    assert store.search('"files python"') == []
    assert positions(store.search("pyth*")) == [("main", 2)]
    assert sorted_positions(store.search("b.py")) == [("main", 4), ("main", 6)]


def test_very_long_texts_are_found(store):
    agent = store.start("main")
    # PostgreSQL's vectors have limits: of positions, of positions of one word, and of bytes.
    agent.user(" ".join(f"w{n}" for n in range(20_000)) + " the end")
    agent.user("again " * 300 + "over and out")
    agent.user(" ".join(f"word{n:08x}" for n in range(120_000)) + " last words")
    assert positions(store.search('"the end"')) == [("main", 1)]
    assert store.search('"end the"') == []
    assert positions(store.search('"again over and out"')) == [("main", 2)]
    assert positions(store.search('"last words"')) == [("main", 3)]
    assert positions(store.search("w7 the")) == [("main", 1)]


TEXTS = {
    "cafe": "naïve Café",
    "搜索": "在搜索历史",
    "ПРИВЕТ": "Привет, мир",
    "quoted": "“quoted” — dash",
    "wave": "a 👋 wave",
    "x": "\U0001d54f marks",
}


def test_unicode_is_found_on_every_store(store):
    agent = store.start("main")
    for text in TEXTS.values():
        agent.user(text)
    for seq, asked in enumerate(TEXTS, 1):
        assert positions(store.search(asked)) == [("main", seq)], asked


def test_words_contain_nothing_that_a_database_interprets():
    text = "it's a \\ test: 'x' & \"y\" | !z <-> NEAR(a) AND * ^ ² ፩"
    assert all(word.isalnum() for word in split_words(text))


# --- filters and order ---


def test_filters(store, agent):
    assert positions(store.search("py", kinds=["user"])) == [("main", 6)]
    assert sorted_positions(store.search("py", live=True)) == [("main", 3), ("main", 4)]
    assert positions(store.search("py", kinds=["user", "tool_result"], live=True)) == [("main", 4)]
    assert len(store.search("py", limit=1)) == 1
    with pytest.raises(backstory.Invalid, match="unknown kind 'poem'"):
        store.search("py", kinds=["poem"])


def test_an_agent_is_searched_with_its_inherited_events_and_nothing_else(store, agent):
    child = agent.fork("child", at=3)
    child.user("py in the child")
    other = store.start("other")
    other.user("py elsewhere")
    assert sorted_positions(store.search("py", agent="child")) == [("child", 3), ("child", 4)]
    live = store.search("py", agent=agent, live=True)
    assert sorted_positions(live) == [("main", 3), ("main", 4)]
    every = store.search("py", agent=agent)
    assert sorted_positions(every) == [("main", 3), ("main", 4), ("main", 6)]
    assert len(store.search("py")) == 5


def test_an_agent_without_a_context_has_no_live_hits(store):
    store.start("main").user("needle")
    assert store.search("needle", agent=store.start("empty"), live=True) == []


def test_a_session_is_searched_with_all_its_agents(store, stories):
    main, _, fork = stories
    hits = store.search("needle", session="main", limit=100)
    assert len(hits) == 11
    assert {hit.agent.session for hit in hits} == {main.session}
    assert len(store.search("needle", session=fork.id, live=True, limit=100)) == 11
    with pytest.raises(backstory.AgentNotFound):
        store.search("needle", session="missing")


def test_an_event_is_live_if_any_fork_has_it_in_its_context(store, agent):
    child = agent.fork("child", at=6)
    grandchild = child.fork("grandchild", at=6)
    early = agent.fork("early", at=1)
    child.clear()
    agent.clear()
    assert positions(store.search("delete", live=True)) == positions(store.search("delete"))
    assert positions(store.search("delete", live=True, limit=1)) == [("grandchild", 6)]
    grandchild.clear()
    assert store.search("delete", live=True) == []
    assert positions(store.search("delete")) == [("main", 6)]
    assert positions(store.search("careful", live=True)) == [("early", 1)]
    assert store.search("careful", live=True, agent=child) == []
    early.clear()
    assert not store.search("careful")[0].live


def test_the_better_match_comes_first_with_the_positions_of_its_words(store):
    agent = store.start("main")
    agent.user("one needle in " + "a lot of hay " * 30)
    agent.user("needle, needle, needle")
    first, second = store.search("needle")
    assert (first.event.seq, second.event.seq) == (2, 1)
    assert first.score > second.score
    assert [first.snippet[low:high] for low, high in first.spans] == ["needle"] * 3


def test_in_one_agent_short_texts_rank_higher(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.user("needle " + "and many other words " * 20)
        agent.user("needle needle")
        agent.user("the needle")
        found = [hit.event.seq for hit in store.search("needle", agent=agent)]
        assert found == [2, 3, 1]
        assert store.search("needle", agent=agent, kinds=["assistant"]) == []


def test_live_events_are_found_after_any_number_of_better_dead_ones(store):
    agent = store.start("main")
    agent.mark("x")
    agent.extend([("user", "needle needle needle", None)] * 300)
    agent.rewind("x")
    agent.user("one needle in " + "a lot of hay " * 30)
    assert positions(store.search("needle", live=True, limit=2)) == [("main", 303)]


def test_more_matches_are_found_than_are_ranked_at_once(store):
    agent = store.start("main")
    agent.extend([("user", "needle", None)] * (CANDIDATES + 5))
    assert len(store.search("needle", limit=CANDIDATES + 10, wait=True)) == CANDIDATES + 5


def test_pages_are_parts_of_the_complete_result(store, stories):
    complete = store.search("needle", limit=100)
    assert len(complete) == 21
    seen, last = [], None
    while page := store.search("needle", limit=4, after=last):
        seen += page
        last = page[-1]
    assert positions(seen) == positions(complete)


# --- titles ---


def test_titles_and_tags_are_searched(store, stories):
    main, other, _ = stories
    main.describe(title="Café in Zanzibar", tags=["holiday plans"])
    other.describe(title="zanzibar", cwd="/holiday")
    assert set(names(store.search("ZANZIBAR").titled)) == {"main", "other"}
    assert names(store.search("zanzibar holiday").titled) == ["main"]
    assert names(store.search("cafe").titled) == ["main"]
    assert names(store.search('"holiday plans"').titled) == ["main"]
    assert store.search("nothing").titled == []
    assert names(store.search("zanzibar", session="main").titled) == ["main"]
    assert names(store.search("zanzibar", agent=other).titled) == ["other"]
    assert names(store.search("zanzi*", limit=1).titled) == ["other"]


def test_titles_are_only_on_the_first_page_and_not_among_kinds(store, stories):
    main, _, _ = stories
    main.describe(title="needle")
    first = store.search("needle", limit=4)
    assert names(first.titled) == ["main"]
    assert store.search("needle", limit=4, after=first[-1]).titled == []
    assert store.search("needle", kinds=["user"]).titled == []
    assert store.search("needle", live=True).titled == []


# --- the index ---


def test_events_that_were_appended_since_the_last_search_are_found(store, agent):
    assert store.search("later") == []
    agent.user("later")
    child = agent.fork("child")
    child.user("later still")
    assert sorted_positions(store.search("later")) == [("child", 9), ("main", 8)]


@pytest.mark.parametrize("version", [1, 2])
def test_an_index_of_an_older_rule_is_built_again(durable_url, version):
    with backstory.open(durable_url) as store:
        store.start("main").user("needle")
    run_sql(durable_url, f"CREATE TABLE search_{version} (words text)")
    run_sql(durable_url, f"CREATE TABLE searched_{version} (agent integer, upto integer)")
    run_sql(durable_url, f"INSERT INTO searched_{version} VALUES (1, 1)")
    with backstory.open(durable_url) as store:
        assert positions(store.search("needle")) == [("main", 1)]
    for table in (f"search_{version}", f"searched_{version}"):
        run_sql(durable_url, f"CREATE TABLE {table} (was_dropped integer)")


def test_searches_of_several_threads_index_everything_once(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.extend([("user", f"needle {n}", None) for n in range(5_000)])
        counts = []

        def search_all():
            counts.append(len(store.search("needle", limit=6_000, wait=True)))

        threads = [threading.Thread(target=search_all) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == [5_000] * 4
        assert len(find_matches(store, "needle")) == 5_000


def test_events_that_another_process_has_indexed_are_not_indexed_again(durable_url):
    with backstory.open(durable_url) as store, backstory.open(durable_url) as other:
        store.start("main").extend([("user", "needle", None)] * 3)
        assert store._backend.count_unindexed() == 3
        assert other._backend.index_events(2) == 2
        assert store._backend.index_events(10) == 1
        assert other._backend.index_events(10) == 0
        assert store._backend.count_unindexed() == 0
        assert len(find_matches(store, "needle")) == 3


def test_events_that_are_erased_or_deleted_before_they_are_indexed_stay_out(durable_url):
    with backstory.open(durable_url) as store:
        stays, goes = store.start("stays"), store.start("goes")
        stays.extend([("user", "harmless", None), ("user", "secret plan", None)])
        goes.user("secret too")
        assert store._backend.count_unindexed() == 3
        assert store._backend.index_events(1) == 1
        stays.erase([2], why="a test")
        store.delete("goes")
        store._backend.index_events(10)
        for text in ("secret", "plan", "too"):
            assert find_matches(store, text) == []
        assert len(find_matches(store, "harmless")) == 1
        assert store._backend.count_unindexed() == 0
        assert store.verify() == []


def test_a_search_within_one_agent_indexes_only_what_that_agent_sees(durable_url):
    with backstory.open(durable_url) as store:
        other, parent = store.start("other"), store.start("parent")
        other.user("needle elsewhere")
        parent.user("needle inherited")
        child = parent.fork("child")
        child.user("my needle")
        hits = store.search("needle", agent=child)
        assert sorted_positions(hits) == [("child", 1), ("child", 2)]
        record = get_record(store._backend, other)
        scope = SearchScope(record.session, tuple(store._backend.read_lineage(record)))
        assert store._backend.count_unindexed(scope) == 1
        assert store._backend.count_unindexed() == 1
        assert len(store.search("needle")) == 3


def test_searches_within_one_agent_do_not_fill_the_memory(tmp_path):
    """FTS5 keeps every function that it is given until the connection is closed."""
    with backstory.open(tmp_path / "store.db") as store:
        agent = store.start()
        agent.user("needle")
        used = []
        for _ in range(3):
            used.append(apsw.memory_used())
            for _ in range(50):
                store.search("needle", agent=agent)
    assert used[1] == used[2]


def test_a_search_that_is_killed_leaves_nothing_half_done(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.extend([("user", f"needle {n}", None) for n in range(6_000)])
    code = (
        "import os, sys, backstory\n"
        "def die(done, total):\n"
        "    os._exit(9)\n"
        f"backstory.open({durable_url!r}).search('needle', progress=die)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with backstory.open(durable_url) as store:
        calls = []
        hits = store.search("needle", limit=7_000, progress=lambda *call: calls.append(call))
        assert len(hits) == 6_000
        assert calls[-1] == (4_000, 4_000)  # the first page was there already


def test_searching_writes_no_event_and_the_store_stays_sound(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.user("needle")
        store.search("needle")
        assert agent.head == 1
        assert store.verify() == []


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("method", ["find_matches", "list_agents", "walk"])
def test_an_agent_that_is_deleted_during_a_search_is_not_found(store, monkeypatch, live, method):
    stays, goes = store.start(), store.start()
    for agent in (stays, goes):
        agent.user("a needle")
    store.search("needle", wait=True)
    original, deleted = getattr(store._backend, method), []

    def delete_afterwards(*arguments, **options):
        found = original(*arguments, **options)
        if not deleted:
            deleted.append(True)
            store.delete(goes.id)
        return found

    monkeypatch.setattr(store._backend, method, delete_afterwards)
    assert {hit.agent.id for hit in store.search("needle", live=live)} == {stays.id}


def test_a_session_is_searched_although_its_newest_agent_is_deleted_meanwhile(store, monkeypatch):
    root = store.start("root")
    root.user("a needle")
    newest = root.spawn("newest")  # inherits nothing, and owns nothing that is found
    find_matches, deleted = store._backend.find_matches, []

    def delete_first(*arguments):
        if not deleted:
            deleted.append(True)
            store.delete(newest.id)
        return find_matches(*arguments)

    monkeypatch.setattr(store._backend, "find_matches", delete_first)
    assert sorted_positions(store.search("needle", session=root.session)) == [("root", 1)]


def test_a_damaged_log_can_still_be_searched(tmp_path):
    path = str(tmp_path / "history.db")
    with backstory.open(path) as store:
        store.start("main").extend([("user", f"needle {n}", None) for n in range(3)])
        run_sql(path, "DELETE FROM events WHERE seq = 2")
        assert sorted_positions(store.search("needle")) == [("main", 1), ("main", 3)]


def test_a_damaged_log_is_indexed_to_its_end(tmp_path):
    path = str(tmp_path / "history.db")
    with backstory.open(path) as store:
        store.start("main").extend([("user", f"needle{n}") for n in range(1, 4_002)])
        run_sql(path, "DELETE FROM events WHERE seq = 2")
        assert sorted_positions(store.search("needle4001")) == [("main", 4001)]


def test_events_are_indexed_without_being_counted_first(durable_url):
    with backstory.open(durable_url) as store:
        store.start("main").user("a needle")
        assert store._backend.index_events(10) == 1
        assert [found.seq for found in find_matches(store, "needle")] == [1]


@pytest.mark.parametrize(
    "lost", ["TABLE search_3", "TABLE searched_3", "TRIGGER remember_unsearched_3"]
)
def test_an_index_of_which_a_part_was_dropped_is_created_again(tmp_path, lost):
    path = str(tmp_path / "history.db")
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("needle one")
        assert len(store.search("needle")) == 1
        run_sql(path, f"DROP {lost}")
        agent.user("needle two")
        assert len(store.search("needle")) == 2
        assert store.verify() == []


# --- indexing in the background ---


class Gate:
    """Holds the indexing of a store until it is opened, and counts how often it began."""

    def __init__(self, store, monkeypatch):
        self.began = 0
        self._opened = threading.Event()
        self._index_events = store._backend.index_events
        monkeypatch.setattr(store._backend, "index_events", self._wait_and_index)

    def open(self):
        self._opened.set()

    def _wait_and_index(self, *arguments):
        self.began += 1
        self._opened.wait(120)
        return self._index_events(*arguments)


def test_a_search_that_does_not_wait_counts_the_events_that_it_lacks(durable_url, monkeypatch):
    monkeypatch.setattr(indexing, "AT_ONCE", 5)
    with backstory.open(durable_url) as store:
        gate = Gate(store, monkeypatch)
        agent = store.start("main")
        agent.extend([("user", f"needle {n}") for n in range(20)])
        hits = store.search("needle", wait=False)
        assert (len(hits), hits.missing) == (0, 20)
        gate.open()
        wait_until(lambda: not store.search("needle", wait=False).missing, "the index")
        assert len(store.search("needle", limit=100)) == 20


def test_a_search_finds_everything_however_much_is_new(durable_url, monkeypatch):
    monkeypatch.setattr(indexing, "AT_ONCE", 5)
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.extend([("user", f"needle {n}") for n in range(20)])
        hits = store.search("needle", limit=100)
        assert (len(hits), hits.missing) == (20, 0)
        agent.extend([("user", f"needle {n}") for n in range(20)])
        calls = []
        hits = store.search("needle", limit=100, progress=lambda *call: calls.append(call))
        assert len(hits) == 40
        assert calls[-1] == (20, 20)


def test_events_that_cannot_be_indexed_are_counted_as_missing(durable_url, monkeypatch):
    with backstory.open(durable_url) as store:
        monkeypatch.setattr(store._backend, "index_events", lambda *arguments: 0)
        store.start("main").user("needle")
        assert store.search("needle").missing == 1


def test_one_thread_indexes_for_many_searches(durable_url, monkeypatch):
    monkeypatch.setattr(indexing, "AT_ONCE", 0)
    with backstory.open(durable_url) as store:
        gate = Gate(store, monkeypatch)
        store.start("main").user("needle")
        for _ in range(3):
            assert store.search("needle", wait=False).missing == 1
        gate.open()
        wait_until(lambda: len(store.search("needle", wait=False)) == 1, "the index")
        assert gate.began == 1


def test_closing_the_store_ends_the_indexing_silently(durable_url, monkeypatch):
    monkeypatch.setattr(indexing, "AT_ONCE", 0)
    before = set(threading.enumerate())
    store = backstory.open(durable_url)
    gate = Gate(store, monkeypatch)
    store.start("main").user("needle")
    store.search("needle", wait=False)
    started = set(threading.enumerate()) - before
    [thread] = [thread for thread in started if thread.name == "backstory-index"]
    store.close()
    gate.open()
    thread.join(120)
    assert not thread.is_alive()
