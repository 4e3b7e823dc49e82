"""Scores: what they find, what they leave alone, and that their numbers are those of a slow count."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from tombola._ints import Ints
from tombola.errors import InputError, MissingExtra
from tombola.order import Global, Lanes, Layout, Order, OrderSpec, Permutation, Sequential, make_spec
from tombola.plan import Plan, World
from tombola.quality import Score, score

LAYOUT = Layout.equal(256, 200)
# Half of the records in small shards, half in large ones, in mixed places.
MIXED = Layout(np.random.default_rng(0).permutation(np.repeat([40, 400], [600, 60])))


def parts_in_lanes(layout: Layout, lanes: int, epochs: int) -> Ints:
    """Shards end to end, cut into lanes, each lane's parts shuffled and read from the first: as many loaders do."""
    rows = []
    for epoch in range(epochs):
        rng = np.random.default_rng(epoch)
        line = [layout.starts[s] + rng.permutation(layout.sizes[s]) for s in rng.permutation(layout.shards)]
        length = layout.records // lanes
        line_cut = np.concatenate(line)[: length * lanes].reshape(lanes, length)
        for lane in line_cut:
            shard, _ = layout.locate(lane)
            parts = np.flatnonzero(np.diff(shard)) + 1
            shuffled = np.array_split(lane, parts)
            shuffled = [shuffled[i] for i in rng.permutation(len(shuffled))]
            lane[:] = np.concatenate(shuffled)
        rows.append(line_cut.T.reshape(-1))
    return np.array(rows)


def buffered(layout: Layout, buffer: int, epochs: int) -> Ints:
    """A buffer that gives a record for each one read, from 10 records on: weak at the beginning."""
    rows = []
    for epoch in range(epochs):
        rng = np.random.default_rng(epoch)
        coming = np.concatenate([layout.starts[s] + np.arange(layout.sizes[s]) for s in rng.permutation(layout.shards)])
        held: list[int] = []
        row: list[int] = []
        for record in coming.tolist():
            held.append(record)
            if len(held) >= buffer or len(row) * 2 + 10 < len(held) + len(row):
                at = int(rng.integers(len(held)))
                held[at], held[-1] = held[-1], held[at]
                row.append(held.pop())
        row += np.array(held)[rng.permutation(len(held))].tolist()
        rows.append(row)
    return np.array(rows)


@dataclasses.dataclass(frozen=True)
class Keyed(OrderSpec):
    """A global shuffle with a bad key: how tests make orders with one flaw."""

    flaw: str = "sum"

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        return _KeyedOrder(self, layout, seed)


class _KeyedOrder(Order):
    def _key(self, epoch: int) -> Permutation:
        flaw = getattr(self.spec, "flaw", "")
        return Permutation(len(self), self.seed + epoch if flaw == "sum" else self.seed)

    def _at(self, positions: Ints, epoch: int) -> Ints:
        return self._key(epoch).at(positions)

    def _find(self, records: Ints, epoch: int) -> Ints:
        return self._key(epoch).find(records)


def flaws(result: Score) -> str:
    return " | ".join(f.what for f in result.findings if f.flaw)


# ---- verdicts


@pytest.mark.parametrize("layout", [LAYOUT, MIXED, Layout([5000]), Layout.equal(5000, 1)], ids=repr)
@pytest.mark.parametrize("seed", range(5))
def test_a_perfect_shuffle_is_perfect(layout: Layout, seed: int) -> None:
    feature = np.arange(layout.records) * 7 // layout.records
    result = score(Global().over(layout, seed=seed), feature=feature, seed=seed)
    assert result.verdict == "perfect", str(result)
    assert result.findings == ()


