"""The GPU kernels, in Triton: compiled for the size at hand when they are first used.

The methods are those of the CPU, bit for bit: ``pov``, and ``exact_gpu1``, whose Fisher–Yates steps are made by the
million at once. These files need torch and triton, so only _gpu.py imports this one. Everything here also runs on CPU
tensors in Triton's interpreter, which is how the tests compare it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from tombola.arrays._pov import Options, optim_options_for_dataset, steps_of
from tombola.arrays._seeds import key_of
from tombola.arrays._triton_exact import exact_gpu1
from tombola.arrays._triton_moves import words_of
from tombola.arrays._triton_pov import pov
from tombola.arrays._views import is_torch
from tombola.errors import ArrayError
from tombola.order import seed_of


def shuffle(
    arrays: Sequence[Any],
    names: Sequence[str],
    method: str,
    seed: Any,
    iterations: int | None,
    options: Options | None,
) -> None:
    """Shuffles arrays in unison that are on one GPU."""
    tensors = [_tensor(x, name) for x, name in zip(arrays, names, strict=True)]
    rows = len(tensors[0])
    for x, name in zip(tensors[1:], names[1:], strict=True):
        if len(x) != rows:
            raise ArrayError(
                f"{names[0]} has {rows} rows and {name} has {len(x)}; arrays in unison need the same number"
            )
        if x.device != tensors[0].device:
            raise ArrayError(
                f"{names[0]} is on {tensors[0].device} and {name} on {x.device}; arrays in unison need one device"
            )
    _check_apart(tensors, names)
    steps = steps_of(rows, iterations, options) if method == "pov" else None
    key = key_of(seed_of(seed), method, rows)
    if rows < 2 or all(x.numel() == 0 for x in tensors):
        return
    # Rows with gaps inside go through a copy; gaps between rows cost nothing.
    packed = [x if x[0].is_contiguous() and x.stride(0) > 0 else x.contiguous() for x in tensors if x.numel() > 0]
    words = [words_of(x) for x in packed]
    if steps is None:
        exact_gpu1(words, rows, key)
    else:
        pov(words, rows, key, steps, optim_options_for_dataset(rows, options).gpu_thread_block_size or 512)
    for x, copy in zip((x for x in tensors if x.numel() > 0), packed, strict=True):
        if copy is not x:
            x.copy_(copy)


def _tensor(x: Any, name: str) -> torch.Tensor:
    tensor: torch.Tensor = x if is_torch(x) else torch.from_dlpack(x)
    if tensor.ndim == 0:
        raise ArrayError(f"{name} is 0-d, so it has no rows; an array needs at least one axis")
    if tensor.requires_grad:
        raise ArrayError(f"{name} requires grad; shuffle {name}.detach(), which shares its memory")
    if tensor.is_conj() or tensor.is_neg():
        raise ArrayError(f"{name} is a lazy conjugate or negative view; shuffle {name}.resolve_conj().resolve_neg()")
    return tensor


def _check_apart(tensors: Sequence[torch.Tensor], names: Sequence[str]) -> None:
    """No element twice, within a tensor or between two; spans that overlap are refused, whatever lies between."""
    spans = []
    for x, name in zip(tensors, names, strict=True):
        axes = sorted((step, size) for size, step in zip(x.shape, x.stride(), strict=True) if size > 1)
        reach = 1
        for step, size in axes if x.numel() > 0 else ():
            if step < reach:
                raise ArrayError(
                    f"{name} is a view whose elements overlap in memory; shuffle a copy, or the array it views"
                )
            reach += (size - 1) * step
        spans.append((x.data_ptr(), x.data_ptr() + (reach * x.element_size() if x.numel() else 0), name))
    spans.sort()
    for (_, end, first), (begin, _, second) in pairwise(spans):
        if begin < end:
            raise ArrayError(f"{first} and {second} share memory; shuffle the array that holds both, once")
