"""Law 1 for the permutation, and its slow twin."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tombola.errors import OrderError
from tombola.order import Permutation, derive_key
from tombola.order._slow import SlowPermutation

AROUND = [n for k in range(1, 21) for n in (2**k - 1, 2**k, 2**k + 1)]


@pytest.mark.parametrize("n", sorted({*range(1, 140), *AROUND}))
def test_bijection_exhaustively(n: int) -> None:
    """Every power of two up to 2^20 with its neighbours: each value once, the inverse exact."""
    permutation = Permutation(n, n)
    forward = permutation.slice(0, n)
    assert np.array_equal(np.bincount(forward, minlength=n), np.ones(n))
    assert np.array_equal(permutation.find(forward), np.arange(n))


sizes = st.one_of(
    st.integers(1, 2**62),
    st.integers(1, 62).flatmap(lambda k: st.integers(max(1, 2**k - 3), min(2**62, 2**k + 3))),
)


@given(n=sizes, seed=st.integers(), data=st.data())
def test_edges_and_random_points_to_2_62(n: int, seed: int, data: st.DataObject) -> None:
    seed %= 2**1000
    permutation = Permutation(n, seed, "p", 1)
    points = np.unique(
        [0, n - 1, n // 2, *data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=40))],
    ).astype(np.int64)
    forward = permutation.at(points)
    assert ((forward >= 0) & (forward < n)).all()
    assert np.unique(forward).size == points.size
    assert np.array_equal(permutation.find(forward), points)
    assert np.array_equal(permutation.at(permutation.find(points)), points)
    slow = SlowPermutation(n, derive_key(seed, "permutation", "p", 1))
    assert np.array_equal(slow.at(points), forward)
    assert np.array_equal(slow.find(forward), points)
    assert [permutation.at(int(i)) for i in points] == forward.tolist()
    assert [permutation.find(int(j)) for j in forward] == points.tolist()


@given(n=st.integers(1, 5000), seed=st.integers(0, 2**64), data=st.data())
def test_slices_arrays_and_threads_agree(n: int, seed: int, data: st.DataObject) -> None:
    permutation = Permutation(n, seed)
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    expected = permutation.at(np.arange(start, stop))
    assert np.array_equal(permutation.slice(start, stop), expected)
    assert np.array_equal(permutation.at(np.arange(start, stop), threads=3), expected)


def test_threads_do_not_change_a_large_array() -> None:
    permutation = Permutation(10**12 + 39, 5)
    points = np.arange(10**11, 10**11 + 300_000)
    one = permutation.at(points, threads=1)
    for threads in (2, 3, 8):
        assert np.array_equal(permutation.at(points, threads=threads), one)
        assert np.array_equal(permutation.find(one, threads=threads), points)
        assert np.array_equal(permutation.slice(10**11, 10**11 + 300_000, threads=threads), one)


def test_shapes_dtypes_and_identity() -> None:
    permutation = Permutation(100, 7, "a", 3)
    assert permutation.at(np.zeros((2, 3), np.uint8)).shape == (2, 3)
    assert permutation.at([]).size == 0
    assert isinstance(permutation.at(np.int32(5)), int)
    assert pickle.loads(pickle.dumps(permutation)) == permutation
    assert permutation != Permutation(100, 7, "a", 4)
    assert len({Permutation(100, 7), Permutation(100, 7), Permutation(100, 8)}) == 2
    assert repr(permutation) == "Permutation(100, 7, 'a', 3)"


def test_seeds_are_keys_not_sums() -> None:
    """Law 5: neighbouring seeds and purposes share nothing."""
    keys = {derive_key(seed, "x", epoch) for seed in range(50) for epoch in range(50)}
    assert len(keys) == 2500
    assert derive_key(1, "ab", "c") != derive_key(1, "a", "bc")
    assert derive_key(1, "1") != derive_key(1, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Permutation(0, 1), "n, the size of a permutation, is 0"),
        (lambda: Permutation(-3, 1), "is -3"),
        (lambda: Permutation(2**62 + 1, 1), "4611686018427387905"),
        (lambda: Permutation(3.5, 1), "3.5"),  # type: ignore[arg-type]
        (lambda: Permutation(True, 1), "True"),
        (lambda: Permutation(3, "x"), "seed is 'x'"),  # type: ignore[arg-type]
        (lambda: Permutation(3, 1, 2.5), "purpose word is 2.5"),  # type: ignore[arg-type]
        (lambda: Permutation(3, 1).at(3), "position is 3"),
        (lambda: Permutation(3, 1).at(-1), "position is -1"),
        (lambda: Permutation(3, 1).at([0, 3]), "position 3 is outside 0…2"),
        (lambda: Permutation(3, 1).at([0.5]), "the positions have dtype float64"),
        (lambda: Permutation(3, 1).at([2**70]), "position 1180591620717411303424 is more than 64 bits can hold"),
        (lambda: Permutation(3, 1).at([[1], [2, 0]]), "lists of unequal length"),
        (lambda: Permutation(3, 1).at([0], threads=0), "threads is 0"),
        (lambda: Permutation(3, 1).at([0], threads=None), "threads is None"),  # type: ignore[call-overload]
        (lambda: Permutation(3, 1).slice(0, 1, threads=2**40), "threads is"),
        (lambda: Permutation(3, 1).at(10**5000), "position is a number of 16610 bits"),
        (lambda: Permutation(3, 1).at([-(10**5000)]), "a negative number of 16610 bits"),
        (lambda: Permutation(3, 10**5000), "it must be between -2^1024 and 2^1024"),
        (lambda: Permutation(3, 1).find(7), "value is 7"),
        (lambda: Permutation(3, 1).find([-7]), "value -7"),
        (lambda: Permutation(3, 1).slice(2, 1), "start is 2"),
        (lambda: Permutation(3, 1).slice(0, 4), "stop is 4"),
    ],
)
def test_bad_input(call, words: str) -> None:
    with pytest.raises(OrderError, match=r"(?s).*") as caught:
        call()
    assert words in str(caught.value)
