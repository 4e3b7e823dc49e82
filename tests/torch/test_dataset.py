"""torch's DataLoader over a stream: the same batches in the same order through every way of working."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stream.datasets import of_sizes, on_disk
from tombola import Lanes, Stream
from tombola.errors import CursorError, DataError, InputError, MapError, PlanError
from tombola.formats import Ragged
from tombola.plan import Cursor, World
from tombola.stream import Batch

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

from tombola.torch import Dataset, Loader, RaggedTensor, TensorBatch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
RECORDS, BATCH = 200, 12
STEPS = RECORDS // BATCH  # 16, and tail="drop"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return on_disk(tmp_path_factory.mktemp("data"), records=RECORDS, shards=9)


def stream_of(folder: Path, **options: Any) -> Stream:
    return Stream(folder, **{"order": Lanes(lanes=8), "seed": 11, "batch_size": BATCH} | options)


def expected(folder: Path, epochs: int = 4, **options: Any) -> list[list[list[int]]]:
    with stream_of(folder, **options) as stream:
        return [[batch.records.tolist() for batch in stream] for _ in range(epochs)]


def loader_of(dataset: Dataset, workers: int, context: str = "fork", **options: Any) -> DataLoader:
    if workers:
        options |= {"multiprocessing_context": context, "timeout": 60}
    return DataLoader(dataset, batch_size=None, num_workers=workers, **options)


def records(batches: Any) -> list[list[int]]:
    return [batch.records.tolist() for batch in batches]


WAYS = [
    pytest.param(0, "fork", False, id="none"),
    pytest.param(1, "fork", False, id="fork-1"),
    pytest.param(3, "fork", False, id="fork-3"),
    pytest.param(3, "fork", True, id="fork-3-persistent"),
    pytest.param(20, "fork", False, id="fork-more-than-steps"),
    pytest.param(2, "spawn", True, id="spawn-2-persistent"),
    pytest.param(2, "forkserver", False, id="forkserver-2"),
]


@pytest.mark.parametrize(("workers", "context", "persistent"), WAYS)
def test_epochs_are_alike(folder: Path, workers: int, context: str, persistent: bool) -> None:
    truth = expected(folder)
    dataset = Dataset(stream_of(folder))
    loader = loader_of(dataset, workers, context, persistent_workers=persistent)
    epochs = 2 if context != "fork" or workers > 3 else 3
    for epoch in range(epochs):
        batches = list(loader)
        assert records(batches) == truth[epoch]
        assert [(batch.epoch, batch.step) for batch in batches] == [(epoch, step) for step in range(STEPS)]
        for batch in batches:
            assert isinstance(batch, TensorBatch)
            assert batch["label"].tolist() == batch.records.tolist()
            assert batch["text"].tolist() == [f"record {number:06d}" for number in batch.records.tolist()]
    if persistent and context == "fork":
        dataset.set_epoch(0)
        assert records(loader) == truth[0], "set_epoch reaches workers that persist"
    assert len(loader) == len(dataset) == STEPS


@pytest.mark.parametrize("reseeded", [False, True])
def test_epochs_go_on_under_other_loaders(folder: Path, reseeded: bool) -> None:
    """New workers each time, other numbers of them, none; also where the user seeds torch alike each time."""
    truth = expected(folder, 6)
    dataset = Dataset(stream_of(folder))
    for epoch, workers in enumerate([2, 2, 0, 3, 0, 1]):
        if reseeded:
            torch.manual_seed(5)
        assert records(loader_of(dataset, workers)) == truth[epoch]


def test_a_broken_off_epoch_is_not_taken_up(folder: Path) -> None:
    truth = expected(folder)
    for workers in (0, 2):
        dataset = Dataset(stream_of(folder))
        assert next(iter(loader_of(dataset, workers))).records.tolist() == truth[0][0]
        assert records(loader_of(dataset, workers)) == truth[1]


@pytest.mark.parametrize(("before", "after"), [(0, 3), (3, 0), (2, 3), (1, 1)])
@pytest.mark.parametrize("cut", [1, 7, STEPS])
def test_resume_with_other_workers(folder: Path, before: int, after: int, cut: int) -> None:
    """From the cursor of the last batch that was used, which is all that is saved, by one rank for all."""
    truth = expected(folder)
    loader = iter(loader_of(Dataset(stream_of(folder)), before))
    cursor = [next(loader) for _ in range(cut)][-1].cursor
    del loader
    saved = Cursor.from_json(cursor.to_json()).to_dict()
    for way in ("constructor", "load_state_dict"):
        dataset = Dataset(stream_of(folder, cursor=saved if way == "constructor" else None))
        if way == "load_state_dict":
            dataset.load_state_dict(saved)
        loader = loader_of(dataset, after)
        rest = truth[0][cut:] if cut < STEPS else truth[1]
        assert records(loader) == rest
        assert records(loader) == truth[1 + (cut == STEPS)]


def test_resume_in_another_world(folder: Path) -> None:
    """Saved by rank 0 of 2 with workers, resumed by 3 ranks with another batch size, each with workers of its own."""
    loader = iter(loader_of(Dataset(stream_of(folder, world=World(rank=0, ranks=2))), 2))
    cursor = [next(loader) for _ in range(5)][-1].cursor
    del loader
    found: dict[int, list[int]] = {}
    for rank in range(3):
        world = World(rank=rank, ranks=3)
        dataset = Dataset(stream_of(folder, world=world, batch_size=9, cursor=cursor, tail="drop"))
        for batch in loader_of(dataset, 2):
            found.setdefault(batch.step, []).extend(batch.records.tolist())
    with stream_of(folder) as plain:
        order = plain.plan.order
    whole = order.slice(5 * BATCH, len(order)).tolist()
    read = [sorted(found[step]) for step in sorted(found)]
    assert read == [sorted(whole[at : at + 9]) for at in range(0, len(whole) - 8, 9)]


def test_columns_are_tensors_of_the_same_values() -> None:
    store = of_sizes([20, 13])
    numpy_batches = list(Stream(store, batch_size=5, seed=1, tail="pad"))
    for way in (0, 2):
        dataset = Dataset(Stream(store, batch_size=5, seed=1, tail="pad"))
        for batch, found in zip(numpy_batches, loader_of(dataset, way), strict=True):
            assert list(found.keys()) == list(batch.keys())
            assert found.mask.tolist() == batch.mask.tolist()
            assert len(found) == len(batch)
            for name in batch.keys():  # noqa: SIM118
                column = batch[name]
                if isinstance(column, Ragged):
                    assert isinstance(found[name], RaggedTensor)
                    assert len(found[name]) == len(column)
                    same = zip(found[name].tolist(), column.tolist(), strict=True)
                    assert all(np.array_equal(left, right) for left, right in same)
                    assert np.array_equal(found[name][2], column[2])
                else:
                    assert found[name].numpy().dtype == column.dtype
                    assert np.array_equal(found[name].numpy(), column)


def test_tensors_share_the_memory_of_the_batch() -> None:
    batch = next(iter(Stream(of_sizes([20, 13]), batch_size=5)))
    found = TensorBatch.of(batch)
    assert found["label"].data_ptr() == batch["label"].ctypes.data
    start = batch["blob"].data.ctypes.data + int(batch["blob"].offsets[0])
    assert found["blob"].data.data_ptr() == start
    moved = found.to("cpu")
    assert moved["label"].tolist() == found["label"].tolist()
    assert "label" in moved
    with pytest.raises(Exception, match="no column 'lable'"):
        moved["lable"]


def negative(record: dict[str, Any]) -> dict[str, Any]:
    return {"x": torch.tensor([-record["label"]]), "text": record["text"]}


def labels(batch: Batch) -> list[int]:
    return batch["label"].tolist()


def halves(record: dict[str, Any]) -> float:
    return record["label"] / 2


@pytest.mark.parametrize("workers", [0, 2])
def test_mapped_streams(folder: Path, workers: int) -> None:
    truth = expected(folder, 2)
    dataset = Dataset(stream_of(folder).map(negative, threads=2))
    for epoch in range(2):
        for batch, wanted in zip(loader_of(dataset, workers), truth[epoch], strict=True):
            assert batch["x"].flatten().tolist() == [-label for label in wanted]
            assert batch["text"][0] == f"record {wanted[0]:06d}"
            assert (batch.records.tolist(), batch.cursor.epoch) == (wanted, epoch + (batch.step + 1 == STEPS))
    assert list(loader_of(Dataset(stream_of(folder).map(labels, per="batch")), workers)) == truth[0]
    values = next(iter(Loader(stream_of(folder).map(halves))))
    assert values["value"].tolist() == [label / 2 for label in truth[0][0]]
    summed = Loader(stream_of(folder).map(halves), collate=sum)
    assert next(iter(summed))["value"] == sum(truth[0][0]) / 2


def test_loader(folder: Path) -> None:
    truth = expected(folder)
    loader = Loader(stream_of(folder), pin_memory=True, device="cpu")
    assert len(loader) == STEPS
    found = []
    for batch in loader:
        found.append(batch)
        if len(found) == 9:
            break
    state = loader.state_dict()
    assert state == found[-1].cursor.to_dict()
    resumed = Loader(stream_of(folder))
    resumed.load_state_dict(state)
    assert records(found) + records(resumed) == truth[0]
    assert records(resumed) == truth[1]
    resumed.set_epoch(0)
    assert records(resumed) == truth[0]
    resumed.close()


def test_default_pin_memory_of_the_dataloader_finds_ours() -> None:
    found = TensorBatch.of(next(iter(Stream(of_sizes([20, 13]), batch_size=5))))
    pinned: list[Any] = []

    def pin(tensor: Any) -> Any:
        pinned.append(tensor)
        return tensor

    found._each(pin)
    ragged = sum(isinstance(column, RaggedTensor) for column in found.columns.values())
    assert len(pinned) == len(found.columns) + ragged  # one of an array, two of bytes and offsets
    assert callable(found.pin_memory)


# ---- failures


def drain(loader: Any) -> None:
    """Reads to the end. Workers are ended at once: a traceback would keep them until a collection of garbage, which
    ends the queues first and then waits in vain for the workers to hear of it.
    """
    iterator = iter(loader)
    try:
        for _ in iterator:
            pass
    finally:
        getattr(iterator, "_shutdown_workers", lambda: None)()


def test_an_error_in_a_worker_names_the_shard(tmp_path: Path) -> None:
    folder = on_disk(tmp_path, records=RECORDS, shards=9)
    (folder / "shard.00003.mds").unlink()
    for workers in (0, 2):
        with pytest.raises(DataError, match=r"shard.00003.mds"):
            drain(loader_of(Dataset(stream_of(folder)), workers))


def fail(record: dict[str, Any]) -> int:
    if record["label"] == 77:
        raise ValueError("seventy-seven")
    return 1


def test_an_error_of_a_mapped_function_in_a_worker(folder: Path) -> None:
    with pytest.raises(MapError, match="fail failed at record 77: ValueError: seventy-seven"):
        drain(loader_of(Dataset(stream_of(folder).map(fail)), 2))


KILLED = """
import os, signal, sys
from tombola import Stream
from tombola.torch import Dataset
from torch.utils.data import DataLoader

