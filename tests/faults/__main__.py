"""Run the script with every fault, or with one: python -m tests.faults --fault "sync 6 fail"."""

import argparse
import sys

from tests.faults.disk import FAULTS, Fault
from tests.faults.run import list_faults, run_script


def read_fault(text: str) -> Fault:
    """Return the fault that is written as "sync 6 fail"."""
    call, nth, kind = text.split()
    [known_call] = [known for known in FAULTS if known == call]
    [known_kind] = [known for known in FAULTS[known_call] if known == kind]
    return Fault(known_call, int(nth), known_kind)


def run_all(calls: list[str]) -> int:
    """Run the script with every fault of some calls. Return how many runs have failed."""
    failed = runs = 0
    for call in FAULTS:
        if call not in calls:
            continue
        for fault in list_faults(call):
            problems = run_script(fault).problems
            runs += 1
            if problems:
                failed += 1
                print(f"{fault}: {problems[0]:.300}", flush=True)
    print(f"{runs:,} faults, {failed} failed")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--fault", type=read_fault, help='only this one, such as "sync 6 fail"')
    parser.add_argument("--call", choices=FAULTS, action="append", help="only faults of this call")
    arguments = parser.parse_args()
    if arguments.fault is None:
        sys.exit(bool(run_all(arguments.call or list(FAULTS))))
    outcome = run_script(arguments.fault)
    print(*outcome.problems, "operations:", *outcome.log, sep="\n  ")
    sys.exit(bool(outcome.problems))


if __name__ == "__main__":
    main()
