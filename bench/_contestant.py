"""One measurement in a fresh process: what each contestant's file runs. Needs nothing but the standard library.

A contestant's file gives `contest` a table: name of a case → function that prepares and returns what is measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Prepared = tuple[Callable[[], Any], int]  # what is measured, and how many things one call of it handles


def resident_bytes(entry: str) -> int:
    """VmRSS, RssAnon or VmHWM of this process; 0 where there is no /proc."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith(entry))
    return int(line.split()[1]) * 1024


def contest(cases: dict[str, Callable[..., Prepared]]) -> None:
    """Runs the case that the command line names, with its arguments, and prints one line of JSON."""
    name, repeats = sys.argv[1], int(sys.argv[2])
    call, count = cases[name](*(int(word) for word in sys.argv[3:]))
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")  # the peak starts anew from here
    before = resident_bytes("VmRSS")
    seconds = []
    answer = None
    for _ in range(repeats):
        began = time.perf_counter()
        answer = call()
        seconds.append(time.perf_counter() - began)
    peak = resident_bytes("VmHWM") - before
    said = answer if isinstance(answer, int | float) else None
    print(json.dumps({"seconds": seconds, "count": count, "peak_bytes": max(peak, 0), "answer": said}))
