"""Change the source in one place at a time, and see whether the tests fail.

    python -m tools.mutate src/backstory/log --save before.json --tests tests/log
    python -m tools.mutate src/backstory/log --compare before.json --tests tests/log/test_replay.py

A changed source is a mutant. The tests kill it if they fail, or take five times as long as without
a change. Before tests are cut, save the results; afterwards compare, with the same source. The exit
code is 1 if a mutant survives that was killed before, and 2 if the tests fail without a change or
if the source has changed.

A mutant is written over its file. The file is restored afterwards, also on Ctrl-C and SIGTERM, but
not on SIGKILL: commit your work first, or use a `git worktree`.

mutmut 3.8 was tried first. It is faster (two mutants of log/diff.py a second), and its results can
be compared. But it repeats the tests within one process, which tests that share a server or count
calls do not survive; it does not change tables, properties and other decorated functions; and it
runs only the tests that reach a mutant in their own process, while tests of kills and of programs
start others.
"""

import argparse
import ast
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

PAIRS: list[tuple[type[ast.AST], type[ast.AST]]]
PAIRS = [(ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Is, ast.IsNot)]
PAIRS += [(ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub)]
SWAPS = dict(PAIRS) | {right: left for left, right in PAIRS}
SLOWER = (
    5  # times the run without a change: a limit in seconds would kill mutants on a busy machine
)
SHORTEST_LIMIT = 10.0  # seconds, for tests that take no longer than the start of Python


class Change(NamedTuple):
    """A new value for one field of a node."""

    node: ast.AST
    field: str
    value: Any
    place: Any  # the node whose line and column are reported
    description: str


class Mutant(NamedTuple):
    """One change of one file."""

    path: Path
    number: int  # the index of the change in list_changes
    name: str  # "path:line:column description"


def list_changes(tree: ast.AST) -> list[Change]:
    """Return all changes of a syntax tree, except for annotations, which no test notices."""
    annotations: set[ast.AST] = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            annotation = getattr(node, field, None)
            if annotation is not None:
                annotations.update(ast.walk(annotation))
    nodes = [node for node in ast.walk(tree) if node not in annotations]
    return [change for node in nodes for change in find_changes(node)]


