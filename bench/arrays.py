"""Measures array shuffles against NumPy, torch, one iteration of pov and the floor, in one run.

    python bench/arrays.py [--megabytes N …] [--rows BYTES …] [--parts memory small file …] [--rounds N] [--threads N]
                           [--save]

The contestants of a row size take turns on the same array, so that a slow minute of the machine hits all of them;
medians of wall time are compared. Every array's memory is aligned to and advised for huge pages (2 MiB), torch's
results too, and the floor says what that gives: reading and writing every byte once, in place, by as many threads.
NumPy and torch are slow, so they get one turn for every three of the others. torch's own result, a second array, is
part of what it costs; where there is no memory for that it sits out.
`small` compares whole calls on few rows, `file` a file of four times the memory allowed with reading and writing it
twice. --save writes what was measured into bench/results/arrays.json, beside what that holds of other sizes, and all of
it into docs/explanation/arrays.md; of two measurements of the same the one stays in which other programs took less of
the processors.
"""

from __future__ import annotations

import argparse
import mmap
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

os.environ["THP_MEM_ALLOC_ENABLE"] = "1"  # torch reads it when it is imported, and advises its own results
import torch
from _page import DOCS, keep, kept, put

import tombola
from tombola.arrays import shuffle_file

BENCH = Path(__file__).parent
PAGE = DOCS / "explanation" / "arrays.md"
HUGE = 2 << 20
#: row bytes → (times NumPy's speed, times torch's speed, times the floor's time) to reach at 1 GB with two threads
REACH = {
    4: (30, 30, 18),
    8: (25, 25, 10),
    64: (60, 10, 7),
    256: (35, 8, 2.5),
    4096: (5, 3, 2.2),
    150_000: (1.5, 3, 2),
}
PARTS = ("memory", "small", "file")
FILE_REACH = 1.3
KEYS = {"tables": ("bytes", "row_bytes", "threads"), "small": ("rows", "row_bytes"), "files": ("row_bytes",)}

Bytes = npt.NDArray[np.uint8]
Contestants = dict[str, Callable[[], None]]


def huge(size: int) -> Bytes:
    """Memory aligned to and advised for huge pages, touched."""
    memory = mmap.mmap(-1, size + HUGE)
    memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    skip = -whole.__array_interface__["data"][0] % HUGE
    whole[:] = 1
    return whole[skip : skip + size]


def touch_all(words: npt.NDArray[np.uint64], threads: int) -> None:
    """Reads and writes every byte once, in place."""
    parts = np.array_split(words, threads)
    workers = [threading.Thread(target=np.bitwise_xor, args=(p, np.uint64(1)), kwargs={"out": p}) for p in parts[1:]]
    for worker in workers:
        worker.start()
    np.bitwise_xor(parts[0], np.uint64(1), out=parts[0])
    for worker in workers:
        worker.join()


