"""Commands that check and maintain a store: verify, seal and distribute."""

from typing import IO, Any

import click

from backstory.cli import output
from backstory.cli.options import command
from backstory.errors import Invalid
from backstory.log.events import parse_object
from backstory.maintenance.verify import Finding
from backstory.present.text import count
from backstory.store import Store


@command(
    "verify",
    example="backstory verify && echo sound\nbackstory verify --seal seal.json --requests",
)
@click.option(
    "--seal",
    metavar="FILE",
    type=click.File("rb"),
    help="Also compare with what `backstory seal` printed.",
)
@click.option(
    "--requests", is_flag=True, help="Also rebuild each recorded request and compare its digest."
)
def verify_command(store: Store, seal: IO[bytes] | None, requests: bool) -> None:
    """Reads everything and recomputes it. Prints what is wrong, where, and what to do about it. The
    exit code is 1 if anything is wrong."""
    findings = store.verify(seal=None if seal is None else _read_seal(seal), requests=requests)
    for finding in findings:
        if output.wants_json():
            fields = finding._asdict()
            output.print_json({"agent": fields.pop("agent_id"), **fields})
        else:
            output.print_line(_describe_finding(finding))
    if not output.wants_json():
        problems = f"{count(len(findings), 'problem')} found"
        output.report(problems if findings else "the store is sound")
    click.get_current_context().exit(1 if findings else 0)


def _read_seal(file: IO[bytes]) -> dict[str, Any]:
    seal = parse_object(file.read().decode(errors="replace"))
    if seal is None:
        raise Invalid(
            f"{file.name} is not a seal", remedy="pass a file with what `backstory seal` printed"
        )
    return seal


def _describe_finding(finding: Finding) -> str:
    where = finding.agent_id or "the store"
    if finding.position is not None:
        where = f"{finding.agent_id}@{finding.position}"
    return f"{finding.severity}: {where}: {finding.problem}; {finding.remedy}"


@command(
    "seal", example="backstory seal > seal.json\nbackstory verify --seal seal.json", json=False
)
def seal_command(store: Store) -> None:
    """Prints a small JSON object with the digest of every agent's head. Keep it outside the store:
    with it, `verify` also notices if the newest events were removed, which nothing in the store
    itself could show."""
    output.print_json(store.seal())


@command("distribute", example="backstory --store postgresql://coordinator/history distribute")
def distribute_command(store: Store) -> None:
    """The database needs the Citus extension and its workers first. A store created there is
    distributed from the start; this command is for one that existed before. Sessions are spread
    over the workers. Other processes wait until it is done, and then continue."""
    with output.show_progress("distributing", "rows") as progress:
        done = store.distribute(progress)
    if output.wants_json():
        output.print_json(done._asdict())
        return
    moved = f"moved {count(done.rows, 'row')}" if done.rows else "nothing to move"
    output.print_line(f"{moved}; the store is on {count(done.servers, 'server')}")
