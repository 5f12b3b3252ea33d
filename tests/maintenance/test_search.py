"""Search: the same on every store, complete whenever it is asked."""

import subprocess
import sys
import threading

import apsw
import pytest

import backstory
from backstory.log.terms import query as words_query
from backstory.log.terms import searchable, words
from backstory.maintenance import indexer
from backstory.storage.postgres import index as postgres_index
from backstory.storage.protocols import CANDIDATES
from backstory.storage.sqlite import index as sqlite_index


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


def places(hits):
    return sorted((hit.agent.name, hit.event.seq) for hit in hits)


def test_words_are_found_in_texts_arguments_and_labels_dead_or_alive(store, agent):
    assert places(store.search("py")) == [("main", 3), ("main", 4), ("main", 6)]
    assert places(store.search("two")) == [("main", 3), ("main", 5)]
    assert places(store.search("glob")) == [("main", 3)]
    assert places(store.search("nothing")) == []
    assert {hit.event.seq: hit.live for hit in store.search("py")} == {3: True, 4: True, 6: False}


def test_bookkeeping_is_not_found(store, agent):
    bookkeeping = {"model": "gpt-x", "usage": {"input": 7777}, "request": {"sha256": "feedbeef"}}
    agent.assistant("The files are a.py and b.py.", data=bookkeeping)
    for word in ("gpt", "7777", "feedbeef", "call_1", "target", "pattern", "5"):
        assert places(store.search(word)) == [], word
    [hit] = store.search('"the files"')
    assert hit.snippet == "The files are a.py and b.py."


@pytest.mark.parametrize("version", [1, 2])
def test_an_index_of_an_older_rule_is_built_again(durable_url, version):
    with backstory.open(durable_url) as store:
        store.start("main").user("needle")
        schema = "backstory." if "postgresql" in durable_url else ""
        with store._backend._connection() as db:
            db.execute(f"CREATE TABLE {schema}search_{version} (words text)")
            db.execute(f"CREATE TABLE {schema}searched_{version} (agent integer, upto integer)")
            db.execute(f"INSERT INTO {schema}searched_{version} VALUES (1, 1)")
    with backstory.open(durable_url) as store:
        assert places(store.search("needle")) == [("main", 1)]
        with store._backend._connection() as db:
            for table in (f"search_{version}", f"searched_{version}"):
                db.execute(f"CREATE TABLE {schema}{table} (was_dropped integer)")


def test_all_words_have_to_be_there_and_phrases_side_by_side(store, agent):
    assert places(store.search("files python")) == [("main", 2)]
    assert places(store.search('"python files"')) == [("main", 2)]
    assert places(store.search('"files python"')) == []
    assert places(store.search("pyth*")) == [("main", 2)]
    assert places(store.search("b.py")) == [("main", 4), ("main", 6)]


def test_filters(store, agent):
    assert places(store.search("py", kinds=["user"])) == [("main", 6)]
    assert places(store.search("py", live=True)) == [("main", 3), ("main", 4)]
    assert places(store.search("py", kinds=["user", "tool_result"], live=True)) == [("main", 4)]
    assert len(store.search("py", limit=1)) == 1
    with pytest.raises(backstory.Invalid, match="unknown kind 'poem'"):
        store.search("py", kinds=["poem"])


def test_an_agent_is_searched_with_what_it_inherits_and_nothing_else(store, agent):
    child = agent.fork("child", at=3)
    child.user("py in the child")
    other = store.start("other")
    other.user("py elsewhere")
    assert places(store.search("py", agent="child")) == [("child", 3), ("child", 4)]
    assert places(store.search("py", agent=agent, live=True)) == [("main", 3), ("main", 4)]
    assert places(store.search("py", agent=agent)) == [("main", 3), ("main", 4), ("main", 6)]
    assert len(store.search("py")) == 5


def test_live_is_what_any_fork_still_has_in_its_context(store, agent):
    child = agent.fork("child", at=6)
    grandchild = child.fork("grandchild", at=6)
    early = agent.fork("early", at=1)
    child.clear()
    agent.clear()
    assert places(store.search("delete", live=True)) == places(store.search("delete"))
    assert places(store.search("delete", live=True, limit=1)) == [("grandchild", 6)]
    grandchild.clear()
    assert places(store.search("delete", live=True)) == []
    assert places(store.search("delete")) == [("main", 6)]
    assert places(store.search("careful", live=True)) == [("early", 1)]
    assert places(store.search("careful", live=True, agent=child)) == []
    early.clear()
    assert not store.search("careful")[0].live