def contestants(memory: Bytes, row_bytes: int, threads: int) -> tuple[Contestants, Contestants]:
    """Fast ones and slow ones."""
    n = len(memory) // row_bytes
    flat = memory[: n * row_bytes]
    types: dict[int, Any] = {4: np.uint32, 8: np.uint64}
    x = flat.view(types[row_bytes]) if row_bytes in types else flat.reshape(n, row_bytes).view(np.uint16)
    words = memory[: len(memory) // 8 * 8].view(np.uint64)
    tensor = torch.from_numpy(x.view(np.int64 if row_bytes == 8 else np.int32 if row_bytes == 4 else np.int16))
    seeds = iter(range(1 << 30))
    torch.set_num_threads(threads)
    fast: Contestants = {
        "floor": lambda: touch_all(words, threads),
        "tombola": lambda: tombola.shuffle(x, seed=next(seeds), threads=threads),
        "tombola, 1 thread": lambda: tombola.shuffle(x, seed=next(seeds), threads=1),
        "one pov iteration": lambda: tombola.shuffle(x, seed=next(seeds), iterations=1, threads=threads),
    }
    slow: Contestants = {
        "NumPy": lambda: np.random.default_rng(next(seeds)).shuffle(x),
    }
    # Its result, and the numbers of all rows.
    if len(memory) + 8 * n + (2 << 30) < available():
        slow["torch"] = lambda: _gather(tensor)
    return fast, slow


def available() -> int:
    """Bytes of memory that can still be had."""
    found = next(row for row in Path("/proc/meminfo").read_text().splitlines() if row.startswith("MemAvailable"))
    return int(found.split()[1]) << 10


def _gather(x: torch.Tensor) -> None:
    x[torch.randperm(len(x))]


def seconds(work: Callable[[], None]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Others:
    """What share of the processors other programs took, between the making of this and the call of share."""

    def __init__(self) -> None:
        self.began, self.busy, self.own = time.perf_counter(), self._busy(), self._own()

    @staticmethod
    def _busy() -> float:
        ticks = [int(t) for t in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        user, nice, system, _idle, _waiting, *interrupts, steal = ticks[:8]
        return (user + nice + system + sum(interrupts) + steal) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _own() -> float:
        return sum(os.times()[:4])

    def share(self) -> float:
        wall = (time.perf_counter() - self.began) * (os.cpu_count() or 1)
        return max(self._busy() - self.busy - (self._own() - self.own), 0.0) / wall


def measure(size: int, row_bytes: int, rounds: int, threads: int) -> dict[str, Any]:
    """Medians of all contestants for one row size."""
    extra = extra_bytes(size, row_bytes, threads)  # before this process has an array too
    memory = huge(size)
    fast, slow = contestants(memory, row_bytes, threads)
    times: dict[str, list[float]] = {name: [] for name in [*fast, *slow]}
    for name, work in fast.items():
        if name != "floor":
            work()  # the first call starts threads and touches pages
    others = Others()
    for turn in range(rounds):
        for name, work in fast.items():
            times[name].append(seconds(work))
        if turn % 3 == 0:
            for name, work in slow.items():
                times[name].append(seconds(work))
    share = others.share()
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians["tombola"]
    return {
        "bytes": size,
        "row_bytes": row_bytes,
        "rows": size // row_bytes,
        "threads": threads,
        "seconds": medians,
        "numpy_ratio": medians["NumPy"] / ours,
        "torch_ratio": medians["torch"] / ours if "torch" in medians else None,
        "floor_ratio": ours / medians["floor"],
        "pov_ratio": ours / medians["one pov iteration"],
        "extra_bytes": extra,
        "others": share,
    }


# The peak of the process itself: what getrusage says starts from the parent's.
MEMORY_PROGRAM = """
import numpy as np, pathlib, re, sys, tombola
n, row_bytes, threads = map(int, sys.argv[1:])
x = np.ones((n, row_bytes), np.uint8)
tombola.shuffle(x[:2], seed=1)
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
before = peak()
tombola.shuffle(x, seed=1, threads=threads)
print(peak() - before)
"""


def extra_bytes(size: int, row_bytes: int, threads: int) -> int:
    """How much the peak memory of a process grows by a shuffle."""
    command = [sys.executable, "-c", MEMORY_PROGRAM, *map(str, (size // row_bytes, row_bytes, threads))]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def small(rounds: int) -> list[dict[str, Any]]:
    """Few rows: the whole call, a generator made and all, beside NumPy's."""
    found, others = [], Others()
    for n in (2, 3, 4, 6, 10, 20, 30, 60, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000):
        for row_bytes in (1, 4, 8, 16, 64, 256, 1024, 4096, 65_536, 1 << 20):
            if n * row_bytes > 1 << 26:
                continue
            x = np.ones((n, row_bytes // 4), np.float32) if row_bytes > 8 else np.ones(n, f"u{row_bytes}")
            calls = max(1, min(10_000 // n, (1 << 24) // (n * row_bytes)))
            ours, numpys = [], []
            for turn in range(rounds):
                for times, work in (
                    (ours, lambda x=x, t=turn: tombola.shuffle(x, seed=t)),
                    (numpys, lambda x=x, t=turn: np.random.default_rng(t).shuffle(x)),
                ):
                    times.append(seconds(lambda work=work, calls=calls: [work() for _ in range(calls)]) / calls)
            a, b = statistics.median(ours), statistics.median(numpys)
            found.append({"rows": n, "row_bytes": row_bytes, "seconds": a, "numpy_seconds": b, "numpy_ratio": b / a})
    print(f"other programs took {others.share():.0%} of the processors")
    return found


def files(rounds: int, threads: int, memory: int) -> list[dict[str, Any]]:
    """A file of four times the memory allowed, for each row size."""
    found = []
    with tempfile.TemporaryDirectory(dir=BENCH) as folder:
        path, copy = Path(folder, "x.npy"), Path(folder, "copy.npy")
        for row_bytes in REACH:
            rows = 4 * memory // row_bytes
            np.save(path, np.ones((rows, row_bytes), np.uint8))
            ours, floors = [], []
            others = Others()
            for turn in range(rounds):
                for times, work in (
                    (floors, lambda: twice(path, copy, threads)),
                    (ours, lambda t=turn: shuffle_file(path, seed=t, memory_bytes_max=memory, threads=threads)),
                ):
                    leave_memory(path)
                    times.append(seconds(work))
            found.append(
                {
                    "row_bytes": row_bytes,
                    "bytes": rows * row_bytes,
                    "memory_bytes_max": memory,
                    "seconds": statistics.median(ours),
                    "twice_seconds": statistics.median(floors),
                    "ratio": statistics.median(a / b for a, b in zip(ours, floors, strict=True)),
                    "others": others.share(),
                }
            )
            print(found[-1], flush=True)
    return found


def leave_memory(path: Path) -> None:
    """The file is on disk, and nothing of it in the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def twice(path: Path, copy: Path, threads: int) -> None:
    """Reads and writes a file twice, in long runs by as many threads: to a copy, and that in place; then to disk."""
    size, step = path.stat().st_size, 4 << 20
    with path.open("rb") as source, copy.open("w+b") as target:
        os.ftruncate(target.fileno(), size)
        for file in (source, target):

            def carry(first: int, file: Any = file) -> None:
                buffer = bytearray(step)
                for at in range(first * step, size, threads * step):
                    got = os.preadv(file.fileno(), [buffer], at)
                    os.pwrite(target.fileno(), memoryview(buffer)[:got], at)

            workers = [threading.Thread(target=carry, args=(first,)) for first in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        os.fsync(target.fileno())
    copy.replace(path)


def line(r: dict[str, Any]) -> str:
    """One line of the table."""
    reach = REACH.get(r["row_bytes"]) if r["bytes"] == 1 << 30 else None
    s = r["seconds"]
    cells = [
        f"{r['row_bytes']:,} B",
        milliseconds(s["floor"]),
        f"{milliseconds(s['tombola'])} / {milliseconds(s['tombola, 1 thread'])}",
        *(milliseconds(s[name]) if name in s else "-" for name in ("one pov iteration", "NumPy", "torch")),
        *(f"{r[name]:.1f}" if r[name] else "-" for name in ("numpy_ratio", "torch_ratio", "floor_ratio")),
        f"{r['extra_bytes'] / 1e6:.0f} MB",
        f"{r['others']:.0%}" if "others" in r else "not recorded",
    ]
    if reach:
        for place, (sign, goal) in enumerate(zip("≥≥≤", reach, strict=True), 6):
            cells[place] += f" ({sign} {goal})"
    return f"| {' | '.join(cells)} |"


def text_of(results: dict[str, Any]) -> str:
    """Everything measured, in words."""
    text = []
    for size, threads in sorted({(r["bytes"], r["threads"]) for r in results["tables"]}):
        rows = [r for r in results["tables"] if (r["bytes"], r["threads"]) == (size, threads)]
        most = max(r.get("others", 1) for r in rows)
        meanwhile = f"{size >> 20:,} MiB, {threads} threads; other programs took up to {most:.0%} of the processors:"
        text += [meanwhile, "", HEAD, *map(line, rows), ""]
    if results["small"]:
        worst = min(results["small"], key=lambda r: r["numpy_ratio"])
        most_rows, most_bytes = (max(r[name] for r in results["small"]) for name in ("rows", "row_bytes"))
        text += [
            f"From 2 to {most_rows:,} rows of 1 to {most_bytes:,} bytes, up to 64 MiB together, "
            f"`default_rng(seed).shuffle(x)` takes {worst['numpy_ratio']:.2f} times as long as `tombola.shuffle` where "
            f"it loses least ({worst['rows']:,} rows of {worst['row_bytes']:,} B: {worst['numpy_seconds'] * 1e6:,.1f} "
            f"against {worst['seconds'] * 1e6:,.1f} µs).",
            "",
        ]
    if results["files"]:
        one = results["files"][0]
        text += [
            f"Files of {one['bytes'] >> 20:,} MiB, {one['memory_bytes_max'] >> 20:,} MiB of memory allowed, nothing of "
            "the file in the page cache at the start, everything on disk at the end:",
            "",
            f"| row | shuffle_file | read and written twice | times that (≤ {FILE_REACH}) | other programs' share |",
            "|---|---|---|---|---|",
        ]
        for r in results["files"]:
            times = (milliseconds(r["seconds"]), milliseconds(r["twice_seconds"]))
            text.append(f"| {r['row_bytes']:,} B | {times[0]} | {times[1]} | {r['ratio']:.2f} | {r['others']:.0%} |")
        text.append("")
    return "\n".join(text)


def milliseconds(value: float) -> str:
    """A time in words."""
    return f"{value * 1e3:,.0f} ms" if value > 0.01 else f"{value * 1e3:.2f} ms"


COLUMNS = (
    "row", "floor", "tombola, all threads / one", "one pov iteration", "NumPy", "torch", "times faster than NumPy",
    "than torch", "times the floor", "extra memory", "other programs' share of the processors",
)  # fmt: skip
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def main() -> int:
    """Measures and prints; with --save also writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1024, 10])
    parser.add_argument("--rows", type=int, nargs="+", default=list(REACH))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--file-memory", type=int, default=256, metavar="MB", help="a quarter of the file's size")
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, Any] = {name: [] for name in KEYS}
    if "memory" in arguments.parts:
        for megabytes in arguments.megabytes:
            for row_bytes in arguments.rows:
                results["tables"].append(measure(megabytes << 20, row_bytes, arguments.rounds, arguments.threads))
                print(line(results["tables"][-1]), flush=True)
    if "small" in arguments.parts:
        results["small"] = small(arguments.rounds)
    if "file" in arguments.parts:
        results["files"] = files(arguments.rounds, arguments.threads, arguments.file_memory << 20)
    print(text_of(results))
    if arguments.save:
        save(results)
    return 0


def save(results: dict[str, Any]) -> None:
    """Of two measurements of the same the one stays in which other programs took less of the processors."""
    old = kept("arrays")
    merged: dict[str, Any] = {"machine": machine()}
    for name, keys in KEYS.items():
        found: dict[tuple[int, ...], dict[str, Any]] = {}
        for r in [*old.get(name, []), *results[name]]:
            before = found.get(key := tuple(r[k] for k in keys))
            if before is None or r.get("others", 0) <= before.get("others", 1):
                found[key] = r
        merged[name] = [found[key] for key in sorted(found)]
    keep("arrays", merged)
    put(PAGE, "arrays", text_of(merged))


def machine() -> dict[str, Any]:
    """What it was measured on."""
    model = [row.split(":")[1].strip() for row in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in row]
    return {
        "cpu": model[0] if model else platform.processor(),
        "cores": len(model),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "pages": "2 MiB advised",
    }


if __name__ == "__main__":
    sys.exit(main())
