"""Quality: an order judged against a perfect shuffle of the same data, from positions alone or with a feature.

>>> from tombola.order import Lanes, Layout
>>> score(Lanes(lanes=64).over(Layout.equal(256, 250), seed=7), batch_size=64)["shards_per_batch"]
64.0
"""

from tombola.quality._result import Finding, Lag, Number, Score, Span
from tombola.quality._score import score

__all__ = ["Finding", "Lag", "Number", "Score", "Span", "score"]