@pytest.mark.parametrize("layout", [LAYOUT, MIXED, Layout.equal(40, 500), Layout.equal(100, 200)], ids=repr)
@pytest.mark.parametrize("spec", [Lanes(), Lanes(lanes=16), Lanes(lanes=16, window=2), Lanes(lanes=16, phase="none")])
@pytest.mark.parametrize("seed", range(3))
def test_lanes_have_no_flaw(layout: Layout, spec: Lanes, seed: int) -> None:
    """At both ends of the epoch too, from epoch to epoch too, with shards of two sizes and with few shards a lane."""
    result = score(spec.over(layout, seed=seed), feature=np.arange(layout.records) * 7 // layout.records)
    assert result.verdict in ("stratified", "local"), str(result)


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("seed", range(4))
def test_rare_labels_and_skewed_values_of_few_open_shards_are_no_flaw(lanes: int, seed: int) -> None:
    """Whole shards of one label: a beginning that lacks a label in all epochs is nothing unusual then."""
    layout = Layout.equal(512, 100)
    order = Lanes(lanes=lanes).over(layout, seed=seed)
    labels = np.arange(layout.records) * 100 // layout.records
    skewed = np.repeat(np.exp(2 * np.random.default_rng(seed).normal(size=512)), 100)
    for feature in (labels, skewed):
        result = score(order, feature=feature)
        assert result.verdict == "local", str(result)


def test_lanes_are_stratified_and_their_number_is_the_period() -> None:
    result = score(Lanes(lanes=32).over(LAYOUT, seed=1), batch_size=32)
    assert (result.verdict, result.period) == ("stratified", 32)
    assert result["p_same"] == 0
    lags = {lag.lag: lag for lag in result.lags}
    assert lags[32].same_shard > 0.9
    assert lags[31].z < 0
    assert lags[64].same_shard > 0.9


def test_few_open_shards_are_local() -> None:
    result = score(Lanes(lanes=4).over(LAYOUT, seed=1))
    assert (result.verdict, result.period) == ("local", 4)
    assert result["p_same"] == pytest.approx(15 / 63, rel=0.05)


@pytest.mark.parametrize("size", [100, 37])
def test_shards_that_are_cut_between_lanes_do_not_hide_the_period(size: int) -> None:
    """With hardly more shards than lanes many are read by two lanes, whose numbers lie a power of two apart."""
    for lanes in (16, 64):
        result = score(Lanes(lanes=lanes).over(Layout.equal(100, size), seed=0), epochs=2)
        assert result.period == lanes
        assert f"every {lanes} positions" in str(result)


def test_repetition_is_no_period() -> None:
    result = score(buffered(LAYOUT, 2000, 2), layout=LAYOUT)
    assert result.period is None
    assert any("repetition, not stratification" in f.what for f in result.findings)


def test_no_shuffle_is_flawed() -> None:
    assert "storage correlation" in flaws(score(Sequential().over(LAYOUT)))


def test_ends_full_of_small_shards_are_a_flaw() -> None:
    result = score(parts_in_lanes(MIXED, 64, 16), layout=MIXED)
    assert "shard size at the beginning" in flaws(result)
    assert "shard size at the end" in flaws(result)


def test_ends_full_of_one_label_are_a_flaw() -> None:
    large = np.repeat(MIXED.sizes > 100, MIXED.sizes)
    result = score(parts_in_lanes(MIXED, 64, 16), layout=MIXED, feature=large)
    assert "feature share of" in flaws(result)
    assert "not 0.5" in flaws(result)


def test_a_weak_beginning_is_a_flaw() -> None:
    found = flaws(score(buffered(LAYOUT, 4000, 4), layout=LAYOUT))
    assert "the beginning of an epoch mixes less than its middle" in found
    assert "the end" not in found


def test_seeds_that_are_added_to_the_epoch_are_a_flaw() -> None:
    found = flaws(score(Keyed("sum").over(LAYOUT)))
    assert found.startswith("seed epoch correlation is 1 ")
    assert found.count("correlation") == 1


@pytest.mark.parametrize("epochs", [2, 16])
def test_epochs_that_are_alike_are_a_flaw(epochs: int) -> None:
    found = flaws(score(Keyed("same").over(LAYOUT), epochs=epochs))
    assert found.startswith("epoch correlation is 1 ")
    assert found.count("correlation") == 1


def test_an_exact_order_whose_seed_is_added_to_the_epoch_is_found_out() -> None:
    assert flaws(score(make_spec("mosaic/naive").over(LAYOUT, seed=1), epochs=2)).startswith(
        "seed epoch correlation is 1 "
    )


def test_records_lost_and_doubled_are_a_flaw() -> None:
    ids = Permutation(LAYOUT.records, 1).slice(0, LAYOUT.records)
    ids[17] = ids[900]
    assert "1 records are never read and 1 positions repeat one" in flaws(score(ids, layout=LAYOUT))


# ---- numbers


def test_numbers_are_those_of_a_slow_count() -> None:
    layout, size, readers = MIXED, 48, 4
    order = Lanes(lanes=12).over(layout, seed=5)
    label = np.random.default_rng(2).integers(0, 5, layout.records)
    result = score(Plan(order, World(ranks=readers), size), feature=label, epochs=3)
    ends, batches = 64, len(order) // size
    shard = layout.locate(order.slice(0, batches * size))[0].reshape(batches, size)
    kept = slice(ends, batches - ends)
    off_diagonal = size * (size - 1)
    same = ((shard[:, :, None] == shard[:, None, :]).sum((1, 2)) - size) / off_diagonal
    assert result.get("p_same", "middle").value == pytest.approx(same[kept].mean())
    assert result["shards_per_batch"] == pytest.approx(np.mean([len(set(r)) for r in shard[kept].tolist()]))
    ranks = shard.reshape(batches, size // readers, readers).transpose(0, 2, 1)
    assert result["shards_per_rank_batch"] == pytest.approx(
        np.mean([len(set(r)) for b in ranks[kept].tolist() for r in b])
    )
    shares = np.eye(5)[label[order.slice(0, batches * size)]].reshape(batches, size, 5).mean(1)
    p = np.bincount(label) / layout.records
    deff = size * ((shares - p) ** 2).sum(1) / (1 - (p**2).sum())
    assert result["deff"] == pytest.approx(deff[kept].mean())
    logs = np.log(np.where(shares > 0, shares, 1))
    assert result["entropy"] == pytest.approx(-(shares * logs).sum(2 - 1)[kept].mean())
    rare = int(np.bincount(label).argmin())
    assert result["rare_absent"] == pytest.approx((shares[kept, rare] == 0).mean())
    assert result["effective_batch"] == pytest.approx(size / deff[kept].mean())
    first = [np.eye(5)[label[order.slice(0, ends * size, e)]].reshape(ends, size, 5).mean(1) for e in range(3)]
    wanted = np.mean([size * ((f - p) ** 2).sum(1) / (1 - (p**2).sum()) for f in first])
    assert result.get("deff", "first").value == pytest.approx(wanted)
    away = np.abs(order.slice(0, batches * size) - np.arange(batches * size)) / len(order)
    assert result["displacement"] == pytest.approx(away.mean())


def test_open_shards_are_those_of_the_visits() -> None:
    order = Lanes(lanes=16).over(LAYOUT, seed=2)
    result = score(order)
    visits, n = order.visits(), len(order)
    opened = np.array([((visits.first <= t) & (t <= visits.last)).sum() for t in range(n // 4, 3 * n // 4, 97)])
    assert result["open_shards"] == pytest.approx(opened.mean(), rel=0.02)
    assert result["open_shards_most"] == 16
    assert result["open_records_most"] == 16 * 200


def test_a_sample_agrees_with_the_whole() -> None:
    layout = Layout.equal(2000, 500)
    order = Lanes(lanes=16, window=2).over(layout, seed=3)
    label = np.arange(layout.records) * 10 // layout.records
    whole = score(order, feature=label, epochs=4)
    part = score(order, feature=label, epochs=4, positions_max=1 << 19)
    assert part.positions_read < whole.positions_read / 4
    for name in ("p_same", "shards_per_batch", "deff", "entropy", "displacement", "radius_50"):
        one, two = part.get(name, "middle" if name != "displacement" else "epoch"), whole[name]
        assert one.value == pytest.approx(two, abs=5 * one.error), name
    assert part["open_shards"] == pytest.approx(whole["open_shards"], rel=0.02)


def test_an_epoch_too_long_to_read() -> None:
    result = score(Lanes(lanes=64).over(Layout.equal(10_000, 10**8), seed=1), positions_max=1 << 18, epochs=2)
    assert result.verdict == "stratified"
    assert result.positions_read <= 1 << 18
    assert result["open_shards"] == pytest.approx(64, abs=0.5)


def test_a_score_is_a_function_of_its_seed() -> None:
    order = Global().over(LAYOUT, seed=4)
    feature = np.arange(LAYOUT.records) % 10
    assert score(order, feature=feature, seed=1) == score(order, feature=feature, seed=1)
    assert score(order, seed=1)["storage_correlation"] != score(order, seed=2)["storage_correlation"]


def test_a_plan_brings_its_ranks() -> None:
    """Ranks that share a lane have one shard in their batch, though the global batch has many."""
    plan = Plan(Lanes(lanes=16).over(LAYOUT, seed=1), World(ranks=16), 64)
    result = score(plan)
    assert result.readers == 16
    assert result["p_same"] == pytest.approx(3 / 63, rel=0.05)
    assert result["p_same_rank"] > 0.98
    assert result["shards_per_rank_batch"] < 1.05


def test_ours_mix_no_less_than_plain_lanes_at_equal_open_shards() -> None:
    for lanes in (4, 16, 64):
        ours = score(Lanes(lanes=lanes).over(LAYOUT, seed=1), epochs=4)
        plain = score(parts_in_lanes(LAYOUT, lanes, 4), layout=LAYOUT)
        for zone in ("first", "middle", "last"):
            a, b = ours.get("p_same", zone), plain.get("p_same", zone)  # type: ignore[arg-type]
            assert a.value <= b.value + 4 * math.hypot(a.error, b.error) + 1e-9


# ---- arrays


def test_array_before_and_after() -> None:
    before = np.repeat(np.arange(5000), 4)  # equal rows are told apart by their order
    shuffle = np.random.default_rng(0).permutation(before.size)
    assert score(before[shuffle], before=before).verdict == "perfect"
    assert score(np.stack([before, before], 1)[shuffle], before=np.stack([before, before], 1)).verdict == "perfect"
    blocks = np.concatenate([np.random.default_rng(a).permutation(before[a : a + 500]) for a in range(0, 20000, 500)])
    result = score(blocks, before=before)
    assert result.verdict == "flawed"
    assert "storage correlation" in flaws(result)


def test_rows_with_not_a_number_are_matched() -> None:
    before = np.random.default_rng(0).normal(size=4000)
    before[7] = np.nan
    assert score(np.random.default_rng(1).permutation(before), before=before).verdict == "perfect"


# ---- the result


def test_result_is_frozen_and_plain_json() -> None:
    result = score(Lanes(lanes=8).over(LAYOUT), feature=np.arange(LAYOUT.records) % 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.verdict = "perfect"  # type: ignore[misc]
    plain = json.loads(result.to_json())
    assert plain["verdict"] == result.verdict
    assert {n["name"] for n in plain["numbers"]} == {n.name for n in result.numbers}
    low, high = result.get("deff", "middle").interval
    assert low < result["deff"] < high
    with pytest.raises(KeyError, match="there are"):
        result.get("beauty")


def test_table_shows_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    result = score(Global().over(LAYOUT), feature=np.arange(LAYOUT.records) % 3)
    Console(width=200).print(result)
    text = capsys.readouterr().out
    assert "perfect" in text
    for number in result.numbers:
        assert number.name.replace("_", " ") in text


def test_table_without_rich_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    result = score(Global().over(LAYOUT), epochs=2)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(MissingExtra, match=r"tombola\[cli\]"):
        result.__rich__()


# ---- input that makes no sense


@pytest.mark.parametrize(
    ("subject", "options", "message"),
    [
        (np.arange(10), {}, "layout="),
        (np.arange(600.0), {"layout": LAYOUT}, "whole numbers"),
        (np.arange(51_201), {"layout": LAYOUT}, "outside"),
        ("lanes", {"layout": LAYOUT}, "takes an order"),
        (Global().over(LAYOUT), {"layout": LAYOUT}, "knows its layout"),
        (Global().over(LAYOUT), {"batch_size": 1}, "between|at least"),
        (Global().over(LAYOUT), {"batch_size": 50_000}, "at least 8"),
        (Global().over(LAYOUT), {"batch_size": 30, "ranks": 4}, "shared out"),
        (Global().over(LAYOUT), {"feature": np.arange(7)}, "one row for each"),
        (Global().over(LAYOUT), {"feature": np.zeros(51_200)}, "same for every record"),
        (Global().over(LAYOUT), {"feature": np.full(51_200, np.nan)}, "not finite"),
        (Global().over(LAYOUT), {"feature": np.zeros(51_200), "feature_kind": "colour"}, "feature_kind"),
        (Global().over(LAYOUT), {"feature": np.zeros((51_200, 2)), "feature_kind": "label"}, "one per record"),
        (Global().over(LAYOUT), {"feature": np.full(51_200, "a"), "feature_kind": "value"}, "no mean"),
        (Global().over(LAYOUT), {"epochs": 0}, "epochs"),
        (Global().over(LAYOUT), {"positions_max": 5}, "positions_max"),
        (Plan(Global().over(LAYOUT), batch_size=64), {"batch_size": 32}, "leave batch_size out"),
        (Plan(Global().over(LAYOUT), batch_size=64), {"ranks": 2}, "leave out ranks"),
        (np.arange(600), {"before": np.arange(601)}, "differ in"),
        (np.arange(600), {"before": np.zeros(600, np.int64)}, "no permutation"),
        (np.arange(600), {"layout": Layout([600]), "epoch": 2}, "recorded ids"),
    ],
)
def test_nonsense_is_refused(subject: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(subject, **options)


@pytest.mark.parametrize("lanes", [4, 16, 64])
def test_radius_is_that_of_all_pairs_of_a_batch(lanes: int) -> None:
    """Rows half a batch apart are in one lane when the lanes divide that: they stand for no other pair."""
    layout = Layout.equal(256, 200)
    order = Lanes(lanes=lanes).over(layout, seed=7)
    batches = order.slice(0, layout.records // 64 * 64).reshape(-1, 64)
    first, second = np.triu_indices(64, 1)
    away = np.abs(batches[:, first] - batches[:, second]) / layout.records
    found = score(order)
    for chance in (0.05, 0.5, 0.95):
        low, high = np.quantile(away, [chance - 0.02, chance + 0.02])
        assert low < found[f"radius_{round(100 * chance)}"] < high


def test_open_shards_over_time_are_those_of_every_position() -> None:
    layout = Layout.equal(96, 100)
    order = Lanes(lanes=8).over(layout, seed=7)
    found = score(order, epochs=2)
    visits = order.visits()
    positions = np.arange(len(order))
    is_open = (visits.first[:, None] <= positions) & (positions <= visits.last[:, None])
    edges = [span.position for span in found.over_time]
    assert edges == [k * 9600 // 32 for k in range(32)]
    for span, stop in zip(found.over_time, [*edges[1:], 9600], strict=True):
        assert span.open_shards == pytest.approx(is_open[:, span.position : stop].sum(axis=0).mean())
        assert span.openings == np.count_nonzero((visits.first >= span.position) & (visits.first < stop))


def test_a_buffer_that_fills_is_seen_over_time() -> None:
    """An order that opens everything at once, and one shard after the other, told apart by the same record of it."""
    layout = Layout.equal(64, 100)
    one = score(np.arange(6400), layout=layout).over_time
    assert all(span.open_shards == pytest.approx(1) and span.openings == 2 for span in one)
    whole = score(np.arange(6400).reshape(64, 100).T.reshape(-1), layout=layout).over_time
    assert whole[0].openings == 64
    assert not any(span.openings for span in whole[1:])
    assert json.loads(score(np.arange(6400), layout=layout).to_json())["over_time"][1] == {
        "position": 200,
        "open_shards": 1.0,
        "openings": 2,
    }


@pytest.mark.parametrize("sizes", [[2**62], [2**61, 2**61], [2**62 - 1, 1]])
def test_the_largest_layouts_are_scored_without_overflow(sizes: list[int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = score(Lanes(lanes=2).over(Layout(sizes), seed=7), epochs=2)
        assert score(Global().over(Layout(sizes), seed=7), epochs=2).verdict == "perfect"
    assert found.verdict == "stratified"
    assert [span.position for span in found.over_time[:2]] == [0, 2**57]
    assert all(span.open_shards == pytest.approx(2, abs=1) for span in found.over_time)
