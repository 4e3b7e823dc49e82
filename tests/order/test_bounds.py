"""The lanes at their limits: layouts near 2^62 records, many epochs, many threads, the interpreter's lock."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import epochs, lane_specs, layouts, seeds
from tombola import _core
from tombola.order import Lanes, Layout
from tombola.order._slow import slow_lanes, slow_lanes_at

# ---- near 2^62 records


@given(data=st.data(), layout=layouts(records_max=150), seed=seeds, epoch=epochs)
@settings(max_examples=30)
def test_the_slow_twin_of_one_position_is_that_of_the_epoch(
    data: st.DataObject, layout: Layout, seed: int, epoch: int
) -> None:
    order = data.draw(lane_specs(layout.records)).over(layout, seed=seed)
    assert [slow_lanes_at(order, t, epoch) for t in range(len(order))] == slow_lanes(order, epoch).tolist()


@st.composite
def huge_layouts(draw: st.DrawFn) -> Layout:
    """So many records that records × shards need more than 64 bits."""
    shards = draw(st.integers(20, 300))
    exponent = draw(st.integers(65 - 2 * (shards.bit_length() - 1), 62 - shards.bit_length()))
    if draw(st.booleans()):
        return Layout.equal(shards, 2**exponent - draw(st.integers(0, 9)))
    drawn = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = drawn.integers(2 ** (exponent - 1), 2**exponent, shards, endpoint=True)
    sizes[drawn.random(shards) < draw(st.sampled_from([0, 0.1]))] = 0
    return Layout(sizes)


@st.composite
def huge_specs(draw: st.DrawFn) -> Lanes:
    """Lanes of every kind, with windows that mean something among shards of 2^50 records."""
    window = draw(st.sampled_from([None, "shards", "records"]))
    return Lanes(
        lanes=draw(st.one_of(st.integers(1, 70), st.integers(1, 2000))),
        homes=draw(st.sampled_from(["fixed", "fresh"])),
        phase=draw(st.sampled_from(["spread", "none"])),
        window=draw(st.one_of(st.integers(1, 7), st.integers(1, 300))) if window == "shards" else None,
        window_records=draw(st.one_of(st.integers(1, 1000), st.integers(1, 2**58))) if window == "records" else None,
    )


@given(spec=huge_specs(), layout=huge_layouts(), seed=seeds, epoch=epochs, data=st.data())
@settings(max_examples=40)
def test_huge_layouts_equal_their_slow_twin(
    spec: Lanes, layout: Layout, seed: int, epoch: int, data: st.DataObject
) -> None:
    order = spec.over(layout, seed=seed)
    assert len(order) * layout.shards > 2**63
    drawn = data.draw(st.lists(st.integers(0, len(order) - 1), min_size=4, max_size=6))
    positions = [0, len(order) - 1, *drawn]
    records = order.at(positions, epoch)
    assert records.tolist() == [slow_lanes_at(order, t, epoch) for t in positions]
    assert order.find_all(records, epoch)[0].tolist() == positions
    start = min(drawn[0], len(order) - 3)
    assert order.slice(start, start + 3, epoch).tolist() == order.at(range(start, start + 3), epoch).tolist()


@pytest.mark.parametrize(
    "spec",
    [
        Lanes(),
        Lanes(lanes=1),
        Lanes(lanes=7, homes="fresh", phase="none"),
        Lanes(lanes=2000),
        Lanes(lanes=1, window=2),
        Lanes(lanes=5, window=7),
        Lanes(lanes=5, window=9),  # so many that window × records need more than 64 bits
        Lanes(lanes=3, window=40, homes="fresh"),
        Lanes(lanes=9, window=200, phase="none"),
        Lanes(lanes=6, window_records=5),
        Lanes(lanes=1, window_records=2**40 + 1),
        Lanes(lanes=64, window_records=2**57),
    ],
    ids=repr,
)
def test_the_largest_layouts_equal_their_slow_twin(spec: Lanes) -> None:
    """The same where generated examples seldom come: as near to 2^62 records as it goes."""
    drawn = np.random.default_rng(5)
    for layout in (Layout.equal(300, 2**62 // 300), Layout(drawn.integers(1, 2**55, 250))):
        order = spec.over(layout, seed=11)
        assert len(order) > 2**61
        positions = [0, len(order) - 1, *drawn.integers(0, len(order), 8).tolist()]
        records = order.at(positions, 2)
        assert records.tolist() == [slow_lanes_at(order, t, 2) for t in positions]
        assert order.find_all(records, 2)[0].tolist() == positions
        assert [order.slice(t, t + 1, 2)[0] for t in positions] == records.tolist()


# ---- many epochs


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_epochs_read() -> None:
    """In a process of its own: what it holds after few epochs and after many."""
    code = """
        import resource
        from tombola.order import Lanes, Layout

        def held_bytes():
            return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

        for homes in ("fixed", "fresh"):
            order = Lanes(lanes=64, homes=homes).over(Layout.equal(100_000, 50), seed=1)
            for epoch in range(4):
                order.at(0, epoch)
            before = held_bytes()
            for epoch in range(4, 44):
                order.at(0, epoch)
            print(held_bytes() - before)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    # The tables of an epoch take 16 bytes a shard, 1.6 MB: forty of them would be 64 MB.
    assert [int(grown) < 16_000_000 for grown in run.stdout.split()] == [True, True], run.stdout


