"""The shuffle buffer: its twin, its bounds, and that it is uniform."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tombola import _core
from tombola.errors import InputError
from tombola.pipeline import Pipeline, SlowShuffleBuffer


def _size(record: int) -> int:
    return 8 + record % 50


_BOUNDS = st.tuples(
    st.integers(0, 300),
    st.integers(1, 20),
    st.sampled_from([0, 100, 300]),
    st.integers(0, 20),
    st.integers(0, 2**64 - 1),
)


@given(_BOUNDS, st.integers(0, 320))
def test_native_is_its_slow_twin(bounds: tuple[int, int, int, int, int], cut: int) -> None:
    records, records_max, bytes_max, initial, key = bounds
    initial = min(initial, records_max)
    marks: dict[str, list[int]] = {"fast": [], "slow": []}

    def make(kind: Callable[..., Any], name: str, source: Iterator[int]) -> Any:
        def mark(number: int) -> int:
            marks[name].append(number)
            return number + 7

        return kind(source, key, records_max, bytes_max, initial, _size if bytes_max else None, mark)

    source = iter(range(records)), iter(range(records))
    fast, slow = make(_core.ShuffleBuffer, "fast", source[0]), make(SlowShuffleBuffer, "slow", source[1])
    head = list(itertools.islice(fast, cut))
    assert head == list(itertools.islice(slow, cut))
    assert marks["fast"] == marks["slow"]
    place = (fast.emitted, fast.pulled, fast.done)
    assert place == (slow.emitted, slow.pulled, slow.done)
    assert fast.ordinals().tolist() == slow.ordinals().tolist()
    assert fast.records() == slow.records()
    # Each goes on from the state of the other.
    again, twin = make(_core.ShuffleBuffer, "fast", source[0]), make(SlowShuffleBuffer, "slow", source[1])
    again.load(slow.records(), slow.ordinals(), *place, slow.pulled)
    twin.load(fast.records(), fast.ordinals(), *place, fast.pulled)
    rest = list(again)
    assert rest == list(twin)
    assert sorted(head + rest) == list(range(records))


@given(st.integers(1, 200), st.integers(1, 60), st.integers(0, 2**32))
def test_no_record_moves_forward_by_more_than_the_buffer(records: int, buffer: int, seed: int) -> None:
    out = list(Pipeline.from_iterable(range(records)).shuffle(buffer, seed=seed))
    assert sorted(out) == list(range(records))
    assert all(record - place <= buffer - 1 for place, record in enumerate(out))


def test_a_buffer_of_one_leaves_the_order() -> None:
    assert list(Pipeline.from_iterable(range(50)).shuffle(1, seed=4)) == list(range(50))


def test_initial_lets_it_begin_early() -> None:
    taken = []

    def source() -> Iterator[int]:
        for record in range(100):
            taken.append(record)
            yield record

    reading = iter(Pipeline.from_generator(source).shuffle(50, seed=1, initial=5))
    next(reading)
    assert len(taken) == 5
    next(reading)
    assert len(taken) == 7  # two for each that goes out, until it is full
    assert len([*reading]) == 98


def test_bytes_bound_the_buffer() -> None:
    texts = ["x" * (n % 700) for n in range(500)]
    pipeline = Pipeline.from_iterable(texts).shuffle(buffer_bytes=20_000, seed=2)
    reading = iter(pipeline)
    held = []
    for _ in reading:
        parts = pipeline.state_dict()["parts"]
        state = parts[0]["chain"] if parts else None
        if state and state["counts"][1] < 500:
            emitted, pulled, _ = state["counts"]
            held.append(pulled - emitted)
    assert 10 < min(held) < max(held) < 20_000 / 56


@pytest.mark.parametrize("readers", [1, 2])
def test_a_buffer_as_large_as_the_data_is_uniform(readers: int) -> None:
    """Over all orders of what a reader reads."""
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(4800):
        out = list(Pipeline.from_iterable(range(4 * readers)).shuffle(100, seed=seed).with_readers(readers))
        counts[tuple(out[::readers])] += 1
    assert len(counts) == 24
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_what_leaves_the_buffer_is_uniform_over_it() -> None:
    """Each slot is as likely: how long records stay is geometric."""
    waits = Counter[int]()
    buffer, records = 8, 40_000
    for place, record in enumerate(Pipeline.from_iterable(range(records)).shuffle(buffer, seed=11)):
        if buffer <= record < records - 200:
            waits[min(place - record + buffer - 1, 40)] += 1
    total = sum(waits.values())
    chance = [(1 / buffer) * (1 - 1 / buffer) ** wait for wait in range(40)]
    expected = np.array([*chance, 1 - sum(chance)]) * total
    assert stats.chisquare([waits[wait] for wait in range(41)], expected).pvalue > 1e-4


def test_epochs_passes_readers_and_seeds_are_unlike() -> None:
    pipeline = Pipeline.from_iterable(range(200)).shuffle(200, seed=7)
    orders = [list(pipeline), list(pipeline), list(Pipeline.from_iterable(range(200)).shuffle(200, seed=8))]
    twice = list(Pipeline.from_iterable(range(200)).shuffle(200, seed=7).repeat(2))
    orders += [twice[200:]]
    assert twice[:200] == orders[0]
    both = list(Pipeline.from_iterable(range(200)).shuffle(200, seed=7).with_readers(2))
    orders += [[one // 2 for one in both[0::2]], [one // 2 for one in both[1::2]]]
    for one, other in itertools.combinations(orders, 2):
        size = min(len(one), len(other))
        assert abs(stats.spearmanr(one[:size], other[:size]).statistic) < 0.35
        assert one[:size] != other[:size]


@pytest.mark.parametrize(
    "make", [lambda: np.random.default_rng(5), lambda: __import__("torch").Generator().manual_seed(5)]
)
def test_a_generator_gives_the_seed(make: Callable[[], Any]) -> None:
    generator = make()
    first, second = (list(Pipeline.from_iterable(range(30)).shuffle(30, generator=generator)) for _ in range(2))
    assert first != second
    assert first == list(Pipeline.from_iterable(range(30)).shuffle(30, generator=make()))


def _shards(shard: int) -> Iterator[tuple[int, int]]:
    yield from ((shard, record) for record in range(5))


def _shard_order(pipeline: Pipeline) -> list[int]:
    return list(dict.fromkeys(shard for shard, _ in pipeline))


def test_the_order_of_shards_is_shuffled_anew_in_each_epoch() -> None:
    pipeline = Pipeline.from_generator(_shards, shards=8).shuffle(1, seed=3)
    first, second = _shard_order(pipeline), _shard_order(pipeline)
    assert sorted(first) == sorted(second) == list(range(8))
    assert list(range(8)) != first != second


@pytest.mark.parametrize("pin", [lambda one: one.take(100), lambda one: one.skip(0)])
def test_take_and_skip_pin_the_order_of_shards(pin: Callable[[Pipeline], Pipeline]) -> None:
    pinned = pin(Pipeline.from_generator(_shards, shards=8)).shuffle(1, seed=3)
    assert _shard_order(pinned) == list(range(8))
    # Above the shuffle they take of what it has shuffled.
    assert _shard_order(pin(Pipeline.from_generator(_shards, shards=8).shuffle(1, seed=3))) != list(range(8))


def test_several_shards_fill_the_buffer() -> None:
    plain = list(Pipeline.from_generator(_shards, shards=8).shuffle(1, seed=3))
    mixed = list(Pipeline.from_generator(_shards, shards=8).shuffle(1, seed=3, input_shards=4))
    assert sorted(plain) == sorted(mixed)
    assert len({shard for shard, _ in plain[:4]}) == 1
    assert len({shard for shard, _ in mixed[:4]}) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"buffer_size": 0}, "buffer_size is 0; it must be between 1 and"),
        ({"buffer_size": -3}, "buffer_size is -3"),
        ({"buffer_size": 2.5}, "buffer_size is 2.5; it must be a whole number"),
        ({"buffer_bytes": 0}, "buffer_bytes is 0"),
        ({"buffer_size": 4, "initial": 5}, "initial is 5; it must be between 1 and 4"),
        ({"input_shards": 0}, "input_shards is 0"),
        ({"keep": "nothing"}, "keep is 'nothing'"),
        ({"seed": "a"}, "seed is 'a'"),
        ({"readers": 0}, "readers is 0"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Pipeline.from_iterable(range(3)).shuffle(**options)
