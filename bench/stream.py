"""Measures reading against mosaicml-streaming, datasets, WebDataset and LitData, in one run on the same records.

    python bench/peers.py && python bench/stream.py [--quick] [--rounds N] [--only PART]

For each size of record the data is written once in every peer's own format, 64 shards each, and read shuffled in one
process with the page cache warm and without decoding. Every measurement is a fresh process; the contestants take
turns, and medians are compared, of one size of record with one another. The floors are a bare Python loop over mapped
shards, and memcpy on one core: of one large block into another, and batch by batch into one that stays in the cache,
which no reader of fresh batches can reach. Besides: a resume against a start, what epochs leave behind, and the opening
of a manifest of 200,000 shards. Writes bench/results/stream.json and the table in docs/explanation/speed.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from _page import DOCS, keep, kept, machine, put
from peers import python_of

BENCH = Path(__file__).parent
PAGE = DOCS / "explanation" / "speed.md"
SHARDS, LANES, BATCH = 64, 64, 64
# Pairs of rows of one shard in batches of a perfect shuffle over 64 equal shards. A peer that mixes as well, within the
# noise of a thousand batches, has no more than this.
PAIRS_MAX = 1.25 / SHARDS
MANY_SHARDS = 200_000
PEERS = {
    "mosaicml-streaming py1e": ("mosaic", "mosaic"),
    "datasets, streaming shuffle": ("datasets", "datasets_stream"),
    "datasets, map-style shuffle, Arrow": ("datasets", "datasets_map"),
    "the same, references only": ("datasets", "datasets_refs"),
    "webdataset": ("webdataset", "webdataset"),
    "litdata": ("litdata", "litdata"),
}
REFERENCES = "the same, references only"
MEMCPY, CACHED = "memcpy, large to large", "memcpy into one cached batch"
# Whose batches are no Python objects.
BUFFERS = ("datasets, map-style shuffle, Arrow", REFERENCES)


@dataclass(frozen=True)
class Size:
    """A size of record, how many of them, and how many a slow peer reads of them."""

    name: str
    record: int
    records: int
    limit: int

    def scaled(self, times: int) -> Size:
        """The same with so many times the records."""
        return replace(self, records=self.records * times)


SIZES = {
    size.name: size
    for size in (
        Size("200 B", 200, 250_000, 100_000),
        Size("8 KiB", 8192, 16_384, 16_384),
        Size("100 KB", 100_000, 1_600, 1_600),
    )
}
#: A resume against a start and what epochs leave behind; the opening of many shards.
OTHERS = ("epochs", "opening")


def run(venv: str, file: str, case: str, *numbers: int, cwd: Path, repeats: int = 1) -> dict[str, Any]:
    """One fresh process."""
    command = [str(python_of(venv)), str(BENCH / file), case, str(repeats), *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    if done.returncode:
        sys.exit(f"{file} {case}: {done.stderr.strip()[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def rates(runs: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Records per second of each contestant: the median over the rounds of its best repeat."""
    return {
        label: statistics.median(one["count"] / min(one["seconds"]) for one in found) for label, found in runs.items()
    }


def measure(size: Size, folder: Path, rounds: int) -> dict[str, Any]:
    """Everybody on one size of record."""
    run("tombola", "stream_tombola.py", "write", size.record, size.records, SHARDS, cwd=folder)
    for venv in ("datasets", "webdataset", "litdata"):
        run(venv, "stream_peers.py", f"{venv}_write", size.record, size.records, SHARDS, cwd=folder)
    own = "stream_tombola.py"
    contestants: dict[str, tuple[Any, ...]] = {
        "tombola, batches": ("tombola", own, "batches", size.records, LANES),
        "tombola, batches of Python objects": ("tombola", own, "lists", size.records, LANES),
        "tombola, a dict a record": ("tombola", own, "objects", size.records, LANES),
        "bare mmap loop": ("tombola", own, "mmap_loop", size.records),
        MEMCPY: ("tombola", own, "memcpy", size.record, size.records),
        CACHED: ("tombola", own, "memcpy_cached", size.record, size.records),
    }
    for label, (venv, name) in PEERS.items():
        contestants[label] = (venv, "stream_peers.py", f"{name}_read", size.records, size.limit)
    found: dict[str, list[dict[str, Any]]] = {label: [] for label in contestants}
    for _ in range(rounds):
        for label, words in contestants.items():
            repeats = 5 if words[0] == "tombola" else 1
            found[label].append(run(*words, cwd=folder, repeats=repeats))
    mixed = {"tombola": [run("tombola", own, "mixing", size.records, LANES, what, cwd=folder) for what in (0, 1)]}
    for label, (venv, name) in PEERS.items():
        case = f"{name}_mixing"
        mixed[label] = [run(venv, "stream_peers.py", case, size.records, SHARDS, what, cwd=folder) for what in (0, 1)]
    return {
        "record_bytes": size.record,
        "records": size.records,
        "records_per_second": rates(found),
        "mixing": {label: [one["answer"] for one in pair] for label, pair in mixed.items()},
    }


