"""Time and memory of `tombola.quality.score`: each case in a process of its own.

    python bench/score_speed.py [--only WORD]

Memory is all that the process held at its peak, imports included. Writes bench/results/score_speed.json and the table
in docs/explanation/quality.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _page import DOCS, keep, kept, machine, put, table

CASES = {
    "10^8 positions, lanes 64": ("lanes", {"lanes": 64}, 100_000, 1_000, False),
    "10^8 positions, lanes 64, window 2": ("lanes", {"lanes": 64, "window": 2}, 100_000, 1_000, False),
    "10^8 positions, global": ("global", {}, 100_000, 1_000, False),
    "10^8 positions, lanes 64, 100 labels": ("lanes", {"lanes": 64}, 100_000, 1_000, True),
    "10^8 recorded ids in a file": ("global", {}, 100_000, 1_000, False),
    "10^12 positions, lanes 64": ("lanes", {"lanes": 64}, 1_000_000, 1_000_000, False),
    "10^12 positions, global": ("global", {}, 1_000_000, 1_000_000, False),
}


def case(name: str) -> None:
    """Score one case and print what it took."""
    import numpy as np

    from tombola.order import Layout, make_spec
    from tombola.quality import score

    order, options, shards, size, labelled = CASES[name]
    layout = Layout.equal(shards, size)
    feature = (np.arange(layout.records) * 100 // layout.records).astype(np.int8) if labelled else None
    judged, more = make_spec(order, **options).over(layout, seed=7), {"feature": feature}
    with tempfile.TemporaryDirectory() as folder:
        if "file" in name:
            path = Path(folder) / "ids.npy"
            ids = np.lib.format.open_memmap(path, "w+", np.int32, (layout.records,))
            for at in range(0, layout.records, 1 << 20):
                ids[at : at + (1 << 20)] = judged.slice(at, min(at + (1 << 20), layout.records))
            ids.flush()
            del ids
            judged, more = np.load(path, mmap_mode="r"), {"layout": layout}
        start = time.perf_counter()
        result = score(judged, **more)
        took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "case": name,
                "s": round(took, 2),
                "peak_mb": round(peak),
                "read": result.positions_read,
                "verdict": result.verdict,
            }
        )
    )


def row(case: dict[str, Any]) -> list[str]:
    """A case as cells of the table."""
    return [case["case"], f"{case['s']:.3g} s", f"{case['peak_mb']:,} MB", f"{case['read']:,}", case["verdict"]]


def main() -> None:
    """Every case in turn; those that were not run now stay as they were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="only cases with this in their name")
    only = parser.parse_args().only
    known = {case["case"]: case for case in kept("score_speed").get("cases", [])}
    for name in CASES:
        if only in name:
            run = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
            known[name] = json.loads(run.stdout)
            print(run.stdout, end="", flush=True)
    cases = [known[name] for name in CASES if name in known]
    where = machine(f"{os.cpu_count()} cores, one run each")
    keep("score_speed", {"machine": where, "reach": "10^8 positions in 20 s and 1 GB", "cases": cases})
    text = table(["what is scored", "time", "peak memory", "positions read", "verdict"], [row(case) for case in cases])
    put(DOCS / "explanation" / "quality.md", "score_speed", f"Measured on {where}.\n\n{text}")


if __name__ == "__main__":
    case(sys.argv[1]) if sys.argv[1:2] and sys.argv[1] in CASES else main()
