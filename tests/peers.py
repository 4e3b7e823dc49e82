"""Another project's own code, in the environment that `make peers` makes for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_peer(name: str, home: Path, *words: str, seconds_max: int) -> str:
    """What its Python says when it is run with these words; a failure is one of the test."""
    # A home and a folder for scratch of its own: a peer leaves shared memory and locks by the names of its data.
    home.mkdir()
    run = subprocess.run(
        [str(ROOT / "bench" / f".venv-{name}" / "bin" / "python"), "-W", "ignore", *words],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=seconds_max,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
