"""The picture: the cost of each job over its size, both axes logarithmic, the slope beside each line.

`python -m benchmarks.peers.plot NUMBERS.json FOLDER` writes growth.svg and growth.png; it needs matplotlib.
"""

import json
import sys
from math import log10
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.peers.figures import FLOOR, OURS, TIMED, line, slope
from benchmarks.peers.measurement import JOBS
from benchmarks.peers.peers import PEERS

matplotlib.use("Agg")
# The same numbers give the same file, with its words as words.
matplotlib.rcParams |= {"svg.hashsalt": "backstory", "svg.fonttype": "none"}
import matplotlib.pyplot as plt  # noqa: E402

Points = list[tuple[int, float]]

COLOURS = (
    "#6a35a8",
    "#a878d8",
    "#d95f02",
    "#eb9a3c",
    "#1b7a1b",
    "#59b359",
    "#8c564b",
    "#d6409f",
    "#0b93a8",
)


def draw(results: dict[str, Any], folder: Path) -> None:
    """One panel per job."""
    figure, panels = plt.subplots(5, 2, figsize=(15, 24), constrained_layout=True)
    colours = _colours(results["peers"])
    for job, panel in zip(TIMED, panels.flat, strict=True):
        panel.set(xscale="log", yscale="log", title=JOBS[job].title, xlabel=JOBS[job].unit)
        panel.set_ylabel("bytes" if job == "disk" else "ms")
        panel.grid(True, which="major", alpha=0.3)
        lines = {peer: line(results["jobs"], job, peer) for peer in results["peers"]}
        drawn = {peer: points for peer, points in lines.items() if points}
        for peer, points in drawn.items():
            _line(panel, peer, points, colours[peer])
        panel.set_xticks(sorted({size for points in drawn.values() for size, _ in points}))
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.minorticks_off()
        _names(panel, drawn, colours)
    figure.suptitle(
        "Cost by size, with the slope of each line: 0 is constant, 1 is linear, 2 is quadratic"
    )
    figure.savefig(folder / "growth.svg", metadata={"Date": None})
    figure.savefig(folder / "growth.png", dpi=100)


def _line(panel: Any, peer: str, points: Points, colour: str) -> None:
    width, style = (3.0, "-") if peer == OURS else (1.4, "--" if peer == FLOOR else "-")
    panel.plot(
        *zip(*points, strict=True), style, marker="o", markersize=3, color=colour, linewidth=width
    )


def _names(panel: Any, drawn: dict[str, Points], colours: dict[str, str]) -> None:
    """Beside the panel, at the height of its end, each line's name and slope; none covers another."""
    ends = {
        peer: panel.transLimits.transform((0, log10(points[-1][1])))[1]
        for peer, points in drawn.items()
    }
    places = _spread(ends)
    for peer, points in drawn.items():
        found = slope(points)
        panel.annotate(
            PEERS[peer].title + ("" if found is None else f"  {found:+.2f}"),
            xy=points[-1],
            xytext=(1.04, places[peer]),
            textcoords="axes fraction",
            annotation_clip=False,
            va="center",
            fontsize=8,
            color=colours[peer],
            weight="bold" if peer == OURS else "normal",
            arrowprops={"arrowstyle": "-", "color": colours[peer], "linewidth": 0.5, "alpha": 0.6},
        )


def _spread(heights: dict[str, float], apart: float = 0.06) -> dict[str, float]:
    """The heights, moved as little as keeps them in order and this far apart."""
    order = sorted(heights, key=heights.__getitem__)
    placed: dict[str, float] = {}
    lowest = 0.0
    for peer in order:
        placed[peer] = max(heights[peer], lowest)
        lowest = placed[peer] + apart
    highest = 1.0
    for peer in reversed(order):
        placed[peer] = min(placed[peer], highest)
        highest = placed[peer] - apart
    return placed


def _colours(peers: list[str]) -> dict[str, str]:
    fixed = {OURS: "#d62728", FLOOR: "#555555"}
    others = [peer for peer in peers if peer not in fixed]
    return {**fixed, **{peer: COLOURS[at % len(COLOURS)] for at, peer in enumerate(others)}}


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
