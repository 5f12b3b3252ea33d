"""The numbers as text: a table for the terminal, and the tables of two pages, between comments."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.figures import (
    FIGURES,
    FLOOR,
    OURS,
    TIMED,
    Figure,
    best,
    line,
    ratio,
    rivals,
    slope,
    targets,
    value,
    written,
)
from benchmarks.peers.measurement import JOBS
from benchmarks.peers.peers import PEERS

Results = dict[str, Any]
Block = Callable[[Results], str]

BY_HAND = "json-lines"
SUMMARY = {
    *(("append", "ms"), ("restore", "ms"), ("restore", "new_ms"), ("dead", "ms"), ("fork", "ms")),
    *(("fork", "bytes"), ("rewind", "ms"), ("as-of", "ms"), ("together", "ms"), ("cut", "taken")),
}
"""The figures of the first table: job and key."""
COSTS = {
    "disk": ("bytes", "B"),
    "coding-disk": ("bytes", "B"),
    "kill": ("lost", ""),
    "cut": ("taken", ""),
}
"""What stands for a job that has no milliseconds."""
LONGEST = 28  # characters of a cell on a terminal
POSTGRES_HEAD = ["PostgreSQL", "", "1 client", "8 clients", "32 clients"]


def text_table(results: Results) -> str:
    """What was measured, for a terminal: the jobs as rows, the peers as columns; then PostgreSQL."""
    tables = []
    if results.get("jobs"):
        rows = [row for job in results["jobs"] for row in _terminal_rows(results, job)]
        tables.append(_aligned(["", *results["peers"]], rows))
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


def rewrite(page: Path, blocks: dict[str, Block], results: Results) -> None:
    """Put the tables into a page, each between its two comments; the rest is written by hand."""
    text = page.read_text()
    for name, block in blocks.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not begin or not end:
            raise ValueError(f"{page} has no place for {name}: its comments are missing")
        text = f"{before}{begin}{block(results).strip()}\n{end}{after}"
    page.write_text(text)


def _jobs(results: Results) -> str:
    """Rows and columns as the terminal has them."""
    return _markdown(_head(results), _job_rows(results))


def _job_rows(results: Results) -> list[list[str]]:
    """A row per figure: its title, and what each peer reached, with its ratio to ours."""
    return [_row(results, figure) for figure in FIGURES if figure.job in results["jobs"]]


def _row(results: Results, figure: Figure) -> list[str]:
    cells = (_cell(results["jobs"], figure, peer) for peer in results["peers"])
    return [f"{figure.title} (`{figure.job}`)", *cells]


def _terminal_rows(results: Results, job: str) -> list[list[str]]:
    """The job's rows; of a small run, which has none of the page's figures, the largest size it came to."""
    sizes = {size for by_size in results["jobs"][job].values() for size in by_size}
    figures = [figure for figure in FIGURES if figure.job == job and figure.size in sizes]
    return [_row(results, figure) for figure in figures or [_at_size(job, max(map(int, sizes)))]]


def _at_size(job: str, size: int) -> Figure:
    return Figure(
        f"{JOBS[job].title}, {size:,} {JOBS[job].unit}", job, str(size), *COSTS.get(job, ("ms",))
    )


def _sizes(results: Results) -> str:
    """The restores at every size."""
    figures = (
        _at_size(job, size) for job in ("restore", "cold", "request") for size in JOBS[job].sizes
    )
    return _markdown(_head(results), [_row(results, figure) for figure in figures])


def _head(results: Results) -> list[str]:
    return ["", *(PEERS[peer].title for peer in results["peers"])]


def _summary(results: Results) -> str:
    """The first thing to read: ours, the best library, and what people write themselves."""
    libraries = [peer for peer in rivals(results) if peer != BY_HAND]
    rows = []
    for figure in (figure for figure in FIGURES if (figure.job, figure.key) in SUMMARY):
        nearest = _nearest(results, figure, libraries)
        library = (
            f"{_cell(results['jobs'], figure, nearest)}, {PEERS[nearest].title}" if nearest else "—"
        )
        by_hand = [_cell(results["jobs"], figure, peer) for peer in (OURS, BY_HAND, FLOOR)]
        rows.append([_short(figure), by_hand[0], library, *by_hand[1:]])
    return _markdown(["", "backstory", "best other library", "plain file", "bare table"], rows)


def _nearest(results: Results, figure: Figure, peers: list[str]) -> str | None:
    """Which of them does best: the smallest cost, or of what is counted the most."""
    if figure.unit:
        found = best(results, figure, peers)
        return found[1] if found else None
    counts = {peer: value(results["jobs"], figure, peer) for peer in peers}
    return max(
        (peer for peer in peers if isinstance(counts[peer], int)), key=counts.get, default=None
    )  # type: ignore[arg-type]


def _peers(results: Results) -> str:
    """What each peer is, in its file's own words."""
    rows = [
        [PEERS[peer].title, " ".join(results["how"][peer]["class"].split())]
        for peer in results["peers"]
    ]
    return _markdown(["", "what is measured, and how durable it is"], rows)