# ---- many threads


@pytest.mark.parametrize("homes", ["fixed", "fresh"])
def test_one_order_serves_many_threads(homes: str) -> None:
    spec, layout = Lanes(lanes=5, homes=homes, window=2), Layout(np.arange(1, 60) % 7)
    order, many = spec.over(layout, seed=3), 40
    positions = np.arange(0, len(order), 3)
    # Each epoch from an order of its own, which no other thread has touched.
    wanted = [spec.over(layout, seed=3).at(positions, epoch) for epoch in range(many)]
    together = threading.Barrier(8)

    def read(number: int) -> list[int]:
        mine = np.random.default_rng(number).integers(0, many, 400).tolist()
        together.wait(60)
        return [epoch for epoch in mine if not np.array_equal(order.at(positions, epoch), wanted[epoch])]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        with ThreadPoolExecutor(8) as pool:
            wrong = list(pool.map(read, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert wrong == [[]] * 8


# ---- the interpreter's lock


def native_call(name: str) -> Callable[[], object]:
    """A call of the core that takes long enough for another thread to run meanwhile."""
    positions = np.arange(2**18)
    out = np.empty_like(positions)
    permutation = _core.Permutation(2**40, 1)
    if name.startswith("Permutation."):
        arguments = (0, out, 1) if name == "Permutation.run" else (positions, out, 1)
        return lambda: getattr(permutation, name.removeprefix("Permutation."))(*arguments)
    starts = np.arange(0, 2**22 + 1, 4)
    line = _core.Line(starts, 64, 5, 1)
    options = (line, 1, 2, 3, 4, 0, 0, True, 1)  # four keys, no window, spread phases, one thread
    epoch = _core.LaneEpoch(*options)
    return {
        "Line": lambda: _core.Line(starts, 64, 5, 1),
        "LaneEpoch": lambda: _core.LaneEpoch(*options),
        "LaneEpoch.at": lambda: epoch.at(positions, out, 1),
        "LaneEpoch.find": lambda: epoch.find(positions, out, 1),
        "LaneEpoch.slice": lambda: epoch.slice(0, 1, out, 1),
        "LaneEpoch.visits": lambda: epoch.visits(),
    }[name]


def others_run_during(call: Callable[[], object]) -> bool:
    """Whether a Python thread makes progress while a call runs.

    The interpreter is told never to take its lock away from a thread. So between the two readings of the count the
    other thread can run only if the call itself gives the lock up, and it is not a matter of luck or speed when it
    does not. When it does, the other thread should get on within a call; a busy machine is given some more of them.
    """
    count, done = [0], threading.Event()

    def tick() -> None:
        while not done.is_set():
            count[0] += 1
            time.sleep(0.0005)

    before = sys.getswitchinterval()
    ticking = threading.Thread(target=tick)
    ticking.start()
    sys.setswitchinterval(1000)
    try:
        # What it waits for now it may still wait for as it was before: let it get through that.
        start = count[0]
        while count[0] < start + 2:
            time.sleep(0.0005)
        for _ in range(100):
            first = count[0]
            call()
            if count[0] != first:
                return True
        return False
    finally:
        done.set()
        sys.setswitchinterval(before)
        ticking.join()


@pytest.mark.parametrize(
    "name",
    [
        *("Permutation.at", "Permutation.find", "Permutation.run", "Line"),
        *("LaneEpoch", "LaneEpoch.at", "LaneEpoch.find", "LaneEpoch.slice", "LaneEpoch.visits"),
    ],
)
def test_the_core_runs_without_the_interpreters_lock(name: str) -> None:
    assert others_run_during(native_call(name))


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no lock to keep")
def test_a_call_that_keeps_the_lock_is_noticed() -> None:
    many = list(range(100_000))
    assert not others_run_during(lambda: sum(many))