def epochs(folder: Path, rounds: int) -> dict[str, Any]:
    """Resume against a start, and what epochs leave behind."""
    seconds: dict[int, list[float]] = {0: [], 80: []}
    for _ in range(rounds):
        for percent, found in seconds.items():
            result = run("tombola", "stream_tombola.py", "first_batch", percent, cwd=folder, repeats=9)
            found.append(statistics.median(result["seconds"]))
    grown = [run("tombola", "stream_tombola.py", "growth", 20, 40, what, cwd=folder)["answer"] for what in range(3)]
    return {
        "start_seconds": statistics.median(seconds[0]),
        "resume_seconds": statistics.median(seconds[80]),
        "growth": dict(zip(("megabytes", "descriptors", "threads"), grown, strict=True)),
    }


def opening(rounds: int) -> dict[str, Any]:
    """A manifest of many shards: parsed, opened again from what was kept, and by mosaicml-streaming."""
    found: dict[str, list[tuple[float, float]]] = {"first": [], "later": [], "mosaic": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("tombola", "stream_tombola.py", "manifest_write", MANY_SHARDS, cwd=folder)
        for _ in range(rounds):
            shutil.rmtree(folder / "kept", ignore_errors=True)
            for what in found:
                words = ("mosaic", "stream_peers.py", "mosaic_open")
                done = run(
                    *(words if what == "mosaic" else ("tombola", "stream_tombola.py", "manifest_open")), cwd=folder
                )
                found[what].append((done["seconds"][0], done["peak_bytes"] / 1e6))
    return {
        what: {
            "seconds": statistics.median(second for second, _ in runs),
            "megabytes": statistics.median(megabytes for _, megabytes in runs),
        }
        for what, runs in found.items()
    }


def figures_of(kept: dict[str, Any]) -> list[str]:
    """What is to be reached, and what was."""
    lines = ["| figure | reach | measured |", "|---|---|---|"]
    for size in SIZES:
        result = kept[size]
        speeds = result["records_per_second"]
        well = {peer: speeds[peer] for peer in PEERS if result["mixing"][peer][1] <= PAIRS_MAX}
        own = speeds["tombola, batches"]
        reach = {"200 B": "≥ 20 times", "8 KiB": "none", "100 KB": "≥ 5 times"}[size]
        for without, what in (
            (REFERENCES, "the fastest peer that mixes as well and gives bytes"),
            (None, "all peers, references that touch no bytes among them"),
        ):
            peers = {peer: speed for peer, speed in well.items() if peer != without}
            best = max(peers, key=lambda peer: peers[peer])
            lines.append(f"| {size}: batches against {what} | {reach} | {own / peers[best]:.1f} times {best} |")
        if size == "200 B":
            objects = {peer: speed for peer, speed in well.items() if peer not in BUFFERS}
            best = max(objects, key=lambda peer: objects[peer])
            for label in ("tombola, batches of Python objects", "tombola, a dict a record"):
                ratio = speeds[label] / objects[best]
                lines.append(f"| 200 B: {label.partition(', ')[2]} | ≥ 5 times | {ratio:.1f} times {best} |")
        else:
            reach = {"8 KiB": "≥ 50 %", "100 KB": "≥ 70 %"}[size]
            for floor, least in ((MEMCPY, reach), (CACHED, "none")):
                lines.append(f"| {size}: bytes/s against one core's {floor} | {least} | {own / speeds[floor]:.0%} |")
    start, resume, grown = (kept["epochs"][name] for name in ("start_seconds", "resume_seconds", "growth"))
    lines.append(
        f"| first batch of a fresh stream at 80 % of an epoch against its start | ≤ 1.1 times | {resume / start:.2f} "
        f"times ({resume * 1e3:.1f} and {start * 1e3:.1f} ms) |"
    )
    many = kept["opening"]
    for what, reach in (("first", "≤ 2 s, ≤ 60 MB"), ("later", "≤ 0.1 s, ≤ 60 MB"), ("mosaic", "")):
        label = "by mosaicml-streaming" if what == "mosaic" else f"the {what} time"
        seconds, megabytes = many[what]["seconds"], many[what]["megabytes"]
        lines.append(f"| opening {MANY_SHARDS:,} shards, {label} | {reach} | {seconds:.2f} s, {megabytes:.0f} MB |")
    lines.append(
        f"| left behind by 20 more epochs and 40 datasets opened and dropped | nothing | {grown['megabytes']:+.1f} MB, "
        f"{grown['descriptors']:+.0f} descriptors, {grown['threads']:+.0f} threads |"
    )
    return lines


def table_of(kept: dict[str, Any]) -> str:
    """The figures as Markdown."""
    rounds = sorted({kept[part]["rounds"] for part in (*SIZES, *OTHERS)})
    said = " or ".join(map(str, rounds))
    head = f"Measured on {kept['machine']}, medians of {said} rounds."
    lines = ["| records | who | records/s | MB/s | of memcpy | shards a batch | pairs of one shard |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name in SIZES:
        result = kept[name]
        speeds, size = result["records_per_second"], result["record_bytes"]
        for label, speed in speeds.items():
            mixed = result["mixing"].get("tombola" if label.startswith("tombola") else label)
            mixing = f"{mixed[0]:.1f} | {mixed[1]:.4f}" if mixed else " | "
            share = speed / speeds[MEMCPY]
            what = f"{result['records']:,} of {name}"
            lines.append(f"| {what} | {label} | {speed:,.0f} | {speed * size / 1e6:,.0f} | {share:.1%} | {mixing} |")
    return "\n".join([head, "", *lines, "", *figures_of(kept)])


def main() -> None:
    """Runs everything, or some of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less data, one round; nothing is written")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--times", type=int, default=4, help="how many times the data of --quick; 4 unless given")
    parser.add_argument(
        "--only", metavar="PART", help=f"one of {', '.join([*SIZES, *OTHERS])}; the rest of the table stays as it is"
    )
    options = parser.parse_args()
    if options.only not in (None, *SIZES, *OTHERS):
        parser.error(f"there is no {options.only!r}")
    rounds = options.rounds or (1 if options.quick else 5)
    results = {} if options.quick else kept("stream")
    results["machine"] = machine("2 cores")
    for part in [options.only] if options.only else [*SIZES, *OTHERS]:
        results[part] = {"rounds": rounds} | run_part(part, rounds, 1 if options.quick else options.times)
        print(json.dumps(results[part], indent=1), flush=True)
    whole = all(part in results for part in (*SIZES, *OTHERS))
    if whole:
        print(table_of(results))
    if not options.quick:
        keep("stream", results)
        if whole:
            put(PAGE, "stream", table_of(results))


def run_part(part: str, rounds: int, times: int) -> dict[str, Any]:
    """A size of record, or one of the others."""
    if part == "opening":
        return opening(min(rounds, 3))
    size = SIZES["200 B" if part == "epochs" else part].scaled(times)
    with tempfile.TemporaryDirectory() as folder:
        if part != "epochs":
            return measure(size, Path(folder), rounds)
        run("tombola", "stream_tombola.py", "write", size.record, size.records, SHARDS, cwd=Path(folder))
        return epochs(Path(folder), rounds)


if __name__ == "__main__":
    main()
