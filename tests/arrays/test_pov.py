"""The parallel offset virtual-block shuffle: what its options mean, and how its bias falls."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tombola
from tests.arrays._checks import P_MIN, key, p_of_all_orders
from tests.project._sources import ROOT
from tombola import Options, _core
from tombola.arrays import _pov, _slow
from tombola.arrays._pov import PovSteps


def bench() -> ModuleType:
    """bench/arrays_bias.py, which is no package."""
    spec = importlib.util.spec_from_file_location("arrays_bias", ROOT / "bench" / "arrays_bias.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["arrays_bias"] = module
    spec.loader.exec_module(module)
    return module


bias = bench()


def fast(n: int, key: int, steps: PovSteps, threads: int = 1) -> npt.NDArray[np.int64]:
    x = np.arange(n)
    _core.pov_arrays([(x.__array_interface__["data"][0], 8, 8, [])], n, key, *steps, threads)
    return x


@given(st.data(), st.integers(2, 400), st.integers(1, 20), st.integers(2, 20), st.integers(1, 3), st.integers(1, 4))
def test_equals_the_slow_twin(
    data: st.DataObject, n: int, virtual: int, physical: int, iterations: int, threads: int
) -> None:
    offset = st.integers(0, n - 1).filter(lambda o: o == 0 or o % physical)
    steps = PovSteps(iterations, virtual, physical, data.draw(st.lists(offset, min_size=1, max_size=4)))
    seed = data.draw(st.integers(0, 2**64 - 1))
    assert fast(n, seed, steps, threads).tolist() == _slow.pov_permutation(n, seed, steps)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_change_nothing(threads: int) -> None:
    n = 150_000
    assert np.array_equal(
        tombola.permutation(n, seed=1, iterations=2, threads=threads), tombola.permutation(n, seed=1, iterations=2)
    )


@pytest.mark.parametrize("row_bytes", [1, 2, 4, 8, 12, 16, 64, 256, 1000, 5000])
def test_row_sizes_change_nothing(row_bytes: int) -> None:
    n = 3001
    x = np.random.default_rng(row_bytes).integers(0, 256, (n, row_bytes), dtype=np.uint8)
    wanted = x[tombola.permutation(n, seed=2, iterations=2)]
    tombola.shuffle(x, seed=2, iterations=2, threads=3)
    assert np.array_equal(x, wanted)


# ---- how uniform


@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize(("virtual", "physical", "offsets"), [(2, 2, [1]), (2, 3, [1, 2]), (1, 2, [0, 1])])
def test_with_many_iterations_every_order_is_equally_likely(
    n: int, virtual: int, physical: int, offsets: list[int]
) -> None:
    steps = PovSteps(40, virtual, physical, offsets)
    assert p_of_all_orders(n, 30, lambda i: fast(n, key(i), steps)) > P_MIN


def test_one_virtual_block_of_all_rows_is_uniform() -> None:
    steps = PovSteps(1, 3, 2, [1])
    for n in (4, 5, 6):
        assert p_of_all_orders(n, 60, lambda i, n=n: fast(n, key(i), steps)) > P_MIN


def test_too_few_iterations_are_found_out() -> None:
    """The test above can fail: one iteration of small blocks is far from uniform."""
    steps = PovSteps(1, 2, 2, [1])
    assert p_of_all_orders(6, 20, lambda i: fast(6, key(i), steps)) < 1e-12


def test_bias_falls_to_that_of_a_uniform_shuffle() -> None:
    n, count = 1000, 300
    options = Options(virtual_block_size=4, physical_block_size=8)
    base = bias.baseline(n, count)
    values = {name: [] for name in bias.MEASURES}
    for iterations in (1, 2, 3, 8):
        run = bias.shuffles(n, count, 1, iterations=iterations, options=options)
        for name, measure in bias.MEASURES.items():
            values[name].append(measure(run))
    for name, (mean, spread) in base.items():
        first, second, third, last = values[name]
        assert first > second > third > last, name
        assert first > mean + 100 * spread, name
        assert last < mean + 5 * spread, name


@pytest.mark.parametrize("n", [500, 1025, 3000])
def test_the_default_iterations_are_enough(n: int) -> None:
    count = 200_000 // n
    base = bias.baseline(n, count)
    run = bias.shuffles(n, count, 1, method="pov")
    for name, measure in bias.MEASURES.items():
        assert measure(run) < base[name][0] + 5 * base[name][1], name


def test_measures_of_known_orders() -> None:
    unshuffled = np.tile(np.arange(100), (5, 1))
    assert bias.positional(unshuffled) == pytest.approx(0.99)
    assert bias.pairs(unshuffled) == pytest.approx(1 - 1 / 99)
    assert bias.triples(unshuffled) == pytest.approx(1 - 1 / 500)
    every_distance = (np.arange(100) + np.arange(100)[:, None]) % 100
    assert bias.positional(every_distance) == pytest.approx(0, abs=1e-12)


# ---- options


def test_options_are_chosen_from_the_rows_alone() -> None:
    for n in (2, 10, 1000, 10**9):
        chosen = tombola.optim_options_for_dataset(n)
        assert chosen == tombola.optim_options_for_dataset((n, 3, 5))
        assert all(0 < offset < n and offset % 32 for offset in chosen.offsets or ())
    arrays = [np.zeros(500, "i1"), np.zeros((500, 70))]
    assert len({tombola.optim_options_for_dataset(x) for x in arrays}) == 1


def test_what_is_given_is_kept() -> None:
    given = Options(virtual_block_size=3, offsets=(5, 7))
    chosen = tombola.optim_options_for_dataset(100, given)
    assert (chosen.virtual_block_size, chosen.physical_block_size, chosen.offsets) == (3, 32, (5, 7))
    assert tombola.optim_options_for_dataset(100, chosen) == chosen
    large = tombola.optim_options_for_dataset(10**6, Options(physical_block_size=5000))
    assert large.virtual_block_size == 1


def test_gpu_threads_change_nothing() -> None:
    a = tombola.permutation(500, seed=1, options=Options(gpu_thread_block_size=64))
    assert np.array_equal(a, tombola.permutation(500, seed=1, method="pov"))


@pytest.mark.parametrize("virtual", [1, 2, 3, 16])
def test_a_deck_that_no_block_divides(virtual: int) -> None:
    for n in (2, 3, 17, 33, 1001):
        p = tombola.permutation(n, seed=1, iterations=3, options=Options(virtual, 16))
        assert np.array_equal(np.sort(p), np.arange(n))


def test_default_iterations_are_those_of_the_table() -> None:
    for n in (2, 1024, 1025, 40_000):
        wanted = next(count for most, count in _pov.ITERATIONS if n <= most)
        assert np.array_equal(
            tombola.permutation(n, seed=3, method="pov"), tombola.permutation(n, seed=3, iterations=wanted)
        )


def test_build_params() -> None:
    params = tombola.get_build_params()
    assert params.virtual_rows_max == _pov.VIRTUAL_ROWS_MAX
    tombola.shuffle(np.arange(10**4), options=Options(params.virtual_rows_max // 32, 32))
