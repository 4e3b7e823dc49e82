"""Orders inside the options of orders, as values and as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tombola.errors import OrderError
from tombola.order._layout import Layout
from tombola.order._order import Order, OrderSpec, make_spec


def spec_of(value: Any, what: str) -> OrderSpec:
    """The order that an option names: a spec, a name, or {"order": name, option: value, …}."""
    if isinstance(value, OrderSpec):
        return value
    if isinstance(value, str):
        return make_spec(value)
    if isinstance(value, Mapping) and isinstance(value.get("order"), str):
        return make_spec(value["order"], **{name: given for name, given in value.items() if name != "order"})
    raise OrderError(f'{what} is {value!r}; give an order such as Lanes(), or {{"order": "lanes", "lanes": 64}}')


def base_over(base: OrderSpec, layout: Layout, seed: int, taker: str) -> Order:
    """An order that reads every record once, for `taker` to be made of; or an error that names it."""
    try:
        order = base.over(layout, seed=seed)
    except OrderError as problem:
        raise OrderError(f"the order {base.name!r} cannot be the base of {taker}: {problem}") from None
    return check_base(order, taker)


def check_base(base: Order, taker: str, *, each_once: bool = True) -> Order:
    """The order, or an error if it cannot be what `taker` is made of: its batches are fixed, or it is of other length.

    each_once
        Whether an epoch of it has to read every record once, so that its positions and records are equally many.
    """
    reason = None
    if base.run > 1:
        reason = f"it gives {base.run} consecutive positions to one rank"
    elif base.batch_size is not None:
        reason = f"it is bound to batches of {base.batch_size}"
    elif each_once and len(base) != base.layout.records:
        reason = f"an epoch of it has {len(base)} positions for {base.layout.records} records"
    if reason is not None:
        instead = "use Lanes or Global" if each_once else "put it outside: give it the other order as its own base"
        raise OrderError(f"the order {base.spec.name!r} cannot be the base of {taker}: {reason}; {instead}")
    return base


def spec_to_json(spec: OrderSpec) -> dict[str, Any]:
    """What `spec_of` makes the spec of again."""
    return {"order": spec.name, **spec.options()}
