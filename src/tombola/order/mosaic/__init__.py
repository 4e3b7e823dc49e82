"""The exact MosaicML orders: record for record what mosaicml-streaming 0.13.0 reads, so that a run can move and go on.

>>> from tombola.order import mosaic
>>> mosaic.shuffle("py1s", [3, 3, 4], canonical_nodes=1, seed=7, epoch=0).tolist()
[1, 2, 0, 3, 4, 5, 8, 6, 9, 7]
"""

from tombola.order.mosaic._batching import Options, work
from tombola.order.mosaic._deal import deal
from tombola.order.mosaic._draws import Draws
from tombola.order.mosaic._sampling import Sample, Weights, sample, sample_shards, weigh
from tombola.order.mosaic._shuffle import shuffle
from tombola.order.mosaic._specs import Naive, Py1b, Py1br, Py1e, Py1s, Py2s

__all__ = [
    "Draws",
    "Naive",
    "Options",
    "Py1b",
    "Py1br",
    "Py1e",
    "Py1s",
    "Py2s",
    "Sample",
    "Weights",
    "deal",
    "sample",
    "sample_shards",
    "shuffle",
    "weigh",
    "work",
]
