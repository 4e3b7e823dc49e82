"""Which positions make up which batch: against the same thing written as a loop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tombola.errors import PlanError
from tombola.plan._steps import Steps, check_changes


def walk(records: int, tail: str, changes: list[tuple[int, int, int]], epochs: int) -> list[list[tuple[int, int, int]]]:
    """Slow twin: batches of each epoch one after the other."""
    size, pending, out = 0, list(changes), []
    for epoch in range(epochs):
        position, spans = 0, []
        while True:
            while pending and pending[0][:2] <= (epoch, position):
                size = pending.pop(0)[2]
            left = records - position
            if left <= 0 or (left < size and tail == "drop"):
                break
            spans.append((position, min(position + size, records), size))
            position += size
        out.append(spans)
    return out


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, str, list[tuple[int, int, int]]]:
    records = draw(st.integers(20, 500))
    tail = draw(st.sampled_from(["drop", "pad", "short"]))
    changes = [(0, 0, draw(st.integers(1, 20)))]
    for _ in range(draw(st.integers(0, 4))):
        # A change falls on some batch border after the last one.
        spans = walk(records, tail, changes, 4)
        epoch, position, _ = changes[-1]
        borders = [(e, s[0]) for e, found in enumerate(spans) for s in found if (e, s[0]) > (epoch, position)]
        if not borders:
            break
        changes.append((*draw(st.sampled_from(borders)), draw(st.integers(1, 20))))
    return records, tail, changes


@given(histories())
def test_steps_equal_a_walk(history) -> None:
    records, tail, changes = history
    steps = Steps(records, tail, changes)
    expected = walk(records, tail, changes, 6)
    run_step = 0
    for epoch, spans in enumerate(expected):
        assert steps.count(epoch) == len(spans)
        assert steps.before(epoch) == run_step
        assert steps.end(epoch) == max((stop for _, stop, _ in spans), default=0)
        owner = {position: i for i, (start, stop, _) in enumerate(spans) for position in range(start, stop)}
        for i, (start, stop, size) in enumerate(spans):
            span = steps.span(epoch, i)
            assert (span.start, span.stop, span.size) == (start, stop, size)
            assert steps.locate(run_step) == (epoch, i)
            run_step += 1
        assert [steps.step_of(epoch, p) for p in range(records)] == [owner.get(p) for p in range(records)]
        with pytest.raises(PlanError):
            steps.span(epoch, len(spans))


def test_far_epochs_cost_nothing() -> None:
    steps = Steps(10**12, "drop", [(0, 0, 1000), (3, 5000, 500)])
    assert steps.before(10**9) == 3 * 10**9 + 5 + (10**12 - 5000) // 500 + (10**9 - 4) * 2 * 10**9
    assert steps.locate(steps.before(10**9) + 17) == (10**9, 17)


@pytest.mark.parametrize(
    ("records", "tail", "batch_size", "words"),
    [
        (100, "drop", 0, "batch_size is 0"),
        (100, "drop", 2.5, "batch_size is 2.5"),
        (100, "drop", [], "empty list"),
        (100, "drop", [(0, 0)], "(epoch, position, size)"),
        (100, "drop", [(0, 10, 5)], "from position 0 of epoch 0 on"),
        (100, "drop", [(0, 0, 10), (0, 15, 5)], "in the middle of a batch of 10 that starts at 10"),
        (100, "drop", [(0, 0, 10), (1, 0, 5), (0, 50, 7)], "not in rising order"),
        (100, "drop", [(0, 0, 10), (0, 100, 5)], "past the 100"),
        (100, "drop", 101, "only 100 records"),
    ],
)
def test_bad_sizes(records: int, tail, batch_size, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        Steps(records, tail, check_changes(batch_size))
    assert words in str(caught.value)
