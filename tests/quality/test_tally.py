"""The one-pass counters of the C++ core against a slow twin that counts each batch anew."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tombola import _core


def slow(shard: list[int], size: int, readers: int, run: int, window: int) -> tuple[list[list[int]], list[list[int]]]:
    """What `BatchTally.add` writes, one list a row, and the shards of each batch."""
    rows: list[list[int]] = [[] for _ in range(6)]
    batches = [shard[a : a + size] for a in range(0, len(shard) - size + 1, size)]
    seen: set[int] = set()
    for k, batch in enumerate(batches):
        if k % window == 0:
            seen = set()
        ranks = [[s for i, s in enumerate(batch) if (k * size + i) // run % readers == r] for r in range(readers)]
        within = [sum(math.comb(c, 2) for c in Counter(rank).values()) for rank in ranks]
        rows[0].append(sum(math.comb(c, 2) for c in Counter(batch).values()))
        rows[1].append(len(set(batch)))
        rows[2].append(len(set(batch) - seen))
        rows[3].append(sum(within))
        rows[4].append(sum(len(set(rank)) for rank in ranks))
        rows[5].append(max(within))
        seen |= set(batch)
    return rows, batches


def slow_stretches(shard: list[int], gap: int) -> tuple[set[tuple[int, int, int]], int]:
    stretches, worst = set(), 0
    for s in set(shard):
        at = [t for t, other in enumerate(shard) if other == s]
        worst = max(worst, max(b - a for a, b in zip([-1, *at], [*at, len(shard)], strict=True)))
        begin = at[0]
        for a, b in zip(at, [*at[1:], len(shard) + gap + 1], strict=True):
            if b - a > gap:
                stretches.add((s, begin, a))
                begin = b
    return stretches, worst


@given(data=st.data())
def test_tally_equals_its_slow_twin(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=12))
    readers, run = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    size = readers * run * data.draw(st.integers(1, 5))
    window, gap = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 40))
    batches = data.draw(st.integers(1, 8))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    records = np.array(
        data.draw(st.lists(st.integers(0, int(starts[-1]) - 1), min_size=size * batches, max_size=size * batches)),
        np.int64,
    )
    shard = (np.searchsorted(starts, records, side="right") - 1).tolist()
    tally = _core.BatchTally(starts, size, readers, run, window, gap)
    cut = data.draw(st.integers(0, batches))
    out = []
    for first, stop in ((0, cut), (cut, batches)):
        table = np.empty((6, stop - first), np.int64)
        tally.add(first * size, records[first * size : stop * size], table)
        out.append(table)
    assert np.concatenate(out, axis=1).tolist() == slow(shard, size, readers, run, window)[0]
    stretches, worst = slow_stretches(shard, gap)
    assert set(zip(*(a.tolist() for a in tally.stretches()), strict=True)) == stretches
    unread = len(sizes) > len(set(shard))
    assert tally.worst_gap(len(shard)) == (len(shard) + 1 if unread else worst)


@given(data=st.data())
def test_label_batches_equal_their_slow_twin(data: st.DataObject) -> None:
    classes, size = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    batches, watched = data.draw(st.integers(0, 6)), data.draw(st.integers(0, classes - 1))
    labels = data.draw(st.lists(st.integers(0, classes - 1), min_size=size * batches, max_size=size * batches))
    entropy, out = np.empty(batches), np.empty((2, batches), np.int64)
    _core.label_batches(np.array(labels, np.int32), size, classes, watched, entropy, out)
    for k in range(batches):
        counts = Counter(labels[k * size : (k + 1) * size])
        assert entropy[k] == pytest.approx(-sum(c / size * math.log(c / size) for c in counts.values()), abs=1e-12)
        assert out[:, k].tolist() == [sum(math.comb(c, 2) for c in counts.values()), counts[watched]]


STARTS = np.array([0, 4, 8], np.int64)


@pytest.mark.parametrize("wrong", [(0, 1, 1, 1), (4, 0, 1, 1), (4, 1, 0, 1), (4, 1, 1, 0)])
def test_a_tally_refuses_nonsense(wrong: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        _core.BatchTally(STARTS, *wrong, 1)


def test_the_core_refuses_outputs_that_do_not_fit() -> None:
    tally: Any = _core.BatchTally(STARTS, 4, 1, 1, 1, 1)
    with pytest.raises(ValueError, match="whole batches"):
        tally.add(0, np.zeros(7, np.int64), np.empty((6, 2), np.int64))
    with pytest.raises(ValueError, match="six rows"):
        tally.add(0, np.zeros(8, np.int64), np.empty((5, 2), np.int64))
    with pytest.raises(ValueError, match="fit together"):
        _core.label_batches(np.zeros(8, np.int32), 4, 2, 5, np.empty(2), np.empty((2, 2), np.int64))
