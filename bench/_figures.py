"""What benchmarks of several contestants share: a figure, its measurement in turns, its row in a table."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import python_of

BENCH = Path(__file__).parent
MILLION = 10**6


@dataclass(frozen=True)
class Contestant:
    """Who runs what: a label, an environment, a file beside this one, a case of it with its numbers."""

    label: str
    venv: str
    file: str
    case: str
    numbers: tuple[int, ...] = ()
    repeats: int = 1


@dataclass(frozen=True)
class Figure:
    """A figure to reach, and who takes part: tombola first."""

    name: str
    reach: str
    show: Callable[[dict[str, Any]], str]
    contestants: tuple[Contestant, ...]
    #: All do the same: the answers have to be equal, and how many times the first is faster than the second is shown.
    same: bool = False


def rate(result: dict[str, Any]) -> str:
    """Positions per second."""
    return f"{result['count'] / result['seconds'] / 1e6:.3g} M/s"


def start(result: dict[str, Any]) -> str:
    """Time and memory of a start."""
    size = result["peak_bytes"]
    held = f"{size / 1e6:.3g} MB" if size < 1e9 else f"{size / 1e9:.3g} GB"
    return f"{duration(result['seconds'])}, {held}"


def number(result: dict[str, Any]) -> str:
    """What was counted, not timed."""
    return f"{result['answer']:.4g}"


def duration(seconds: float) -> str:
    """Seconds for people."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def ours(case: str, *numbers: int, file: str = "order", label: str = "tombola", repeats: int = 1) -> Contestant:
    """A contestant in our own environment: tombola, or NumPy."""
    return Contestant(label, "tombola", f"{file}_tombola.py", case, numbers, repeats)


def mosaic(case: str, *numbers: int, file: str = "order", label: str = "MosaicML") -> Contestant:
    """MosaicML Streaming."""
    return Contestant(label, "mosaic", f"{file}_mosaic.py", case, numbers)


def run_once(contestant: Contestant) -> dict[str, Any]:
    """One fresh process."""
    words = [contestant.case, str(contestant.repeats), *map(str, contestant.numbers)]
    command = [str(python_of(contestant.venv)), str(BENCH / contestant.file), *words]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{contestant.label}, {contestant.case}: {run.stderr.strip()}")
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def measure(figure: Figure, rounds: int) -> list[dict[str, Any]]:
    """Every contestant of a figure, in turns."""
    runs: dict[str, list[dict[str, Any]]] = {contestant.label: [] for contestant in figure.contestants}
    for _ in range(rounds):
        for contestant in figure.contestants:
            runs[contestant.label].append(run_once(contestant))
    results = []
    for label, found in runs.items():
        seconds = [min(one["seconds"]) for one in found]
        results.append(
            {
                "label": label,
                "seconds": statistics.median(seconds),
                "seconds_spread": [min(seconds), max(seconds)],
                "count": found[0]["count"],
                "peak_bytes": statistics.median(one["peak_bytes"] for one in found),
                "answer": found[0]["answer"],
            }
        )
    if figure.same and len({result["answer"] for result in results}) > 1:
        sys.exit(f"{figure.name}: the contestants disagree: {[result['answer'] for result in results]}")
    return results


def row_of(figure: Figure, results: list[dict[str, Any]]) -> dict[str, Any]:
    """What is kept of a figure."""
    shown = {result["label"]: figure.show(result) for result in results}
    if figure.same and len(results) > 1:
        own, other = results[:2]
        times = other["seconds"] / other["count"] / (own["seconds"] / own["count"])
        shown[own["label"]] += f": {times:.2g} times as fast"
        if figure.show is start:
            shown[own["label"]] += f", {own['peak_bytes'] / other['peak_bytes']:.2f} of the memory"
    return {"name": figure.name, "reach": figure.reach, "shown": shown, "results": results}


def table_of(rows: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    lines = ["| figure | reach | tombola | others in the same run |", "|---|---|---|---|"]
    for row in rows:
        own, *others = row["shown"].items()
        said = "; ".join(f"{label}: {value}" for label, value in others) or "none"
        lines.append(f"| {row['name']} | {row['reach']} | {own[1]} | {said} |")
    return "\n".join(lines)
