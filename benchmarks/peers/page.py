"""The numbers as text: a table for the terminal, and the tables of docs/peers.md between their marks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.figures import (
    FIGURES,
    OURS,
    TIMED,
    Figure,
    line,
    promises,
    ratio,
    slope,
    value,
    written,
)
from benchmarks.peers.measuring import JOBS
from benchmarks.peers.peers import PEERS

Results = dict[str, Any]

LONGEST = 28  # characters of a cell on a terminal
POSTGRES_HEAD = ["PostgreSQL", "", "1 at once", "8 at once", "32 at once"]


def text_table(results: Results) -> str:
    """What was measured, for a terminal: the jobs as rows, the peers as columns; then PostgreSQL."""
    tables = []
    if results.get("jobs"):
        tables.append(_aligned(["", *results["peers"]], _job_rows(results)))
    if results.get("postgres"):
        tables.append(_aligned(POSTGRES_HEAD, _postgres_rows(results)))
    return "\n\n".join(tables)


def _aligned(head: list[str], rows: list[list[str]]) -> str:
    """Columns of equal width; a reason that is too long for one is cut."""
    lines = [head, *([row[0], *(cell[:LONGEST] for cell in row[1:])] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in lines
    )


def rewrite(page: Path, results: Results) -> None:
    """Put the tables into the page; what stands between the marks is never written by hand."""
    text = page.read_text()
    for name, block in BLOCKS.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not begin or not end:
            raise ValueError(f"{page} has no place for {name}: its marks are missing")
        text = f"{before}{begin}{block(results).strip()}\n{end}{after}"
    page.write_text(text)


def _jobs(results: Results) -> str:
    """Rows and columns as the terminal has them."""
    return _markdown(["", *(PEERS[peer].title for peer in results["peers"])], _job_rows(results))


def _job_rows(results: Results) -> list[list[str]]:
    """A row per figure: its title, and what each peer reached, with its ratio to ours."""
    jobs = results["jobs"]
    return [
        [figure.title, *(_cell(jobs, figure, peer) for peer in results["peers"])]
        for figure in FIGURES
        if figure.job in jobs
    ]


def _peers(results: Results) -> str:
    """What each peer is, in its file's own words."""
    rows = [[PEERS[peer].title, " ".join(results["how"][peer]["class"].split())] for peer in results["peers"]]
    return _markdown(["", "what it is, and how durable"], rows)


def _why(results: Results) -> str:
    """Each ratio with the sentence that explains it."""
    jobs = results["jobs"]
    rows = []
    for figure in (figure for figure in FIGURES if figure.how and figure.job in jobs):
        for peer in results["peers"]:
            shown = _cell(jobs, figure, peer)
            if isinstance(value(jobs, figure, peer), int | float):
                rows.append([figure.title, PEERS[peer].title, shown, results["how"][peer][figure.how]])
    return _markdown(["job", "peer", "measured", "how it does it"], rows)


def _promises(results: Results) -> str:
    """What was expected, and what came of it."""
    rows = [
        [
            promise.what,
            f"{promise.wanted:.2g}",
            f"{promise.found:,.2f}",
            "yes" if promise.is_kept else "**no**",
        ]
        for promise in promises(results)
    ]
    return _markdown(["expected", "at least", "measured", "reached"], rows)


def _growth(results: Results) -> str:
    """The exponents beside the picture."""
    jobs, peers = results["jobs"], results["peers"]
    rows = []
    for job in TIMED:
        slopes = [slope(line(jobs, job, peer)) for peer in peers]
        if any(found is not None for found in slopes):
            rows.append([f"{JOBS[job].title} (`{job}`)", *("—" if s is None else f"{s:.2f}" for s in slopes)])
    return _markdown(["cost over size grows as size to the power of", *(PEERS[p].title for p in peers)], rows)


def _postgres(results: Results) -> str:
    """Appends and restores a second, by clients."""
    return _markdown(POSTGRES_HEAD, _postgres_rows(results))


def _postgres_rows(results: Results) -> list[list[str]]:
    rows = []
    for job, by_peer in results.get("postgres", {}).items():
        floor = by_peer.get("pgbench", {})
        for peer, by_count in by_peer.items():
            title = PEERS[peer].title if peer in PEERS else "pgbench, bare INSERT"
            cells = [_a_second(numbers, floor.get(count)) for count, numbers in by_count.items()]
            rows.append([f"{job.split('-')[1]}s a second", title, *cells])
    return rows


def _a_second(numbers: dict[str, Any], floor: dict[str, Any] | None) -> str:
    if "a_second" not in numbers:
        return str(numbers.get("failed", "—"))
    share = f" ({numbers['a_second'] / floor['a_second']:.0%})" if floor else ""
    return f"{numbers['a_second']:,.0f}{share}"


def _measured(results: Results) -> str:
    """Where, when and what."""
    return f"{results['machine']}. {', '.join(results['versions'])}."


BLOCKS: dict[str, Callable[[Results], str]] = {
    "measured": _measured,
    "peers": _peers,
    "jobs": _jobs,
    "promises": _promises,
    "growth": _growth,
    "postgres": _postgres,
    "why": _why,
}


def _cell(jobs: Results, figure: Figure, peer: str) -> str:
    found, times = value(jobs, figure, peer), ratio(jobs, figure, peer)
    shown = written(found, figure.unit)
    return shown if times is None or peer == OURS else f"{shown} ({_times(times)})"


def _times(found: float) -> str:
    return f"{found:,.0f}×" if found >= 10 else f"{found:.2g}×"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)
