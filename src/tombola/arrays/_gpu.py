"""The door to torch and triton, which only arrays on a GPU need."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from tombola.arrays._pov import Options
from tombola.arrays._views import is_on_gpu
from tombola.errors import ArrayError, MissingExtra


def shuffle(
    arrays: Sequence[Any],
    names: Sequence[str],
    method: str,
    seed: Any,
    iterations: int | None,
    options: Options | None,
) -> None:
    """Shuffles arrays in unison that are on a GPU."""
    for x, name in zip(arrays, names, strict=True):
        if not is_on_gpu(x):
            raise ArrayError(f"{name} is not on the GPU but another array is; arrays in unison must be on one device")
    _kernels().shuffle(arrays, names, method, seed, iterations, options)


def _kernels() -> ModuleType:
    try:
        return import_module("tombola.arrays._triton")
    except ImportError as problem:
        raise MissingExtra(
            f"arrays on a GPU need torch and triton, and {problem.name or 'one of them'} is not installed; "
            "pip install 'tombola[gpu]', or shuffle a copy in host memory"
        ) from None
