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

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Cursor",
    "Global",
    "Lanes",
    "Layout",
    "Options",
    "Permutation",
    "Pipeline",
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
    from tombola.order import Global, Lanes, Layout, Permutation, Sequential
    from tombola.pipeline import Pipeline
    from tombola.plan import Cursor, Plan, World
    from tombola.stream import Batch, Reading, Stream

# Loaded when first asked for: a program waits for the rooms it uses and for no others.
_NAMES = {
    "arrays": ("Options", "get_build_params", "optim_options_for_dataset", "permutation", "shuffle", "shuffled"),
    "formats": ("Writer",),
    "order": ("Global", "Lanes", "Layout", "Permutation", "Sequential"),
    "pipeline": ("Pipeline",),
    "plan": ("Cursor", "Plan", "World"),
    "stream": ("Batch", "Reading", "Stream"),
}
_ROOM_OF = {name: room for room, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOM_OF:
        value = globals()[name] = getattr(import_module(f"tombola.{_ROOM_OF[name]}"), name)
        return value
    unknown = AttributeError(f"module 'tombola' has no attribute {name!r}")
    if name.startswith("_"):
        raise unknown
    try:
        return import_module(f"tombola.{name}")  # a room: tombola.quality works without an import of its own
    except ModuleNotFoundError as problem:
        if problem.name != f"tombola.{name}":
            raise
        raise unknown from None


def __dir__() -> list[str]:
    return [*__all__, *sorted(_NAMES)]
