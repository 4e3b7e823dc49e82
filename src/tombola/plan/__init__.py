"""Plans: an order dealt to nodes, ranks and workers in batches; resumed anywhere from a cursor of a few integers.

>>> from tombola.order import Layout, Sequential
>>> from tombola.plan import Plan, World
>>> Plan(Sequential().over(Layout([4, 4])), World(rank=1, ranks=2), batch_size=4).batch(0).records.tolist()
[1, 3]
"""

from tombola.plan._cursor import Cursor
from tombola.plan._needs import Locality, Needs
from tombola.plan._plan import Place, Plan, Rows
from tombola.plan._world import World

__all__ = ["Cursor", "Locality", "Needs", "Place", "Plan", "Rows", "World"]
