"""What several tests of orders ask."""

from __future__ import annotations

import numpy as np

from tombola._ints import Ints
from tombola.order import Order, Visits


def assert_visits_cover(order: Order, visits: Visits, records: Ints) -> None:
    """Every position of an epoch, with the records it reads, lies in a visit of its lane to a part that has them."""
    covered = np.zeros(len(order), bool)
    for lane, start, stop, first, last in zip(
        visits.lane, visits.record_start, visits.record_stop, visits.first, visits.last, strict=True
    ):
        assert first % order.lanes == last % order.lanes == lane
        mine = np.arange(first, last + 1, order.lanes)
        covered[mine[(records[mine] >= start) & (records[mine] < stop)]] = True
    assert covered.all()
