"""tombola shuffles training data at every scale: the order of records is a pure function.

>>> import tombola
>>> order = tombola.Lanes(lanes=4).over(tombola.Layout.equal(8, 100), seed=7)
>>> plan = tombola.Plan(order, tombola.World(rank=0, ranks=2), batch_size=64)
>>> len(plan.batch(0))
32
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tombola.order import Global, Lanes, Layout, Permutation, Sequential
from tombola.plan import Cursor, Plan, World

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Cursor",
    "Global",
    "Lanes",
    "Layout",
    "Options",
    "Permutation",
    "Plan",
    "Reading",
    "Sequential",
    "Stream",
    "World",
    "Writer",
    "__version__",
    "get_build_params",
    "optim_options_for_dataset",
    "permutation",
    "shuffle",
    "shuffled",
]

if TYPE_CHECKING:
    from tombola.arrays import Options, get_build_params, optim_options_for_dataset, permutation, shuffle, shuffled
    from tombola.formats import Writer
    from tombola.stream import Batch, Reading, Stream

# Rooms that a program which only plans need not load.
_LATER = {
    "Options": "tombola.arrays",
    "get_build_params": "tombola.arrays",
    "optim_options_for_dataset": "tombola.arrays",
    "permutation": "tombola.arrays",
    "shuffle": "tombola.arrays",
    "shuffled": "tombola.arrays",
    "Batch": "tombola.stream",
    "Reading": "tombola.stream",
    "Stream": "tombola.stream",
    "Writer": "tombola.formats",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tombola' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)  # looked up once: shuffle is called often
    return value
