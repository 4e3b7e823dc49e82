"""What can be shuffled, and what is refused before a row has moved."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tombola
from tombola.arrays import method_for
from tombola.arrays._views import has_holes
from tombola.errors import ArrayError, InputError

METHODS = ["exact", "exact_gpu1", "pov"]
DTYPES = [
    "?", "i1", "<u2", ">i4", "f2", "f4", "f8", "c8", "c16", "S1", "S17", "U5", "V3", "M8[us]", "m8[D]", "O",
    [("a", "u1"), ("b", "f8", (2,))], ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
]  # fmt: skip


def make(n: int, dtype: Any) -> np.ndarray:
    dt = np.dtype(dtype)
    if dt.hasobject:
        return np.array([f"row {i}" for i in range(n)] or [None], dtype=object)[:n]
    rng = np.random.default_rng(n)
    if dt.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if dt.kind == "U":
        return np.array([f"r{i % 1000}" for i in range(n)], dt)
    return np.frombuffer(rng.bytes(n * dt.itemsize), dt).copy()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 33, 1025])
def test_dtypes(n: int, dtype: Any, method: str) -> None:
    x = make(n, dtype)
    p = tombola.permutation(n, seed=3, method=method)
    y = tombola.shuffled(x, seed=3, method=method)
    assert y.dtype == x.dtype
    assert y.tobytes() == x[p].tobytes()


#: Numbers of rows at which a method takes another way: groups of draws, tables, leaves, blocks, tasks, threads.
THRESHOLDS = (2, 16, 32, 128, 256, 1024, 8192, 65_536, 131_072, 250_000)


@given(
    st.sampled_from(THRESHOLDS),
    st.integers(-1, 1),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 2, 16, 17]),
    st.sampled_from(METHODS),
    st.integers(1, 3),
)
@settings(max_examples=150)
def test_every_row_is_there_around_every_threshold(
    threshold: int, beside: int, dtype: Any, columns: int, method: str, threads: int
) -> None:
    n = threshold + beside
    numbers = np.arange(n * columns).reshape(n, columns)
    dt = np.dtype(dtype)
    if dt.hasobject:
        x = numbers.astype(object)
    else:
        text = numbers.astype("<u8").view(np.uint8).reshape(n, columns, 8)
        x = np.resize(text, (n, columns, dt.itemsize)).view(dt)[..., 0] if dt.itemsize else numbers.astype(dt)
    wanted = x[tombola.permutation(n, seed=threshold, method=method)].tobytes()
    tombola.shuffle(x, seed=threshold, method=method, threads=threads)
    assert x.tobytes() == wanted


@given(
    hnp.arrays(np.int16, hnp.array_shapes(min_dims=1, max_dims=4, max_side=9), elements=st.integers(-9, 9)),
    st.sampled_from(METHODS),
    st.integers(0, 2**70),
    st.data(),
)
def test_views_of_any_rank(x: np.ndarray, method: str, seed: int, data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(x.ndim)))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1, -3]))) for _ in range(x.ndim))
    view = x.transpose(axes)[steps]
    wanted = view[tombola.permutation(len(view), seed=seed, method=method)].copy()
    mask = np.ones(x.shape, bool)
    mask.transpose(axes)[steps] = False
    around = x[mask].copy()
    tombola.shuffle(view, seed=seed, method=method, threads=2)
    assert np.array_equal(view, wanted)
    assert np.array_equal(x[mask], around)


@pytest.mark.parametrize("n", [70_000, 140_000])
def test_strided_rows_are_scattered_too(n: int) -> None:
    base = np.arange(2 * n)
    p = tombola.permutation(n, seed=2)
    for view in (base[::2], base[::-2], base.reshape(n, 2)[:, 1]):
        wanted = view[p].copy()
        tombola.shuffle(view, seed=2, threads=2)
        assert np.array_equal(view, wanted)


@pytest.mark.parametrize("method", METHODS)
def test_unison(method: str) -> None:
    n = 66_000
    x, y = np.arange(n, dtype=np.int32), np.arange(n * 70.0).reshape(n, 70)
    z = np.array([str(i) for i in range(n)], object)
    tombola.shuffle((x, y, z), seed=1, method=method)
    p = tombola.permutation(n, seed=1, method=method)
    assert np.array_equal(x, p)
    assert np.array_equal(y[:, 0], p * 70.0)
    assert np.array_equal(y[:, 69] - y[:, 0], np.full(n, 69.0))
    assert z.tolist() == [str(i) for i in p]


def test_columns_of_one_array_in_unison() -> None:
    table = np.arange(300).reshape(100, 3)
    tombola.shuffle([table[:, 0], table[:, 2]], seed=4)
    p = tombola.permutation(100, seed=4)
    assert np.array_equal(table, np.stack([p * 3, np.arange(100) * 3 + 1, p * 3 + 2], axis=1))


FIELDS = [("a", "u1"), ("b", "<u4"), ("c", [("d", "u1"), ("e", ">u2"), ("f", "S3")], (2,)), ("g", "O"), ("h", "u1")]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("names", [["a", "c"], ["b"], ["g", "h"], ["a", "h"], ["h", "b"]], ids=",".join)
@pytest.mark.parametrize("shape", [(300,), (300, 3)])
def test_fields_that_a_view_leaves_out_stay_where_they_are(
    shape: tuple[int, ...], names: list[str], method: str
) -> None:
    table = np.zeros(shape, FIELDS)
    numbers = np.arange(table.size).reshape(shape)
    table["a"], table["b"], table["h"], table["g"] = numbers, numbers, numbers + 1, numbers
    table["c"]["e"][..., 0], table["c"]["f"][..., 1] = numbers, numbers.astype("S3")
    before = table.copy()
    tombola.shuffle(table[names], seed=4, method=method)
    p = tombola.permutation(300, seed=4, method=method)
    for name in table.dtype.names or ():
        assert np.array_equal(table[name], before[name][p] if name in names else before[name]), name


def test_within_items_of_items() -> None:
    table = np.zeros(500, FIELDS)
    table["c"]["d"], table["c"]["e"] = np.arange(500)[:, None] % 200, np.arange(1000).reshape(500, 2)
    table["c"]["f"] = b"xyz"
    inner = table["c"][:, 1][["d", "f"]]
    tombola.shuffle(inner, seed=2)
    assert table["c"]["d"][:, 1].tolist() == (tombola.permutation(500, seed=2) % 200).tolist()
    assert np.array_equal(table["c"]["d"][:, 0], np.arange(500) % 200)
    assert np.array_equal(table["c"]["e"], np.arange(1000).reshape(500, 2))


def test_padding_moves_along_with_an_array_of_its_own() -> None:
    padded = np.zeros(100, np.dtype([("a", "u1"), ("b", "u8")], align=True))
    assert not has_holes(padded)
    assert not has_holes(padded[::2])
    assert has_holes(padded[["a"]])
    padded["b"] = np.arange(100)
    tombola.shuffle(padded[::-2], seed=1)
    assert np.array_equal(padded["b"][::-2], (99 - 2 * tombola.permutation(50, seed=1)))


@pytest.mark.parametrize("fields", [None, ["a"]])
def test_a_generator_is_drawn_from_once_and_not_when_refused(fields: list[str] | None) -> None:
    x = np.zeros(50, [("a", "u1"), ("b", "u4")])
    view = x if fields is None else x[fields]
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    tombola.shuffle(view, seed=one)
    other.integers(2**63 - 1)
    assert one.bit_generator.state == other.bit_generator.state
    view.flags.writeable = False
    for arguments in ({}, {"threads": 0}, {"iterations": 0}):
        with pytest.raises(ArrayError):
            tombola.shuffle(view, seed=one, **arguments)
    with pytest.raises(ArrayError, match="iterations is 0"):
        tombola.permutation(5, seed=one, iterations=0)
    assert one.bit_generator.state == other.bit_generator.state


def test_objects_keep_their_counts() -> None:
    things = [object() for _ in range(1000)]
    x = np.array(things, object)
    before = [sys.getrefcount(thing) for thing in things]
    tombola.shuffle(x, seed=1)
    assert [sys.getrefcount(thing) for thing in things] == before
    assert {id(thing) for thing in x} == {id(thing) for thing in things}
    del x
    gc.collect()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.float8_e5m2, torch.int64]
)
def test_torch(dtype: torch.dtype, method: str) -> None:
    x = torch.arange(600).reshape(100, 6).to(dtype)
    p = torch.from_numpy(tombola.permutation(100, seed=8, method=method))
    wanted = x.view(torch.uint8)[p] if dtype.is_floating_point else x[p]
    y = tombola.shuffled(x, seed=8, method=method)
    assert y.dtype == dtype
    assert torch.equal(y.view(torch.uint8) if dtype.is_floating_point else y, wanted)
    tombola.shuffle(x.T.contiguous().T, seed=8, method=method)
    tombola.shuffle(x, seed=8, method=method)
    assert torch.equal(x.view(torch.uint8), y.view(torch.uint8)) if dtype != torch.bool else torch.equal(x, y)


def test_torch_and_numpy_in_unison() -> None:
    x, y = torch.arange(50), np.arange(50)
    tombola.shuffle((x, y), seed=2)
    assert np.array_equal(x.numpy(), y)
    assert not np.array_equal(y, np.arange(50))


class OnlyDlpack:
    """An array type of another library: nothing but the protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_dlpack_and_buffers(tmp_path: Path) -> None:
    p = tombola.permutation(40, seed=6)
    numbers = np.arange(40, dtype=np.int32)
    tombola.shuffle(OnlyDlpack(numbers), seed=6)
    assert np.array_equal(numbers, p)

    letters = bytearray(range(40))
    tombola.shuffle(letters, seed=6)
    assert list(letters) == p.tolist()

    doubles = array.array("d", range(40))
    tombola.shuffle(doubles, seed=6)
    assert list(doubles) == p.tolist()

    c_ints = (ctypes.c_int * 40)(*range(40))
    tombola.shuffle(c_ints, seed=6)
    assert list(c_ints) == p.tolist()

    path = tmp_path / "rows"
    path.write_bytes(bytes(range(40)))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        tombola.shuffle(mapped, seed=6)
    assert list(path.read_bytes()) == p.tolist()


