"""Orders that combine streams: what their plan says is no flaw, and what it does not say still is one."""

from __future__ import annotations

import numpy as np
import pytest

from tombola.order import (
    Concatenation,
    DevicePerStream,
    Global,
    Lanes,
    Layout,
    Mixture,
    OrderSpec,
    PerStream,
    Stratified,
    Take,
)
from tombola.quality import score

ALIKE = Layout.joined([Layout.equal(128, 100)] * 2)
UNLIKE = Layout.joined([Layout.equal(128, 100), Layout.equal(64, 300), Layout.equal(40, 77)])


def combined(streams: int) -> list[OrderSpec]:
    weights = (1, 3, 2)[:streams]
    return [
        Mixture(weights),
        Mixture((1,) * streams),
        Mixture(weights, base=Global()),
        Concatenation((Take(repeat=2.5), *[Take()] * (streams - 1))),
        Stratified(64),
        Stratified(64, Mixture(weights)),
        PerStream(64),
        DevicePerStream(16),
    ]


@pytest.mark.parametrize("layout", [ALIKE, UNLIKE])
@pytest.mark.parametrize("number", range(8))
def test_combined_streams_have_no_flaw(layout: Layout, number: int) -> None:
    streams = np.unique(layout.streams).size if layout.streams is not None else 1
    order = combined(streams)[number].over(layout, seed=number)
    stream = np.repeat(layout.streams, layout.sizes) if layout.streams is not None else None
    for feature in (None, stream, np.arange(layout.records) // 500):
        found = score(order, epochs=4, feature=feature)
        assert found.verdict in ("stratified", "local"), str(found)


def test_records_that_come_more_often_by_plan_are_counted_and_no_flaw() -> None:
    found = score(Mixture((1, 3)).over(ALIKE, seed=7), epochs=2)
    assert any(f.what.startswith("by plan 6400 records are never read") and not f.flaw for f in found.findings)
    assert found.records_missing == (6400,)
    assert any("more often than others by plan" in note for note in found.notes)
    # The same reads without a plan that says so.
    order = Mixture((1, 3)).over(ALIKE, seed=7)
    ids = np.array([order.slice(0, len(order), epoch) for epoch in range(2)])
    assert score(ids, layout=ALIKE).verdict == "flawed"


def test_repeats_do_not_look_like_seeds_that_agree() -> None:
    """The first of three places of a record comes earlier than the only one of another, whatever the seed."""
    found = score(Concatenation((Take(repeat=3), Take())).over(ALIKE, seed=7), epochs=4)
    for name in ("seed_correlation", "epoch_correlation", "storage_correlation"):
        assert abs(found.get(name).z_bias) < found.threshold, name


def test_streams_one_after_the_other_are_a_flaw() -> None:
    rng = np.random.default_rng(7)
    half = ALIKE.records // 2
    ids = np.array([np.concatenate([rng.permutation(half), half + rng.permutation(half)]) for _ in range(4)])
    found = score(ids, layout=ALIKE)
    assert found.verdict == "flawed"
    assert any("storage correlation" in f.what for f in found.findings if f.flaw)


def test_streams_do_not_excuse_labels_that_come_together() -> None:
    rng = np.random.default_rng(7)
    label = rng.integers(0, 10, ALIKE.records)

    def one_label() -> np.ndarray:
        line = np.concatenate([rng.permutation(np.flatnonzero(label == c)) for c in rng.permutation(10)])
        return line.reshape(-1, 50)[rng.permutation(line.size // 50)].reshape(-1)

    found = score(np.array([one_label() for _ in range(4)]), layout=ALIKE, feature=label, batch_size=50)
    assert found.verdict == "flawed"
    assert any(f.what.startswith("deff") and "streams that are dealt" in f.what for f in found.findings if f.flaw)


def test_a_layout_without_streams_is_judged_as_before() -> None:
    found = score(Lanes(lanes=16).over(Layout.equal(256, 100), seed=7), epochs=4)
    assert not any("streams that are dealt" in f.what for f in found.findings)
