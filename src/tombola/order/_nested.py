"""Orders inside the options of orders, as values and as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tombola.errors import OrderError
from tombola.order._order import OrderSpec, make_spec


def spec_of(value: Any, what: str) -> OrderSpec:
    """The order that an option names: a spec, a name, or {"order": name, option: value, …}."""
    if isinstance(value, OrderSpec):
        return value
    if isinstance(value, str):
        return make_spec(value)
    if isinstance(value, Mapping) and isinstance(value.get("order"), str):
        return make_spec(value["order"], **{name: given for name, given in value.items() if name != "order"})
    raise OrderError(f'{what} is {value!r}; give an order such as Lanes(), or {{"order": "lanes", "lanes": 64}}')


def spec_to_json(spec: OrderSpec) -> dict[str, Any]:
    """What `spec_of` makes the spec of again."""
    return {"order": spec.name, **spec.options()}
