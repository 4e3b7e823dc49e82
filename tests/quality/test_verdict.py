"""Verdicts: every number can produce a finding, fair orders never do, and coverage is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tombola._ints import Ints
from tombola.errors import InputError
from tombola.order import Lanes, Layout, Order, OrderSpec, Permutation, Visits
from tombola.quality import Score, _coverage, _source, score

LAYOUT = Layout.equal(200, 200)
M = LAYOUT.records


def rows(one: Callable[[np.random.Generator], Ints], epochs: int = 4) -> Ints:
    return np.array([one(np.random.default_rng(e)) for e in range(epochs)])


def blocks(size: int, records: int = M) -> Callable[[np.random.Generator], Ints]:
    return lambda rng: np.arange(records).reshape(-1, size)[rng.permutation(records // size)].reshape(-1)


def flaws(result: Score) -> str:
    return " | ".join(f.what for f in result.findings if f.flaw)


@pytest.mark.parametrize(("size", "name"), [(2, "storage places at lag 1"), (50, "radius 5"), (1000, "radius 50")])
def test_blocks_of_neighbours_are_a_flaw(size: int, name: str) -> None:
    found = score(rows(blocks(size)), layout=Layout([M]))
    assert found.verdict == "flawed"
    assert name in flaws(found)


def test_blocks_are_a_flaw_of_an_array_too() -> None:
    """The neighbourhoods that stand for its shards are no excuse."""
    before = np.arange(M) * 3
    assert "radius 5" in flaws(score(before[blocks(50)(np.random.default_rng(0))], before=before))


def test_batches_of_one_label_are_a_flaw_where_shards_do_not_explain_them() -> None:
    label = np.random.default_rng(9).integers(0, 10, M)

    def one_label(rng: np.random.Generator) -> Ints:
        line = np.concatenate([rng.permutation(np.flatnonzero(label == c)) for c in rng.permutation(10)])
        return line.reshape(-1, 50)[rng.permutation(M // 50)].reshape(-1)

    found = flaws(score(rows(one_label), layout=LAYOUT, feature=label, batch_size=50))
    assert "deff" in found
    assert "entropy" in found


def test_batches_of_like_values_are_a_flaw() -> None:
    value = np.random.default_rng(5).normal(size=M)
    order = np.argsort(value).reshape(-1, 50)
    found = score(
        rows(lambda rng: order[rng.permutation(M // 50)].reshape(-1)), layout=LAYOUT, feature=value, batch_size=50
    )
    assert "deff is 49" in flaws(found)


@pytest.mark.parametrize("epochs", [1, 2, 4, 16])
def test_shards_shuffled_and_shuffled_inside_are_local(epochs: int) -> None:
    layout = Layout.equal(60, 50)

    def whole(rng: np.random.Generator) -> Ints:
        return np.concatenate([s * 50 + rng.permutation(50) for s in rng.permutation(60)])

    for seed in range(15):
        ids = np.array([whole(np.random.default_rng(100 * seed + e)) for e in range(epochs)])
        result = score(ids, layout=layout, batch_size=16, feature=np.arange(3000) // 300, seed=seed)
        assert result.verdict == "local", str(result)


@pytest.mark.parametrize("epochs", [1, 2, 4])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_few_epochs_of_lanes_have_no_flaw(lanes: int, epochs: int) -> None:
    layout = Layout.equal(100, 60)
    for seed in range(6):
        order = Lanes(lanes=lanes).over(layout, seed=seed)
        result = score(order, epochs=epochs, feature=np.arange(6000) // 600)
        assert result.verdict in ("local", "stratified"), str(result)


def test_perfect_shuffles_raise_no_alarm() -> None:
    layouts = [Layout.equal(16, 8), Layout.equal(600, 1), Layout([2**i for i in range(11)]), Layout.equal(4, 500)]
    for seed in range(100):
        rng = np.random.default_rng(seed)
        layout = layouts[seed % 4]
        m, epochs = layout.records, (1, 2, 4)[seed % 3]
        feature: Any = [None, np.arange(m) * 10 // m, np.exp(2 * rng.normal(size=m)), np.arange(m) == 3][seed // 4 % 4]
        ids = np.array([rng.permutation(m) for _ in range(epochs)])
        result = score(ids, layout=layout, feature=feature, batch_size=(8, 16)[seed % 2], seed=seed)
        assert result.verdict == "perfect", f"seed {seed}: {result}"


def test_fixed_shard_order_is_a_flaw() -> None:
    fixed = np.random.default_rng(1).permutation(200)
    ids = rows(lambda rng: np.concatenate([s * 200 + rng.permutation(200) for s in fixed]))
    assert flaws(score(ids, layout=LAYOUT)).startswith("epoch correlation is 1")


def test_equal_epochs_are_a_flaw_though_others_lie_between() -> None:
    a, b = rows(lambda rng: rng.permutation(M), 2)
    assert "epoch 2 as 0" in flaws(score(np.array([a, b, a]), layout=LAYOUT))


def fixed(size: int) -> Callable[[np.random.Generator], Ints]:
    """The same batches in every epoch, in a new order."""
    batches = np.random.default_rng(99).permutation(M).reshape(-1, size)
    return lambda rng: batches[rng.permutation(len(batches))].reshape(-1)


@pytest.mark.parametrize("layout", [LAYOUT, Layout([M])])
def test_batches_that_stay_the_same_are_a_flaw(layout: Layout) -> None:
    result = score(rows(fixed(50)), layout=layout, batch_size=50)
    assert "share one in the next epoch too with chance 1" in flaws(result)
    assert result.get("mates_again").value == 1
    for seed in range(5):
        fair = score(rows(lambda rng: rng.permutation(M), seed + 2), layout=layout, batch_size=50)
        assert fair.verdict == "perfect"
        assert abs(fair.get("mates_again").z_perfect) < 4


def test_one_permutation_read_from_another_place_is_a_flaw() -> None:
    line = np.random.default_rng(5).permutation(M)
    result = score(rows(lambda rng: np.roll(line, int(rng.integers(M))), 8), layout=LAYOUT)
    assert "share one in the next epoch too" in flaws(result)


def test_the_chance_of_mates_is_that_of_a_count() -> None:
    """Exact for every pair of all batches; of several epochs, and with a last batch that is not whole."""
    m, size = 1000, 24
    ids = np.array([np.random.default_rng(e).permutation(m) for e in range(3)])
    batch = np.empty((3, m), np.int64)
    np.put_along_axis(batch, ids, np.arange(m)[None, :] // size, axis=1)
    met = pairs = 0
    for e in range(2):
        for one in ids[e, : m // size * size].reshape(-1, size):
            later = batch[e + 1, one]
            met += int((later[:, None] == later[None, :]).sum() - size) // 2
            pairs += size * (size - 1) // 2
    number = score(ids, layout=Layout([m]), batch_size=size).get("mates_again")
    assert number.value == pytest.approx(met / pairs)
    last = m % size
    assert number.perfect == pytest.approx((m // size * size * (size - 1) + last * (last - 1)) / (m * (m - 1)))


@pytest.mark.parametrize(
    ("lanes", "homes", "times"), [(128, "fixed", 2), (256, "fixed", 4), (256, "fresh", 1), (64, "fixed", 1)]
)
def test_more_fixed_lanes_than_rows_keep_batches_together_and_that_is_said(lanes: int, homes: Any, times: int) -> None:
    result = score(Lanes(lanes=lanes, homes=homes).over(Layout.equal(1024, 60), seed=3))
    number = result.get("mates_again")
    assert number.value / (number.perfect or 1) == pytest.approx(times, rel=0.1)
    assert result.verdict == "stratified"
    assert ("share one in the next epoch" in str(result)) == (times > 1)


def test_one_epoch_is_tested_at_its_ends_and_says_what_is_not() -> None:
    rng, label = np.random.default_rng(0), np.arange(M) * 10 // M
    early = np.argsort(np.where(label == 3, rng.random(M) ** 1.5, rng.random(M)))
    result = score(early, layout=LAYOUT, feature=label)
    assert "feature share of 3 at the beginning" in flaws(result)
    assert "one epoch was read" in result.notes[0]
    assert "note: one epoch" in str(result)


# ---- coverage


def test_records_left_out_are_counted_and_always_the_same_are_a_flaw() -> None:
    def short(rng: np.random.Generator) -> Ints:
        line = rng.permutation(M)
        return line[line < M - 3]

    result = score(rows(short), layout=LAYOUT)
    assert result.records_missing == (3,) * 4
    assert result.records_repeated == (0,) * 4
    assert result.records_missing_always == 3
    assert "3 records are read in none of 4 epochs" in flaws(result)
    assert '"records_missing_always": 3' in result.to_json()
    fair = score(rows(lambda rng: rng.permutation(M)[: M - 3]), layout=LAYOUT)
    assert (fair.verdict, fair.records_missing, fair.records_missing_always) == ("perfect", (3,) * 4, 0)


def test_ids_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the pieces, and whatever the width of the ids: the same score."""
    for options, line in ((2, M), (2, M - 300), (1, M + 700)):
        ids = rows(lambda rng: np.concatenate([rng.permutation(M), rng.permutation(M)])[:line], options)  # noqa: B023
        whole = score(ids, layout=LAYOUT)
        for room in (_source, _coverage):
            monkeypatch.setattr(room, "READ_AT_ONCE", 997)
        for dtype in (np.int32, np.uint16):
            assert score(ids.astype(dtype), layout=LAYOUT) == whole
        monkeypatch.undo()


