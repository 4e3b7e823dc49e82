"""The golden vectors of the array methods: against the slow twins, and by every way a shuffle can go."""

from __future__ import annotations

import numpy as np
import pytest

import tombola
from tombola.arrays import _slow
from tombola.arrays._pov import PovSteps
from tools import write_vectors as tool

CASES = tool.load(tool.FOLDER / "arrays.json")
SLOW_ROWS_MAX = 70_000


def test_there_are_cases_of_every_method() -> None:
    assert {case["method"] for case in CASES} == {"exact", "exact_gpu1", "pov"}
    assert len(CASES) > 80


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["n"] <= SLOW_ROWS_MAX], ids=lambda c: f"{c['method']}-{c['n']}"
)
def test_slow_twins_give_the_vectors(case: tool.Case) -> None:
    n, key = case["n"], int(case["key"], 16)
    if case["method"] == "exact":
        rows = _slow.permutation(n, key)
    elif case["method"] == "exact_gpu1":
        rows = _slow.gpu1_permutation(n, key)
    else:
        rows = _slow.pov_permutation(n, key, PovSteps(**case["steps"]))
    assert [rows[i] for i in case["inputs"]] == case["outputs"]
    assert sum((i + 1) * row for i, row in enumerate(rows)) % 2**64 == case["checksum"]


@pytest.mark.parametrize("method", ["exact", "exact_gpu1", "pov"])
def test_rows_of_every_kind_come_as_the_vectors_say(method: str) -> None:
    for case in CASES:
        if case["method"] != method or "options" in case or not 0 < case["n"] <= SLOW_ROWS_MAX:
            continue
        numbers, seed = np.arange(case["n"]), case["seed"]
        wide, strided, objects = np.repeat(numbers[:, None], 40, 1), np.repeat(numbers, 2)[::2], numbers.astype(object)
        for x in (numbers.astype("<u4"), numbers.astype("S7"), wide, strided, objects):
            tombola.shuffle(x, seed=seed, method=method, threads=3)
            got = (x[:, -1] if x.ndim == 2 else x)[case["inputs"]]
            assert got.astype(np.int64).tolist() == case["outputs"]
