"""The public suite on every order here, on one that a user wrote, and on orders that break a law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from tombola.order import Global, Lanes, Layout, Order, OrderSpec, Permutation, Sequential, register
from tombola.testing import OrderTests

Ints = npt.NDArray[np.int64]


class TestSequential(OrderTests):
    spec = Sequential()
    scored = None  # no shuffle
    epochs_differ = False
    seeds_differ = False
    visits_exact = True


class TestGlobal(OrderTests):
    spec = Global()


class TestLanesDefault(OrderTests):
    spec = Lanes()
    visits_exact = True


class TestOneLane(OrderTests):
    spec = Lanes(lanes=1)
    visits_exact = True


class TestThreeLanesFreshHomes(OrderTests):
    spec = Lanes(lanes=3, homes="fresh")
    visits_exact = True


class TestSixteenLanesNoPhase(OrderTests):
    spec = Lanes(lanes=16, phase="none")
    visits_exact = True


class TestWindowOfTwoShards(OrderTests):
    spec = Lanes(lanes=2, window=2)


class TestWindowOfFiveShards(OrderTests):
    spec = Lanes(lanes=3, window=5, homes="fresh")


class TestWindowOfOneShard(OrderTests):
    spec = Lanes(lanes=1, window=1)


class TestWindowOfRecords(OrderTests):
    spec = Lanes(lanes=2, window_records=5)


class TestLanesFromRadius(OrderTests):
    spec = Lanes(radius_records=40)
    visits_exact = True


# ---- an order in one file: a rotation that starts somewhere else each epoch


@register("tests/rotated")
@dataclass(frozen=True)
class Rotated(OrderSpec):
    stride: int = 1

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        return RotatedOrder(self, layout, seed)


class RotatedOrder(Order):
    def _begin(self, epoch: int) -> int:
        return Permutation(len(self), self.seed, "tests/rotated").at(epoch % len(self))

    def _at(self, positions: Ints, epoch: int) -> Ints:
        return (positions + self._begin(epoch)) % len(self)

    def _find(self, records: Ints, epoch: int) -> Ints:
        return (records - self._begin(epoch)) % len(self)


class TestRotated(OrderTests):
    spec = Rotated()
    scored = None  # no shuffle


# ---- an order that reads every record twice, but those of the last shard never


@register("tests/twice")
@dataclass(frozen=True)
class Twice(OrderSpec):
    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        return TwiceOrder(self, layout, seed)


class TwiceOrder(Order):
    @property
    def read(self) -> int:
        starts = self.layout.filled_starts
        return int(starts[-2]) if starts.size > 2 else int(starts[-1])

    def __len__(self) -> int:
        return 2 * self.read

    def _permutation(self, epoch: int) -> Permutation:
        return Permutation(len(self), self.seed, "tests/twice", epoch)

    def _at(self, positions: Ints, epoch: int) -> Ints:
        return self._permutation(epoch).at(positions) // 2

    def _find_all(self, records: Ints, epoch: int) -> tuple[Ints, Ints]:
        is_read = records < self.read
        both = [self._permutation(epoch).find(2 * records[is_read] + k) for k in (0, 1)]
        return np.sort(np.stack(both, axis=1)).reshape(-1), np.append(0, np.cumsum(2 * is_read))


class TestTwice(OrderTests):
    spec = Twice()
    large = None

    def planned(self, order: Order, epoch: int) -> Ints:
        assert isinstance(order, TwiceOrder)
        return np.where(np.arange(order.layout.records) < order.read, 2, 0)


def test_an_order_that_cannot_find_says_so() -> None:
    class Blank(Order):
        def _at(self, positions: Ints, epoch: int) -> Ints:
            return positions

    with pytest.raises(NotImplementedError, match="Blank implements neither _find nor _find_all"):
        Blank(Sequential(), Layout([3]), 0).find(1)


# ---- orders that break a law: the suite must find each


class Doubled(RotatedOrder):
    """Reads its first record twice and its last never."""

    def _at(self, positions: Ints, epoch: int) -> Ints:
        return super()._at(np.where(positions == len(self) - 1, 0, positions), epoch)


class Lost(RotatedOrder):
    """Finds records one position off."""

    def _find(self, records: Ints, epoch: int) -> Ints:
        return (super()._find(records, epoch) + 1) % len(self)


class Sliced(RotatedOrder):
    """Has a fast path for slices that is wrong at the end."""

    def _slice(self, start: int, stop: int, step: int, epoch: int) -> Ints:
        out = super()._slice(start, stop, step, epoch)
        return out[::-1] if stop == len(self) else out


class Remembers(RotatedOrder):
    """Depends on how often it was asked."""

    asked = 0

    def _begin(self, epoch: int) -> int:
        self.asked += 1
        return self.asked % len(self)


class Stuck(RotatedOrder):
    """The same in every epoch, without saying so."""

    def _begin(self, epoch: int) -> int:
        return super()._begin(0)


class Sums(RotatedOrder):
    """Adds the epoch to the seed."""

    def _begin(self, epoch: int) -> int:
        return (self.seed + epoch) % len(self)


class Blind(RotatedOrder):
    """Says that the shards are needed in the second half only."""

    def visits(self, epoch: int = 0):  # type: ignore[no-untyped-def]
        visits = super().visits(epoch)
        object.__setattr__(visits, "first", np.minimum(visits.first + len(self) // 2, visits.last))
        return visits


class Lenient(RotatedOrder):
    """Answers outside the epoch."""

    def at(self, t, epoch=0):  # type: ignore[no-untyped-def, override]
        return super().at(np.asarray(t) % len(self), epoch) if np.ndim(t) else super().at(int(t) % len(self), epoch)


Law = Callable[[OrderTests, Layout, int], None]


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (Doubled, OrderTests.test_coverage),
        (Doubled, OrderTests.test_find_is_the_inverse),
        (Lost, OrderTests.test_find_is_the_inverse),
        (Sliced, OrderTests.test_slice_equals_at),
        (Remembers, OrderTests.test_purity),
        (Stuck, OrderTests.test_epochs),
        (Sums, OrderTests.test_epochs),
        (Blind, OrderTests.test_visits_cover_what_is_read),
        (Lenient, OrderTests.test_bad_input),
    ],
)
def test_the_suite_finds_a_broken_law(broken: type[Order], law: Law) -> None:
    class Suite(OrderTests):
        def make(self, layout: Layout, seed: int) -> Order:
            return broken(Rotated(), layout, seed)

    with pytest.raises(AssertionError):
        law(Suite(), Layout([5, 0, 9, 3]), 7)


def test_the_suite_finds_an_order_that_does_not_mix() -> None:
    class Suite(OrderTests):
        spec = Rotated()

    with pytest.raises(AssertionError, match="flaw: radius 5"):
        Suite().test_score(7)


def test_a_suite_without_an_order_says_so() -> None:
    with pytest.raises(ValueError, match="neither a spec nor a make method"):
        OrderTests().make(Layout([1]), 0)
