"""Compare the requests of this tree with those of another tree, byte by byte.

    git clone -q . ../parent && git -C ../parent checkout -q COMMIT
    python tools/compare_requests.py ../parent [--count 10000] [--show 5] [--repairs]

Builds requests in all formats from recordings (if they lie beside the project) and from random
conversations, in one process for each tree. It compares the body, the repairs (in any order), the
origins, the events that `load` and `load_answer` return, and a whole request with settings. The exit
code is 1 if a body or loaded events differ; with `--repairs` also if repairs or origins differ.
"""

import argparse
import difflib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SEED = 31
FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "bedrock")
# Each random conversation is built with one of these.
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"pending": True},
    {"pause": True},
    {"stored": True},
    {"system_inside": True},
    {"placeholders": True},
    {"cache": "auto"},
    {"pending": True, "cache": "auto", "stored": True},
)
# What decides: a request to a provider, and what is stored of it. The rest is text for people.
DECISIVE = ("body", "request", "loaded")


def main() -> int:
    """Run the comparison, or one side of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parent", type=Path, help="the tree to compare with")
    parser.add_argument("--count", type=int, default=10_000, help="random conversations")
    parser.add_argument("--show", type=int, default=5, help="differences to print")
    parser.add_argument("--only", help="compare cases whose name contains this text")
    parser.add_argument("--repairs", action="store_true", help="fail if repairs differ")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print_results(options.parent, options.only)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder) / "cases.jsonl"
        write_cases(cases, options.count, options.only or "")
        return compare(cases, options)


# --- the cases ---


def write_cases(path: Path, count: int, wanted: str) -> None:
    """Write recordings and random conversations as lines of JSON."""
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    with path.open("w") as file:
        for case in (*list_recordings(), *list_conversations(count)):
            if wanted in case["name"]:
                file.write(json.dumps(case) + "\n")


def list_recordings() -> Iterator[dict[str, Any]]:
    """Yield recorded requests and answers, if there are any."""
    from tests.wire.recordings import FOLDER, exchanges

    if not FOLDER.exists():
        print("no recordings beside the project: only random conversations are compared")
        return
    for number, exchange in enumerate(exchanges()):
        same = {"format": exchange.format, "model": exchange.model, "stored": exchange.stored}
        name = f"recording {number} {exchange.format} {exchange.id}"
        yield {"name": name, "recorded": exchange.body, **same}
        if exchange.answer is not None:
            yield {"name": f"answer to {name}", "answer": exchange.answer, **same}


def list_conversations(count: int) -> Iterator[dict[str, Any]]:
    """Yield random conversations: half of them are plain or damaged, half have native content."""
    from hypothesis import strategies as st

    from tests.wire.logs import DAMAGE, MODELS, NATIVE_LISTS, OPERATION_LISTS, context_of

    plain = st.tuples(OPERATION_LISTS, DAMAGE)
    native = st.tuples(NATIVE_LISTS, st.just([]))
    for kind, strategy, part in (("plain", plain, count // 2), ("native", native, count // 2)):
        for number, (operations, damage) in enumerate(draw_examples(strategy, part)):
            events = context_of(operations, damage)
            yield {
                "name": f"{kind} {number}",
                "events": [event[:4] for event in events],
                "model": MODELS[number % len(MODELS)],
                "options": OPTIONS[number // len(MODELS) % len(OPTIONS)],
            }


def draw_examples(strategy: Any, count: int) -> list[Any]:
    """Return `count` examples of a strategy, always the same ones."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    found: list[Any] = []

    @seed(SEED)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


# --- one side: runs with the source of one tree ---


def print_results(cases: Path, only: str | None) -> None:
    """Print the results of each case as a line of JSON: digests, or everything for `only`."""
    for line in cases.open():
        case = json.loads(line)
        if only is not None and case["name"] != only:
            continue
        results = dict(build_results(case))
        if only is None:
            results = {key: digest(value) for key, value in results.items()}
        print(json.dumps({"name": case["name"], "results": results}, default=repr))


def digest(value: Any) -> str:
    """Return a short digest of a JSON value. The order of keys counts."""
    return hashlib.sha256(json.dumps(value, default=repr).encode()).hexdigest()[:16]


