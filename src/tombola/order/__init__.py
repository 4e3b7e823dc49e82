"""Orders: which record comes at which position of an epoch, as pure arithmetic on integers.

>>> from tombola.order import Lanes, Layout
>>> order = Lanes(lanes=2).over(Layout([3, 3, 3]), seed=7)
>>> sorted(order.slice(0, 9, epoch=4).tolist())
[0, 1, 2, 3, 4, 5, 6, 7, 8]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tombola.order._keys import check_seed, derive_key, seed_of
from tombola.order._lanes import Lanes
from tombola.order._layout import Layout
from tombola.order._order import Order, OrderSpec, Visits, make_spec, option_names, order_names, register
from tombola.order._permutation import Permutation
from tombola.order._plain import Global, Sequential

if TYPE_CHECKING:
    from tombola.order import mosaic
    from tombola.order._batching import DevicePerStream, PerStream, Stratified
    from tombola.order._concatenation import Concatenation
    from tombola.order._mixture import Mixture
    from tombola.order._passes import Passes
    from tombola.order._subset import Kept, Subset
    from tombola.order._takes import Take

__all__ = [
    "Concatenation",
    "DevicePerStream",
    "Global",
    "Kept",
    "Lanes",
    "Layout",
    "Mixture",
    "Order",
    "OrderSpec",
    "Passes",
    "PerStream",
    "Permutation",
    "Sequential",
    "Stratified",
    "Subset",
    "Take",
    "Visits",
    "check_seed",
    "derive_key",
    "make_spec",
    "mosaic",
    "option_names",
    "order_names",
    "register",
    "seed_of",
]

# Loaded when first asked for: most programs use one order, and all of them wait for the import.
_LATER = {
    "Concatenation": "_concatenation",
    "DevicePerStream": "_batching",
    "Kept": "_subset",
    "Mixture": "_mixture",
    "Passes": "_passes",
    "PerStream": "_batching",
    "Stratified": "_batching",
    "Subset": "_subset",
    "Take": "_takes",
}


def __getattr__(name: str) -> Any:
    if name == "mosaic":
        return import_module("tombola.order.mosaic")
    if name not in _LATER:
        raise AttributeError(f"module 'tombola.order' has no attribute {name!r}")
    return getattr(import_module(f"tombola.order.{_LATER[name]}"), name)
