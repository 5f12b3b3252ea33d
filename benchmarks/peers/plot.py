"""The picture: the cost of each job over its size, both axes logarithmic, the slope beside each line.

`python -m benchmarks.peers.plot NUMBERS.json FOLDER` writes growth.svg and growth.png; it needs matplotlib.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.peers.figures import OURS, TIMED, line, slope
from benchmarks.peers.measuring import JOBS
from benchmarks.peers.peers import PEERS

matplotlib.use("Agg")
# The same numbers give the same file, with its words as words.
matplotlib.rcParams |= {"svg.hashsalt": "backstory", "svg.fonttype": "none"}
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = ("#9467bd", "#c5b0d5", "#ff7f0e", "#ffbb78", "#2ca02c", "#98df8a", "#8c564b", "#e377c2", "#17becf")


def draw(results: dict[str, Any], folder: Path) -> None:
    """One panel per job."""
    figure, panels = plt.subplots(5, 2, figsize=(13, 26), constrained_layout=True)
    colours = _colours(results["peers"])
    for job, panel in zip(TIMED, panels.flat, strict=True):
        for peer in results["peers"]:
            points = line(results["jobs"], job, peer)
            if points:
                _line(panel, peer, points, colours[peer])
        panel.set(xscale="log", yscale="log", title=JOBS[job].title, xlabel=JOBS[job].unit)
        panel.set_ylabel("bytes" if job == "disk" else "ms")
        panel.grid(True, which="major", alpha=0.3)
        panel.legend(fontsize=7, loc="upper left", framealpha=0.7)
    figure.suptitle(
        "Cost over size; the slope is the exponent of the growth (0 constant, 1 linear, 2 quadratic)"
    )
    figure.savefig(folder / "growth.svg", metadata={"Date": None})
    figure.savefig(folder / "growth.png", dpi=80)


def _line(panel: Any, peer: str, points: list[tuple[int, float]], colour: str) -> None:
    found = slope(points)
    label = PEERS[peer].title + ("" if found is None else f"  {found:+.2f}")
    width, style = (3.0, "-") if peer == OURS else (1.4, "--" if peer == "bare" else "-")
    panel.plot(
        *zip(*points, strict=True),
        style,
        marker="o",
        markersize=3,
        label=label,
        color=colour,
        linewidth=width,
    )


def _colours(peers: list[str]) -> dict[str, str]:
    fixed = {OURS: "#d62728", "bare": "#555555"}
    others = [peer for peer in peers if peer not in fixed]
    return {**fixed, **{peer: COLOURS[at % len(COLOURS)] for at, peer in enumerate(others)}}


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