def test_memmap(tmp_path: Path) -> None:
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (5000, 3))
    x[:] = np.arange(15_000).reshape(5000, 3)
    tombola.shuffle(x, seed=6)
    x.flush()
    assert np.array_equal(np.load(tmp_path / "x.npy")[:, 0], tombola.permutation(5000, seed=6) * 3)


# ---- seeds and methods


def test_seeds() -> None:
    def by(seed: Any) -> list[int]:
        return tombola.permutation(100, seed=seed).tolist()

    assert by(5) == by(np.int64(5)) == by(5)
    assert by(np.random.default_rng(1)) == by(np.random.default_rng(1)) != by(np.random.default_rng(2))
    assert by(torch.Generator().manual_seed(1)) == by(torch.Generator().manual_seed(1))
    assert by(None) != by(None)
    assert by(-1) != by(2**64 - 1) != by(2**200) != by(-(2**200))
    rng = np.random.default_rng(1)
    assert by(rng) != by(rng)


def test_methods_have_permutations_of_their_own() -> None:
    perms = [tombola.permutation(500, seed=1, method=method).tolist() for method in METHODS]
    assert len({tuple(p) for p in perms}) == 3
    assert tombola.permutation(500, seed=1).tolist() == perms[0]
    assert tombola.permutation(500, seed=1, options=tombola.Options()).tolist() == perms[2]