def build_results(case: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what one tree makes of a case, by name."""
    from backstory import Event
    from backstory.wire import load, load_answer

    if "events" in case:
        options = case["options"]
        events = [Event.of(*values) for values in case["events"]]
    else:
        options = {"stored": case["stored"]}
        read, given = load, case.get("recorded")
        if given is None:
            read, given = load_answer, case["answer"]
        try:
            loaded = read(given, case["format"], model=case["model"])
        except Exception as error:
            yield "loaded", f"{type(error).__name__}: {error}"
            return
        yield "loaded", loaded
        events = [Event.of(seq, *event) for seq, event in enumerate(loaded, 1)]
    for format in FORMATS:
        for name, value in build_requests(events, format, case["model"], options):
            yield f"{format} {name}", value


def build_requests(
    events: list[Any], format: str, model: str | None, options: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the body, repairs, origins and whole request for events."""
    from backstory.log.settings import Settings
    from backstory.wire.conversation import conversation_of

    conversation = conversation_of(events)
    settings = Settings(model, TOOLS, PARAMETERS)
    try:
        yield "body", conversation.to_bytes(format, model=model, **options).decode()
        repairs = conversation.repairs(format, model=model, **options)
        yield "repairs", sorted([repr(tuple(repair)) for repair in repairs])
        yield "origins", conversation.origins(format, model=model)
        whole = conversation.with_settings(settings).request(format, **options)
        yield "request", json.dumps(whole, default=repr)
    except Exception as error:
        yield "body", f"{type(error).__name__}: {error}"


TOOLS = [{"name": "glob", "description": "Find files.", "parameters": {"type": "object"}}]
PARAMETERS = {
    "max_tokens": 100,
    "temperature": 0.5,
    "stop": "END",
    "effort": "low",
    "thinking": 200,
    "tool_choice": {"name": "glob"},
}


# --- the comparison ---


def compare(cases: Path, options: argparse.Namespace) -> int:
    """Run both trees, print what differs, and return the exit code."""
    trees = (options.parent.resolve(), ROOT.resolve())
    with ThreadPoolExecutor() as pool:
        parent, mine = pool.map(lambda tree: run_tree(tree, cases, None), trees)
    differences: defaultdict[str, list[str]] = defaultdict(list)
    for name, results in mine.items():
        for key in {*results, *parent[name]}:
            if results.get(key) != parent[name].get(key):
                differences[name].append(key)
    counts = Counter(key for keys in differences.values() for key in keys)
    print(f"{len(mine)} cases: {sum(not differences[name] for name in mine)} equal")
    for key, count in sorted(counts.items()):
        print(f"{count:6} differ in {key}")
    shown = [name for name in mine if is_failure(differences[name], options)]
    for name in shown[: options.show]:
        print_difference(name, differences[name], cases, trees)
    return 1 if shown else 0


def is_failure(keys: list[str], options: argparse.Namespace) -> bool:
    """Return True if a difference in `keys` counts."""
    return bool(keys) and (options.repairs or any(key.endswith(DECISIVE) for key in keys))


def run_tree(tree: Path, cases: Path, only: str | None) -> dict[str, dict[str, Any]]:
    """Return the results of one tree by the name of the case."""
    command = [sys.executable, str(Path(__file__).resolve()), str(cases), "--worker"]
    if only is not None:
        command += ["--only", only]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    results = map(json.loads, done.stdout.splitlines())
    return {line["name"]: line["results"] for line in results}


def print_difference(name: str, keys: list[str], cases: Path, trees: tuple[Path, Path]) -> None:
    """Print the first difference of a case as a diff."""
    key = sorted(keys, key=lambda key: not key.endswith(DECISIVE))[0]
    texts = []
    for tree in trees:
        value = run_tree(tree, cases, name)[name].get(key)
        if key.endswith(("body", "request")) and isinstance(value, str) and value[:1] == "{":
            value = json.loads(value)
        texts.append(json.dumps(value, indent=1, ensure_ascii=False).splitlines())
    print(f"\n=== {name}: {key} (also: {', '.join(keys)})")
    before, after = texts
    lines = difflib.unified_diff(before, after, "parent", "this tree", lineterm="", n=4)
    for line in list(lines)[:60]:
        print(line[:300])


if __name__ == "__main__":
    sys.exit(main())
