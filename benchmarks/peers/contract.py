"""What a peer's file must do before it is measured: everything it offers gives back what was put in.

`python -m benchmarks.peers.contract NAME` runs it in that peer's environment.
"""

import sys
import tempfile
from collections.abc import Iterator

from benchmarks.peers.conversations import chat, coding, cut
from benchmarks.peers.peer import NotOffered, Peer
from benchmarks.peers.peers import PEERS


def problems(kind: type[Peer], place: str) -> Iterator[str]:
    """What this peer's file gets wrong, in sentences."""
    turns = chat(10)
    texts = [message.text for turn in turns for message in turn]
    kept = kind(place)
    for turn in turns[:3]:
        kept.append("talk", kept.native(turn))
    yield from _differ("append", texts[:6], kept, kept.restore("talk"))
    if kind.persists:
        kept.close()
        kept = kind(place)
        yield from _differ("append, after reopening", texts[:6], kept, kept.restore("talk"))
    for turn in turns[3:]:
        kept.append("talk", kept.native(turn))
    yield from _differ("append", texts, kept, kept.restore("talk"))
    yield from _filled(kept)
    yield from _earlier(kept, texts)
    kept.close()


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


def _earlier(kept: Peer, texts: list[str]) -> Iterator[str]:
    """The talk has 20 messages: as it was at 10, a fork there, and a rewind to 6 that is written over."""
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
            "fork at the end", texts, kept, kept.restore(kept.fork("talk", kept.point("talk", 20), "end"))
        )
    except NotOffered as reason:
        print(f"  fork: {reason}")
    try:
        kept.rewind("talk", kept.point("talk", 6))
        yield from _differ("rewind", texts[:6], kept, kept.restore("talk"))
        new = chat(1, 4)[0]
        kept.append("talk", kept.native(new))
        expected = [*texts[:6], *(message.text for message in new)]
        yield from _differ("append after a rewind", expected, kept, kept.restore("talk"))
    except NotOffered as reason:
        print(f"  rewind: {reason}")


def _differ(what: str, expected: list[str], kept: Peer, restored: object) -> Iterator[str]:
    found = kept.texts(restored)  # type: ignore[arg-type]
    if found != expected:
        yield f"{what}: {len(found)} messages instead of {len(expected)}, or other ones"


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


def main() -> None:
    """Check one peer, with a strict endpoint if one is named."""
    entry = PEERS[sys.argv[1]]
    kind = entry.load()
    print(entry.title)
    with tempfile.TemporaryDirectory() as folder:
        found = list(problems(kind, folder))
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory() as folder:
            kept = kind(folder)
            print(f"  takes {len(asked(kept, sys.argv[2]))} of {len(list(cut()))} cut histories")
            kept.close()
    print(*found or ["all is well"], sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
