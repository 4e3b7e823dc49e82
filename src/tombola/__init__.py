"""tombola shuffles training data at every scale: the order of records is a pure function.

>>> import tombola
>>> order = tombola.Lanes(lanes=4).over(tombola.Layout.equal(8, 100), seed=7)
>>> plan = tombola.Plan(order, tombola.World(rank=0, ranks=2), batch_size=64)
>>> len(plan.batch(0))
32
"""

from tombola.formats import Writer
from tombola.order import Global, Lanes, Layout, Permutation, Sequential
from tombola.plan import Cursor, Plan, World
from tombola.stream import Batch, Reading, Stream

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Cursor",
    "Global",
    "Lanes",
    "Layout",
    "Permutation",
    "Plan",
    "Reading",
    "Sequential",
    "Stream",
    "World",
    "Writer",
    "__version__",
]
