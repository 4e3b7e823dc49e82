"""Our orders and the peers' on one layout: who mixes what with how many open shards.

    python bench/quality.py            # records the peers that have an environment, scores all, prints the tables

1,024 shards of 1,000 records, batches of 64, 100 classes stored one after the other. A peer's environment is
bench/.venv-NAME, made as bench/record_orders.py says; a peer without one is left out and named. What was recorded is
kept in build/recorded.
"""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tombola.order import Global, Lanes, Layout, OrderSpec
from tombola.quality import Score, score

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent / "build" / "recorded"
LAYOUT = Layout.equal(1024, 1000)
CLASSES = np.arange(LAYOUT.records) * 100 // LAYOUT.records
ZONES = ("first", "middle", "last")
FAR = 4.0  # standard errors from which one order counts as worse than another

OURS: dict[str, OrderSpec] = {"global": Global()}
OURS |= {f"lanes {c}": Lanes(lanes=c) for c in (1, 4, 8, 16, 64, 256)}
OURS |= {f"lanes {c}, window {w}": Lanes(lanes=c, window=w) for c in (8, 16, 64, 256) for w in (2, 8)}


@dataclass(frozen=True)
class Peer:
    """One setting of a peer: its environment, the words after `record_orders.py`, and the file it is kept in."""

    name: str
    environment: str
    words: tuple[str, ...]
    file: str


def _peers() -> list[Peer]:
    found = []
    for lanes in (16, 64, 256):
        seeds = ("--seeds", "8", "--lanes", str(lanes))
        found.append(Peer(f"py1s, {lanes} nodes", "mosaic", ("py1s", *seeds), f"py1s-{lanes}"))
        for algorithm in ("py1e", "py1br"):
            for block in (2000, 4000, 8000):
                name, file = f"{algorithm}, {lanes} nodes, block {block}", f"{algorithm}-{lanes}-b{block}"
                found.append(Peer(name, "mosaic", (algorithm, *seeds, "--block", str(block)), file))
    for shards, buffer in ((10, 1000), (16, 1000), (64, 1000), (256, 1000), (16, 16000), (64, 64000)):
        words = ("datasets", "--seeds", "2", "--lanes", str(shards), "--buffer", str(buffer))
        found.append(Peer(f"datasets, {shards} inputs, buffer {buffer}", "datasets", words, f"hf-{shards}-{buffer}"))
    for buffer in (1000, 16000, 64000, 256000):
        words = ("webdataset", "--seeds", "4", "--buffer", str(buffer))
        found.append(Peer(f"webdataset, buffer {buffer}", "webdataset", words, f"wds-{buffer}"))
    return [*found, Peer("litdata", "litdata", ("litdata", "--seeds", "1"), "litdata")]


def _recorded(peer: Peer) -> np.ndarray | None:
    path = KEPT / f"{peer.file}.npy"
    if not path.exists():
        python = HERE / f".venv-{peer.environment}" / "bin" / "python"
        if not python.exists():
            print(f"left out, no {python.relative_to(HERE.parent)}: {peer.name}", file=sys.stderr)
            return None
        KEPT.mkdir(parents=True, exist_ok=True)
        words = [str(python), str(HERE / "record_orders.py"), peer.words[0], str(path), *peer.words[1:]]
        subprocess.run(words, check=True)
    return np.load(path)


def _row(name: str, result: Score) -> str:
    cells = [name, f"{result['open_shards']:.1f}", f"{result['shards_per_batch']:.1f}"]
    cells += [f"{result.get('p_same', zone).value:.5f}" for zone in ZONES]
    for zone in ZONES:
        deff = result.get("deff", zone)
        low, high = deff.interval
        cells.append(f"{deff.value:.3f} ± {(high - low) / 2:.2f}")
    return "| " + " | ".join([*cells, result.verdict]) + " |"


def _worse(ours: Score, theirs: Score) -> list[str]:
    """Where ours mixes less than theirs, beyond the errors of both."""
    found = []
    for name in ("p_same", "deff"):
        for zone in ZONES:
            a, b = ours.get(name, zone), theirs.get(name, zone)
            scale = math.hypot(a.error, b.error, a.perfect_error, b.perfect_error)
            if a.value - b.value > FAR * scale:
                found.append(f"{name} {zone}: {a.value:.4g} against {b.value:.4g}")
    return found


def main() -> None:
    """Print the tables as Markdown."""
    head = ["order", "open shards", "shards per batch", *(f"P_same {z}" for z in ZONES), *(f"DEFF {z}" for z in ZONES)]
    print("| " + " | ".join([*head, "verdict"]) + " |")
    print("|---" * (len(head) + 1) + "|")
    ours, theirs = {}, {}
    for name, spec in OURS.items():
        ours[name] = score(spec.over(LAYOUT, seed=7), feature=CLASSES)
        print(_row(name, ours[name]), flush=True)
    for peer in _peers():
        ids = _recorded(peer)
        if ids is not None:
            theirs[peer.name] = score(ids, layout=LAYOUT, feature=CLASSES)
            print(_row(peer.name, theirs[peer.name]), flush=True)
    print("\n| peer | open | ours with no more open shards | open | worse than the peer in |\n|---|---|---|---|---|")
    for name, peer_score in theirs.items():
        # Half a shard of slack: both numbers are means over time.
        able = {k: s for k, s in ours.items() if s["open_shards"] <= peer_score["open_shards"] + 0.5}
        best = min(able, key=lambda k: (able[k]["p_same"], able[k]["open_shards"]))
        worse = "; ".join(_worse(able[best], peer_score)) or "nothing"
        print(f"| {name} | {peer_score['open_shards']:.1f} | {best} | {able[best]['open_shards']:.1f} | {worse} |")


if __name__ == "__main__":
    main()
