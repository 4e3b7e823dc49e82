"""The exact method: what its permutation is, that it is uniform, and that nothing but (seed, n) changes it."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tombola
from tests.arrays._checks import P_MIN, SMALL, key, p_of_all_orders, p_uniform
from tombola import _core
from tombola.arrays import _slow
from tombola.arrays._slow import Limits


def fast(n: int, key: int, limits: Limits | None = None, threads: int = 2) -> npt.NDArray[np.int64]:
    out = np.empty(n, np.int64)
    _core.exact_permutation(out, key, threads, (limits or Limits()).native())
    return out


# ---- the definition


@pytest.mark.parametrize("n", [0, 1, 2, 3, 16, 17, 18, 255, 256, 257, 1000, 65_536, 65_537, 131_073])
def test_equals_the_slow_twin(n: int) -> None:
    assert fast(n, n + 7).tolist() == _slow.permutation(n, n + 7)


def test_equals_the_slow_twin_with_several_tasks() -> None:
    n = 300_000
    limits = Limits(leaf_max=1 << 12, leaf_aim=1 << 11, fan_bits_max=5, slice_min=1 << 10)
    assert fast(n, 5, limits).tolist() == _slow.permutation(n, 5, limits)


@given(
    st.integers(0, 600),
    st.integers(0, 2**64 - 1),
    st.builds(
        Limits,
        leaf_max=st.integers(1, 40),
        leaf_aim=st.integers(1, 20),
        fan_bits_max=st.integers(1, 8),
        margin=st.integers(1, 9),
        slice_min=st.integers(1, 30),
        tasks_max=st.integers(1, 9),
        stagger_min=st.sampled_from([64, 10**6]),
    ),
    st.integers(1, 4),
)
def test_equals_the_slow_twin_with_any_limits(n: int, seed: int, limits: Limits, threads: int) -> None:
    assert fast(n, seed, limits, threads).tolist() == _slow.permutation(n, seed, limits)


def test_the_default_limits_are_those_of_the_core() -> None:
    n = 200_000
    out = np.empty(n, np.int64)
    _core.exact_permutation(out, 9, 2)
    assert out.tolist() == fast(n, 9).tolist()


def test_a_draw_that_must_be_refused_is_refused() -> None:
    # Bounds near 2^32 would be needed to see many; at 65,536 rows one key in a few hundred has one.
    seen = 0
    for k in range(60):
        words = _slow.words(_slow.child(key(k), 0))
        halves = [half for _ in range(40_000) for w in [next(words)] for half in (w & 0xFFFFFFFF, w >> 32)]
        bounds = np.arange(65_536, 1, -1, dtype=np.uint64)[: len(halves)]
        low = (np.array(halves[: bounds.size], np.uint64) * bounds) & np.uint64(0xFFFFFFFF)
        if (low < np.uint64(2**32) % bounds).any():
            seen += 1
            assert fast(65_536, key(k)).tolist() == _slow.permutation(65_536, key(k))
        if seen == 2:
            return
    pytest.fail("no refusal among these keys: look at more")


# ---- uniformity


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("name", SMALL)
def test_every_order_is_equally_likely(name: str, n: int) -> None:
    out, limits = np.empty(n, np.int64), SMALL[name].native()

    def order_of(i: int) -> npt.NDArray[np.int64]:
        _core.exact_permutation(out, key(i), 1, limits)
        return out

    assert p_of_all_orders(n, 40 if n == 6 else 200, order_of) > P_MIN


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("way", ["large rows", "unison", "strided", "threads"])
def test_every_order_is_equally_likely_by_every_way(way: str, n: int) -> None:
    limits = SMALL["four buckets"].native()
    numbers = np.arange(n)

    def order_of(i: int) -> npt.NDArray[np.int64]:
        wide = np.repeat(numbers[:, None], {"large rows": 40, "unison": 2, "strided": 4, "threads": 1}[way], axis=1)
        x = wide[:, ::2] if way == "strided" else wide
        y = numbers.copy()
        views = [(x.__array_interface__["data"][0], x.strides[0], 8 * x.shape[1], [])]
        if way == "strided":
            views = [(x.__array_interface__["data"][0], x.strides[0], 8, [(2, 16)])]
        if way == "unison":
            views.append((y.__array_interface__["data"][0], 8, 8, []))
        _core.exact_arrays(views, n, key(i), 2 if way == "threads" else 1, False, 256, limits)
        assert (x == x[:, :1]).all()
        assert way != "unison" or (y == x[:, 0]).all()
        return x[:, 0]

    assert p_of_all_orders(n, 60, order_of) > P_MIN


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("way", ["memmap", "file"])
def test_every_order_is_equally_likely_on_disk(way: str, n: int) -> None:
    limits = SMALL["eight buckets, two tasks"].native()
    ordered = np.arange(n, dtype=np.int64).tobytes()
    source, target = os.memfd_create("source"), os.memfd_create("target")
    os.write(source, ordered)
    os.write(target, ordered)
    mapped = np.memmap(f"/proc/self/fd/{target}", np.int64, "r+")
    view = (mapped.__array_interface__["data"][0], 8, 8, [])

    def order_of(i: int) -> npt.NDArray[np.int64]:
        if way == "memmap":
            mapped[:] = np.arange(n)
            _core.exact_arrays([view], n, key(i), 2, False, 256, limits)
        else:
            _core.exact_file(source, target, 0, n, 8, 1, key(i), 2, limits)
        return np.frombuffer(os.pread(target, len(ordered), 0), np.int64)

    try:
        assert p_of_all_orders(n, 60, order_of) > P_MIN
        assert os.pread(source, len(ordered), 0) == ordered
    finally:
        os.close(source)
        os.close(target)


@pytest.mark.parametrize("limits", [Limits(), Limits(100, 50, 3, 4, 20, 4, 64)], ids=["leaf", "scattered"])
def test_positions_and_neighbours_are_uniform(limits: Limits) -> None:
    n, keys, cells = 1000, 3000, 40
    positions, neighbours = np.zeros((cells, cells)), np.zeros((cells, cells))
    gaps = np.zeros(n)
    cell = np.arange(n) * cells // n
    for k in range(keys):
        p = fast(n, key(k), limits, 1)
        np.add.at(positions, (cell, cell[p]), 1)
        np.add.at(neighbours, (cell[p[:-1]], cell[p[1:]]), 1)
        gaps += np.bincount((p[1:] - p[:-1]) % n, minlength=n)
    # Two different rows share a cell a little less often than two independent ones: compare like with like.
    expected = np.full((cells, cells), (n / cells) ** 2 / (n * (n - 1)))
    expected[np.diag_indices(cells)] = (n / cells) * (n / cells - 1) / (n * (n - 1))
    assert p_uniform(positions) > P_MIN
    assert p_uniform(neighbours / expected / cells**2) > P_MIN
    assert p_uniform(gaps[1:]) > P_MIN


def test_seeds_and_sizes_are_unrelated() -> None:
    n = 20_000
    perms = [tombola.permutation(n, seed=s) for s in range(20)]
    longer = tombola.permutation(n + 1, seed=0)[:n]
    for a, b in [*pairwise(perms), (perms[0], longer)]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(n)
        assert (a == b).sum() < 10


# ---- what must not matter


@pytest.mark.parametrize("n", [2, 1000, 65_537, 400_000, 3_000_000])
def test_threads_change_nothing(n: int) -> None:
    wanted = tombola.permutation(n, seed=5, threads=1)
    assert np.array_equal(np.sort(wanted), np.arange(n))
    for threads in (2, 3, 8):
        assert np.array_equal(tombola.permutation(n, seed=5, threads=threads), wanted)


@pytest.mark.parametrize(
    "row_bytes", [1, 2, 3, 4, 7, 8, 12, 16, 24, 32, 64, 100, 128, 200, 255, 256, 257, 512, 513, 1000]
)
@pytest.mark.parametrize("n", [3, 257, 70_001])
def test_row_sizes_change_nothing(n: int, row_bytes: int) -> None:
    p = tombola.permutation(n, seed=11)
    x = np.random.default_rng(row_bytes).integers(0, 256, (n, row_bytes), dtype=np.uint8)
    wanted = x[p]
    tombola.shuffle(x, seed=11, threads=3)
    assert np.array_equal(x, wanted)


@pytest.mark.parametrize("n", [1, 2, 5, 40, 300])
@pytest.mark.parametrize("row_bytes", [65_536, 65_537, 150_000])
def test_rows_shared_by_columns(n: int, row_bytes: int) -> None:
    x = np.random.default_rng(n).integers(0, 256, (n, row_bytes), dtype=np.uint8)
    wanted = x[tombola.permutation(n, seed=1)]
    tombola.shuffle(x, seed=1, threads=3)
    assert np.array_equal(x, wanted)


@given(
    st.integers(0, 400),
    st.integers(1, 40),
    st.integers(0, 2**64 - 1),
    st.sampled_from(sorted(SMALL)),
    st.integers(1, 3),
    st.sampled_from([1, 16, 10**9]),
)
def test_moving_twice_and_following_agree(
    n: int, row_bytes: int, seed: int, name: str, threads: int, follow_from: int
) -> None:
    limits = SMALL[name]
    x = np.random.default_rng(n).integers(0, 256, (n, row_bytes), dtype=np.uint8)
    wanted = x[fast(n, seed, limits)]
    view = (x.__array_interface__["data"][0], row_bytes, row_bytes, [])
    _core.exact_arrays([view], n, seed, threads, False, follow_from, limits.native())
    assert np.array_equal(x, wanted)
