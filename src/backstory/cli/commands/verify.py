"""verify: is the store sound?"""

from typing import IO, Any

import click

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.stores import opened
from backstory.errors import Invalid
from backstory.log.events import parse_object
from backstory.maintenance.verify import Finding
from backstory.present.measures import count


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
def verify_command(url: str | None, seal: IO[bytes] | None, requests: bool, as_json: bool) -> None:
    """Reads everything and recomputes it. Prints what is wrong, where, and what to do about it. The
    exit code is 1 if anything is wrong."""
    with opened(url) as store:
        findings = store.verify(seal=None if seal is None else _seal(seal), requests=requests)
    for finding in findings:
        if as_json:
            fields = finding._asdict()
            screen.answer_json({"agent": fields.pop("agent_id"), **fields})
        else:
            screen.answer(_said(finding))
    if not as_json:
        screen.say(count(len(findings), "problem") + " found" if findings else "the store is sound")
    click.get_current_context().exit(1 if findings else 0)


def _seal(file: IO[bytes]) -> dict[str, Any]:
    found = parse_object(file.read().decode(errors="replace"))
    if found is None:
        raise Invalid(
            f"{file.name} is not a seal", remedy="pass a file with what `backstory seal` printed"
        )
    return found


def _said(finding: Finding) -> str:
    where = (
        f"{finding.agent_id}@{finding.position}"
        if finding.position is not None
        else finding.agent_id
    )
    return f"{finding.severity}: {where or 'the store'}: {finding.problem}; {finding.remedy}"
