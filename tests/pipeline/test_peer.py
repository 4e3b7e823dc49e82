"""Pipelines over the streams of Hugging Face's datasets, with its own code, in its own environment."""

from __future__ import annotations

import json
import sysconfig
from typing import Any

import pytest

from tests.peers import run_peer

pytestmark = pytest.mark.peer("datasets")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("peer") / "home"
    # Our package and what it needs come after the peer's own.
    ours = sysconfig.get_path("platlib")
    code = (
        f"import runpy, site; site.addsitedir({ours!r}); "
        f"runpy.run_module('tests.pipeline._huggingface', run_name='__main__')"
    )
    said = run_peer("datasets", home, "-c", code, seconds_max=200)
    values: dict[str, Any] = json.loads(said)
    return values


def test_it_is_read_shard_by_shard(found: dict[str, Any]) -> None:
    assert found["plain"] == found["direct"]
    assert found["listed"] == 10


def test_a_shuffled_chain_resumes(found: dict[str, Any]) -> None:
    assert sorted(number for batch in found["whole"] for number in batch) == sorted(found["direct"])
    assert found["resumed"] is True


def test_other_ranks_go_on(found: dict[str, Any]) -> None:
    for given in found["ranks"]:
        assert sorted(given) == sorted(found["whole"])


def test_what_is_refused(found: dict[str, Any]) -> None:
    assert "split_by_node of Hugging Face already" in found["distributed"]
    assert "to_iterable_dataset" in found["map-style"]
    assert "gives Table instead of dicts: call with_format of the pipeline" in found["arrow"]
