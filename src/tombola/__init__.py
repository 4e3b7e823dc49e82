"""tombola shuffles training data at every scale: the order of records is a pure function.

>>> import tombola
>>> order = tombola.Lanes(lanes=4).over(tombola.Layout.equal(8, 100), seed=7)
>>> plan = tombola.Plan(order, tombola.World(rank=0, ranks=2), batch_size=64)
>>> len(plan.batch(0))
32
"""

from tombola.arrays import Options, get_build_params, optim_options_for_dataset, permutation, shuffle, shuffled
from tombola.order import Global, Lanes, Layout, Permutation, Sequential
from tombola.plan import Cursor, Plan, World

__version__ = "0.1.0"

__all__ = [
    "Cursor",
    "Global",
    "Lanes",
    "Layout",
    "Options",
    "Permutation",
    "Plan",
    "Sequential",
    "World",
    "__version__",
    "get_build_params",
    "optim_options_for_dataset",
    "permutation",
    "shuffle",
    "shuffled",
]