def test_method_for() -> None:
    x = np.arange(3)
    assert method_for(x) == "exact"
    assert method_for(x, options=tombola.Options()) == method_for((x, x), iterations=1) == "pov"
    assert method_for(x, method="exact_gpu1") == "exact_gpu1"


# ---- refusals

frozen = np.arange(4)
frozen.flags.writeable = False
base = np.arange(20)
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "read-only": (frozen, {}, "read-only"),
    "bytes": (b"abc", {}, "bytes"),
    "a read-only buffer": (memoryview(b"abc"), {}, "read-only"),
    "a list of numbers": ([3, 1, 2], {}, "x\\[0\\] is a int"),
    "nothing": (None, {}, "NoneType"),
    "no arrays": ((), {}, "empty tuple"),
    "an object": (object(), {}, "neither __dlpack__ nor the buffer protocol"),
    "0-d": (np.array(3), {}, "0-d"),
    "0-d torch": (torch.tensor(3), {}, "0-d"),
    "requires grad": (torch.ones(3, requires_grad=True), {}, "detach"),
    "sparse": (torch.eye(3).to_sparse(), {}, "dense"),
    "nested": (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), {}, "only dense"),
    "meta": (torch.ones(3, device="meta"), {}, "device meta"),
    "broadcast": (torch.ones(1).expand(4), {}, "overlap"),
    "a sliding window": (np.lib.stride_tricks.sliding_window_view(base, 3, writeable=True), {}, "overlap"),
    "masked": (np.ma.masked_array([1, 2, 3], [0, 1, 0]), {}, "masked"),
    "lengths": ((np.arange(3), np.arange(4)), {}, "3 rows and x\\[1\\] has 4"),
    "the same array twice": ((base, base), {}, "share memory"),
    "overlapping views": ((base[:12], base[8:]), {}, "share memory"),
    "a method": (base, {"method": "best"}, "one of exact"),
    "iterations of exact": (base, {"method": "exact", "iterations": 2}, "belong to the method pov"),
    "no iterations": (base, {"iterations": 0}, "iterations is 0; it must be between 1"),
    "iterations of a third": (base, {"iterations": 0.3}, "whole number"),
    "options of another kind": (base, {"options": {"virtual_block_size": 2}}, "tombola.Options"),
    "a block of one": (base, {"options": tombola.Options(physical_block_size=1)}, "physical_block_size is 1"),
    "a virtual block too large": (base, {"options": tombola.Options(100, 100)}, "10000 rows"),
    "no virtual block": (base, {"options": tombola.Options(virtual_block_size=0)}, "virtual_block_size is 0"),
    "an offset on a border": (base, {"options": tombola.Options(2, 4, [8])}, "multiple of the physical block size 4"),
    "an offset outside": (base, {"options": tombola.Options(2, 4, [21])}, "an offset is 21"),
    "no offsets": (base, {"options": tombola.Options(2, 4, [])}, "offsets is empty"),
    "offsets of no kind": (base, {"options": tombola.Options(2, 4, 3)}, "sequence"),  # type: ignore[arg-type]
    "GPU threads": (base, {"options": tombola.Options(gpu_thread_block_size=48)}, "power of two"),
    "no threads": (base, {"threads": 0}, "threads is 0"),
    "a seed in words": (base, {"seed": "seven"}, "seed is 'seven'"),
    "a broken seed": (base, {"seed": 0.5}, "seed is 0.5"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_touched(name: str) -> None:
    x, arguments, message = REFUSED[name]
    before = base.copy()
    with pytest.raises(InputError, match=message) as caught:
        tombola.shuffle(x, **arguments)
    assert "seed" in name or isinstance(caught.value, ArrayError)
    assert np.array_equal(base, before)
    assert np.array_equal(frozen, np.arange(4))


def test_permutation_refuses_sizes() -> None:
    for n in (-1, 2.5, "3", 2**49):
        with pytest.raises(ArrayError, match="n, the size"):
            tombola.permutation(n)  # type: ignore[arg-type]


def test_views_that_do_not_overlap_are_not_refused() -> None:
    x = np.arange(24)
    tombola.shuffle((x[::2], x[1::2]), seed=1)
    p = tombola.permutation(12, seed=1)
    assert np.array_equal(x[::2], p * 2)
    assert np.array_equal(x[1::2], p * 2 + 1)
