"""Measures pipelines against datasets, WebDataset and torchdata's nodes; writes docs/explanation/pipelines.md.

    python bench/pipeline.py [--quick] [--rounds N] [--only PART]

Fresh processes in turns, medians over rounds. The parts: buffer (the shuffle alone), jsonl (files, map, shuffle,
batch), resume (how long one takes), audit (what resumes lose, over random chains). Writes bench/results/pipeline.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from _figures import Contestant, Figure, measure, rate, run_once
from _page import DOCS, keep, kept, machine, put, table
from pipeline_data import FILES, write

PAGE = DOCS / "explanation" / "pipelines.md"
BUFFER = 10_000
PEERS = {"datasets": "datasets 5.2", "webdataset": "webdataset 1.0.2", "nodes": "torchdata nodes 0.11"}


def contestant(who: str, case: str, *numbers: int) -> Contestant:
    """tombola or a peer."""
    if who.startswith("tombola"):
        return Contestant(who, "tombola", "pipeline_tombola.py", case, numbers)
    return Contestant(PEERS[who], who, "pipeline_peers.py", f"{who}_{case}", numbers)


def in_turns(contestants: list[Contestant], rounds: int) -> dict[str, dict[str, Any]]:
    """What was measured of each, by label."""
    return {result["label"]: result for result in measure(Figure("", "", rate, tuple(contestants)), rounds)}


def per_second(result: dict[str, Any]) -> float:
    """Records per second."""
    return float(result["count"] / result["seconds"])


def spread_of(result: dict[str, Any]) -> str:
    """The lowest and the highest speed."""
    low, high = (result["count"] / seconds for seconds in reversed(result["seconds_spread"]))
    return f"{low:,.0f} to {high:,.0f}"


# ---- the parts


def buffer(rounds: int, *, quick: bool) -> dict[str, Any]:
    """The shuffle alone over a Python iterator. Who is slow is given fewer records."""
    own = 200_000 if quick else 3_000_000
    contestants = [
        contestant("tombola", "buffer", own, BUFFER),
        contestant("datasets", "buffer", own // 20, BUFFER),
        contestant("webdataset", "buffer", own, BUFFER),
    ]
    return in_turns(contestants, rounds)


def jsonl(rounds: int, *, quick: bool) -> dict[str, Any]:
    """JSON Lines, map, shuffle, batch: the speed, and files per batch."""
    records = 40_000 if quick else 400_000
    write(Path.cwd(), records)
    who = ["tombola", "tombola, all files at once", *PEERS]
    cases = {
        name: ("jsonl" if name != who[1] else "jsonl_all", "mixing" if name != who[1] else "mixing_all") for name in who
    }
    found = in_turns([contestant(name, cases[name][0], records, BUFFER) for name in who], rounds)
    for name in who:
        one = contestant(name, cases[name][1], records, BUFFER)
        found[one.label]["files_per_batch"] = run_once(one)["answer"]
    return found


def resume(rounds: int, *, quick: bool) -> dict[str, Any]:
    """Seconds from a state to the next record, at several places of an epoch."""
    records = 40_000 if quick else 400_000
    write(Path.cwd(), records)
    found: dict[str, Any] = {}
    for percent in (0, 20, 50, 90):
        for kind, of_files in (("list", 0), ("files", 1)):
            one = contestant("tombola", "resume", records, BUFFER, percent, of_files)
            found[f"{kind} {percent}"] = statistics.median(run_once(one)["answer"] for _ in range(rounds))
    return found


def audit(rounds: int, *, quick: bool) -> dict[str, Any]:
    """What is lost, comes twice or in another order, over random chains that are cut and resumed."""
    del rounds
    chains = 20 if quick else 200
    found = {}
    for who in ("tombola", "datasets"):
        file = "pipeline_audit.py"
        one = Contestant(who, who, file, f"{who}_audit", (chains,))
        found[PEERS.get(who, who)] = run_once(one)
    return found


PARTS = {"buffer": buffer, "jsonl": jsonl, "resume": resume, "audit": audit}


# ---- the page


def pages_of(results: dict[str, Any]) -> str:
    """What stands in the documentation."""
    own, peers = results["buffer"]["tombola"], results["buffer"]
    faster = {label: per_second(own) / per_second(peers[label]) for label in peers if label != "tombola"}
    lines = results["jsonl"]
    rows = [
        [
            label,
            f"{per_second(one):,.0f}",
            spread_of(one),
            f"{one['files_per_batch']:.2f}" if "files_per_batch" in one else "",
        ]
        for label, one in lines.items()
    ]
    alone = [
        [
            label,
            f"{per_second(one):,.0f}",
            spread_of(one),
        ]
        for label, one in results["buffer"].items()
    ]
    web, hf = PEERS["webdataset"], PEERS["datasets"]
    every = "tombola, all files at once"
    figures = [
        ["buffer shuffle alone", "≥ 3 M records/s", f"{per_second(own) / 1e6:.1f} M records/s"],
        ["against datasets 5.2", "≥ 20 times", f"{faster[hf]:.0f} times"],
        ["against webdataset's", "≥ 1.2 times", f"{faster[web]:.1f} times"],
        [
            "JSON Lines against the fastest that mixes as well, webdataset fed by a loop of Python",
            "≥ 5 times",
            f"{per_second(lines['tombola']) / per_second(lines[web]):.2f} times",
        ],
        [
            "JSON Lines, all files at once, against datasets 5.2, which mixes as well",
            "≥ 5 times",
            f"{per_second(lines[every]) / per_second(lines[hf]):.0f} times",
        ],
        *_audit_rows(results["audit"]),
        *_resume_rows(results["resume"]),
    ]
    return "\n\n".join(
        [
            f"Measured on {results['machine']}; medians of {results['rounds']} rounds.",
            table(["figure", "reach", "measured"], figures),
            f"The shuffle alone, a buffer of {BUFFER:,} over a Python iterator:",
            table(["who", "records/s", "lowest and highest"], alone),
            f"{FILES} files of JSON Lines, about 200 bytes a line, map, a buffer of {BUFFER:,}, batches of 64:",
            table(["who", "records/s", "lowest and highest", "files per batch"], rows),
        ]
    )


def _audit_rows(found: dict[str, Any]) -> list[list[str]]:
    rows = []
    for label, one in found.items():
        counts = one["said"]
        said = (
            f"{counts['lost']} lost, {counts['twice']} twice, {counts['moved']} in another order, "
            f"in {counts['wrong']} of {counts['chains']} chains"
        )
        rows.append([f"records after resumes, {label}", "0, 0, 0" if label == "tombola" else "", said])
    return rows


def _resume_rows(found: dict[str, Any]) -> list[list[str]]:
    rows = []
    for kind in ("list", "files"):
        said = ", ".join(f"{found[f'{kind} {percent}'] * 1e3:.0f} ms at {percent} %" for percent in (0, 20, 50, 90))
        name = "a list" if kind == "list" else "files of JSON Lines"
        rows.append([f"resume over {name}, buffer {BUFFER:,}", "O(buffer)", said])
    return rows


def main() -> None:
    """Runs everything, or a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less data, one round; nothing is written")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=list(PARTS))
    options = parser.parse_args()
    results = {} if options.quick else kept("pipeline")
    rounds = 1 if options.quick else options.rounds
    for part in [options.only] if options.only else PARTS:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            results[part] = PARTS[part](rounds, quick=options.quick)
        print(json.dumps({part: results[part]}, indent=1), flush=True)
    results |= {"machine": machine("2 cores, others' work on them too"), "rounds": rounds}
    if not options.quick:
        keep("pipeline", results)
    if all(part in results for part in PARTS):
        text = pages_of(results)
        print(text)
        if not options.quick:
            put(PAGE, "pipeline", text)


if __name__ == "__main__":
    main()
