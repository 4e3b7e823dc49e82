"""Our orders and the peers' on one layout: who mixes what with how many open shards.

    python bench/quality.py            # records the peers that have an environment, scores all, prints the tables

1,024 shards of 1,000 records, batches of 64, 100 classes stored one after the other. A peer's environment is
bench/.venv-NAME, made by bench/peers.py; a peer without one is left out and named. What was recorded is
kept in build/recorded. Writes bench/results/quality.json and the table in docs/explanation/quality.md.
"""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _page import DOCS, keep, machine, put, table

from tombola.order import Global, Lanes, Layout, OrderSpec
from tombola.quality import Score, score

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent / "build" / "recorded"
LAYOUT = Layout.equal(1024, 1000)
CLASSES = np.arange(LAYOUT.records) * 100 // LAYOUT.records
ZONES = ("first", "middle", "last")
SEEDS = 4
FAR = 4.0  # standard errors from which one order counts as worse than another

OURS: dict[str, OrderSpec] = {"global": Global()}
OURS |= {f"lanes {c}": Lanes(lanes=c) for c in (1, 4, 8, 16, 64, 256, 512)}
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


@dataclass(frozen=True)
class Judged:
    """An order scored for several seeds."""

    scores: list[Score]

    def mean(self, name: str, zone: str | None = None) -> tuple[float, float]:
        """A number over the seeds, and its standard error."""
        numbers = [s.get(name, zone) if zone else s.get(name) for s in self.scores]  # type: ignore[arg-type]
        values = np.array([n.value for n in numbers])
        inside = math.sqrt(float(np.mean([n.error**2 for n in numbers])))
        between = float(values.std(ddof=1)) if values.size > 1 else 0.0
        return float(values.mean()), max(inside, between) / math.sqrt(values.size)

    @property
    def open(self) -> float:
        """Open shards, mean over the middle of the epoch."""
        return self.mean("open_shards")[0]


def _ours(spec: OrderSpec) -> Judged:
    return Judged([score(spec.over(LAYOUT, seed=seed), feature=CLASSES) for seed in range(7, 7 + SEEDS)])


def _theirs(ids: np.ndarray) -> Judged:
    rows = [score(row, layout=LAYOUT, feature=CLASSES) for row in ids[:SEEDS]]
    if len(ids) > 1:  # the verdict needs several epochs at once
        whole = score(ids, layout=LAYOUT, feature=CLASSES)
        rows[0] = replace(rows[0], verdict=whole.verdict)
    return Judged(rows)


def _row(name: str, judged: Judged) -> list[str]:
    cells = [name, f"{judged.open:.1f}", f"{judged.mean('shards_per_batch', 'middle')[0]:.1f}"]
    cells += [f"{judged.mean('p_same', zone)[0]:.5f}" for zone in ZONES]
    for zone in ZONES:
        value, error = judged.mean("deff", zone)
        cells.append(f"{value:.2f} ± {2 * error:.2f}")
    return [*cells, judged.scores[0].verdict]


def _numbers(name: str, judged: Judged) -> dict[str, Any]:
    """The same for bench/results: each number with its standard error."""
    found: dict[str, Any] = {"order": name, "seeds": len(judged.scores), "verdict": judged.scores[0].verdict}
    found["open_shards"] = judged.open
    found["shards_per_batch"] = judged.mean("shards_per_batch", "middle")
    for number in ("p_same", "deff"):
        found[number] = {zone: judged.mean(number, zone) for zone in ZONES}
    return found


def _worse(ours: Judged, theirs: Judged) -> list[str]:
    """Where ours mixes less than theirs, beyond the errors of both."""
    found = []
    for name in ("p_same", "deff"):
        for zone in ZONES:
            (a, a_error), (b, b_error) = ours.mean(name, zone), theirs.mean(name, zone)
            if a - b > FAR * math.hypot(a_error, b_error):
                found.append(f"{name} {zone}: {a:.4g} against {b:.4g}")
    return found


def _said(against: list[tuple[str, list[str]]]) -> str:
    """What the comparison with each peer's setting came to, as a sentence."""
    worse = [f"{name}: {'; '.join(found)}" for name, found in against if found]
    how = (
        "none of ours was worse in P_same or DEFF, at the beginning, in the middle or at the end"
        if not worse
        else f"ours was worse in {len(worse)}: {' | '.join(worse)}"
    )
    return (
        f"Each of the {len(against)} peer settings that were run was also set against the `lanes` order with as many "
        f"shards open, or the best one with fewer: {how}, beyond four standard errors."
    )


def main() -> None:
    """Score everything, and put it down when no peer is missing."""
    head = ["order", "open shards", "shards per batch", *(f"P_same {z}" for z in ZONES), *(f"DEFF {z}" for z in ZONES)]
    ours: dict[str, Judged] = {}
    theirs: dict[str, Judged] = {}
    for name, spec in OURS.items():
        ours[name] = _ours(spec)
        print(*_row(name, ours[name]), sep=" | ", flush=True)
    peers = _peers()
    for peer in peers:
        ids = _recorded(peer)
        if ids is not None:
            theirs[peer.name] = _theirs(ids)
            print(*_row(peer.name, theirs[peer.name]), sep=" | ", flush=True)
    shown = ours | theirs
    rows = table([*head, "verdict"], [_row(name, judged) for name, judged in shown.items()])
    against, compared = [], []
    for name, judged in theirs.items():
        # As many lanes as the peer has shards open, or the best of the table with no more; half a shard of slack,
        # because both numbers are means over time.
        room = min(LAYOUT.shards, round(judged.open))
        if f"lanes {room}" not in ours:
            ours[f"lanes {room}"] = _ours(Lanes(lanes=room))
        able = {k: o for k, o in ours.items() if o.open <= judged.open + 0.5}
        best = min(able, key=lambda k: (able[k].mean("p_same", "middle")[0], -able[k].open))
        worse = _worse(able[best], judged)
        against.append((name, worse))
        compared.append({"peer": name, "against": _numbers(best, able[best]), "worse in": worse})
        print(name, f"{judged.open:.1f}", best, f"{able[best].open:.1f}", "; ".join(worse) or "nothing", sep=" | ")
    print(f"\n{_said(against)}")
    if len(theirs) == len(peers):
        orders = [_numbers(name, judged) for name, judged in shown.items()]
        keep("quality", {"machine": machine("fixed seeds"), "orders": orders, "compared": compared})
        put(DOCS / "explanation" / "quality.md", "quality", f"{rows}\n\n{_said(against)}")


if __name__ == "__main__":
    main()
