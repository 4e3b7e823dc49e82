"""Time and memory of `tombola.quality.score`: each case in a process of its own.

python bench/score_speed.py
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = {
    "1e8 positions, lanes 64": ("lanes", {"lanes": 64}, 100_000, 1_000, False),
    "1e8 positions, lanes 64, window 2": ("lanes", {"lanes": 64, "window": 2}, 100_000, 1_000, False),
    "1e8 positions, global": ("global", {}, 100_000, 1_000, False),
    "1e8 positions, lanes 64, 100 labels": ("lanes", {"lanes": 64}, 100_000, 1_000, True),
    "1e8 recorded ids in a file": ("global", {}, 100_000, 1_000, False),
    "1e12 positions, lanes 64": ("lanes", {"lanes": 64}, 1_000_000, 1_000_000, False),
    "1e12 positions, global": ("global", {}, 1_000_000, 1_000_000, False),
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


def main() -> None:
    """Every case in turn."""
    for name in CASES:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    case(sys.argv[1]) if len(sys.argv) > 1 else main()
