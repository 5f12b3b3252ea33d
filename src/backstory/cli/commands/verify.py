"""verify: is the store sound?"""

import click

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.stores import opened
from backstory.jobs.verify import Finding
from backstory.present.measures import count


@command("verify", example="backstory verify && echo sound")
def verify_command(url: str | None, as_json: bool) -> None:
    """Reads everything and derives it again. Prints what is wrong, where, and what to do about it. The
    exit code is 1 if anything is wrong."""
    with opened(url) as store:
        findings = store.verify()
    for finding in findings:
        if as_json:
            screen.answer_json(finding._asdict())
        else:
            screen.answer(_said(finding))
    if not as_json:
        screen.say(count(len(findings), "problem") + " found" if findings else "the store is sound")
    click.get_current_context().exit(1 if findings else 0)


def _said(finding: Finding) -> str:
    where = f"{finding.agent}@{finding.position}" if finding.position is not None else finding.agent
    return f"{finding.severity}: {where or 'the store'}: {finding.problem}; {finding.remedy}"