def test_what_was_appended_since_is_found(store, agent):
    assert store.search("later") == []
    agent.user("later")
    child = agent.fork("child")
    child.user("later still")
    assert places(store.search("later")) == [("child", 9), ("main", 8)]


def test_the_better_match_comes_first_and_says_where_it_matched(store):
    agent = store.start("main")
    agent.user("one needle in " + "a lot of hay " * 30)
    agent.user("needle, needle, needle")
    first, second = store.search("needle")
    assert (first.event.seq, second.event.seq) == (2, 1)
    assert first.score > second.score
    assert [first.snippet[low:high] for low, high in first.spans] == ["needle"] * 3


def test_live_events_are_found_behind_any_number_of_better_dead_ones(store):
    agent = store.start("main")
    agent.mark("x")
    agent.extend([("user", "needle needle needle", None)] * 300)
    agent.rewind("x")
    agent.user("one needle in " + "a lot of hay " * 30)
    assert places(store.search("needle", live=True, limit=2)) == [("main", 303)]


def test_more_matches_than_are_ranked_at_once(store):
    agent = store.start("main")
    agent.extend([("user", "needle", None)] * (CANDIDATES + 5))
    assert len(store.search("needle", limit=CANDIDATES + 10, wait=True)) == CANDIDATES + 5


def test_very_long_texts_are_found_too(store):
    agent = store.start("main")
    agent.user(" ".join(f"w{n}" for n in range(20_000)) + " the end")  # beyond PostgreSQL's places
    agent.user("again " * 300 + "over and out")  # beyond its places of one word
    agent.user(
        " ".join(f"word{n:08x}" for n in range(120_000)) + " last words"
    )  # beyond its vectors
    assert places(store.search('"the end"')) == [("main", 1)]
    assert places(store.search('"end the"')) == []
    assert places(store.search('"again over and out"')) == [("main", 2)]
    assert places(store.search('"last words"')) == [("main", 3)]
    assert places(store.search("w7 the")) == [("main", 1)]


def test_vectors_that_do_not_fit_say_so():
    assert postgres_index.vector(["a", "b", "a"]) == (False, "'a':1,3 'b':2")
    assert postgres_index.vector(["a"] * 300) == (True, "'a'")
    assert postgres_index.vector([f"{n:09}" for n in range(200_000)]) == (True, None)


def test_unicode_is_found_on_every_store(store):
    agent = store.start("main")
    texts = (
        "naïve Café",
        "在搜索历史",
        "Привет, мир",
        "“quoted” — dash",
        "a 👋 wave",
        "\U0001d54f marks",
    )
    for text in texts:
        agent.user(text)
    for asked, seq in (
        ("cafe", 1),
        ("搜索", 2),
        ("ПРИВЕТ", 3),
        ("quoted", 4),
        ("wave", 5),
        ("x", 6),
    ):
        assert places(store.search(asked)) == [("main", seq)], asked


