"""Streams: a plan being read, batch after batch, from any point.

>>> from tombola import Stream, Writer
>>> from tombola.stores import MemoryStore
>>> store = MemoryStore()
>>> with Writer(store, columns={"n": "int"}) as writer:
...     for n in range(10):
...         writer.write({"n": n})
>>> sorted(n for batch in Stream(store, batch_size=5, seed=1) for n in batch["n"].tolist())
[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
"""

from tombola.stream._batch import Batch
from tombola.stream._map import Mapped, MappedBatch, MappedBatches
from tombola.stream._options import Reading
from tombola.stream._stats import Stats, Substitution
from tombola.stream._stream import Batches, Stream

__all__ = ["Batch", "Batches", "Mapped", "MappedBatch", "MappedBatches", "Reading", "Stats", "Stream", "Substitution"]