def kill_self(record):
    if record["label"] == 77:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1

dataset = Dataset(Stream(sys.argv[1], batch_size=12).map(kill_self))
for batch in DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"):
    print(len(batch), flush=True)
print("came through")
"""


def test_a_killed_worker_is_an_error_and_not_a_hang(folder: Path) -> None:
    """In a process of its own: torch raises from a signal handler, wherever the main process is just then, or finds
    that memory which the worker shared is gone.
    """
    run = subprocess.run([sys.executable, "-c", KILLED, folder], capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert "is killed by signal: Killed" in run.stderr or "Connection" in run.stderr
    assert "came through" not in run.stdout


def test_wrong_arguments(folder: Path) -> None:
    with pytest.raises(InputError, match=r"is no stream"):
        Dataset(str(folder))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"is no stream"):
        Loader([1, 2])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"collate is 3"):
        Dataset(stream_of(folder), collate=3)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="batch_size is missing"):
        iter(Dataset(stream_of(folder, batch_size=None)))
    with pytest.raises(CursorError, match="seed"):
        Dataset(stream_of(folder)).load_state_dict(stream_of(folder, seed=1).state_dict())


# ---- torchdata's loader, which keeps account of its workers


@pytest.fixture
def stateful() -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("cut", [0, 1, 6, STEPS - 1, STEPS])
@pytest.mark.parametrize("persistent", [False, True])
def test_stateful_data_loader(stateful: Any, folder: Path, workers: int, cut: int, persistent: bool) -> None:
    if persistent and not workers:
        pytest.skip("only workers persist")
    truth = expected(folder)

    def make() -> Any:
        options = {"multiprocessing_context": "fork", "persistent_workers": persistent} if workers else {}
        return stateful(Dataset(stream_of(folder)), batch_size=None, num_workers=workers, **options)

    loader = make()
    iterator = iter(loader)
    prefix = [next(iterator).records.tolist() for _ in range(cut)]
    if cut == STEPS:
        assert next(iterator, None) is None
    state = loader.state_dict()
    del iterator, loader
    resumed = make()
    resumed.load_state_dict(state)
    rest = records(resumed)
    if cut == STEPS:
        assert rest == truth[1]
    else:
        assert prefix + rest == truth[0]
        assert records(resumed) == truth[1]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("size", [{}, {"batch_size": 4}], ids=["default", "4"])
def test_a_loader_that_makes_batches_of_batches_is_told(folder: Path, workers: int, size: dict[str, int]) -> None:
    loader = DataLoader(Dataset(stream_of(folder)), num_workers=workers, **size)
    with pytest.raises(PlanError, match="give the DataLoader batch_size=None"):
        next(iter(loader))


SPAWNS = """
import sys
from torch.utils.data import DataLoader
from tombola import Stream
from tombola.torch import Dataset

if __name__ == "__main__":
    stream = Stream(sys.argv[1], batch_size=12)
    loader = DataLoader(Dataset(stream), batch_size=None, num_workers=1, multiprocessing_context="spawn")
    print(sum(len(batch) for batch in loader))
"""


def test_a_spawned_worker_ends_without_a_word(folder: Path, tmp_path: Path) -> None:
    """It ends with its dataset in hand, of which a debug build of the bindings would speak as leaked."""
    script = tmp_path / "spawns.py"
    script.write_text(SPAWNS)
    run = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, str(STEPS * BATCH), "")