def test_searches_of_several_threads_index_everything_once(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.extend([("user", f"needle {n}", None) for n in range(5_000)])
        found = []
        threads = [
            threading.Thread(
                target=lambda: found.append(len(store.search("needle", limit=6_000, wait=True)))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [5_000] * 4


def test_what_another_process_has_indexed_meanwhile_is_not_indexed_again(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.extend([("user", "needle", None)] * 2)
        backend = store._backend
        [behind] = backend.backlog("", None)
        assert (behind.after, behind.upto) == (0, 2)
        backend.index([(behind, [(1, ["needle"]), (2, ["needle"])])])
        backend.index([(behind._replace(upto=1), [(1, ["late"])])])
        assert backend.backlog("", None) == []
        assert backend.find(words_query("late"), kinds=(), pieces=None, session="", limit=9) == []
        assert (
            len(backend.find(words_query("needle"), kinds=(), pieces=None, session="", limit=9))
            == 2
        )


@pytest.mark.parametrize("scope", ["store", "agent"])
def test_what_is_erased_or_deleted_while_it_is_indexed_does_not_come_into_the_index(
    durable_url, scope
):
    with backstory.open(durable_url) as store:
        backend = store._backend
        kept, gone = store.start("kept"), store.start("gone")
        kept.extend([("user", "secret plan", None), ("user", "harmless", None)])
        gone.user("secret too")
        pieces = None if scope == "store" else backend.lineage(kept.snapshot)
        backlog = backend.backlog(kept.session, pieces)
        texts = [(behind, []) for behind in backlog]
        for place, seq, *event in backend.unindexed(backlog):
            texts[place][1].append((seq, words(searchable(*event))))
        kept.erase([1], why="a test")
        store.delete("gone")
        backend.index(texts)
        for asked in ("secret", "plan", "too"):
            assert (
                backend.find(words_query(asked), kinds=(), pieces=None, session="", limit=9) == []
            )
        assert (
            len(backend.find(words_query("harmless"), kinds=(), pieces=None, session="", limit=9))
            == 1
        )
        assert backend.backlog("", None) == []
        assert store.verify() == []


def test_a_search_within_one_agent_indexes_only_what_that_agent_sees(durable_url):
    with backstory.open(durable_url) as store:
        other, parent = store.start("other"), store.start("parent")
        other.user("needle elsewhere")
        parent.user("needle inherited")
        child = parent.fork("child")
        child.user("my needle")
        assert places(store.search("needle", agent=child)) == [("child", 1), ("child", 2)]
        assert [behind.upto for behind in store._backend.backlog("", None)] == [1]  # the other's
        assert len(store.search("needle")) == 3


def test_in_one_agent_texts_that_say_little_else_rank_higher(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.user("needle " + "and many other words " * 20)
        agent.user("needle needle")
        agent.user("the needle")
        found = [hit.event.seq for hit in store.search("needle", agent=agent)]
        assert found == [2, 3, 1]
        assert [
            hit.event.seq for hit in store.search("needle", agent=agent, kinds=["assistant"])
        ] == []


def test_searches_within_one_agent_do_not_fill_the_memory(tmp_path):
    """FTS5 keeps every function that it is given until the connection is closed."""
    with backstory.open(tmp_path / "store.db") as store:
        agent = store.start()
        agent.user("needle")
        held = []
        for _ in range(3):
            held.append(apsw.memory_used())
            for _ in range(50):
                store.search("needle", agent=agent)
    assert held[1] == held[2]


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
        heard = []
        assert (
            len(store.search("needle", limit=7_000, progress=lambda *told: heard.append(told)))
            == 6_000
        )
        assert heard[-1] == (4_000, 4_000)  # the first page was there already


def test_searching_writes_no_event_and_the_store_stays_sound(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.user("needle")
        store.search("needle")
        assert agent.head == 1
        assert store.verify() == []


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("moment", ["find", "agents"])
def test_an_agent_that_is_deleted_during_a_search_is_not_found(store, monkeypatch, live, moment):
    kept, gone = store.start(), store.start()
    for agent in (kept, gone):
        agent.user("a needle")
    store.search("needle", wait=True)
    original, deleted = getattr(store._log.backend, moment), []

    def deletes_afterwards(*given, **more):
        found = original(*given, **more)
        if not deleted and (moment == "find" or found):
            deleted.append(True)
            store.delete(gone.id)
        return found

    monkeypatch.setattr(store._log.backend, moment, deletes_afterwards)
    assert {hit.agent.id for hit in store.search("needle", live=live)} == {kept.id}


def test_a_damaged_log_can_still_be_searched(tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        store.start("main").extend([("user", f"needle {n}", None) for n in range(3)])
        [db] = store._backend._free
        db.execute("DELETE FROM events WHERE seq = 2")
        assert places(store.search("needle")) == [("main", 1), ("main", 3)]


def test_words_hold_nothing_that_a_database_would_take_for_its_own():
    assert all(
        word.isalnum() for word in words("it's a \\ test: 'x' & \"y\" | !z <-> NEAR(a) AND * ^ ² ፩")
    )


def test_the_index_of_very_many_events_is_brought_together(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_index, "WORTH_MERGING", 100)
    monkeypatch.setattr(indexer, "PAGE", 50)
    segments = "SELECT count(DISTINCT segid) FROM search_3_idx"
    with backstory.open(tmp_path / "many.db") as store:
        agent = store.start("main")
        agent.extend([("user", f"needle {n}") for n in range(49)])
        store.search("needle", wait=True)
        agent.extend([("user", f"straw {n}") for n in range(150)])
        store.search("needle", wait=True)
        with store._backend._connection() as db:
            assert db.execute(segments).fetchall() == [(1,)]
        assert len(store.search("needle", limit=100)) == 49
        assert len(store.search("straw 7")) == 1
        assert store.verify() == []
