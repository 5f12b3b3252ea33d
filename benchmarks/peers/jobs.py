"""The jobs, written once against the interface: each runs in a process of its own, in the peer's environment.

A job is given the peer's class and its place, and returns numbers. The session is always "talk". What a job
reads back is counted, so that a peer is never quick by forgetting.
"""

import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any

from benchmarks.peers.contract import asked
from benchmarks.peers.conversations import Message, Turn, chat, coding, cut
from benchmarks.peers.peer import NotOffered, Peer

Numbers = dict[str, Any]
SESSION = "talk"
BASE, LAST, REWINDS = 100, 900, 10
"""A life of rewinds: what is never rewound, what is written after the last one, and how many there are."""
REWOUND_TO = 100
"""Where the rewind goes after which an earlier state is read once more."""
PATIENCE = float(os.environ.get("BENCH_PATIENCE", "2"))
"""How many seconds one figure may take; what is slower is measured fewer times, at least once."""

LONGEST_TOGETHER = 1.5 * PATIENCE
"""How many seconds several processes write beside one another."""


def fill(kept: Peer, size: int) -> None:
    """A long chat of so many messages."""
    kept.fill(SESSION, [kept.native(turn) for turn in chat(size // 2)])


def fill_coding(kept: Peer, size: int) -> None:
    """A coding agent's conversation of so many turns."""
    kept.fill(SESSION, [kept.native(turn) for turn in coding(size)])


def live(kept: Peer, size: int) -> None:
    """A life of rewinds: so many messages written, the first hundred and the last 900 alive."""
    kept.fill(SESSION, [kept.native(turn) for turn in chat(BASE // 2)])
    rewound = (size - BASE - LAST) // REWINDS
    for number in range(REWINDS if rewound else 0):
        kept.stretch(SESSION, kept.native(_messages(rewound, number)))
        kept.rewind(SESSION, kept.point(SESSION, BASE))
    kept.stretch(SESSION, kept.native(_messages(LAST, REWINDS)))


def _messages(count: int, seed: int) -> Turn:
    return [message for turn in chat(count // 2, seed) for message in turn]


def append(kind: type[Peer], place: str, size: int) -> Numbers:
    """One more turn, durably, again and again."""
    kept = kind(place)
    most = min(
        max(99, size // 10), 1_000
    )  # enough to see the store at work, little beside the history
    turns = iter([kept.native(turn) for turn in chat(most + 1, 7)])
    taken = samples(lambda: kept.append(SESSION, next(turns)), most=most)
    kept.close()
    return {"ms": statistics.median(taken), "times": len(taken)}


def restore(kind: type[Peer], place: str, size: int) -> Numbers:
    """Open and restore for the first time in this process, then warm."""
    kept, first = _opened(kind, place, size)
    return {"first_ms": first if kind.persists else None, **_warm(kept)}


def cold(kind: type[Peer], place: str, size: int) -> Numbers:
    """Open and restore what the machine has not in memory; the code was loaded on another, empty store."""
    with tempfile.TemporaryDirectory(dir=place) as elsewhere:
        other = kind(elsewhere)
        fill(other, 2)
        other.restore(SESSION)
        other.close()
    kept, first = _opened(kind, place, size)
    kept.close()
    return {"ms": first}


def _opened(kind: type[Peer], place: str, size: int) -> tuple[Peer, float]:
    start = time.perf_counter()
    kept = kind(place)
    restored = kept.restore(SESSION)
    taken = (time.perf_counter() - start) * 1000
    expect(size, kept.texts(restored))
    return kept, taken


def restore_after_life(kind: type[Peer], place: str, size: int) -> Numbers:
    """The same, where only a thousand messages are alive."""
    return restore(kind, place, BASE + LAST)


def restore_coding(kind: type[Peer], place: str, size: int) -> Numbers:
    """The same for a coding agent's conversation; peers differ in what they count as a message."""
    kept = kind(place)
    said = set(kept.texts(kept.restore(SESSION)))
    expect(size, [turn[-1].text for turn in coding(size) if turn[-1].text in said])
    return _warm(kept)


def _warm(kept: Peer) -> Numbers:
    taken = samples(lambda: kept.restore(SESSION), most=30)
    kept.close()
    return {"ms": statistics.median(taken), "times": len(taken)}


def request(kind: type[Peer], place: str, size: int) -> Numbers:
    """From the store to what a provider takes."""
    kept = kind(place)
    expect(size, kept.request(SESSION))
    taken = samples(lambda: kept.request(SESSION), most=30)
    kept.close()
    return {"ms": statistics.median(taken), "times": len(taken)}


def fork(kind: type[Peer], place: str, size: int) -> Numbers:
    """Forks at the end and in the middle: a thousand of 10,000 messages, elsewhere twenty; time and bytes."""
    end, middle = (
        _forks(kind, place, where, at) for where, at in (("end", size), ("middle", size // 2))
    )
    return {**end, **{f"middle_{key}": number for key, number in middle.items()}}


def _forks(kind: type[Peer], place: str, where: str, at: int) -> Numbers:
    kept = kind(place)
    kept.restore(SESSION)
    point = kept.point(SESSION, at)
    kept.close()
    before = bytes_in(place)
    kept = kind(place)
    kept.restore(SESSION)
    made: list[str] = []
    taken = samples(
        lambda: made.append(kept.fork(SESSION, point, f"{where}-{len(made)}")),
        most=999 if at >= 5_000 else 19,
    )
    expect(at, kept.texts(kept.restore(made[-1])))
    kept.close()
    grown = (bytes_in(place) - before) / len(made) if kind.persists else None
    return {"ms": statistics.median(taken), "bytes": grown, "times": len(made)}


def rewind(kind: type[Peer], place: str, size: int) -> Numbers:
    """Back by twenty messages; between two rewinds they are written again. The first one is not counted."""
    kept = kind(place)
    kept.restore(SESSION)
    again = kept.native(_messages(20, 8))
    taken: list[float] = []
    while len(taken) < 21 and (len(taken) < 2 or sum(taken) < PATIENCE * 1000):
        point = kept.point(SESSION, size - 20)
        taken += samples(lambda: kept.rewind(SESSION, point), most=1, warm=False)  # noqa: B023
        expect(size - 20, kept.texts(kept.restore(SESSION)))
        kept.append(SESSION, again)
    kept.close()
    return {"ms": statistics.median(taken[1:]), "times": len(taken) - 1}


def disk(kind: type[Peer], place: str, size: int) -> Numbers:
    """So many turns of a chat, one by one as in life; what they take on disk, and what was said in them."""
    return _one_by_one(kind, place, chat(size))


def disk_coding(kind: type[Peer], place: str, size: int) -> Numbers:
    """So many turns of a coding agent."""
    return _one_by_one(kind, place, coding(size))


def _one_by_one(kind: type[Peer], place: str, turns: list[Turn]) -> Numbers:
    kept = kind(place)
    natives = [kept.native(turn) for turn in turns]
    for turn in natives:
        kept.append(SESSION, turn)
    kept.close()
    said = sum(len(message.text.encode()) for turn in turns for message in turn)
    return {"bytes": bytes_in(place), "said": said}


def as_of(kind: type[Peer], place: str, size: int) -> Numbers:
    """The state as it was at half of the messages, and whether it is the same after a rewind to before it."""
    kept = kind(place)
    kept.restore(SESSION)
    point = kept.point(SESSION, size // 2)
    texts = kept.texts(kept.as_of(SESSION, point))
    expect(size // 2, texts)
    taken = samples(lambda: kept.as_of(SESSION, point), most=30)
    numbers: Numbers = {"ms": statistics.median(taken), "times": len(taken)}
    with suppress(NotOffered):
        kept.rewind(SESSION, kept.point(SESSION, REWOUND_TO))
        kept.append(SESSION, kept.native(_messages(20, 6)))
        numbers["after a rewind"] = (
            "right" if kept.texts(kept.as_of(SESSION, point)) == texts else "wrong"
        )
    kept.close()
    return numbers


def cut_off(kind: type[Peer], place: str, size: int, base_url: str) -> Numbers:
    """Histories cut between a tool call and its result, sent to an endpoint with the provider's rules."""
    kept = kind(place)
    taken = asked(kept, base_url)
    kept.close()
    return {"taken": len(taken), "of": len(list(cut()))}


def write(kind: type[Peer], place: str, size: int, mark: str) -> Numbers:
    """Wait for a line, then append turns to the one session, beside others: so many, or for three seconds.

    Without a number it goes on until it is killed. What was written is reported at once on standard error: it
    is known when this process is killed.
    """
    kept = kind(place)
    said = chat(size, 9) if size else cycle(chat(1_000, 9))
    turns: Iterable[Any] = (
        kept.native(marked(turn, f"{mark}-{number}")) for number, turn in enumerate(said)
    )
    if size:
        turns = list(turns)  # made before the clock starts
    _wait()
    errors: list[str] = []
    acknowledged: list[str] = []
    start = time.time()
    for number, turn in enumerate(turns):
        if size and time.time() - start > LONGEST_TOGETHER:
            break
        try:
            kept.append(SESSION, turn)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}"[:200])
            continue
        acknowledged.append(f"{mark}-{number}")
        os.write(2, f"kept {mark}-{number}\n".encode())
    end = time.time()
    return {"acknowledged": acknowledged, "errors": errors, "start": start, "end": end}


def _wait() -> None:
    """Say that all is ready, and wait for a line. If the pipe ends, the parent is gone."""
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit("the process that started this one is gone")


def found(kind: type[Peer], place: str, size: int) -> Numbers:
    """The first word of every message that is restored: what write() marked."""
    kept = kind(place)
    words = [text.partition(" ")[0] for text in kept.texts(kept.restore(SESSION))]
    kept.close()
    return {"words": words}


def marked(turn: Turn, mark: str) -> Turn:
    """The turn with a word of its own at the beginning of each message."""
    return [Message(kind, f"{mark} {text}", call, tool) for kind, text, call, tool in turn]


def samples(work: Callable[[], object], *, most: int, warm: bool = True) -> list[float]:
    """How many milliseconds the work takes, again and again, until the patience is at its end."""
    if warm:
        work()
    gc.collect()
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < most and (not taken or time.perf_counter() - began < PATIENCE):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def expect(messages: int, texts: Sequence[str]) -> None:
    """A peer that loses messages is not quick, it is wrong."""
    if len(texts) != messages:
        raise AssertionError(f"{len(texts)} messages came back instead of {messages}")


def bytes_in(folder: str) -> int:
    """What a folder takes on disk."""
    return sum(
        os.path.getsize(os.path.join(at, name))
        for at, _, names in os.walk(folder)
        for name in names
    )
