"""Pipelines: lazy steps over any iterable, with a shuffle buffer that resumes exactly.

>>> from tombola.pipeline import Pipeline
>>> list(Pipeline.from_iterable(range(6)).filter(lambda n: n % 2).map(lambda n: n * 10))
[10, 30, 50]
"""

from tombola.pipeline._pipeline import Pipeline
from tombola.pipeline._shuffle import Shuffle
from tombola.pipeline._slow import SlowShuffleBuffer
from tombola.pipeline._sources import Source
from tombola.pipeline._state import is_state, merge_states
from tombola.pipeline._step import Context, Node, Run, Step

__all__ = [
    "Context",
    "Node",
    "Pipeline",
    "Run",
    "Shuffle",
    "SlowShuffleBuffer",
    "Source",
    "Step",
    "is_state",
    "merge_states",
]
