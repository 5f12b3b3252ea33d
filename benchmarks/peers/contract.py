"""What a peer must do before it is measured: everything that it offers gives back what was put in."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from benchmarks.peers.conversations import chat, coding, cut
from benchmarks.peers.peer import REQUIRED, NotOffered, Peer


def problems(kind: type[Peer], place: str) -> Iterator[str]:
    """What this peer's file gets wrong, in sentences."""
    missing = [name for name in REQUIRED if not _overrides(kind, name)]
    if missing:
        yield from (f"{name}() is missing" for name in missing)
        return
    turns = chat(10)
    texts = [message.text for turn in turns for message in turn]
    kept = kind(place)
    for turn in turns[:3]:
        kept.append("talk", kept.native(turn))
    wrong = list(_differ("append", texts[:6], kept, kept.restore("talk")))
    if kind.persists:
        kept.close()
        kept = kind(place)
        wrong += _differ("append, after reopening", texts[:6], kept, kept.restore("talk"))
    for turn in turns[3:]:
        kept.append("talk", kept.native(turn))
    wrong += _differ("append", texts, kept, kept.restore("talk"))
    yield from wrong
    if not wrong:  # all the rest is built on that
        yield from _filled(kept)
        yield from _requested(kept)
        yield from _earlier(kept, texts)
        yield from _rewound(kept, texts)
    kept.close()


def _overrides(kind: type[Peer], name: str) -> bool:
    return getattr(kind, name) is not getattr(Peer, name)


def _filled(kept: Peer) -> Iterator[str]:
    for name, turns in {"chat": chat(20, 1), "coding": coding(5, 1)}.items():
        kept.fill(name, [kept.native(turn) for turn in turns])
        expected = [m.text for turn in turns for m in turn if m.kind in ("user", "assistant")]
        found = kept.texts(kept.restore(name))
        if [text for text in found if text in set(expected)] != expected:
            yield f"fill, {name}: the words of person and model differ"
        results = [m.text for turn in turns for m in turn if m.kind == "tool_result"]
        if any(result not in found for result in results):
            yield f"fill, {name}: a tool's result is missing"
    kept.append("chat", kept.native(chat(1, 2)[0]))
    if len(kept.restore("chat")) != 42:
        yield f"append after fill: {len(kept.restore('chat'))} messages instead of 42"


def _requested(kept: Peer) -> Iterator[str]:
    try:
        items = len(kept.request("talk"))
    except NotOffered as reason:
        print(f"  request: {reason}")
        return
    if items != 20:
        yield f"request: {items} items instead of 20, one per message"


def _earlier(kept: Peer, texts: list[str]) -> Iterator[str]:
    """The talk has 20 messages: as it was at 10, and forks there and at the end."""
    try:
        yield from _differ("as_of", texts[:10], kept, kept.as_of("talk", kept.point("talk", 10)))
    except NotOffered as reason:
        print(f"  as_of: {reason}")
    try:
        fork = kept.fork("talk", kept.point("talk", 10), "other")
        yield from _differ("fork", texts[:10], kept, kept.restore(fork))
        kept.append(fork, kept.native(chat(1, 3)[0]))
        if len(kept.restore(fork)) != 12:
            yield f"append to a fork: {len(kept.restore(fork))} messages instead of 12"
        yield from _differ("fork, the parent", texts, kept, kept.restore("talk"))
        yield from _differ(
            "fork at the end",
            texts,
            kept,
            kept.restore(kept.fork("talk", kept.point("talk", 20), "end")),
        )
    except NotOffered as reason:
        print(f"  fork: {reason}")


def _rewound(kept: Peer, texts: list[str]) -> Iterator[str]:
    """A rewind to 6 messages that is written over, and a second one, to what was written then."""
    one, two = chat(2, 4)
    written = [*texts[:6], *(message.text for message in one)]
    try:
        kept.rewind("talk", kept.point("talk", 6))
        yield from _differ("rewind", texts[:6], kept, kept.restore("talk"))
        kept.append("talk", kept.native(one))
        yield from _differ("append after a rewind", written, kept, kept.restore("talk"))
        kept.append("talk", kept.native(two))
        kept.rewind("talk", kept.point("talk", 8))
        yield from _differ("a second rewind", written, kept, kept.restore("talk"))
    except NotOffered as reason:
        print(f"  rewind: {reason}")


def _differ(what: str, expected: list[str], kept: Peer, restored: Sequence[Any]) -> Iterator[str]:
    found = kept.texts(restored)
    if len(found) != len(expected):
        yield f"{what}: {len(found)} messages instead of {len(expected)}"
    elif found != expected:
        index = next(index for index, text in enumerate(expected) if found[index] != text)
        yield f"{what}: message {index} is {_apart(str(found[index]), expected[index])}"


def _apart(found: str, expected: str) -> str:
    """Forty characters of each text, from shortly before the first that differs."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(found, expected, strict=False))
    start = max(0, len(list(same)) - 20)
    return f"{found[start : start + 40]!r} instead of {expected[start : start + 40]!r}"


def asked(kept: Peer, base_url: str) -> list[str]:
    """Which of the cut histories the endpoint takes."""
    taken = []
    for number, (name, turn) in enumerate(cut()):
        session = f"cut-{number}"
        kept.append(session, kept.native(turn))
        try:
            kept.ask(session, "Please go on.", base_url)
            taken.append(name)
        except NotOffered:
            raise
        except Exception as refusal:
            print(f"  {name}: {type(refusal).__name__}: {refusal}"[:200])
    return taken
