"""DistributedDataParallel over gloo: ranks find their share by themselves, and one rank's checkpoint is everybody's."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.stream.datasets import on_disk
from tombola import Lanes, Stream

torch = pytest.importorskip("torch")
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from tombola.torch import Dataset, Loader  # noqa: E402

SECONDS_MAX = 120


def train_rank(folder: Path, out: Path, rank: int, ranks: int, size: int, workers: int, first: int, steps: int) -> None:
    """Trains a linear model for some steps; rank 0 alone saves. Each rank writes down which records it read."""
    torch.set_num_threads(1)
    meet = f"file://{out}/meet-{first}"
    torch.distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=ranks)
    stream = Stream(folder, order=Lanes(lanes=4), seed=5, batch_size=size)
    if first:
        stream.load_state_dict(torch.load(out / "checkpoint.pt", weights_only=True)["stream"])
    loader: Any = Loader(stream)
    if workers:
        loader = DataLoader(Dataset(stream), batch_size=None, num_workers=workers, multiprocessing_context="fork")
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
        torch.save({"stream": last.to_dict()}, out / "checkpoint.pt")
    (out / f"read-{first}-{rank}.json").write_text(json.dumps({"read": read, "gradient": gradient}))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def train(folder: Path, out: Path, ranks: int, *numbers: int) -> list[dict[str, Any]]:
    # Not forked from here, where torch and others may have threads, whose locks a fork would copy as they are. DDP's
    # constructor wants torch._dynamo: a second, once in the server and not in every rank.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", __name__])
    runs = [context.Process(target=train_rank, args=(folder, out, rank, ranks, *numbers)) for rank in range(ranks)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(SECONDS_MAX)
    codes = [run.exitcode for run in runs]
    for run in runs:
        run.kill()
    assert codes == [0] * ranks
    return [json.loads((out / f"read-{numbers[2]}-{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize(("before", "after"), [((2, 16, 0), (4, 8, 1)), ((4, 16, 0), (2, 10, 2))])
def test_train_save_resume(tmp_path: Path, before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    folder = on_disk(tmp_path / "data", records=160, shards=8)
    with Stream(folder, order=Lanes(lanes=4), seed=5, batch_size=16) as stream:
        whole = stream.plan.order.slice(0, 160).tolist()
    found = train(folder, tmp_path, *before, 0, 4)
    for step in range(4):
        step_records = sorted(record for rank in found for record in rank["read"][step])
        assert step_records == sorted(whole[16 * step : 16 * step + 16])
    # All ranks have the gradient of the global batch: they took part in the same steps.
    assert len({round(rank["gradient"], 5) for rank in found}) == 1
    size = after[1]
    rest = train(folder, tmp_path, *after, 1, 1000)
    assert {len(rank["read"]) for rank in rest} == {(160 - 64) // size}
    for step in range((160 - 64) // size):
        step_records = sorted(record for rank in rest for record in rank["read"][step])
        assert step_records == sorted(whole[64 + size * step : 64 + size * (step + 1)])
