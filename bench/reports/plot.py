"""Draws the figures of a run, with a Python that has matplotlib: `make bench` sets one up.

That Python runs this file with the paths of the results, the baseline and the picture. It has none of the gateway's
packages, so this module imports none.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_SCALED = "streams: "
_NOT_PEERS = ("direct", "nginx", "gateway")
_WIDE_IN, _ROW_IN, _SCALE_IN = 10.0, 0.42, 4.0


def draw_picture(results: Path, baseline: Path | None) -> None:
    """Writes the picture beside the results. Prints a message instead if PLOT_PYTHON is not set."""
    python = os.environ.get("PLOT_PYTHON")
    if python is None:
        print(
            "PLOT_PYTHON is not set, so no picture is drawn. `make bench` sets it to a Python with matplotlib.",
            file=sys.stderr,
        )
        return
    picture = results.with_suffix(".png")
    subprocess.run([python, __file__, str(results), str(baseline or ""), str(picture)], check=True, timeout=120)
    print(f"wrote {picture}", file=sys.stderr)


def main(results: str, baseline: str, picture: str) -> None:
    """Draws the picture. The bars are multiples of nginx's figure in the same run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = _rows(Path(results))
    before = {row["name"]: row for row in _rows(Path(baseline))} if baseline and Path(baseline).exists() else {}
    bars = [row for row in rows if row["ratios"] and not row["name"].startswith(_SCALED)]
    lines = [row for row in rows if row["name"].startswith(_SCALED)]
    if not bars and not lines:
        return
    heights = [max(len(bars), 1) * _ROW_IN + 1.2] * bool(bars) + [_SCALE_IN] * bool(lines)
    figure, panels = pyplot.subplots(
        len(heights), 1, squeeze=False, figsize=(_WIDE_IN, sum(heights)), height_ratios=heights, layout="constrained"
    )
    axes = [row[0] for row in panels]
    if bars:
        _bars(axes[0], bars, before)
    if lines:
        _lines(axes[-1], lines)
    figure.savefig(picture, dpi=120)


def _rows(results: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(results.read_text())["rows"]
    return rows


def _bars(axes: Any, rows: list[dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    places = list(range(len(rows)))
    axes.barh(places, [_middle(row["ratios"]) for row in rows], height=0.6, color="#4477aa", label="gateway")
    for at, row in enumerate(rows):
        axes.plot([min(row["ratios"]), max(row["ratios"])], [at, at], color="black", linewidth=1)
    _points(
        axes,
        [
            (_middle(before[row["name"]]["ratios"]), at)
            for at, row in enumerate(rows)
            if row["name"] in before and before[row["name"]]["ratios"]
        ],
        "baseline",
        "D",
        "#999999",
    )
    targets = [(row["fast"], at) for at, row in enumerate(rows) if row["fast"] and not row["absolute"]]
    _points(axes, targets, "fast", "|", "#228833")
    for number, name in enumerate(dict.fromkeys(name for row in rows for name in row["figures"])):
        if name not in _NOT_PEERS:
            points = [
                (row["figures"][name]["value"] / row["figures"]["nginx"]["value"], at)
                for at, row in enumerate(rows)
                if name in row["figures"] and row["figures"][name]["value"] and row["figures"]["nginx"]["value"]
            ]
            _points(axes, points, name, "osv^<>P*"[number % 8], f"C{number}")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="multiple of nginx, same run; the line is the rounds' range", yticks=places)
    axes.set_yticklabels([row["name"] for row in rows])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.invert_yaxis()
    axes.legend(fontsize="small")


def _points(axes: Any, points: list[tuple[float, int]], label: str, marker: str, color: str) -> None:
    if points:
        x, y = zip(*points, strict=True)
        size = 14 if marker == "|" else 5
        axes.plot(x, y, linestyle="", marker=marker, markersize=size, markeredgewidth=2, color=color, label=label)


def _lines(axes: Any, rows: list[dict[str, Any]]) -> None:
    kinds: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for row in rows:
        count, _, kind = row["name"].removeprefix(_SCALED).partition(", ")
        kinds.setdefault(kind, []).append((int(count.replace(",", "")), row["figures"]))
    for number, (kind, points) in enumerate(kinds.items()):
        for name, style in (("gateway", "-"), ("nginx", ":")):
            measured = [(count, figures[name]["value"]) for count, figures in points if name in figures]
            if measured:
                axes.plot(*zip(*measured, strict=True), style, marker="o", color=f"C{number}", label=f"{name}, {kind}")
    axes.set(xscale="log", yscale="log", xlabel="streams at once", ylabel="CPU, µs per delta")
    axes.legend(fontsize="small")


def _middle(values: list[float]) -> float:
    ranked = sorted(values)
    return (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2


if __name__ == "__main__":
    main(*sys.argv[1:])
