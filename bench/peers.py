"""Makes the peers' virtual environments: bench/.venv-NAME, one each, so that no peer dictates another's packages.

python bench/peers.py [NAME …]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent

# Each list is one run of pip. torch comes first and pinned: unpinned it brings gigabytes of CUDA packages.
# mosaicml-streaming goes in without its dependencies, of which the order needs few: torchvision and the clients of
# six clouds stay out.
PEERS: dict[str, list[list[str]]] = {
    "datasets": [["datasets==5.2.0"]],
    "grain": [["numpy==2.4.6", "grain==0.2.18"]],
    # torchvision, which litdata asks for and its orders do not need, would bring CUDA's torch.
    "litdata": [
        ["torch==2.13.0", "numpy"],
        ["--no-deps", "litdata==0.2.76"],
        ["torch==2.13.0", "filelock", "boto3", "requests", "lightning-utilities", "tifffile", "obstore", "fsspec"],
    ],
    "mosaic": [
        ["torch==2.13.0", "numpy<2.2"],
        ["--no-deps", "mosaicml-streaming==0.13.0"],
        [
            *("torch==2.13.0", "numpy<2.2", "filelock<3.20", "xxhash<4", "transformers<5", "catalogue<3"),
            *("Brotli", "python-snappy", "zstd", "tqdm", "boto3", "pillow"),
        ],
    ],
    "nodes": [["torch==2.13.0", "numpy"], ["--no-deps", "torchdata==0.11.0"]],
    "webdataset": [["torch==2.13.0", "webdataset==1.0.2"]],
}


def python_of(name: str) -> Path:
    """The interpreter of a peer; our own for tombola and NumPy."""
    return BENCH / f".venv-{name}" / "bin" / "python" if name in PEERS else Path(sys.executable)


def make(name: str) -> None:
    """Makes the environment of a peer, unless it is there with the same recipe."""
    folder = BENCH / f".venv-{name}"
    stamp, recipe = folder / "recipe.json", json.dumps(PEERS[name])
    if stamp.exists() and stamp.read_text() == recipe:
        return
    # Our own constraints do not bind a peer: each brings the versions it asks for.
    environ = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}
    print(f"-- installing {name} into {folder.relative_to(BENCH.parent)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    for words in PEERS[name]:
        # -qqq: pip complains of the dependencies that are left out on purpose.
        command = [str(python_of(name)), "-m", "pip", "--disable-pip-version-check", "-qqq", "install", *words]
        subprocess.run(command, check=True, env=environ)
    stamp.write_text(recipe)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or PEERS:
        make(wanted)
