"""The laws of an order, as a pytest class that a user subclasses."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tombola.errors import OrderError
from tombola.order import Layout, Order, OrderSpec, Visits, make_spec
from tombola.quality import score

_Ints = npt.NDArray[np.int64]

# Equal, ragged, with empty shards at both ends, one shard, single records, and one that is no round number.
_LAYOUTS = (
    Layout.equal(8, 16),
    Layout([5, 1, 9, 3, 7, 2, 11, 4, 6, 13]),
    Layout([0, 4, 0, 0, 17, 3, 1, 0]),
    Layout([23]),
    Layout([1] * 19),
    Layout([40, 1, 300, 2, 57]),
)
# 10^12 records: nothing that is O(records) survives it.
_LARGE = Layout.equal(1000, 10**9)
_SCORED = Layout.equal(64, 50)


class OrderTests:
    """What every order promises. Give a `spec`, or override `make`; pytest does the rest.

    spec
        The options of the order under test.
    layouts
        The layouts it is tried on, all small: every position is read. The default ones have 19 records or
        more. Give others when the options of the spec leave nothing to shuffle in so few.
    large
        A layout too large to read, tried at some positions. None for an order that needs O(records).
    scored
        The layout on which `tombola.quality.score` judges it, in batches of 16 unless the order has its own: it must
        find no flaw. Give another when the options of the spec do not fit 64 shards of 50 records, and None for an
        order that is not meant to mix, or whose epochs are too short to judge.
    seeds, epochs
        Those tried.
    epochs_differ, seeds_differ
        False for an order that is the same in every epoch, or with every seed.
    visits_exact
        True when `Order.visits` gives the very first and last position of each visit, not only bounds.
    visits_sharp
        False when a visit may be of a part that in the end is not read: bounds cut by the end of an epoch.

    >>> from tombola.order import Lanes
    >>> class TestSixteenLanes(OrderTests):
    ...     spec = Lanes(lanes=16)
    """

    spec: ClassVar[OrderSpec | None] = None
    layouts: ClassVar[Sequence[Layout]] = _LAYOUTS
    large: ClassVar[Layout | None] = _LARGE
    scored: ClassVar[Layout | None] = _SCORED
    seeds: ClassVar[Sequence[int]] = (0, 7, -(2**70))
    epochs: ClassVar[Sequence[int]] = (0, 1, 5)
    epochs_differ: ClassVar[bool] = True
    seeds_differ: ClassVar[bool] = True
    visits_exact: ClassVar[bool] = False
    visits_sharp: ClassVar[bool] = True

    # ---- what a subclass may override

    def make(self, layout: Layout, seed: int) -> Order:
        """A new instance of the order under test."""
        if self.spec is None:
            raise OrderError(f"{type(self).__name__} has neither a spec nor a make method; give it one of them")
        return self.spec.over(layout, seed=seed)

    def planned(self, order: Order, epoch: int) -> _Ints:
        """How many times an epoch is to visit each record: once, unless a subclass says otherwise."""
        return np.ones(order.layout.records, np.int64)

    def remake(self, order: Order) -> OrderSpec:
        """The spec of an order again, from its fingerprint; a subclass may add what is too large to stand in there."""
        return make_spec(order.fingerprint["order"], **order.fingerprint["options"])

    # ---- how pytest gets its cases

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Gives each test its layouts and seeds."""
        cls = metafunc.cls
        if "layout" in metafunc.fixturenames:
            ids = [f"{layout.records}in{layout.shards}" for layout in cls.layouts]
            metafunc.parametrize("layout", list(cls.layouts), ids=ids)
        if "seed" in metafunc.fixturenames:
            metafunc.parametrize("seed", list(cls.seeds), ids=[f"seed{number}" for number in range(len(cls.seeds))])

    # ---- the laws

    def test_coverage(self, layout: Layout, seed: int) -> None:
        """Every record comes exactly as often as planned."""
        order = self.make(layout, seed)
        for epoch in self.epochs:
            records = self._all(order, epoch)
            assert records.dtype == np.int64, f"epoch {epoch}: records have dtype {records.dtype}, not int64"
            assert records.min() >= 0 and records.max() < layout.records, f"epoch {epoch}: a record outside"
            counts = np.bincount(records, minlength=layout.records)
            _same(counts, self.planned(order, epoch), f"epoch {epoch}: visits of record", "planned")

    def test_find_is_the_inverse(self, layout: Layout, seed: int) -> None:
        """`find` gives all positions of a record, rising, and `at` leads back from each."""
        order = self.make(layout, seed)
        # Not in order, and one of them asked twice: each answer stands alone.
        asked = np.append(np.roll(np.arange(layout.records)[::-1], 3), layout.records // 2)
        for epoch in self.epochs:
            positions, starts = order.find_all(asked, epoch)
            assert starts.size == asked.size + 1 and starts[0] == 0 and starts[-1] == positions.size
            _same(
                np.diff(starts),
                self.planned(order, epoch)[asked],
                f"epoch {epoch}: positions found",
                "planned",
            )
            _same(
                order.at(positions, epoch),
                np.repeat(asked, np.diff(starts)),
                f"epoch {epoch}: at(find)",
                "asked",
            )
            rising = np.diff(positions) > 0
            borders = starts[(starts > 0) & (starts < positions.size)]
            rising[borders - 1] = True
            assert rising.all(), f"epoch {epoch}: the positions of one record do not rise"
            for i in (0, asked.size // 2):
                _same(order.find(int(asked[i]), epoch), positions[starts[i] : starts[i + 1]], "find", "find_all")

    def test_slice_equals_at(self, layout: Layout, seed: int) -> None:
        """`slice` is `at` of a range, for any bounds and step."""
        order = self.make(layout, seed)
        n = len(order)
        cuts = sorted({0, 1, n // 3, n // 2 + 1, n - 1, n} & set(range(n + 1)))
        for epoch in self.epochs:
            records = self._all(order, epoch)
            for start in cuts:
                for stop in (cut for cut in cuts if cut >= start):
                    _same(order.slice(start, stop, epoch), records[start:stop], f"slice({start}, {stop})", "at")
                    for step in sorted({2, 3, order.lanes, order.lanes + 1, 2 * order.lanes, n, n + 1}):
                        part = order.slice(start, stop, epoch, step=step)
                        _same(part, records[start:stop:step], f"slice({start}, {stop}, step={step})", "at")

    def test_scalars_and_shapes(self, layout: Layout, seed: int) -> None:
        """A whole number gives an int, an array gives an array of its shape."""
        order = self.make(layout, seed)
        assert type(order.at(0)) is int
        assert isinstance(order.at(np.int32(0)), int)
        square = np.array([[0, len(order) - 1], [len(order) // 2, 0]])
        answer = order.at(square, 1)
        assert answer.shape == square.shape
        assert [[order.at(int(t), 1) for t in row] for row in square] == answer.tolist()
        assert order.at([]).shape == (0,)
        assert order.slice(0, 0).shape == (0,)
        assert order.find_all([])[0].shape == (0,)
        assert isinstance(order.lanes, int) and order.lanes >= 1
        assert isinstance(order.run, int) and order.run >= 1

    def test_purity(self, layout: Layout, seed: int) -> None:
        """What an instance answered before, and which process it lives in, play no part."""
        order, again = self.make(layout, seed), self.make(layout, seed)
        forward = {epoch: self._all(order, epoch) for epoch in self.epochs}
        backward = {epoch: self._all(again, epoch) for epoch in reversed(self.epochs)}
        copy = pickle.loads(pickle.dumps(order))
        assert order == again == copy and hash(order) == hash(again) == hash(copy)
        for epoch in self.epochs:
            _same(backward[epoch], forward[epoch], f"epoch {epoch}: a second instance", "the first")
            _same(self._all(copy, epoch), forward[epoch], f"epoch {epoch}: the pickled copy", "the original")
            _same(self._all(order, epoch), forward[epoch], f"epoch {epoch}: the second reading", "the first")

    def test_name_and_fingerprint(self, layout: Layout, seed: int) -> None:
        """The fingerprint is plain JSON, and enough to make the same order again by its registered name."""
        order = self.make(layout, seed)
        mark = order.fingerprint
        assert json.loads(json.dumps(mark)) == mark, "the fingerprint does not survive JSON"
        assert mark["order"], "the order has no name: decorate its spec with tombola.order.register"
        again = self.remake(order).over(layout, seed=mark["seed"])
        assert again.fingerprint == mark
        for epoch in self.epochs:
            _same(self._all(again, epoch), self._all(order, epoch), "the order by its name", "the original")

    def test_epochs(self, layout: Layout, seed: int) -> None:
        """Epochs differ, or are the same where that is declared; seeds too; and not only their sum counts."""
        # Five epochs side by side: two alone may agree by chance where there are few records.
        order, other = self.make(layout, seed), self.make(layout, seed + 1)
        here = np.stack([self._all(order, epoch) for epoch in range(6)])
        there = np.stack([self._all(other, epoch) for epoch in range(6)])
        assert np.array_equal(here[:5], here[1:]) != self.epochs_differ, f"epochs_differ is {self.epochs_differ}"
        assert np.array_equal(here, there) != self.seeds_differ, f"seeds_differ is {self.seeds_differ}"
        if self.epochs_differ and self.seeds_differ:
            assert not np.array_equal(here[1:], there[:5]), "epoch 1 of a seed is epoch 0 of the next: derive keys"

    def test_visits_cover_what_is_read(self, layout: Layout, seed: int) -> None:
        """Every record read lies in a visit of its lane, and no visit is of something that is never read."""
        order = self.make(layout, seed)
        for epoch in self.epochs:
            visits, records = order.visits(epoch), self._all(order, epoch)
            _check_visits(order, visits)
            covered = np.zeros(len(order), bool)
            for i in range(len(visits)):
                lane, first, last = int(visits.lane[i]), int(visits.first[i]), int(visits.last[i])
                places = np.arange(first, last + 1)
                places = places[order.lane_of(places) == lane]
                inside = (records[places] >= visits.record_start[i]) & (records[places] < visits.record_stop[i])
                covered[places[inside]] = True
                if self.visits_exact:
                    used = places[inside]
                    assert used.size and used[0] == first and used[-1] == last, f"visit {i} is not exact"
            assert covered.all(), f"epoch {epoch}: no visit covers position {int(np.argmin(covered))}"
            slow = Order.visits(order, epoch)
            pairs, read = (_pairs(each) for each in (visits, slow))
            assert pairs >= read, f"epoch {epoch}: no visit of {sorted(read - pairs)} (lane, shard)"
            if self.visits_sharp and (order.lanes > 1 or self.visits_exact):
                assert pairs == read, f"epoch {epoch}: visits of {sorted(pairs ^ read)} (lane, shard) are made up"

    def test_bad_input(self, layout: Layout, seed: int) -> None:
        """What is outside is refused with an OrderError that names it."""
        order = self.make(layout, seed)
        n, records = len(order), layout.records
        calls: list[tuple[Callable[[], object], str]] = [
            (lambda: order.at(-1), "-1"),
            (lambda: order.at(n), str(n)),
            (lambda: order.at([0, n]), str(n)),
            (lambda: order.at(0.5), "float"),
            (lambda: order.at(0, -1), "-1"),
            (lambda: order.at(0, 1.0), "1.0"),  # type: ignore[call-overload]
            (lambda: order.find(records), str(records)),
            (lambda: order.find(-1), "-1"),
            (lambda: order.find_all([records]), str(records)),
            (lambda: order.slice(0, n + 1), str(n + 1)),
            (lambda: order.slice(-1, 1), "-1"),
            (lambda: order.slice(1, 0), "1"),
            (lambda: order.slice(0, 1, step=0), "0"),
            (lambda: order.visits(-1), "-1"),
        ]
        for number, (call, named) in enumerate(calls):
            try:
                call()
            except OrderError as error:
                assert named in str(error), f"call {number}: the message does not name {named}: {error}"
            else:
                raise AssertionError(f"call {number}, with {named}, was not refused")

    def test_large(self, seed: int) -> None:
        """Any position of 10^12 records, without reading them all."""
        if self.large is None:
            return
        order = self.make(self.large, seed)
        n = len(order)
        rng = np.random.default_rng(abs(seed))
        positions = np.unique(np.concatenate(([0, 1, n // 2, n - 1], rng.integers(0, n, 1000))))
        for epoch in self.epochs:
            records = order.at(positions, epoch)
            found, starts = order.find_all(records, epoch)
            for i, t in enumerate(positions.tolist()):
                assert t in found[starts[i] : starts[i + 1]], f"find({records[i]}) does not give {t}"
            stop = min(n, n // 3 + 300)
            run = order.slice(n // 3, stop, epoch)
            _same(run, order.at(np.arange(n // 3, stop), epoch), "a slice of the large layout", "at")

    def test_score(self, seed: int) -> None:
        """It mixes as well as its open shards allow: what a score finds against it is no flaw."""
        if self.scored is None:
            return
        order = self.make(self.scored, seed)
        size = None if order.batch_size else -(-16 // order.run) * order.run
        judged = score(order, batch_size=size, epochs=4)
        assert judged.verdict != "flawed", f"{judged}"

    def _all(self, order: Order, epoch: int) -> _Ints:
        return order.at(np.arange(len(order), dtype=np.int64), epoch)


def _same(got: _Ints, wanted: _Ints, what: str, other: str) -> None:
    if not np.array_equal(got, wanted):
        if got.shape != wanted.shape:
            raise AssertionError(f"{what}: shape {got.shape}, {other}: {wanted.shape}")
        at = int(np.argmax(got != wanted))
        raise AssertionError(f"{what}: {got[at]} at {at}, {other}: {wanted[at]}")


def _pairs(visits: Visits) -> set[tuple[int, int]]:
    return set(zip(visits.lane.tolist(), visits.shard.tolist(), strict=True))


def _check_visits(order: Order, visits: Visits) -> None:
    """The form of visits: in the epoch, on their lane, of one shard, ordered by lane and first position."""
    assert len(visits) > 0
    assert (visits.first >= 0).all() and (visits.last < len(order)).all() and (visits.first <= visits.last).all()
    assert (visits.record_start < visits.record_stop).all(), "a visit of no record"
    for record in (visits.record_start, visits.record_stop - 1):
        _same(order.layout.locate(record)[0], visits.shard, "the shard of a visit's records", "its shard")
    if order.lanes > 1:
        _same(order.lane_of(visits.first), visits.lane, "the lane of a visit's first position", "its lane")
        _same(order.lane_of(visits.last), visits.lane, "the lane of a visit's last position", "its lane")
    by = np.lexsort((visits.first, visits.lane))
    for column in (visits.lane, visits.first):
        _same(column[by], column, "visits in order of lane and first position", "as given")
