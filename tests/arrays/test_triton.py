"""The GPU kernels without a GPU: interpreted, against the slow twins, and compiled ahead of time for four GPUs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tombola
from tests.arrays._checks import P_MIN, p_of_all_orders
from tests.project._sources import ROOT
from tombola.arrays import _gpu, _triton_exact, _triton_moves, _triton_pov, method_for
from tombola.errors import ArrayError, MissingExtra

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
SHARED_BYTES_MAX = 64 << 10  # what every one of these has for a program


@pytest.mark.parametrize("check", ["exact", "no_room", "refusals", "pov", "dtypes", "calls"])
def test_in_the_interpreter(check: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.arrays._interpreted", check]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stdout + run.stderr


def compiled(kernel: Any, signature: dict[str, str], constants: dict[str, Any], target: str) -> Any:
    """A kernel for a GPU that need not be there, its pointers aligned as torch's are."""
    names = kernel.arg_names
    pointers = [name for name, kind in signature.items() if kind.startswith("*")]
    source = ASTSource(
        kernel,
        signature | dict.fromkeys(constants, "constexpr"),
        {(names.index(name),): value for name, value in constants.items()},
        {(names.index(name),): [["tt.divisibility", 16]] for name in pointers},
    )
    return triton.compile(source, target=TARGETS[target], options={"num_warps": 4})


def wide_moves(built: Any) -> tuple[int, int]:
    """How many instructions load and store 16 bytes, and how many less."""
    if "ptx" in built.asm:
        text, wide, any_width = built.asm["ptx"], r"(ld|st)\.global\S*\.v4\.b32", r"(ld|st)\.global\S*\.b32"
    else:
        text, wide, any_width = (
            built.asm["amdgcn"],
            r"(global|buffer)_(load|store)_dwordx4",
            r"(global|buffer)_(load|store)_dword\b",
        )
    found = len(re.findall(wide, text))
    return found, len(re.findall(any_width, text)) - (found if "ptx" in built.asm else 0)


@pytest.mark.parametrize("target", TARGETS)
def test_moves_compile_to_16_byte_words(target: str) -> None:
    signature = {"to": "*i32", "to_rows": "*i64", "source": "*i32", "source_rows": "*i64"}
    signature |= dict.fromkeys(("count", "to_units", "source_units", "words", "tiles"), "i32")
    built = compiled(_triton_moves.move_kernel, signature, {"UNIT": 4, "ROWS": 64, "TILE": 32}, target)
    wide, narrow = wide_moves(built)
    assert wide >= 2
    assert narrow == 0
    narrow_only = compiled(_triton_moves.move_kernel, signature, {"UNIT": 1, "ROWS": 64, "TILE": 32}, target)
    assert wide_moves(narrow_only)[0] == 0, "rows that are not aligned must not be moved as if they were"
    for words in ("*i8", "*i16"):
        compiled(
            _triton_moves.move_kernel,
            signature | {"to": words, "source": words},
            {"UNIT": 1, "ROWS": 64, "TILE": 32},
            target,
        )


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_pov_compiles(target: str, table: bool) -> None:
    signature = {"words_at": "*i32", "keys": "*i64", "table": "*i64"}
    signature |= dict.fromkeys(("rows", "blocks", "held", "left_bits", "right_bits", "units", "words", "parts"), "i32")
    constants = {"VIRTUAL": 32, "PHYSICAL": 16, "SLOTS": 512, "UNIT": 4, "TILE": 8, "TABLE": table}
    built = compiled(_triton_pov.pov_kernel, signature, constants, target)
    if target != "gfx942":
        assert wide_moves(built)[0] >= 2
    assert built.metadata.shared <= SHARED_BYTES_MAX


@pytest.mark.parametrize("target", TARGETS)
def test_swaps_compile_to_16_byte_words(target: str) -> None:
    signature = {"words_at": "*i32", "state": "*i64", "bits": "*i32", "keys": "*i64"}
    signature |= dict.fromkeys(("first", "rows", "count", "mask", "units", "words", "tiles"), "i32")
    built = compiled(_triton_exact.swap_kernel, signature, {"UNIT": 4, "ROWS": 64, "TILE": 32}, target)
    assert wide_moves(built)[0] >= 4  # two rows are read and two written
    assert built.metadata.shared <= SHARED_BYTES_MAX
    narrow_only = compiled(_triton_exact.swap_kernel, signature, {"UNIT": 1, "ROWS": 64, "TILE": 32}, target)
    assert wide_moves(narrow_only)[0] == 0, "rows that are not aligned must not be moved as if they were"


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("target", TARGETS)
def test_the_kernels_of_exact_compile(target: str, kind: str) -> None:
    """With numbers of rows below and above 2^31."""
    run = {"keys": "*i64", "first": kind, "rows": kind}
    bits = {"bits": "*i32", **run, "count": "i32", "mask": "i32"}
    listed = {"steps": "*i64", "state": "*i64"}
    links = {"links": "*i32", "befores": "*i32", "targets": "*i32", "draws": "*i64", "lasts": "*i8"}
    rows_of = dict.fromkeys(("own_rows", "from_run", "from_beyond", "beyond", "sent"), "*i64")
    signatures = {
        "touch_kernel": bits,
        "count_kernel": {"counts": "*i64", **bits},
        "list_kernel": {**listed, "sums": "*i64", **bits, "room": "i32", "blocks": "i32"},
        "pack_kernel": {"packed": "*i64", **listed, **run, "room": "i32", "shift": "i32"},
        "link_kernel": {**links, "packed": "*i64", **listed, "count": "i32", "shift": "i32"},
        "resolve_kernel": {**rows_of, **links, **listed, "first": kind, "room": "i32"},
    }
    for name, signature in signatures.items():
        built = compiled(getattr(_triton_exact, name), signature, {"BLOCK": 1024}, target)
        assert built.metadata.shared <= SHARED_BYTES_MAX, name


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_every_order_of_exact_gpu1_is_equally_likely(n: int) -> None:
    """The CPU's, which the kernels equal."""
    assert p_of_all_orders(n, 200, lambda i: tombola.permutation(n, seed=i, method="exact_gpu1")) > P_MIN


# ---- which way an array goes


class OnGpu:
    """Says that it is on a CUDA device, as an array of another library there would."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_arrays_on_a_gpu_take_the_gpu_methods() -> None:
    assert method_for(OnGpu()) == method_for(OnGpu(), method="exact") == "exact_gpu1"
    assert method_for(OnGpu(), iterations=3) == "pov"
    with pytest.raises(ArrayError, match=r"x\[0\] is not on the GPU but another array is"):
        tombola.shuffle((np.arange(3), OnGpu()))
    with pytest.raises(ArrayError, match="on a GPU; only torch tensors"):
        tombola.shuffled(OnGpu())


def test_without_triton_a_gpu_array_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tombola.arrays._triton", None)
    with pytest.raises(MissingExtra, match=r"tombola\[gpu\]"):
        tombola.shuffle(OnGpu(), seed=1)
    assert _gpu.__doc__


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("method", ["exact_gpu1", "pov"])
@pytest.mark.parametrize("n", [2, 1000, 70_001, 3_000_000])
def test_on_a_gpu(method: str, n: int) -> None:
    x = torch.arange(n, device="cuda")
    tombola.shuffle(x, seed=5, method=method)
    assert np.array_equal(x.cpu().numpy(), tombola.permutation(n, seed=5, method=method))
