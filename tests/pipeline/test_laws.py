"""One law over random chains of steps: cut anywhere, resume in any other world: nothing is lost or comes twice."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline._functions import double, odd
from tombola.pipeline import Pipeline, merge_states

Change = Callable[[Pipeline], Pipeline]


def _source(shards: list[int]) -> Iterator[Any]:
    yield from shards


def _listed(record: Any) -> list[Any]:
    return [record, record]


def _tokens(record: Any) -> list[int]:
    return [len(str(record))] * (len(str(record)) % 4)


def _five() -> Pipeline:
    return Pipeline.from_iterable(range(5)).shuffle(2)


_small = st.integers(1, 6)
_seed = st.integers(0, 50)
STEPS: dict[str, st.SearchStrategy[Change]] = {
    "shuffle": st.builds(
        lambda size, seed, keep, width: lambda one: one.shuffle(size, seed=seed, keep=keep, input_shards=width),
        st.integers(1, 9), _seed, st.sampled_from(["positions", "records"]), st.integers(1, 3),
    ),
    "initial": st.builds(lambda size, seed: lambda one: one.shuffle(size + 2, seed=seed, initial=2), _small, _seed),
    "bytes": st.builds(lambda seed: lambda one: one.shuffle(buffer_bytes=300, seed=seed), _seed),
    "map": st.just(lambda one: one.map(str)),
    "threads": st.just(lambda one: one.map(str, threads=2)),
    "batched": st.builds(lambda size: lambda one: one.map(list, batched=True, batch_size=size), _small),
    "filter": st.just(lambda one: one.filter(lambda record: len(str(record)) % 5 != 1)),
    "take": st.builds(lambda count: lambda one: one.take(count), st.integers(0, 20)),
    "skip": st.builds(lambda count: lambda one: one.skip(count), st.integers(0, 8)),
    "batch": st.builds(lambda size, drop: lambda one: one.batch(size, drop_last_batch=drop), _small, st.booleans()),
    "unbatch": st.builds(lambda size: lambda one: one.batch(size).unbatch(), _small),
    "flatten": st.just(lambda one: one.map(_listed).flatten()),
    "pack": st.builds(lambda tokens: lambda one: one.map(_tokens).pack(tokens), _small),
    "repeat": st.builds(lambda times: lambda one: one.repeat(times), st.integers(1, 2)),
    "shard": st.builds(lambda count: lambda one: one.shard(count, 0), st.integers(1, 2)),
    "prefetch": st.builds(lambda records: lambda one: one.prefetch(records), _small),
    "format": st.just(lambda one: one.with_format("numpy")),
    "concatenate": st.just(lambda one: Pipeline.concatenate([one, _five()])),
    "zip": st.just(lambda one: Pipeline.zip([one, Pipeline.from_iterable(range(30)).shuffle(3)])),
    "mix": st.builds(
        lambda seed, stop: lambda one: Pipeline.mix([one, _five()], [2, 1], seed=seed, stop=stop),
        _seed, st.sampled_from(["first_exhausted", "all_exhausted", "all_exhausted_without_replacement"]),
    ),
}  # fmt: skip
chains = st.lists(st.sampled_from(sorted(STEPS)).flatmap(lambda name: STEPS[name]), min_size=1, max_size=5)
shards = st.lists(st.integers(0, 9), min_size=1, max_size=5)


def _make(sizes: list[int], chain: list[Change]) -> Pipeline:
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    records = [list(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    made = Pipeline.from_generator(_source, shards=records, lengths=sizes)
    for change in chain:
        made = change(made)
    return made


def _plain(record: Any) -> Any:
    return json.loads(json.dumps(record, default=lambda value: value.tolist()))


def _run(pipeline: Pipeline, cut: int) -> tuple[list[Any], dict[str, Any]]:
    head = [_plain(record) for record in islice(iter(pipeline), cut)]
    # Not as JSON: a buffer that keeps its records may hold arrays.
    return head, pickle.loads(pickle.dumps(pipeline.state_dict()))


@settings(max_examples=300)
@given(shards, chains, st.lists(st.integers(0, 12), min_size=1, max_size=4))
def test_cut_anywhere_and_go_on(sizes: list[int], chain: list[Change], cuts: list[int]) -> None:
    whole = [_plain(record) for record in _make(sizes, chain)]
    got: list[Any] = []
    pipeline = _make(sizes, chain)
    for cut in cuts:
        head, state = _run(pipeline, min(cut, len(whole) - len(got)))
        got += head
        pipeline = _make(sizes, chain)
        pipeline.load_state_dict(state)
    if len(got) < len(whole):
        got += [_plain(record) for record in pipeline]
    assert got == whole


@settings(max_examples=300)
@given(shards, chains, st.tuples(_small, _small, _small, _small), st.integers(0, 8), st.integers(0, 4))
def test_any_world_and_then_any_other(
    sizes: list[int], chain: list[Change], world: tuple[int, int, int, int], cut: int, second: int
) -> None:
    readers, first, then, last = world
    whole = Counter(map(str, map(_plain, _make(sizes, chain).with_readers(readers))))
    given_out: Counter[str] = Counter()
    state = None
    for ranks, count in ((first, cut), (then, second), (last, 10**6)):
        states = []
        for rank in range(ranks):
            one = _make(sizes, chain).with_readers(readers).split_by_node(rank, ranks)
            if state is not None:
                one.load_state_dict(state)
            epoch = one.epoch
            head, after = _run(one, count)
            states.append(after)
            # One that reads alone goes on with the next epoch where nothing was left of the last.
            given_out.update(map(str, head) if one.epoch == epoch else ())
        if count < 10**6:
            state = merge_states(states)
            if state["epoch"]:
                break
    assert given_out == whole


@settings(max_examples=100)
@given(shards, chains, st.integers(1, 4), st.integers(1, 4), st.integers(0, 5), st.integers(1, 4))
def test_even_ranks_give_the_same_number(
    sizes: list[int], chain: list[Change], readers: int, ranks: int, cut: int, later: int
) -> None:
    def make(rank: int, ranks: int) -> Pipeline:
        return _make(sizes, chain).with_readers(readers).split_by_node(rank, ranks, even=True)

    if make(0, 1).length() is None:
        return
    counts = {len(list(make(rank, ranks))) for rank in range(ranks)}
    assert len(counts) == 1
    total = sum(1 for _ in _make(sizes, chain).with_readers(readers))
    assert make(0, 1).length() == total
    # As many as the one who has the least.
    assert counts == {
        min(len(list(_make(sizes, chain).with_readers(readers).split_by_node(r, ranks))) for r in range(ranks))
    }
    count = min(cut, *counts)
    states = [_run(make(rank, ranks), count)[1] for rank in range(ranks)]
    after = []
    for rank in range(later):
        one = make(rank, later)
        one.load_state_dict(merge_states(states))
        after.append(len(list(one)) if one.epoch == 0 else 0)
    assert len(set(after)) == 1
    again = []
    for rank, state in enumerate(states):
        one = make(rank, ranks)
        one.load_state_dict(state)
        again.append(len(list(one)) if one.epoch == 0 and count < min(counts) else min(counts) - count)
    assert set(again) == {min(counts) - count}


def test_functions_of_the_suite_are_what_they_say() -> None:
    assert double(2) == 4
    assert odd(3)
