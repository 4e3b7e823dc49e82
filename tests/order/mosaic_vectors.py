"""The peer's own outputs, as the tests read them: order.json was given with the project, peer.json holds the answers to
many random small cases (bench/mosaic_peer.py writes it, in a venv with the peer)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tombola.errors import OrderError
from tombola.order import Layout
from tombola.order.mosaic import Options, Weights, deal, shuffle, weigh, work

FOLDER = Path(__file__).parents[1] / "vectors" / "mosaic"
Case = dict[str, Any]


@cache
def load(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / name).read_text())


def all_cases(kind: str) -> list[Case]:
    """Both files' cases of "shuffle", "deal", "sampling" or "work", in one form."""
    given = load("order.json")["partition" if kind == "deal" else kind]
    return (
        [*(_as_work(case) for case in given), *load("peer.json")["work"]]
        if kind == "work"
        else [
            *given,
            *load("peer.json")[kind],
        ]
    )


def _as_work(case: Case) -> Case:
    sizes = [
        [size for size, of in zip(case["samples_per_shard"], case["stream_per_shard"], strict=True) if of == stream]
        for stream in range(len(case["stream_args"]))
    ]
    world = {key: case[key] for key in ("nodes", "ranks_per_node", "workers_per_rank", "epoch", "sample_in_epoch")}
    return {
        "sizes": sizes,
        "weights": case["stream_args"],
        "options": {"batching_method": case["batching_method"], **case["dataset_args"]},
        "world": world,
        "ids": case["ids"],
        "shape": case["shape"],
    }


def answer(call: Any) -> Case:
    """What a call gives, in the form of the vectors."""
    try:
        out = call()
    except OrderError:
        return {"error": True}
    return {"ids": out.reshape(-1).tolist(), "shape": list(out.shape)}


def wanted(case: Case) -> Case:
    if "error" in case:
        return {"error": True}
    return {"ids": case["ids"], "shape": case.get("shape", [len(case["ids"])])}


def shuffled(case: Case) -> np.ndarray:
    return shuffle(
        case["algo"],
        case["shard_sizes"],
        canonical_nodes=case["num_canonical_nodes"],
        seed=case["seed"],
        epoch=case["epoch"],
        block_records=case["block_size"],
    )


def dealt(case: Case) -> np.ndarray:
    return deal(
        case["num_samples"],
        canonical_nodes=case["num_canonical_nodes"],
        nodes=case["num_physical_nodes"],
        ranks_per_node=case["ranks_per_node"],
        workers_per_rank=case["workers_per_rank"],
        device_batch=case["batch_size"],
        drop_first=case["drop_first"],
        first_nodes=case["initial_physical_nodes"],
        rule=case["algo"],
    )


def layout_of(case: Case) -> Layout:
    sizes = case["sizes"]
    return Layout(
        [size for stream in sizes for size in stream], streams=np.repeat(range(len(sizes)), [*map(len, sizes)])
    )


def weights_of(case: Case) -> Weights:
    options, weights = case["options"], case["weights"]
    given = {
        key: [w.get(key) for w in weights]
        for key in ("proportion", "repeat", "choose")
        if any(key in w for w in weights)
    }
    records = [sum(stream) for stream in case["sizes"]]
    return weigh(records, epoch_records=options.get("epoch_size"), seed=options["shuffle_seed"], **given)


def options_of(case: Case) -> Options:
    options = case["options"]
    return Options(
        canonical_nodes=options["num_canonical_nodes"],
        shuffle=options["shuffle_algo"] if options["shuffle"] else None,
        seed=options["shuffle_seed"],
        block_records=options["shuffle_block_size"],
        sampling=options.get("sampling_method", "balanced"),
        granularity=options.get("sampling_granularity", 1),
        batching=options["batching_method"],
        rule=options.get("partition_algo", "relaxed"),
        first_nodes=options.get("initial_physical_nodes"),
    )


def worked(case: Case) -> np.ndarray:
    world = case["world"]
    return work(
        layout_of(case),
        options_of(case),
        nodes=world["nodes"],
        ranks_per_node=world["ranks_per_node"],
        workers_per_rank=world["workers_per_rank"],
        device_batch=case["options"]["batch_size"],
        epoch=world["epoch"],
        drop_first=world["sample_in_epoch"],
        weights=weights_of(case),
    )
