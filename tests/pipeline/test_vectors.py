"""The golden vectors of the shuffles hold, by the native buffer and by its slow twin."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tombola.pipeline import SlowShuffleBuffer, _shuffle
from tools import write_vectors as tool

CASES = tool.load(tool.FOLDER / "pipeline.json")


@pytest.mark.parametrize("slow", [False, True])
def test_vectors(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if slow:
        monkeypatch.setattr(_shuffle, "_core", SimpleNamespace(ShuffleBuffer=SlowShuffleBuffer))
    assert len(CASES) > 40
    for case in CASES:
        assert list(tool.pipeline_of(case)) == case["records"], tool.question_of(case)


def test_a_vector_is_a_share_of_all() -> None:
    """Dealt to ranks, each case is the same records."""
    for case in CASES:
        ranks = [tool.pipeline_of(case).split_by_node(rank, case["readers"]) for rank in range(case["readers"])]
        found = []
        for rank in ranks:
            rank.set_epoch(case["epoch"])
            found.append(list(rank))
        assert sorted(map(str, sum(found, []))) == sorted(map(str, case["records"]))  # noqa: RUF017