def find_changes(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of one node."""
    match node:
        case ast.Compare():
            yield from find_comparison_changes(node)
        case ast.BoolOp() | ast.BinOp() | ast.AugAssign() if type(node.op) in SWAPS:
            new = SWAPS[type(node.op)]()
            yield Change(node, "op", new, node, describe_swap(node.op, new))
        case ast.Constant(value=bool(old)):
            yield Change(node, "value", not old, node, f"{old} -> {not old}")
        case ast.Constant(value=int(old)):
            yield Change(node, "value", old + 1, node, f"{old} -> {old + 1}")
        case ast.If() | ast.IfExp() | ast.While() if can_be_negated(node.test):
            negation = ast.UnaryOp(ast.Not(), node.test)
            yield Change(node, "test", negation, node.test, "negate the condition")
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield Change(node, "value", None, node, "return None")
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield Change(node, "value", ast.Constant(None), node, "drop the call")


def find_comparison_changes(node: ast.Compare) -> Iterator[Change]:
    """Yield the changes of each operator of `a < b < c`."""
    for index, old in enumerate(node.ops):
        new = SWAPS[type(old)]()
        operators = [*node.ops[:index], new, *node.ops[index + 1 :]]
        yield Change(node, "ops", operators, node.comparators[index], describe_swap(old, new))


def describe_swap(old: ast.AST, new: ast.AST) -> str:
    """Return the names of both operators."""
    return f"{type(old).__name__} -> {type(new).__name__}"


def can_be_negated(test: ast.expr) -> bool:
    """Return False for a condition that has a change of its own, or that no test can reach."""
    if isinstance(test, ast.Compare | ast.Constant):
        return False
    return ast.unparse(test) != "TYPE_CHECKING"


def list_mutants(sources: list[Path]) -> list[Mutant]:
    """Return all mutants of files and of the modules in folders."""
    mutants = []
    for source in sources:
        paths = sorted(source.rglob("*.py")) if source.is_dir() else [source]
        for path in paths:
            mutants += list_file_mutants(path)
    return mutants


def list_file_mutants(path: Path) -> list[Mutant]:
    """Return all mutants of one file."""
    mutants = []
    names: Counter[str] = Counter()
    for number, change in enumerate(list_changes(ast.parse(path.read_text(encoding="utf-8")))):
        position = f"{change.place.lineno}:{change.place.col_offset + 1}"
        name = f"{path.as_posix()}:{position} {change.description}"
        names[name] += 1
        if names[name] > 1:  # the sums in a + b + c have the same position
            name += f" ({names[name]})"
        mutants.append(Mutant(path, number, name))
    return mutants


def find_mutants(mutants: list[Mutant], names: list[str]) -> list[Mutant]:
    """Return the mutants of these names. Exit if the source does not have them any more."""
    by_name = {mutant.name: mutant for mutant in mutants}
    for name in names:
        if name not in by_name:
            fail(f"the source has changed since the results were saved: {name} is missing")
    return [by_name[name] for name in names]


def change_source(text: str, number: int) -> str:
    """Return the source with one change."""
    tree = ast.parse(text)
    change = list_changes(tree)[number]
    setattr(change.node, change.field, change.value)
    return ast.unparse(tree)


def is_killed(mutant: Mutant, tests: list[str], limit: float) -> bool:
    """Return True if the tests do not pass with the mutant in place of its file."""
    original = mutant.path.read_bytes()
    changed = change_source(original.decode(), mutant.number)
    try:
        write_source(mutant.path, changed.encode())
        return not run_tests(tests, limit, output=subprocess.DEVNULL)
    finally:
        write_source(mutant.path, original)


def write_source(path: Path, text: bytes) -> None:
    """Write a source file, and remove its compiled form.

    Python considers a compiled file as fresh if its source has the same size and second of change,
    and a mutant may have both in common with the file that it replaces.
    """
    path.write_bytes(text)
    Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


def run_tests(tests: list[str], limit: float | None = None, output: int | None = None) -> bool:
    """Return True if pytest passes within `limit` seconds."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"CI": "1"}  # property tests have the same examples in each run
    run = subprocess.Popen(command, env=environment, stdout=output, start_new_session=True)
    try:
        return run.wait(limit) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if run.returncode is None:  # the limit, or Ctrl-C
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("tools.mutate", description="Measure what the tests notice.")
    parser.add_argument("sources", nargs="+", type=Path, help="files and folders to change")
    parser.add_argument("--count", type=int, default=20, help="size of the sample (20)")
    parser.add_argument("--seed", type=int, default=0, help="another number, another sample (0)")
    parser.add_argument("--save", type=Path, help="write the results into this file")
    parser.add_argument("--compare", type=Path, help="take the mutants from this file")
    parser.add_argument("--tests", nargs=argparse.REMAINDER, required=True, help="for pytest")
    return parser.parse_args(arguments)


def fail(message: str) -> NoReturn:
    """Print why nothing can be measured, and exit."""
    print(message, file=sys.stderr)
    raise SystemExit(2)


def run_mutants(mutants: list[Mutant], tests: list[str], save: Path | None) -> dict[str, bool]:
    """Run the tests with each mutant. Return whether they killed it, by name."""
    start = time.monotonic()
    if not run_tests(tests):
        fail("the tests do not pass without a change")
    limit = max(SHORTEST_LIMIT, SLOWER * (time.monotonic() - start))

    results: dict[str, bool] = {}
    for mutant in mutants:
        results[mutant.name] = is_killed(mutant, tests, limit)
        outcome = "killed  " if results[mutant.name] else "survived"
        print(f"{len(results)}/{len(mutants)} {outcome} {mutant.name}", flush=True)
        if save:
            save.write_text(json.dumps(results, indent=1))
    return results


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Return 1 if a mutant survives that was killed before."""
    options = parse_options(arguments)
    mutants = list_mutants(options.sources)
    before: dict[str, bool] = {}
    if options.compare:
        before = json.loads(options.compare.read_text())
        chosen = find_mutants(mutants, list(before))
    else:
        count = min(options.count, len(mutants))
        chosen = random.Random(options.seed).sample(mutants, count)

    results = run_mutants(chosen, options.tests, options.save)
    print(
        f"{sum(results.values())} of {len(results)} killed; the source has {len(mutants)} mutants"
    )
    lost = [name for name in results if before.get(name) and not results[name]]
    for name in lost:
        print(f"killed before, but not now: {name}")
    return 1 if lost else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # restores the file like Ctrl-C
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
