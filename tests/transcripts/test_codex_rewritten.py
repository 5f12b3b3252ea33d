"""A rollout of Codex that was written anew: what it says, and when, is what it is known by."""

import backstory
from tests.transcripts.reading import context, entry_ids, log, read
from tests.transcripts.test_codex import ID, call, event, meta, output, said, write


def test_a_rollout_that_codex_wrote_anew_adds_only_what_it_says_since(tmp_path):
    """Newer versions give old records ordinals, and leave out the turns that were rolled back."""

    def turn(name, time):
        return [
            said("user", name, time),
            call(name, time),
            output(name, "ok", time),
            said("assistant", name, time),
        ]

    def numbered(*lines):
        return [line | {"ordinal": number} for number, line in enumerate(lines)]

    one, two, three, four = (
        turn(name, time) for time, name in enumerate(("one", "two", "three", "four"))
    )
    write(tmp_path, meta(), *one, *two, event("thread_rolled_back", num_turns=1), *three)
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        write(tmp_path, *numbered(meta(history_mode="paginated"), *one, *three))
        assert [
            found.new_events for found in store.import_transcripts(tmp_path, settle=0).sessions
        ] == [0]
        write(tmp_path, *numbered(meta(history_mode="paginated"), *one, *three, *four))
        store.import_transcripts(tmp_path, settle=0)
        messages = store.agent(ID).context().messages
        assert [event.content for event in messages if event.kind == "user"] == [
            "one",
            "three",
            "four",
        ]
        assert [event.kind for event in messages].count("tool_result") == 3


def test_items_that_say_the_same_at_the_same_time_are_both_there(tmp_path):
    again = [
        said("user", "on"),
        said("assistant", "done"),
        said("user", "on"),
        said("assistant", "done"),
    ]
    write(tmp_path, meta(), *again, said("user", "earlier", 0))
    [session] = read(tmp_path)[0]
    assert len(context(log(session.threads[0]))) == 5
    assert len(entry_ids(session.threads[0])) == 5


def test_a_copy_is_not_taken_for_the_next_item_that_says_the_same(tmp_path):
    twice = [said("user", "yes", 5), said("assistant", "ok", 5)] * 2
    with backstory.open(":memory:") as store:
        for records in (twice, [said("user", "first", 1), *twice]):
            write(tmp_path, meta(), *records)
            store.import_transcripts(tmp_path, settle=0)
        write(tmp_path, meta(), said("user", "first", 1), *twice, said("user", "then", 9))
        assert [
            found.new_events for found in store.import_transcripts(tmp_path, settle=0).sessions
        ] == [1]
        spoken = [event.content for event in store.agent(ID).context().messages if event.content]
        assert spoken == ["first", "yes", "ok", "yes", "ok", "then"]
