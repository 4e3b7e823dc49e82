"""The GPU kernels in Triton's interpreter, on CPU tensors, against the slow twins.

Run by test_triton.py in a process of its own: whether kernels are interpreted is decided when they are defined.

    TRITON_INTERPRET=1 python -m tests.arrays._interpreted CHECK
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import tombola
from tombola.arrays import _slow, _triton, _triton_exact
from tombola.arrays._pov import PovSteps
from tombola.arrays._seeds import key_of
from tombola.arrays._triton_exact import Limits
from tombola.errors import ArrayError

KEY = 0xF234_5678_90AB_CDEF  # above 2^63, where signs go wrong


def numbered(n: int, columns: int = 1) -> torch.Tensor:
    return torch.arange(n, dtype=torch.int32)[:, None].repeat(1, columns)


def exact() -> None:
    """Any limits give what plain Fisher–Yates gives: runs of few steps and of many, small tables, no room."""
    for n in (2, 3, 7, 40, 300):
        wanted = _slow.gpu1_permutation(n, KEY)
        assert shuffled(n, None) == wanted
        for limits in (Limits(8, 1, 5, 64), Limits(64, n // 2, 6, 256), Limits(n, n, 5, 1)):
            assert shuffled(n, limits) == wanted, (n, limits)
    n = 5000
    wanted = _slow.gpu1_permutation(n, KEY)
    assert shuffled(n, Limits(600, 1000, 12, 4096), 3) == wanted
    assert shuffled(n, Limits(200, 4000, 5, 1 << 20)) == wanted


def no_room() -> None:
    """A run of which more steps meet than there is room for is made again, in halves."""
    n, made = 200, []
    wanted = _slow.gpu1_permutation(n, KEY)
    runs = _triton_exact._runs

    def watched(*arguments: Any) -> tuple[int, bool]:
        made.append(runs(*arguments))
        return made[-1]

    longest = _triton_exact._longest
    try:
        _triton_exact._runs = watched
        _triton_exact._longest = lambda left, limits: min(8 * longest(left, limits), left - limits.last_run)
        assert shuffled(n, Limits(8, 100, 9, 256), 2) == wanted
    finally:
        _triton_exact._runs, _triton_exact._longest = runs, longest
    assert any(stuck for _, stuck in made)
    assert not made[-1][1]


def shuffled(n: int, limits: Limits | None, columns: int = 1) -> list[int]:
    x = numbered(n, columns)
    _triton.exact_gpu1([_triton.words_of(x)], n, KEY, limits)
    assert torch.equal(x[:, 0], x[:, -1])
    found: list[int] = x[:, 0].tolist()
    return found


@triton.jit
def drawn_kernel(draws, keys, first, rows, count, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK).to(tl.int64)
    tl.store(draws + k, _triton_exact._drawn(keys, first, k, rows, k < count), mask=k < count)


def refusals() -> None:
    """Draws that the exact bound refuses are drawn again: with bounds this large, a quarter of them are."""
    rows, first, count = 3 * 2**61, 5, 60
    draws = torch.empty(count, dtype=torch.int64)
    keys = torch.tensor([KEY - 2**64])
    drawn_kernel[(1,)](draws, keys, first, rows, count, BLOCK=64)
    again = 0
    for k in range(count):
        attempt, bound = 0, rows - first - k
        while (product := _slow._word(_slow.child(KEY, attempt), first + k) * bound) % 2**64 < 2**64 % bound:
            attempt += 1
        again += attempt
        assert draws[k] == k + (product >> 64)
    assert again > 5


def pov() -> None:
    """Sizes that are no powers of two, a last block that is short, a table and a network to deal the blocks."""
    cases = [
        (2, 2, 2, [1]),
        (30, 3, 5, [0, 2, 6]),
        (101, 4, 4, [3]),
        (97, 1, 7, [3]),
        (5, 16, 3, [1]),
        (300, 8, 2, [1]),
    ]
    for n, virtual, physical, offsets in cases:
        steps = PovSteps(2, virtual, physical, offsets)
        x = numbered(n, 3)
        _triton.pov([_triton.words_of(x)], n, KEY, steps, 128)
        assert x[:, 0].tolist() == x[:, 2].tolist() == _slow.pov_permutation(n, KEY, steps), (n, steps)
    long = numbered(20, 700)  # several programs share a virtual block
    _triton.pov([_triton.words_of(long)], 20, KEY, PovSteps(2, 4, 3, [1]), 128)
    wanted = torch.tensor(_slow.pov_permutation(20, KEY, PovSteps(2, 4, 3, [1])), dtype=torch.int32)
    assert torch.equal(long, wanted[:, None].expand(20, 700))


def dtypes() -> None:
    """Rows of any size, alignment and distance."""
    n = 50
    steps = PovSteps(1, 4, 8, [3])
    wanted = {"exact": _slow.gpu1_permutation(n, KEY), "pov": _slow.pov_permutation(n, KEY, steps)}
    wide = torch.arange(n * 24, dtype=torch.int64).reshape(n, 24)
    rows = [
        wide, wide.to(torch.float64)[:, :1], wide[:, 1:5].contiguous(), wide.to(torch.bfloat16), wide.to(torch.bool),
        wide.to(torch.uint8)[:, :3], wide.to(torch.int16)[:, :5], wide[:, 2:9], wide.to(torch.int32)[:, :4],
        wide.to(torch.complex64).reshape(n, 2, 12), wide.to(torch.int8)[:, 0],
    ]  # fmt: skip
    for x in rows:
        for method in ("exact", "pov"):
            copy = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
            copy.copy_(x)
            if method == "exact":
                _triton.exact_gpu1([_triton.words_of(copy)], n, KEY, Limits(24, 20, 6, 1000))
            else:
                _triton.pov([_triton.words_of(copy)], n, KEY, steps, 128)
            assert torch.equal(copy, x[torch.tensor(wanted[method])]), (x.dtype, x.shape, method)
    assert _triton.words_of(wide).unit == 4
    assert _triton.words_of(wide.to(torch.int32)[:, :4].contiguous()).unit == 4
    assert _triton.words_of(wide[:, :1]).unit == 2


def calls() -> None:
    """The call that arrays on a GPU take: unison, seeds, methods, refusals before anything is touched."""
    n = 60
    x, y = numbered(n, 2), torch.arange(n).double()
    for method, chosen in (("exact_gpu1", {}), ("pov", {"iterations": 1, "options": tombola.Options(2, 4)})):
        x, y = numbered(n, 2), torch.arange(n).double()
        _triton.shuffle([x, y], ["x[0]", "x[1]"], method, 7, chosen.get("iterations"), chosen.get("options"))
        wanted = tombola.permutation(n, seed=7, method=method, **chosen)
        assert np.array_equal(x[:, 1].numpy(), wanted)
        assert np.array_equal(y.numpy(), wanted)
    assert key_of(7, "exact_gpu1", n) != key_of(7, "pov", n)

    columns = numbered(n, 4).T.contiguous().T  # rows with gaps inside
    _triton.shuffle([columns], ["x"], "exact_gpu1", 7, None, None)
    assert np.array_equal(columns[:, 3].numpy(), tombola.permutation(n, seed=7, method="exact_gpu1"))

    before = x.clone()
    refused = [
        ([torch.tensor(3)], "0-d"),
        ([x, y[:-1]], r"60 rows and x\[1\] has 59"),
        ([x, x], "share memory"),
        ([torch.ones(1).expand(5)], "overlap"),
        ([torch.ones(5, requires_grad=True)], "requires grad"),
        ([x, torch.ones(60, device="meta")], "need one device"),
    ]
    for arrays, message in refused:
        with pytest.raises(ArrayError, match=message):
            _triton.shuffle(arrays, [f"x[{i}]" for i in range(len(arrays))], "exact_gpu1", 7, None, None)
    assert torch.equal(x, before)
    for empty in (torch.ones(0, 3), torch.ones(1, 3), torch.ones(4, 0)):
        _triton.shuffle([empty], ["x"], "exact_gpu1", 7, None, None)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
