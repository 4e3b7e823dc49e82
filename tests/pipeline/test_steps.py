"""Every step under the public suite."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.pipeline._functions import double, odd, pairs, slow_double, twice_the_batch
from tombola.pipeline import Pipeline, Shuffle, Source, Step
from tombola.testing import StepTests


class TestShuffle(StepTests):
    step = Shuffle(5, None, 7, None, 1, "positions")


class TestShuffleThatKeepsRecords(StepTests):
    step = Shuffle(5, None, 7, None, 1, "records")


class TestShuffleLargerThanTheData(StepTests):
    step = Shuffle(100, None, 7, None, 1, "positions")


class TestShuffleOfOne(StepTests):
    step = Shuffle(1, None, 7, None, 1, "positions")


class TestShuffleThatBeginsEarly(StepTests):
    step = Shuffle(8, None, 7, 2, 1, "positions")


class TestShuffleInBytes(StepTests):
    step = Shuffle(None, 130, 7, None, 1, "positions")


class TestShuffleOfSeveralShards(StepTests):
    step = Shuffle(4, None, 7, None, 3, "positions")


class _Chain(StepTests):
    """A method of the façade, in company."""

    def over(self, base: Pipeline) -> Pipeline:
        raise NotImplementedError

    def make(self) -> Pipeline:
        return self.over(Pipeline.from_iterable(self.records))

    def chains(self) -> list[Pipeline]:
        shards = [list(self.records)[at::3] for at in range(3)]
        base = Pipeline.from_generator(iter, shards=shards)
        return [
            self.make(),
            self.over(base.shuffle(4, seed=3)),
            self.over(base).shuffle(5, seed=4),
            self.over(base.shuffle(3, seed=1)).batch(2).prefetch(3).shuffle(2, seed=2),
            self.over(base.shuffle(6, seed=9)).repeat(2),
        ]


class TestMap(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.map(double)


class TestMapThreads(_Chain):
    worlds = ((2, 2), (2, 1))

    def over(self, base: Pipeline) -> Pipeline:
        return base.map(double, threads=2)


class TestMapBatched(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.map(twice_the_batch, batched=True, batch_size=4)


class TestMapBatchedThreads(_Chain):
    worlds = ((2, 3),)

    def over(self, base: Pipeline) -> Pipeline:
        return base.map(twice_the_batch, batched=True, batch_size=3, drop_last_batch=True, threads=2)


class TestMapAsync(_Chain):
    worlds = ((2, 1),)

    def over(self, base: Pipeline) -> Pipeline:
        return base.map(slow_double, ahead=5)


class TestMapUnordered(_Chain):
    ordered = False
    worlds = ((2, 1), (1, 2))

    def over(self, base: Pipeline) -> Pipeline:
        return base.map(double, threads=3, ordered=False)

    def chains(self) -> list[Pipeline]:
        # Alone: batches and shuffles above would tell the order again.
        return [self.make(), self.over(Pipeline.from_iterable(self.records).shuffle(4, seed=1))]


class TestFilter(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.filter(odd)


class TestTake(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.take(11)


class TestSkip(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.skip(6)


class TestBatch(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.batch(4)


class TestBatchThatDrops(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.batch(4, drop_last_batch=True)


class TestUnbatch(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.batch(4).unbatch()


class TestFlatten(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.map(pairs).flatten()


class TestRepeat(_Chain):
    worlds = ((2, 2), (2, 3))

    def over(self, base: Pipeline) -> Pipeline:
        return base.repeat(2)


class TestShard(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.shard(2, 1)


class TestPack(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.map(pairs).pack(5, end=0)


class TestPrefetch(_Chain):
    worlds = ((2, 1),)

    def over(self, base: Pipeline) -> Pipeline:
        return base.prefetch(4)


class TestWithFormat(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return base.with_format("numpy")


def _letters() -> Pipeline:
    return Pipeline.from_iterable([f"letter {n}" for n in range(9)]).shuffle(3, seed=5)


class TestConcatenate(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return Pipeline.concatenate([base, _letters()])


class TestZip(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return Pipeline.zip([base, _letters()])


class TestInterleave(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return Pipeline.interleave([base, _letters()])


class TestInterleaveAll(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return Pipeline.interleave([base, _letters()], stop="all_exhausted")


class TestMix(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return Pipeline.mix([base, _letters()], [3, 1], seed=2, stop="all_exhausted_without_replacement")


class TestMixAnew(_Chain):
    def over(self, base: Pipeline) -> Pipeline:
        return Pipeline.mix([base, _letters()], [0.2, 0.8], seed=2, stop="all_exhausted")


class RunningSum(Step):
    """A step of a user's own, with something to remember."""

    def begin(self) -> None:
        self._total = 0

    def iterate(self) -> Any:
        for record in self.source:
            self._total += record
            yield self._total

    def state(self) -> Any:
        return self._total

    def load(self, state: Any) -> None:
        self._total = state


class TestOwnStep(StepTests):
    step = RunningSum()

    def chains(self) -> list[Pipeline]:
        return super().chains()[:4]


class Squares(Source):
    """A source of a user's own."""

    def shards(self) -> int:
        return 3

    def open(self, shard: int, place: Any) -> Any:
        return (n * n for n in range(shard * 8 + place, shard * 8 + 8))


class TestOwnSource(StepTests):
    def make(self) -> Pipeline:
        return Pipeline(Squares())


class TestStartingGenerator(StepTests):
    records: ClassVar[Any] = np.arange(23)

    def make(self) -> Pipeline:
        return Pipeline.from_generator(_from, shards=[0, 10, 20], starts=True).shuffle(7, seed=1)


def _from(first: int, place: int) -> Any:
    yield from range(first + place, first + 10)
