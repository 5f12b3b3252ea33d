"""The matcher on small trees: sources that grow, and copies that are older, damaged or reordered."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.transcripts.matching import KnownLog, LogTree, Matcher, NewEvent
from backstory.transcripts.model import Entry, SourceMove, Unit
from tests.slow import more
from tests.transcripts.stories import seeds

trees = settings(max_examples=more(100, slow=5_000), deadline=None)
parents = st.lists(st.sampled_from([1, 1, 1, 1, 2, 3, 9]), min_size=1, max_size=12)


def make_units(steps_back, random):
    """Units with one to three entries. Each continues one of those before it, or none."""
    units = []
    time = 0
    for number, back in enumerate(steps_back):
        after = units[number - back].id if back <= number else None
        entries = []
        for part in range(random.randint(1, 3)):
            time += 1
            entries.append(Entry(f"{number}.{part}", "user", f"{number}.{part}", time=time))
        units.append(Unit(str(number), after, tuple(entries)))
    return units


def list_path(units, leaf):
    """The ids of the entries from the beginning to the end of a unit."""
    by_id = {unit.id: unit for unit in units}
    path = []
    while leaf is not None:
        unit = by_id[leaf]
        path = [*(entry.id for entry in unit.entries), *path]
        leaf = unit.after
    return path


def cut_units(units, count):
    """The units as they were when they had so many entries."""
    found = []
    for unit in units:
        entries = unit.entries[:count]
        count -= len(entries)
        if entries:
            found.append(unit._replace(entries=entries))
    return found


def count_entries(units):
    return sum(len(unit.entries) for unit in units)


def lose_entries(units, lost):
    """The units without some entries. What continues a lost unit continues what that continued."""
    found = []
    tips = {None: None}
    for unit in units:
        entries = tuple(entry for entry in unit.entries if entry.id not in lost)
        after = tips[unit.after]
        tips[unit.id] = unit.id if entries else after
        if entries:
            found.append(Unit(unit.id, after, entries))
    return found


def draw_loss(units, random):
    """A copy that lost up to three entries, but not all."""
    ids = [entry.id for unit in units for entry in unit.entries]
    lost = random.sample(ids, min(random.randint(1, 3), len(ids) - 1))
    return lose_entries(units, set(lost))


def shuffle_units(units, random):
    """The same units and entries in another order. No unit comes before the one that it continues."""
    waiting = list(units)
    placed = {None}
    found = []
    while waiting:
        unit = random.choice([unit for unit in waiting if unit.after in placed])
        waiting.remove(unit)
        placed.add(unit.id)
        entries = random.sample(unit.entries, len(unit.entries))
        found.append(unit._replace(entries=tuple(entries)))
    return found


class PlainLog:
    """A log that keeps what the matcher yields, and what a cursor remembers."""

    def __init__(self):
        self.events = [None]  # positions begin at 1
        self.positions = {}
        self.newest = 0
        self.records = 0
        self.tool_message = None
        self.matcher = None  # of the last import

    @property
    def head(self):
        return len(self.events) - 1

    def find_message(self, position):
        while position and self.events[position].kind == "jump":
            position = self.events[position].data["target_message_id"]
        return position

    def add(self, steps):
        """Import a source. Returns the ids of the new events, None for a jump."""
        moves = [event for event in self.events[1:] if event.kind == "jump"]
        message = self.find_message(self.head)
        known = KnownLog(
            tree=LogTree((move.position, move.data["target_message_id"]) for move in moves),
            newest_position=self.head,
            head_message=message,
            home=self.head,
            home_message=message,
            is_moved=self.tool_message is not None and message != self.tool_message,
            newest=self.newest,
            records=self.records,
            positions={id: [*found] for id, found in self.positions.items()},
        )
        self.matcher = Matcher(known)
        new = list(self.matcher.match(steps))
        for event in new:
            self.append(event)
        if self.matcher.tool_message is not None:
            self.tool_message = self.matcher.tool_message
        if self.matcher.is_newer:
            self.newest, self.records = self.matcher.newest, self.matcher.count_records()
        return [event.id for event in new]

    def append(self, event):
        assert event.position == len(self.events)
        self.events.append(event)
        if event.id is not None:
            self.positions.setdefault(event.id.partition("~")[0], []).append(event.position)

    def say(self, words):
        """Append what a person says."""
        self.append(NewEvent(self.head + 1, "user", words, None, None, words))

    def list_line(self, position=None):
        """The ids of the entries on the line of a position, or of the head. Copies have that of
        the original."""
        position = self.head if position is None else position
        found = []
        while position:
            event = self.events[position]
            if event.kind == "jump":
                position = event.data["target_message_id"]
                continue
            found.append(event.id.partition("~")[0])
            position -= 1
        return found[::-1]


@trees
@given(parents, seeds)
def test_an_empty_log_gets_every_entry_once_and_follows_the_last_move(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    leaf = random.choice(units).id
    log = PlainLog()
    added = log.add([*units, SourceMove(leaf)])
    entries = [id for id in added if id is not None]
    assert entries == [entry.id for unit in units for entry in unit.entries]
    assert log.list_line() == list_path(units, leaf)
    assert log.add([*units, SourceMove(leaf)]) == []


@trees
@given(parents, seeds)
def test_a_source_that_grows_ends_with_its_last_line_and_repeats_nothing(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    log = PlainLog()
    added = []
    for count in sorted(random.randint(1, count_entries(units)) for _ in range(4)):
        stage = cut_units(units, count)
        added += log.add(stage)
        assert log.list_line() == list_path(stage, stage[-1].id)
    added += log.add(units)
    assert log.list_line() == list_path(units, units[-1].id)
    entries = [id for id in added if id is not None]
    assert entries == [entry.id for unit in units for entry in unit.entries]


@trees
@given(parents, seeds)
def test_an_older_copy_adds_nothing(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    log = PlainLog()
    log.add(units)
    for _ in range(3):
        assert log.add(cut_units(units, random.randint(1, count_entries(units)))) == []
    assert log.add(units) == []


@trees
@given(parents, seeds)
def test_a_damaged_copy_leaves_the_head_on_its_line(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    damaged = draw_loss(units, random)
    log = PlainLog()
    log.add(units)
    log.add(damaged)
    assert log.list_line() == list_path(units, units[-1].id)
    assert log.add(damaged) == []
    assert log.add(units) == []


@trees
@given(parents, seeds)
def test_entries_that_come_late_are_put_in_their_place(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    damaged = draw_loss(units, random)
    log = PlainLog()
    log.add(damaged)
    assert log.list_line() == list_path(damaged, damaged[-1].id)
    log.add(units)
    if count_entries(damaged) < count_entries(units):
        assert log.list_line() == list_path(units, units[-1].id)
    assert log.add(units) == []
    assert log.add(damaged) == []


@trees
@given(parents, seeds)
def test_a_copy_in_another_order_adds_nothing(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    log = PlainLog()
    log.add(units)
    assert log.add(shuffle_units(units, random)) == []


@trees
@given(parents, seeds)
def test_the_order_of_two_continuations_does_not_matter(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    base = random.choice(units).id
    earlier = [*units, Unit("x", base, (Entry("x", "user", "x", time=1_000),))]
    later = [*units, Unit("y", base, (Entry("y", "user", "y", time=2_000),))]
    log = PlainLog()
    both = [earlier, later]
    random.shuffle(both)
    for source in both:
        log.add(source)
    assert log.list_line() == list_path(later, "y")
    [branch] = log.positions["x"]
    assert log.list_line(branch) == list_path(earlier, "x")
    assert [log.add(source) for source in both] == [[], []]


@trees
@given(parents, seeds)
def test_the_head_stays_with_a_person(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    stage = cut_units(units, random.randint(1, count_entries(units)))
    log = PlainLog()
    log.add(stage)
    log.say("mine")
    before = log.list_line()
    added = log.add(units)
    assert log.list_line() == before == [*list_path(stage, stage[-1].id), "mine"]
    assert log.matcher.has_new_branch == bool(added)
    if added:
        [end] = log.positions[units[-1].entries[-1].id]
        assert log.list_line(end) == list_path(units, units[-1].id)
    assert log.add(units) == []


@trees
@given(parents, seeds)
def test_a_newer_source_with_another_tree_ends_with_its_own_line(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    log = PlainLog()
    log.add(units)
    moved = random.randrange(len(units))
    after = random.choice([None, *(unit.id for unit in units[:moved])])
    changed = list(units)
    changed[moved] = units[moved]._replace(after=after)
    last = Unit("new", changed[-1].id, (Entry("new", "user", "new", time=1_000),))
    log.add([*changed, last])
    assert log.list_line() == list_path([*changed, last], "new")
    assert log.add([*changed, last]) == []


def make_unit(id, after):
    return Unit(id, after, (Entry(id, "user", id, time=1),))


def test_an_entry_that_the_source_has_on_another_line_is_no_loss_of_a_copy():
    # Without the prompt "p", the tool's way back from "x" ended at "x" itself.
    log = PlainLog()
    log.add([make_unit("s", None), make_unit("x", "s"), make_unit("d", "x")])
    whole = [make_unit("s", None), make_unit("p", "s"), make_unit("x", "p"), make_unit("d", "s")]
    log.add(whole)
    assert log.list_line() == ["s", "d"]
    assert log.add(whole) == []


@trees
@given(parents, seeds)
def test_the_whole_of_a_copy_with_less_and_another_tree_ends_with_its_own_line(steps_back, seed):
    random = Random(seed)
    units = make_units(steps_back, random)
    moved = random.randrange(len(units))
    changed = list(units)
    after = random.choice([None, *(unit.id for unit in units[:moved])])
    changed[moved] = units[moved]._replace(after=after)
    log = PlainLog()
    log.add(draw_loss(changed, random) if len(units) > 1 else changed)
    last = Unit("new", units[-1].id, (Entry("new", "user", "new", time=1_000),))
    log.add([*units, last])
    assert log.list_line() == list_path([*units, last], "new")
    assert log.add([*units, last]) == []
