"""Measures the array shuffles on a GPU against torch and against the memory's bandwidth, after checking their results.

    python bench/arrays_gpu.py [--megabytes N …] [--rounds N] [--out FILE]
    python bench/arrays_gpu.py --page FILE    # what another machine wrote, into the documentation

Needs torch with a CUDA device, and triton. For every row size: `exact` (that is exact_gpu1), one iteration and the
default iterations of `pov`, torch's randperm and index_select into a second array, a plain copy, and the floor: twice
the bytes over the bandwidth that the copy shows. Also a sweep of gpu_thread_block_size. Medians of CUDA events,
contestants taking turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from _page import DOCS, put

import tombola

PAGE = DOCS / "explanation" / "arrays.md"
ROWS = (4, 8, 64, 256, 4096, 150_000)
WARM_UPS = 2


def check() -> None:
    """The GPU gives what the CPU gives: nothing is measured before that holds."""
    for n in (2, 1000, 70_001, 3_000_000, 40_000_001):
        for method in ("exact_gpu1", "pov"):
            x = torch.arange(n, device="cuda")
            tombola.shuffle(x, seed=5, method=method)
            wanted = tombola.permutation(n, seed=5, method=method)
            if not np.array_equal(x.cpu().numpy(), wanted):
                raise SystemExit(f"{method} of {n} rows differs from the CPU's")
    for dtype, shape in ((torch.bfloat16, (5000, 128)), (torch.uint8, (5001, 3)), (torch.float64, (999, 7))):
        x = torch.arange(shape[0], device="cuda")[:, None].expand(shape).to(dtype).contiguous()
        wanted = x[torch.from_numpy(tombola.permutation(shape[0], seed=5, method="exact_gpu1")).cuda()]
        tombola.shuffle(x, seed=5)
        if not torch.equal(x, wanted):
            raise SystemExit(f"exact_gpu1 of {shape} {dtype} differs from the CPU's")
    print("results are those of the CPU")


def milliseconds(work: Callable[[], Any]) -> float:
    """Time on the device."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


def contestants(x: torch.Tensor, spare: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Who takes part for one array."""
    found: dict[str, Callable[[], Any]] = {
        "copy": lambda: spare.copy_(x),
        "exact": lambda: tombola.shuffle(x, seed=1),
        "pov, 1 iteration": lambda: tombola.shuffle(x, seed=1, iterations=1),
        "pov, default iterations": lambda: tombola.shuffle(x, seed=1, method="pov"),
        "torch": lambda: torch.index_select(x, 0, torch.randperm(len(x), device="cuda"), out=spare),
    }
    for threads in (64, 256, 512):
        options = tombola.Options(gpu_thread_block_size=threads)
        found[f"pov, 1 iteration, {threads} threads"] = lambda o=options: tombola.shuffle(
            x, seed=1, iterations=1, options=o
        )
    return found


def extra_bytes(work: Callable[[], Any]) -> int:
    """What a call takes beside what is there before it."""
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    work()
    return int(torch.cuda.max_memory_allocated() - held)


def measure(megabytes: int, row_bytes: int, rounds: int) -> dict[str, Any]:
    """Medians for one row size, and the peak of extra memory of the exact shuffle."""
    n = (megabytes << 20) // row_bytes
    x = torch.randint(-(2**31), 2**31 - 1, (n, row_bytes // 4), dtype=torch.int32, device="cuda")
    spare = torch.empty_like(x)
    work = contestants(x, spare)
    times: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds + WARM_UPS):
        for name, run in work.items():
            took = milliseconds(run)
            if turn >= WARM_UPS:
                times[name].append(took)
    medians = {name: statistics.median(values) for name, values in times.items()}
    extra = {name: extra_bytes(work[name]) for name in ("exact", "torch")}
    return {
        "megabytes": megabytes,
        "row_bytes": row_bytes,
        "milliseconds": medians,
        "times_the_floor": medians["exact"] / medians["copy"],
        "torch_ratio": medians["torch"] / medians["exact"],
        "bandwidth_of_the_copy": 2 * n * row_bytes / medians["copy"] * 1e3,
        "extra_bytes": extra["exact"],
        # index_select writes to an array that is there already, and which counts.
        "torch_extra_bytes": extra["torch"] + n * row_bytes,
        "milliseconds_spread": {name: [min(values), max(values)] for name, values in times.items()},
    }


def table(found: dict[str, Any]) -> str:
    """The results as the documentation shows them."""
    lines = [
        f"{found['device']}, torch {found['torch']}, triton {found['triton']}; medians of {found['rounds']} rounds.",
        "",
        "| data | row | copy | exact | pov, default | pov, 1 iteration | torch | exact: times the copy | "
        "torch takes times exact | extra memory, torch's |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in found["results"]:
        took = result["milliseconds"]
        shown = [took[name] for name in ("copy", "exact", "pov, default iterations", "pov, 1 iteration", "torch")]
        lines.append(
            f"| {result['megabytes']:,} MB | {result['row_bytes']:,} B | {' | '.join(f'{ms:.2f} ms' for ms in shown)} "
            f"| {result['times_the_floor']:.1f} | {result['torch_ratio']:.2f} "
            f"| {result['extra_bytes'] / 1e6:,.0f} MB, {result['torch_extra_bytes'] / 1e6:,.0f} MB |"
        )
    return "\n".join(lines)


def main() -> int:
    """Checks, measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1024])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.page:
        put(PAGE, "arrays_gpu", table(json.loads(arguments.page.read_text())))
        return 0
    if not torch.cuda.is_available():
        print("no CUDA device: nothing is measured", file=sys.stderr)
        return 1
    check()
    device = torch.cuda.get_device_name()
    print(f"{device}, torch {torch.__version__}")
    results = []
    for megabytes in arguments.megabytes:
        for row_bytes in ROWS:
            result = measure(megabytes, row_bytes, arguments.rounds)
            results.append(result)
            shown = ", ".join(f"{name} {value:.2f} ms" for name, value in result["milliseconds"].items())
            print(
                f"{megabytes} MB, {row_bytes} B: {shown}; exact is {result['times_the_floor']:.2f} times the floor, "
                f"torch takes {result['torch_ratio']:.2f} times as long; extra {result['extra_bytes'] / 1e6:.0f} MB",
                flush=True,
            )
    if arguments.out:
        versions = {"torch": torch.__version__, "triton": triton.__version__}
        found = {"device": device, **versions, "rounds": arguments.rounds, "results": results}
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
        print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
