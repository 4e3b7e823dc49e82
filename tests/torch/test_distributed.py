"""DistributedDataParallel over gloo: ranks find their share by themselves, and one rank's checkpoint is everybody's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stream.datasets import on_disk
from tombola import Lanes, Stream

pytest.importorskip("torch")

# Trains a linear model for some steps; rank 0 alone saves. Each rank writes down which records it read.
TRAIN = """
import json, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from tombola import Lanes, Stream
from tombola.torch import Dataset, Loader

data, out, rank, ranks, size, workers, first, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{out}/meet-{first}", rank=rank, world_size=ranks)
stream = Stream(data, order=Lanes(lanes=4), seed=5, batch_size=size)
if first:
    stream.load_state_dict(torch.load(f"{out}/checkpoint.pt", weights_only=True)["stream"])
if workers:
    loader = DataLoader(Dataset(stream), batch_size=None, num_workers=workers, multiprocessing_context="fork")
else:
    loader = Loader(stream)
model = DistributedDataParallel(torch.nn.Linear(1, 1))
read = []
for batch in loader:
    model(batch["label"].float()[:, None] / 1000).mean().backward()
    read.append(batch.records.tolist())
    last = batch.cursor
    if len(read) == steps:
        break
gradient = model.module.weight.grad.item()
if rank == 0:
    torch.save({"stream": last.to_dict()}, f"{out}/checkpoint.pt")
with open(f"{out}/read-{first}-{rank}.json", "w") as file:
    json.dump({"read": read, "gradient": gradient}, file)
dist.barrier()
dist.destroy_process_group()
"""


def train(
    folder: Path, out: Path, ranks: int, size: int, workers: int, first: int, steps: int
) -> list[dict[str, list]]:
    numbers = [str(number) for number in (ranks, size, workers, first, steps)]
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN, str(folder), str(out), str(rank), *numbers],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    for run in runs:
        _, said = run.communicate(timeout=120)
        assert run.returncode == 0, said
    return [json.loads((out / f"read-{first}-{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize(("before", "after"), [((2, 16, 0), (4, 8, 1)), ((4, 16, 0), (2, 10, 2))])
def test_train_save_resume(tmp_path: Path, before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    folder = on_disk(tmp_path / "data", records=160, shards=8)
    with Stream(folder, order=Lanes(lanes=4), seed=5, batch_size=16) as stream:
        whole = stream.plan.order.slice(0, 160).tolist()
    found = train(folder, tmp_path, *before, first=0, steps=4)
    for step in range(4):
        step_records = sorted(record for rank in found for record in rank["read"][step])
        assert step_records == sorted(whole[16 * step : 16 * step + 16])
    # All ranks have the gradient of the global batch: they took part in the same steps.
    assert len({round(rank["gradient"], 5) for rank in found}) == 1
    size = after[1]
    rest = train(folder, tmp_path, *after, first=1, steps=1000)
    assert {len(rank["read"]) for rank in rest} == {(160 - 64) // size}
    for step in range((160 - 64) // size):
        step_records = sorted(record for rank in rest for record in rank["read"][step])
        assert step_records == sorted(whole[64 + size * step : 64 + size * (step + 1)])