def test_what_one_short_epoch_leaves_out_must_be_a_random_choice() -> None:
    line = np.random.default_rng(0).permutation(M)
    found = flaws(score(line[line < M - 400], layout=LAYOUT, feature=np.arange(M) * 10 // M))
    assert "leaves out are no random choice: their storage place" in found
    assert "their shards" in found
    assert "their labels" in found
    for seed in range(10):
        half = np.random.default_rng(seed).permutation(M)[: M // 2]
        assert score(half, layout=LAYOUT, feature=np.arange(M) * 10 // M).verdict == "perfect"


def test_a_long_epoch_reads_evenly_or_is_flawed() -> None:
    a, b = rows(lambda rng: rng.permutation(M), 2)
    assert score(np.concatenate([a, b]), layout=LAYOUT).verdict == "perfect"
    assert "3 times" not in flaws(score(np.concatenate([a, b[:5]]), layout=LAYOUT))
    found = flaws(score(np.concatenate([a, np.repeat(b[:5], 2)]), layout=LAYOUT))
    assert "read 2 times more often" in found


# ---- arrays with equal rows, and features at the ends of floating point


@pytest.mark.parametrize("values", [2, 50])
def test_equal_rows_are_matched_at_random(values: int) -> None:
    before = np.random.default_rng(0).integers(0, values, 10_000)
    for seed in range(5):
        result = score(np.random.default_rng(seed).permutation(before), before=before)
        assert result.verdict == "perfect", str(result)
        assert result.tied_rows == 1.0
        assert any("equal another row" in note for note in result.notes)


@pytest.mark.parametrize("scale", [1e300, 1e-200, 1.0])
def test_a_feature_has_no_unit(scale: float) -> None:
    values, ids = np.random.default_rng(0).normal(size=M), np.random.default_rng(1).permutation(M)
    one = score(ids, layout=LAYOUT, feature=values)
    other = score(ids, layout=LAYOUT, feature=values * scale)
    assert (other.verdict, other["deff"]) == ("perfect", pytest.approx(one["deff"]))


def test_labels_near_the_end_of_the_whole_numbers() -> None:
    label = np.full(M, 2**64 - 1, np.uint64) - (np.arange(M) % 5).astype(np.uint64)
    assert score(np.random.default_rng(1).permutation(M), layout=LAYOUT, feature=label).verdict == "perfect"


@pytest.mark.parametrize(
    ("subject", "options", "message"),
    [
        (np.arange(M), {"layout": LAYOUT, "feature": np.full(M, 0.1)}, "same for every record"),
        (np.arange(M), {"layout": LAYOUT, "feature": np.ma.array(np.arange(M), mask=np.arange(M) == 3)}, "masked"),
        (np.arange(M), {"layout": LAYOUT, "feature": [[1], [2, 3]]}, "feature is no array"),
        ([[1, 2], [3]], {"layout": LAYOUT}, "rows differ in length"),
        (np.arange(M), {"layout": [M]}, "layout is a list"),
        (np.array(["a", 1] * 50, object), {"before": np.array([1, "a"] * 50, object)}, "cannot be compared"),
        (np.zeros(1000), {"before": np.zeros(1000)}, "all 1000 rows"),
        (Lanes(lanes=3), {}, r"Lanes\(lanes=3\) has no layout yet"),
        ("lanes", {}, "score takes an order, a plan, ids"),
        (None, {"layout": LAYOUT}, "score takes an order, a plan, ids"),
        (np.arange(M), {}, "recorded ids need layout="),
        (np.arange(15), {"layout": Layout([15])}, "15 positions; a score needs at least 16"),
        (np.arange(M), {"layout": LAYOUT, "batch_size": 30, "ranks": 4}, "nearest sizes are 28 or 32"),
    ],
)
def test_nonsense_is_refused_by_name(subject: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(subject, **options)


@pytest.mark.parametrize("sizes", [[100_000], [50_000] * 2, [5_000] * 20, [100_000, 3, 200, 50_000]])
@pytest.mark.parametrize("lanes", [16, 64, 256])
@pytest.mark.parametrize("homes", ["fixed", "fresh"])
def test_lanes_over_few_shards_have_no_flaw(sizes: list[int], lanes: int, homes: Any) -> None:
    found = score(Lanes(lanes=lanes, homes=homes).over(Layout(sizes), seed=7), epochs=4)
    assert found.verdict in ("stratified", "local"), str(found)


def test_lanes_that_lie_side_by_side_in_a_batch_are_a_flaw() -> None:
    """Few shards excuse what lanes do, but not batches of neighbours."""

    @dataclass(frozen=True)
    class Neighbours(OrderSpec):
        name = "tests/neighbours"

        def over(self, layout: Layout, *, seed: int = 0) -> Order:
            return NeighboursOrder(self, layout, seed)

    class NeighboursOrder(Order):
        """Lane c reads the c-th stretch of the data, and lanes come in the order of storage."""

        lanes = 256

        def _at(self, positions: Ints, epoch: int) -> Ints:
            places = len(self) // self.lanes
            inside = Permutation(places, self.seed, "inside", epoch).at(positions // self.lanes)
            return positions % self.lanes * places + inside

        def _find(self, records: Ints, epoch: int) -> Ints:
            places = len(self) // self.lanes
            inside = Permutation(places, self.seed, "inside", epoch).find(records % places)
            return inside * self.lanes + records // places

        def visits(self, epoch: int = 0) -> Visits:
            return super().visits(epoch)

    found = score(Neighbours().over(Layout([256 * 400]), seed=7), batch_size=64, epochs=4)
    assert found.verdict == "flawed"
    assert "radius 50" in flaws(found)
    assert "parts of shards that stay in one lane do not explain it" in flaws(found)
