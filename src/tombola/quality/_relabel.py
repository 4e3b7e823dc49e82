"""What locality explains: the same runs, with other shards of like size in place of theirs, shuffled inside.

An order that reads shards in random order and their records in random order looks like this, whichever shards it keeps
open and for how long. What its numbers lack after that is no matter of locality. Where the layout has streams a shard's
place is taken by one of its own stream: how the streams are dealt is the plan's, and stays as it is.
"""

from __future__ import annotations

import math

import numpy as np

from tombola._ints import Ints
from tombola.order import Layout
from tombola.quality import _perfect
from tombola.quality._feature import Feature
from tombola.quality._perfect import Reals
from tombola.quality._relations import apart
from tombola.quality._result import normal_score

TIMES = 12
_POOL = 1 << 16  # shards that may take another's place
_LIKE = 1.25  # shards of like size: a factor
_RECORDS_MAX = 1 << 22  # records of all shards met up to which each is drawn at most once


class Relabelled:
    """Numbers of some runs, and of the same runs relabelled with a seed."""

    def __init__(self, read: list[Ints], layout: Layout, feature: Feature | None, size: int, seed: int) -> None:
        self.read, self.layout, self.feature, self.size = read, layout, feature, size
        self.seed = seed
        self.rng = np.random.default_rng(seed % (1 << 63))
        self.reaches = [round(_perfect.distance_at(c, layout.records)) for c in (0.05, 0.5, 0.95)]
        records = np.concatenate(read)
        self.shard, _ = layout.locate(records)
        self.met, self.at, self.times = np.unique(self.shard, return_inverse=True, return_counts=True)
        #: Which read of its shard each row is.
        self.turn = np.empty(self.at.size, np.int64)
        order = np.argsort(self.at, kind="stable")
        self.turn[order] = np.arange(self.at.size) - (np.cumsum(self.times) - self.times)[self.at[order]]
        sizes = layout.sizes
        filled = np.flatnonzero(sizes > 0)
        others = filled if filled.size <= _POOL else self.rng.choice(filled, _POOL, replace=False)
        self.pool = np.union1d(self.met, others)
        self.group = np.floor(np.log(sizes[self.pool]) / math.log(_LIKE)).astype(np.int64)
        if layout.streams is not None:
            self.group += layout.streams[self.pool] * (int(self.group.max()) + 1)
        self.own = np.argsort(self.group, kind="stable")

    def scores(self, lags: tuple[int, ...], floors: dict[str, float]) -> dict[str, float]:
        """Normal score of each number against its relabelled values; the scatter is never below the floor given."""
        seen = self._numbers(self.read, lags)
        drawn = [self._numbers(self._draw(), lags) for _ in range(TIMES)]
        out = {}
        for name, value in seen.items():
            values = np.array([d[name] for d in drawn])
            scale = max(float(values.std(ddof=1)), floors.get(name, 0.0)) * math.sqrt(1 + 1 / TIMES)
            gap = value - float(values.mean())
            out[name] = normal_score(gap / scale, TIMES - 1) if scale > 0 and abs(gap) > 1e-12 else 0.0
        return out

    def _draw(self) -> list[Ints]:
        other = np.empty(self.pool.size, np.int64)
        other[self.own] = np.lexsort((self.rng.random(self.pool.size), self.group))
        target = self.pool[other[np.searchsorted(self.pool, self.met)]]
        sizes = self.layout.sizes[target]
        if int(sizes.sum()) <= _RECORDS_MAX:
            begin = np.cumsum(sizes) - sizes
            unit = np.repeat(np.arange(target.size), sizes)
            # Shuffled within each unit: a sort of one key is many times faster than one of two.
            mixed = np.argsort(unit + self.rng.random(unit.size)) - begin[unit]
            offset = mixed[begin[self.at] + self.turn % sizes[self.at]]
        else:
            offset = self.rng.integers(0, sizes[self.at])
        records = self.layout.starts[target[self.at]] + offset
        return np.split(records, np.cumsum([r.size for r in self.read])[:-1])

    def _numbers(self, read: list[Ints], lags: tuple[int, ...]) -> dict[str, float]:
        size, m = self.size, self.layout.records
        rows = np.concatenate([r[: r.size // size * size] for r in read])
        away = apart(rows, size, self.seed)
        out = {f"radius_{p}": float((away <= d).mean()) for p, d in zip((5, 50, 95), self.reaches, strict=True)}
        centre, variance = (m - 1) / 2, (float(m) ** 2 - 1) / 12
        for k in lags:
            products = [((r[k:] - centre) * (r[:-k] - centre)).mean() for r in read]
            out[f"lag {k}"] = float(np.mean(products)) / variance
        if self.feature is not None:
            columns: Reals = self.feature.batches(rows, size).mean(1)
            out |= dict(zip(self.feature.columns, columns.tolist(), strict=True))
        return out
