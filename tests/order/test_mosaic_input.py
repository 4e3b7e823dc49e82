"""What the exact MosaicML orders refuse, and that it is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tombola.cli import main
from tombola.errors import OrderError
from tombola.order import Layout, mosaic

LAYOUT: Any = Layout([5, 5])
OPTIONS: Any = mosaic.Options(canonical_nodes=1)
NOTHING: Any = None


def weighed(**options: Any) -> mosaic.Weights:
    return mosaic.weigh([10, 10], **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: weighed(repeat=["a", 1]), "repeat of stream 0 is 'a'"),
        (lambda: weighed(repeat=[1, -1]), "repeat of stream 1 is -1"),
        (lambda: weighed(repeat=[1e300, 1]), "repeat of stream 0 is 1e+300: more than 2^61 records"),
        (lambda: weighed(repeat=[1.7e308, 1]), "repeat of stream 0 is 1.7e+308: more than 2^61 records"),
        (lambda: weighed(repeat=[True, 1]), "repeat of stream 0 is True"),
        (lambda: weighed(repeat=[10**400, 1]), "repeat of stream 0 is 1000"),
        (lambda: weighed(repeat="ab"), "repeat is 'ab'; give a list"),
        (lambda: weighed(proportion=["a", 1]), "the proportion of stream 0 is 'a'"),
        (lambda: weighed(proportion=[np.nan, 1]), "the proportion of stream 0 is nan"),
        (lambda: weighed(proportion=[None, 1]), "the proportion of stream 0 is None"),
        (lambda: weighed(proportion=3), "proportion is 3; give a list"),
        (lambda: weighed(proportion=[1e308, 1e308]), "too large to be added up"),
        (lambda: weighed(choose=5), "choose is 5; give a list"),
        (lambda: weighed(choose=[2**61, 2**61 + 1]), "choose of stream 1"),
        (lambda: mosaic.work(LAYOUT, NOTHING, device_batch=1), "options is None"),
        (lambda: mosaic.work(LAYOUT, OPTIONS, device_batch=1, weights=[1, 2]), "weights is [1, 2]"),  # type: ignore
        (lambda: mosaic.Py1e(choose="ab"), "choose is 'ab'"),  # type: ignore[arg-type]
        (lambda: mosaic.Py1e(choose=5), "choose is 5"),  # type: ignore[arg-type]
        (lambda: mosaic.Py1e().over(Layout([2**41])), "keeps all of them in memory: more than 2^40 are refused"),
    ],
)
def test_bad_input(call: Callable[[], object], words: str) -> None:
    with pytest.raises(OrderError) as caught:
        call()
    assert words in str(caught.value)


def test_arrays_are_lists_too() -> None:
    assert weighed(repeat=np.array([1, 2])) == weighed(repeat=[1, 2])
    assert weighed(choose=np.array([3, 4])) == weighed(choose=[3, 4])
    assert weighed(proportion=np.array([1.0, 2.0])) == weighed(proportion=[1, 2])


def test_the_command_line_names_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["order", "4x10", "--order", "mosaic/py1e", "--option", "choose=5"]) != 0
    assert "choose is 5; give a list" in capsys.readouterr().err
