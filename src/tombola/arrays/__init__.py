"""Arrays shuffled in place: exactly, on all cores, the same for the same seed whatever the machine.

>>> import numpy as np
>>> from tombola.arrays import permutation, shuffled
>>> bool((shuffled(np.arange(9), seed=1) == permutation(9, seed=1)).all())
True
"""

from tombola.arrays._files import shuffle_file
from tombola.arrays._pov import BuildParams, Options, get_build_params, optim_options_for_dataset
from tombola.arrays._shuffle import method_for, permutation, shuffle, shuffled

__all__ = [
    "BuildParams",
    "Options",
    "get_build_params",
    "method_for",
    "optim_options_for_dataset",
    "permutation",
    "shuffle",
    "shuffle_file",
    "shuffled",
]
