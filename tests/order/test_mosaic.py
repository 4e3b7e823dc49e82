"""The exact MosaicML orders: equal to the peer's own outputs, to their slow twins, and to NumPy's draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.order import mosaic_vectors as vectors
from tombola import _core
from tombola.errors import OrderError
from tombola.order import Layout
from tombola.order.mosaic import Draws, Options, deal, sample, sample_shards, shuffle, weigh, work
from tombola.order.mosaic._batching import BATCHINGS
from tombola.order.mosaic._deal import RULES, traversal
from tombola.order.mosaic._shuffle import NAMES
from tombola.order.mosaic._slow import SlowDraws, slow_deal, slow_sample_records, slow_sample_shards, slow_shuffle

# ---- the peer's own outputs


@pytest.mark.parametrize("name", [name for name in NAMES if name != "py1b"])
def test_shuffles_are_the_peers(name: str) -> None:
    cases = [case for case in vectors.all_cases("shuffle") if case["algo"] == name]
    assert len(cases) > 40
    for case in cases:
        assert vectors.answer(lambda case=case: vectors.shuffled(case)) == vectors.wanted(case), case


@pytest.mark.parametrize("rule", RULES)
def test_deals_are_the_peers(rule: str) -> None:
    cases = [case for case in vectors.all_cases("deal") if case["algo"] == rule]
    assert len(cases) > 100
    for case in cases:
        assert vectors.answer(lambda case=case: vectors.dealt(case)) == vectors.wanted(case), case


def test_samplings_are_the_peers() -> None:
    cases = vectors.all_cases("sampling")
    assert len(cases) > 40
    for case in cases:
        got = sample_shards(
            case["samples_per_shard"],
            case["choose"],
            granularity=case["granularity"],
            seed=case["seed"],
            epoch=case["epoch"],
            fresh=case["use_epoch"],
        )
        assert got.tolist() == case["choose_per_shard"], case


@pytest.mark.parametrize("batching", BATCHINGS)
def test_whole_epochs_are_the_peers(batching: str) -> None:
    cases = [case for case in vectors.all_cases("work") if case["options"]["batching_method"] == batching]
    assert len(cases) > 60
    assert sum(case["world"]["sample_in_epoch"] > 0 and "ids" in case for case in cases) > 20
    for case in cases:
        assert vectors.answer(lambda case=case: vectors.worked(case)) == vectors.wanted(case), case


def test_the_given_vectors_are_all_there() -> None:
    given_file = vectors.load("order.json")
    assert [len(given_file[kind]) for kind in ("shuffle", "partition", "sampling", "work")] == [30, 9, 5, 36]
    assert {case["algo"] for case in given_file["shuffle"]} == set(NAMES) - {"py1b"}


def test_weights_are_the_peers() -> None:
    for case in vectors.load("peer.json")["work"]:
        weights = vectors.weights_of(case)
        assert list(weights.choose) == case["choose"], case
        assert list(weights.proportion) == case["proportion"], case
        assert weights.records == case["epoch_size"], case


# ---- NumPy's draws

CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("shuffle"), st.integers(0, 600)),
        st.tuples(st.just("integers"), st.integers(1, 2**63 - 1), st.integers(0, 5)),
        st.tuples(
            st.just("integers"), st.sampled_from([1, 2, 3, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1]), st.integers(0, 5)
        ),
        st.tuples(st.just("uniform"), st.integers(0, 9)),
        st.tuples(st.just("choice"), st.integers(0, 60), st.integers(0, 60)),
    ),
    max_size=8,
)


def drawn(draws: Any, call: tuple[Any, ...]) -> list[Any]:
    match call:
        case ("shuffle", n):
            return list(draws.permutation(n))
        case ("integers", high, count):
            if isinstance(draws, SlowDraws):
                return [draws.bounded(high - 1) for _ in range(count)]
            return draws.integers(0, high, count).tolist()
        case ("uniform", count):
            if isinstance(draws, SlowDraws):
                return [draws.uniform(-1.5, 2.25) for _ in range(count)]
            return draws.uniform(-1.5, 2.25, count).tolist()
        case ("choice", n, k):
            if isinstance(draws, np.random.Generator):
                return draws.choice(n, min(n, k), replace=False).tolist() if n else []
            return list(draws.choice(n, min(n, k))) if n else []
    raise AssertionError(call)


@given(st.integers(0, 2**64 - 1) | st.integers(0, 50), CALLS)
def test_draws_are_numpys_in_any_sequence(seed: int, calls: list[tuple[Any, ...]]) -> None:
    ours, slow, numpys = Draws(seed), SlowDraws(seed), np.random.default_rng(seed)
    for call in calls:
        wanted = drawn(numpys, call)
        assert drawn(ours, call) == wanted, call
        assert drawn(slow, call) == wanted, call


@pytest.mark.parametrize("n", [255, 256, 257, 4096, 4097, 65536, 65537, 131_073, 200_001, 300_000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_large_shuffles_are_numpys(n: int, dtype: Any) -> None:
    # Around what is drawn at a time, around the masks, and beyond where the core starts to fetch ahead.
    ours, numpys = Draws(n), np.random.default_rng(n)
    for _ in range(2):
        values, wanted = np.arange(n, dtype=dtype), np.arange(n)
        ours.shuffle(values)
        numpys.shuffle(wanted)
        assert np.array_equal(values, wanted)


@pytest.mark.parametrize(
    ("n", "k"), [(10_000, 400), (10_001, 200), (10_001, 201), (20_000, 20_000), (50_000, 3), (0, 0), (1, 1)]
)
def test_large_choices_are_numpys(n: int, k: int) -> None:
    ours, numpys = Draws(3), np.random.default_rng(3)
    for _ in range(2):
        assert np.array_equal(ours.choice(n, k), numpys.choice(n, k, replace=False) if n else [])


def test_the_orders_do_not_use_numpys_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("the installed NumPy's generator was asked")

    for name in ("default_rng", "Generator", "PCG64", "SeedSequence"):
        monkeypatch.setattr(np.random, name, refuse)
    for case in vectors.load("order.json")["work"]:
        assert vectors.worked(vectors._as_work(case)).reshape(-1).tolist() == case["ids"]


# ---- slow twins

UNITS = st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any)
SEEDS = st.integers(0, 2**32) | st.integers(0, 2**62)


@pytest.mark.parametrize("name", NAMES)
@given(units=UNITS, nodes=st.integers(1, 7), seed=SEEDS, epoch=st.integers(0, 3), block=st.integers(2, 90))
def test_shuffles_equal_their_slow_twins(
    name: str, units: list[int], nodes: int, seed: int, epoch: int, block: int
) -> None:
    nodes = min(nodes, sum(units)) if name == "py1e" else nodes
    slow = slow_shuffle(name, units, canonical_nodes=nodes, seed=seed, epoch=epoch, block_records=block)
    fast = shuffle(name, units, canonical_nodes=nodes, seed=seed, epoch=epoch, block_records=block)
    assert fast.tolist() == slow
    assert sorted(slow) == list(range(sum(units)))
    wide = np.empty(sum(units), np.int64)
    sizes = np.array(units, np.int64)
    _core.mosaic_order(NAMES.index(name), sizes, nodes, seed, epoch, block, int(0.75 * block), int(1.25 * block), wide)
    assert wide.tolist() == slow


@pytest.mark.parametrize("name", ["py1b", "py1br", "py1e", "py2s"])
@pytest.mark.parametrize(("unit", "block"), [(37, 100), (37, 9000), (5000, 3000), (1500, 2500), (30_000, 10**9)])
def test_long_nodes_equal_their_slow_twins(name: str, unit: int, block: int) -> None:
    # Long enough for several pages of py1e's sort to be open and written, with blocks below and above a page.
    units = [unit] * (30_000 // unit) + [11]
    slow = slow_shuffle(name, units, canonical_nodes=2, seed=3, epoch=1, block_records=block)
    assert shuffle(name, units, canonical_nodes=2, seed=3, epoch=1, block_records=block).tolist() == slow


def test_compact_is_the_same_in_half_the_memory() -> None:
    wide = shuffle("py1e", [50, 60], canonical_nodes=3, seed=1)
    narrow = shuffle("py1e", [50, 60], canonical_nodes=3, seed=1, compact=True)
    assert (wide.dtype, narrow.dtype) == (np.int64, np.int32)
    assert np.array_equal(wide, narrow)


@given(shards=st.integers(1, 6), size=st.integers(1, 30), nodes=st.integers(1, 4), seed=SEEDS, epoch=st.integers(0, 3))
def test_py1b_is_py1s_when_a_block_is_a_shard(shards: int, size: int, nodes: int, seed: int, epoch: int) -> None:
    # Equal shards, a whole number of them on each canonical node, so that none is cut.
    units = [size] * (shards * nodes)
    fixed = shuffle("py1b", units, canonical_nodes=nodes, seed=seed, epoch=epoch, block_records=size)
    assert np.array_equal(fixed, shuffle("py1s", units, canonical_nodes=nodes, seed=seed, epoch=epoch))


def test_py1b_is_not_py1s_otherwise() -> None:
    # The equality above says something only because it can fail.
    units, options = [10] * 8, {"canonical_nodes": 2, "seed": 5}
    assert not np.array_equal(shuffle("py1b", units, block_records=20, **options), shuffle("py1s", units, **options))
    assert not np.array_equal(shuffle("py1b", units, block_records=7, **options), shuffle("py1s", units, **options))


@given(sizes=UNITS, choose=st.integers(0, 500), granularity=st.integers(1, 50), seed=SEEDS, epoch=st.integers(0, 3))
def test_sampling_equals_its_slow_twin(sizes: list[int], choose: int, granularity: int, seed: int, epoch: int) -> None:
    fast = sample_shards(sizes, choose, granularity=granularity, seed=seed, epoch=epoch)
    assert fast.tolist() == slow_sample_shards(sizes, choose, granularity=granularity, seed=seed + epoch)
    assert fast.sum() == choose
    made = sample(Layout(sizes), [choose], seed=seed, epoch=epoch, granularity=granularity)
    units, records = slow_sample_records(sizes, fast.tolist(), seed=seed + epoch)
    assert made.units.tolist() == units
    assert (list(range(sum(sizes))) if made.records is None else made.records.tolist()) == records


DEALS = {
    "canonical": st.integers(1, 4),
    "times": st.integers(1, 4),
    "more_nodes": st.booleans(),
    "ranks": st.integers(1, 4),
    "workers": st.integers(1, 3),
    "batch": st.integers(1, 5),
}


@given(records=st.integers(1, 150), drop=st.integers(0, 40), seed=st.integers(0, 9), wide=st.booleans(), **DEALS)
def test_a_deal_equals_its_slow_twin(
    records: int,
    drop: int,
    seed: int,
    wide: bool,
    canonical: int,
    times: int,
    more_nodes: bool,
    ranks: int,
    workers: int,
    batch: int,
) -> None:
    nodes, canonical = (canonical * times, canonical) if more_nodes else (canonical, canonical * times)
    rng = np.random.default_rng(seed)
    ids, records_of = (rng.permutation(records).astype(np.int64 if wide else np.int32) for _ in range(2))
    drop = min(drop, records)
    world = {"nodes": nodes, "workers": workers, "batch": batch, "ranks": ranks}
    try:
        slow: Any = np.array(slow_deal(records, canonical_nodes=canonical, drop_first=drop, **world), np.int64)
    except ValueError:  # too few records to pad from, where the peer fails too
        slow = None
    names = {
        "canonical_nodes": canonical,
        "nodes": nodes,
        "ranks_per_node": ranks,
        "workers_per_rank": workers,
        "device_batch": batch,
    }
    if slow is None:
        with pytest.raises(OrderError, match="too few"):
            deal(records, drop_first=drop, **names)
        return
    for threads in (1, 3):
        fast = deal(records, drop_first=drop, ids=ids, records_of=records_of, threads=threads, **names)
        assert np.array_equal(fast, np.where(slow < 0, -1, records_of[ids[slow]]).reshape(fast.shape))
    narrow = deal(records, drop_first=drop, ids=ids, compact=True, **names)
    assert narrow.dtype == (np.int64 if wide else np.int32)
    assert np.array_equal(narrow, np.where(slow < 0, -1, ids[slow]).reshape(fast.shape))


def test_threads_change_nothing_in_a_large_deal() -> None:
    names = {"canonical_nodes": 8, "nodes": 2, "ranks_per_node": 3, "workers_per_rank": 2, "device_batch": 7}
    ids = shuffle("naive", [500_009], canonical_nodes=8, seed=1, compact=True)
    one = deal(500_009, ids=ids, threads=1, **names)
    assert np.array_equal(one, deal(500_009, ids=ids, threads=5, **names))
    assert np.array_equal(np.unique(one[one >= 0]), np.arange(500_009))


# ---- what it promises


@given(
    device_batch=st.integers(1, 3),
    drop=st.integers(0, 6),
    epoch=st.integers(0, 2),
    shape=st.sampled_from([(1, 8), (2, 4), (4, 2), (8, 1), (4, 1), (1, 2)]),
)
def test_the_set_of_a_full_batch_is_world_free(
    device_batch: int, drop: int, epoch: int, shape: tuple[int, int]
) -> None:
    """ "random": whoever reads, however many, and from wherever the run goes on."""
    layout, options = Layout([50, 30, 120, 77, 43]), Options(canonical_nodes=8, shuffle="py1br", block_records=40)
    nodes, ranks = shape
    batch = 8 * device_batch
    names = {"device_batch": batch // (nodes * ranks), "nodes": nodes, "ranks_per_node": ranks, "workers_per_rank": 2}
    flat = traversal(work(layout, options, epoch=epoch, drop_first=drop * batch, **names))
    one = traversal(work(layout, options, epoch=epoch, device_batch=batch))
    for number in range(layout.records // batch - drop):
        there = np.sort(flat[number * batch : (number + 1) * batch])
        assert np.array_equal(there, np.sort(one[(drop + number) * batch : (drop + number + 1) * batch]))


# ---- bad input

TWO = Layout([90, 9], streams=[0, 1])


def deal_one(records: int, **changed: Any) -> Any:
    world = {"canonical_nodes": 1, "nodes": 1, "ranks_per_node": 1, "workers_per_rank": 1, "device_batch": 1}
    return deal(records, **world | changed)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: shuffle("py3", [4], canonical_nodes=1, seed=0), "py3"),
        (lambda: shuffle("py1s", [4, -1], canonical_nodes=1, seed=0), "-1"),
        (lambda: shuffle("py1s", [4.5], canonical_nodes=1, seed=0), "float"),
        (lambda: shuffle("py1s", [[4]], canonical_nodes=1, seed=0), "2 dimensions"),
        (lambda: shuffle("py1s", [4], canonical_nodes=0, seed=0), "canonical_nodes is 0"),
        (lambda: shuffle("py1s", [4], canonical_nodes=1, seed=-1), "-1"),
        (lambda: shuffle("py1s", [4], canonical_nodes=1, seed=2**63), str(2**63)),
        (lambda: shuffle("py1s", [4], canonical_nodes=1, seed=2**63 - 1, epoch=1), "seed \\+ epoch"),
        (lambda: shuffle("py1s", [2**61, 2**61], canonical_nodes=1, seed=0), "2\\^61"),
        (lambda: shuffle("py1e", [4], canonical_nodes=5, seed=0), "canonical_nodes=4 or fewer"),
        (lambda: shuffle("py1br", [4], canonical_nodes=1, seed=0, block_records=1), "at least 2|between 2"),
        (lambda: shuffle("py1b", [4], canonical_nodes=1, seed=0, block_records=0), "block_records of py1b"),
        (lambda: deal_one(4, canonical_nodes=2, nodes=3), "divide"),
        (lambda: deal_one(4, nodes=6), "too few"),
        (lambda: deal_one(4, drop_first=9), "9"),
        (lambda: deal_one(4, workers_per_rank=0), "workers_per_rank"),
        (lambda: deal_one(4, rule="x"), "'x'"),
        (lambda: deal_one(4, ids=np.arange(5)), "5 entries"),
        (lambda: deal_one(4, ids=np.arange(4) + 1), "outside"),
        (lambda: deal_one(4, ids=np.zeros(4)), "float64"),
        (lambda: deal_one(9, canonical_nodes=2, nodes=3, ranks_per_node=2, first_nodes=2), "global batch of 6"),
        (lambda: Options(canonical_nodes=1, shuffle="py4"), "py4"),
        (lambda: Options(canonical_nodes=1, batching="any"), "any"),
        (lambda: Options(canonical_nodes=1, sampling="some"), "some"),
        (lambda: Options(canonical_nodes=1, granularity=0), "granularity"),
        (lambda: Options(canonical_nodes=1, first_nodes=0), "first_nodes"),
        (lambda: weigh([]), "no streams"),
        (lambda: weigh([5, 5], proportion=[1]), "1 entries for 2"),
        (lambda: weigh([5, 5], proportion=[1, None]), "stream 1"),
        (lambda: weigh([5, 5], proportion=[0, 0]), "every proportion"),
        (lambda: weigh([5, 5], proportion=[1, -1]), "-1"),
        (lambda: weigh([5, 5], proportion=[1, float("nan")]), "nan"),
        (lambda: weigh([5, 0], proportion=[1, 1]), "stream 1 holds no records"),
        (lambda: weigh([5, 5], proportion=[1, 1], repeat=[1, None]), "same way"),
        (lambda: weigh([5, 5], repeat=[2, None], choose=[3, None]), "both repeat=2 and choose=3"),
        (lambda: weigh([5, 5], repeat=[-1, None]), "-1"),
        (lambda: weigh([5, 0], choose=[5, 1]), "stream 1"),
        (lambda: weigh([5, 5], choose=[0, 0]), "no record is chosen"),
        (lambda: weigh([5, 5], choose=[5, 1], epoch_records=6), "epoch_records"),
        (lambda: weigh([0, 0]), "no stream holds"),
        (lambda: weigh([5], epoch_records=0), "epoch_records is 0"),
        (lambda: sample(Layout([5]), [1, 2], seed=0), "2 entries for 1"),
        (lambda: sample(Layout([5, 5], streams=[1, 0]), [1, 2], seed=0), "mixed"),
        (lambda: sample(Layout([5]), [5], seed=0, sampling="all"), "all"),
        (lambda: sample_shards([0, 0], 3, seed=0), "hold none"),
        (lambda: sample_shards([3], 3, seed=0, granularity=0), "granularity"),
        (lambda: work(Layout([9, 1], streams=[0, 1]), Options(1, batching="stratified"), device_batch=3), "stream 1"),
        (lambda: work(Layout([9, 1], streams=[0, 1]), Options(1, batching="per_stream"), device_batch=3), "stream 1"),
        (lambda: work(Layout([90]), Options(3, batching="device_per_stream"), nodes=2, device_batch=3), "3 canonical"),
        (lambda: work(TWO, Options(2, batching="device_per_stream"), nodes=2, device_batch=6), "stream 1 .* on node 0"),
        (lambda: work(TWO, Options(2, batching="device_per_stream", block_records=9), device_batch=1), "of 0.0909"),
        (lambda: work(Layout([90]), Options(3), device_batch=0), "device_batch"),
        (lambda: Draws(-1), "-1"),
        (lambda: Draws(0).choice(3, 4), "4"),
        (lambda: Draws(0).integers(3, 3, 1), "3"),
        (lambda: Draws(0).shuffle(np.zeros(3)), "float64"),
        (lambda: Draws(0).shuffle(np.arange(6)[::2]), "contiguous"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, named: str) -> None:
    with pytest.raises(OrderError, match=named):
        call()
