"""An epoch that is shorter or longer than a pass over the data, cut from whole passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tombola._ints import integer
from tombola.errors import OrderError
from tombola.order._lanes import Lanes
from tombola.order._layout import Layout
from tombola.order._nested import check_base, spec_of, spec_to_json
from tombola.order._order import Order, OrderSpec, register
from tombola.order._woven import Segment, WovenOrder


@register("passes")
@dataclass(frozen=True)
class Passes(OrderSpec):
    """Epochs of so many records, cut from whole passes of another order: no record is missed for ever.

    Each lane goes through its passes at its own length, so it stays with its shards. A position of an epoch is where
    the run stands after all the epochs before it: nothing is drawn anew where an epoch ends in mid-pass.

    Let the epochs be a multiple of the lanes: otherwise the first lanes read one record more in every epoch than the
    others, and go through their passes that much faster for ever (1,000 records in 64 lanes: 16 and 15).

    >>> order = Passes(epoch_records=40, base=Lanes(lanes=4)).over(Layout.equal(10, 10), seed=7)
    >>> run = [record for epoch in range(5) for record in order.slice(0, 40, epoch).tolist()]
    >>> sorted(run) == sorted([*range(100)] * 2)
    True
    """

    epoch_records: int
    base: OrderSpec = field(default_factory=Lanes)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epoch_records", check_epoch_records(self.epoch_records))
        object.__setattr__(self, "base", spec_of(self.base, "base"))

    def options(self) -> dict[str, Any]:
        """The options as plain JSON."""
        return {"epoch_records": self.epoch_records, "base": spec_to_json(self.base)}

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout with a seed."""
        base = self.base.over(layout, seed=seed)
        return in_passes(Passes(self.epoch_records, base.spec), base, self.epoch_records)


def check_epoch_records(value: Any) -> int:
    """The length of an epoch that a user asked for."""
    return integer(value, "epoch_records", 1, 2**61, OrderError)


def in_passes(spec: OrderSpec, base: Order, epoch_records: int) -> Order:
    """Epochs of another length over the passes of an order."""
    check_base(base, "epochs of another length", each_once=False)
    if epoch_records < base.lanes:
        raise OrderError(
            f"epoch_records is {epoch_records}, but there are {base.lanes} lanes and each needs a record; "
            f"use more records or fewer lanes"
        )
    whole = Segment(0, np.zeros(1, np.int64), np.zeros(base.lanes, np.int64))
    return WovenOrder(spec, base.layout, base.seed, [base], [whole], epoch_records=epoch_records)