def _why(results: Results) -> str:
    """How each peer does each thing, in one sentence, and the ratios that come of it."""
    rows = []
    for peer in (peer for peer in results["peers"] if peer != OURS):
        for method in dict.fromkeys(figure.how for figure in FIGURES if figure.how):
            found = [
                _reached(results, figure, peer)
                for figure in FIGURES
                if figure.how == method and ratio(results["jobs"], figure, peer) is not None
            ]
            if found:
                rows.append([PEERS[peer].title, results["how"][peer][method], "; ".join(found)])
    return _markdown(["", "how it works", "times as long, or as large, as backstory"], rows)


def _reached(results: Results, figure: Figure, peer: str) -> str:
    """One ratio with its name; of a new process, what the imports alone take."""
    shown = f"{_short(figure)} {_times(ratio(results['jobs'], figure, peer) or 0)}"
    if figure.key != "new_ms":
        return shown
    imports = results["jobs"][figure.job][peer][figure.size]["import_ms"]
    return f"{shown}, {imports:,.0f} ms of it for imports"


def _short(figure: Figure) -> str:
    """Its title without the number of the job."""
    number, _, rest = figure.title.partition(" · ")
    return rest if number.isdigit() else f"{number}, {rest}"


def _targets(results: Results) -> str:
    """What was expected, and what came of it."""
    rows = [
        [
            target.what,
            PEERS[target.against].title if target.against in PEERS else target.against,
            f"{target.wanted:.2g}",
            f"{target.found:,.2f}",
            "yes" if target.is_reached else "**no**",
        ]
        for target in targets(results)
    ]
    return _markdown(["job", "the best other, or the floor", "target", "measured", "reached"], rows)


def _growth(results: Results) -> str:
    """The exponents beside the picture."""
    jobs, peers = results["jobs"], results["peers"]
    rows = []
    for job in TIMED:
        slopes = [slope(line(jobs, job, peer)) for peer in peers]
        if any(found is not None for found in slopes):
            rows.append(
                [
                    f"{JOBS[job].title} (`{job}`)",
                    *("—" if s is None else f"{s:.2f}" for s in slopes),
                ]
            )
    return _markdown(["exponent of the growth", *(PEERS[p].title for p in peers)], rows)


def _postgres(results: Results) -> str:
    """Appends and restores a second, by clients."""
    return _markdown(POSTGRES_HEAD, _postgres_rows(results))


def _postgres_rows(results: Results) -> list[list[str]]:
    rows = []
    for job, by_peer in results.get("postgres", {}).items():
        floors = [by_peer[name] for name in ("pgbench", "bare-postgres") if name in by_peer]
        for peer, by_count in by_peer.items():
            title = PEERS[peer].title if peer in PEERS else "pgbench, bare INSERT"
            cells = [
                _a_second(numbers, [floor.get(count, {}) for floor in floors])
                for count, numbers in by_count.items()
            ]
            rows.append([f"{job.split('-')[1]}s per second", title, *cells])
    return rows


def _a_second(numbers: dict[str, Any], floors: list[dict[str, Any]]) -> str:
    """A rate, and which share of each floor's it is."""
    if "a_second" not in numbers:
        return str(numbers.get("failed", "—"))
    shares = [
        f"{numbers['a_second'] / floor['a_second']:.0%}" for floor in floors if "a_second" in floor
    ]
    return f"{numbers['a_second']:,.0f} ({', '.join(shares)})"


def _measured(results: Results) -> str:
    """Where, when and what."""
    return f"Measured on {results['machine']}. Versions: {', '.join(results['versions'])}."


FOR_USERS: dict[str, Block] = {
    "summary": _summary,
    "measured": _measured,
    "jobs": _jobs,
    "sizes": _sizes,
    "growth": _growth,
    "postgres": _postgres,
    "why": _why,
    "peers": _peers,
}
"""The tables of docs/peers.md."""
FOR_MAINTAINERS: dict[str, Block] = {"targets": _targets}
"""The tables of benchmarks/README.md."""


def _cell(jobs: Results, figure: Figure, peer: str) -> str:
    found, times = value(jobs, figure, peer), ratio(jobs, figure, peer)
    shown = written(found, figure.unit)
    return shown if times is None or peer == OURS else f"{shown} ({_times(times)})"


def _times(found: float) -> str:
    return f"{found:,.0f}×" if found >= 10 else f"{found:.2g}×"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines
    )
