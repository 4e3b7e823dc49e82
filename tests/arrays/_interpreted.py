"""The GPU kernels in Triton's interpreter, on CPU tensors, against the slow twins.

Run by test_triton.py in a process of its own: whether kernels are interpreted is decided when they are defined.

    TRITON_INTERPRET=1 python -m tests.arrays._interpreted CHECK
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

import tombola
from tests.arrays._checks import P_MIN, key, p_of_all_orders
from tombola.arrays import _slow, _triton
from tombola.arrays._pov import PovSteps
from tombola.arrays._seeds import key_of
from tombola.errors import ArrayError

KEY = 0xF234_5678_90AB_CDEF  # above 2^63, where signs go wrong


def numbered(n: int, columns: int = 1) -> torch.Tensor:
    return torch.arange(n, dtype=torch.int32)[:, None].repeat(1, columns)


def exact() -> None:
    """Every number of steps at once gives what plain Fisher–Yates gives."""
    for n in (2, 3, 7, 40, 300):
        wanted = _slow.gpu1_permutation(n, KEY)
        for at_once in {1 if n < 10 else 30, 3 if n < 10 else 64, max(n // 2, 1), n - 1, n, None}:
            x = numbered(n)
            _triton.exact_gpu1([_triton.words_of(x)], n, KEY, at_once)
            assert x[:, 0].tolist() == wanted, (n, at_once)
    n = 5000
    x = numbered(n)
    _triton.exact_gpu1([_triton.words_of(x)], n, KEY, 2000)
    assert x[:, 0].tolist() == _slow.gpu1_permutation(n, KEY)


def refusals() -> None:
    """Draws that the exact bound refuses are drawn again: with bounds this large, a quarter of them are."""
    rows, first, count = 3 * 2**61, 0, 64
    draws = torch.empty(count, dtype=torch.int64)
    keys = torch.tensor([KEY - 2**64])
    _triton.draw_kernel[(1,)](draws, keys, first, rows, count, BLOCK=64)
    again = 0
    for k in range(count):
        attempt, bound = 0, rows - first - k
        while (product := _slow._word(_slow.child(KEY, attempt), first + k) * bound) % 2**64 < 2**64 % bound:
            attempt += 1
        again += attempt
        assert draws[k] == first + k + (product >> 64)
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
                _triton.exact_gpu1([_triton.words_of(copy)], n, KEY, 20)
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


def uniform() -> None:
    """Every order of four rows is equally likely, with steps made in runs of two."""

    def order_of(i: int) -> np.ndarray:
        draws = torch.tensor([k + (_slow._word(_slow.child(key(i), 0), k) * (4 - k) >> 64) for k in range(4)])
        x = torch.arange(4)
        for first in (0, 2):
            moves = _triton._resolved(draws[first : first + 2], first)
            run, old = x[first : first + 2].clone(), x.clone()
            for k in range(2):
                x[first + k] = run[moves.from_run[k]] if moves.from_run[k] >= 0 else old[moves.from_beyond[k]]
            for k in range(2):
                if moves.beyond[k] >= 0:
                    x[moves.beyond[k]] = run[moves.sent[k]]
        return x.numpy()

    assert order_of(5).tolist() == _slow.gpu1_permutation(4, key(5))
    assert p_of_all_orders(4, 60, order_of) > P_MIN


if __name__ == "__main__":
    globals()[sys.argv[1]]()
