"""Writes the golden vectors: what each order's name and seed mean, for ever.

    python tools/write_vectors.py            add the cases that tests/vectors does not have yet
    python tools/write_vectors.py --check    only compare: what is there, and that nothing is missing

A case that is there already is computed again and must come out the same; the tool refuses to change one. The files
are read by the Python and the C++ tests: numbers are JSON integers, keys are hexadecimal strings, seeds may be of
any size and are there for Python only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tombola
from tombola.arrays._pov import ITERATIONS
from tombola.order import Layout, Order, Permutation, derive_key, make_spec
from tombola.pipeline import Pipeline

FOLDER = Path(__file__).parents[1] / "tests" / "vectors"
ANSWERS = (
    "checksum",
    "key",
    "keys",
    "lanes",
    "outputs",
    "records",
    "steps",
)  # what a case computes; the rest is what it asks
SEEDS = (0, 7, -1, 2**70)

Case = dict[str, Any]


class ChangedVector(Exception):
    """The code no longer gives what a vector promised."""


# ---- the questions


def permutation_cases() -> Iterator[Case]:
    """Every size up to 6, around the table's limit, around powers of two, up to 2^62."""
    around = [2**k + d for k in (4, 8, 16, 17, 31, 32, 33, 47, 61) for d in (-1, 0, 1)]
    sizes = [*range(1, 7), 10, 100, 127, 128, 129, 130, 1000, 10**9, *around, 2**62 - 1, 2**62]
    for n in sorted(set(sizes)):
        for seed in SEEDS if n in (6, 128, 129, 1000, 2**62) else SEEDS[:2]:
            for purpose in ([], ["parts", 3]) if n in (5, 129, 10**9) else ([],):
                yield {"n": n, "seed": seed, "purpose": purpose, "inputs": probes(n)}


def order_cases(name: str, all_options: list[dict[str, Any]]) -> Iterator[Case]:
    """Small layouts in full, and large ones at some positions: one of 10^12 records, and two of about 2^61.

    In the last two, records times shards are more than 2^64, which the phase of a lane has to survive.
    """
    layouts: list[dict[str, Any]] = [
        {"equal": [8, 16]},
        {"sizes": [5, 1, 9, 3, 7, 2, 11, 4, 6, 13]},
        {"sizes": [0, 4, 0, 0, 17, 3, 1, 0]},
        {"sizes": [23]},
        {"sizes": [1] * 19},
        {"sizes": [40, 1, 300, 2, 57]},
    ]
    for options in all_options:
        for layout in layouts:
            for epoch in (0, 1, 5):
                yield {"order": name, "options": options, "layout": layout, "seed": 7, "epoch": epoch}
        yield {"order": name, "options": options, "layout": layouts[1], "seed": 2**70, "epoch": 0}
        for large in (
            {"equal": [100_000, 10_000_000]},
            {"equal": [300, 2**53]},
            {"sizes": [(k * k * 0x9E3779B97F4A7C15 >> 7) % 2**56 for k in range(60)]},
        ):
            question = {"order": name, "options": options, "layout": large, "seed": 7, "epoch": 3}
            yield question | {"inputs": probes(layout_of(question).records)}


def layout_of(case: Case) -> Layout:
    """The layout a case names."""
    layout = case["layout"]
    if "equal" in layout:
        return Layout.equal(*layout["equal"])
    return Layout(layout["sizes"], streams=layout.get("streams"))


def probes(n: int, count: int = 24) -> list[int]:
    """All of 0…n−1 when they are few, else the ends and some between."""
    if n <= 130:
        return list(range(n))
    spread = [n * k // count + k for k in range(1, count)]
    return sorted({0, 1, 2, n // 2 - 1, n // 2, n - 2, n - 1, *(t for t in spread if t < n)})


LANES: list[dict[str, Any]] = [
    {},
    {"lanes": 1},
    {"lanes": 3},
    {"lanes": 16},
    {"lanes": 3, "homes": "fresh"},
    {"lanes": 16, "phase": "none"},
    {"lanes": 1, "window": 2},
    {"lanes": 3, "window": 1},
    {"lanes": 3, "window": 2},
    {"lanes": 2, "window": 5, "homes": "fresh"},
    {"lanes": 3, "window_records": 4},
    {"lanes": 1, "window_records": 7, "phase": "none"},
    {"radius_records": 50},
]
THREE = [0, 1, 2, 0, 1, 1, 2, 0, 0, 1]
STREAMS: list[dict[str, Any]] = [
    {"sizes": [16] * 8, "streams": [0, 0, 0, 0, 1, 1, 2, 2]},
    {"sizes": [5, 1, 9, 3, 7, 2, 11, 4, 6, 13], "streams": THREE},
    {"sizes": [0, 4, 7, 0, 17, 3, 1, 0], "streams": [2, 1, 0, 0, 1, 2, 1, 0]},
]
LARGE = {"sizes": [10**10] * 60, "streams": [shard % 3 for shard in range(60)]}


def array_cases() -> Iterator[Case]:
    """Array shuffles: a few rows in full, and sizes on both sides of where a method changes its ways at some places."""
    for method in ("exact", "exact_gpu1", "pov"):
        for n in (
            0,
            1,
            2,
            3,
            4,
            5,
            16,
            17,
            33,
            100,
            128,
            129,
            1000,
            1024,
            1025,
            4097,
            65_536,
            65_537,
            200_003,
            1_000_000,
        ):
            for seed in SEEDS if n in (5, 1025) else SEEDS[1:2]:
                yield {"method": method, "n": n, "seed": seed, "inputs": probes(n) if n else []}
    for n in (7, 100, 5000):
        for virtual, physical, offsets in ((2, 2, [1]), (3, 5, [0, 2, 6]), (1, 7, [3]), (16, 16, [1, 5])):
            options = {"virtual_block_size": virtual, "physical_block_size": physical, "offsets": offsets}
            for iterations in (1, 3):
                question = {"method": "pov", "n": n, "seed": 7, "inputs": probes(n)}
                yield question | {"iterations": iterations, "options": options}


def pipeline_cases() -> Iterator[Case]:
    """The buffer shuffle alone, over shards, in passes and readers, and mixtures."""
    shuffle = {"buffer_size": 7, "seed": 7}
    chains: list[list[list[Any]]] = [
        [["shuffle", {"buffer_size": 1}]],
        [["shuffle", shuffle]],
        [["shuffle", {"buffer_size": 100, "seed": -1}]],
        [["shuffle", {"buffer_size": 9, "initial": 2, "seed": 2**70}]],
        [["shuffle", {"buffer_bytes": 200, "seed": 3}]],
        [["shuffle", shuffle | {"input_shards": 3}]],
        [["take", {"count": 19}], ["shuffle", shuffle]],
        [["shuffle", shuffle], ["skip", {"count": 5}]],
        [["shuffle", shuffle], ["shuffle", shuffle]],
        [["shuffle", shuffle], ["repeat", {"times": 2}], ["repeat", {"times": 2}]],
        [["shuffle", shuffle], ["batch", {"batch_size": 4}], ["shuffle", {"buffer_size": 3, "seed": 1}]],
        [["shuffle", shuffle], ["shard", {"count": 2, "number": 1}]],
        [["shuffle", shuffle], ["interleave", {}]],
        *([["shuffle", shuffle], ["mix", {"weights": [3, 1], "seed": 5, "stop": stop}]] for stop in STOPS),
    ]
    for chain in chains:
        for readers in (1, 2, 3):
            yield {"pipeline": chain, "shards": [9, 4, 0, 11, 6], "readers": readers, "epoch": readers - 1}


STOPS = ("first_exhausted", "all_exhausted", "all_exhausted_without_replacement")


def pipeline_of(case: Case) -> Pipeline:
    """The pipeline a case asks of: numbers in shards, and below 0 where a second one is mixed in."""
    starts = [sum(case["shards"][:at]) for at in range(len(case["shards"]))]
    shards = [range(start, start + size) for start, size in zip(starts, case["shards"], strict=True)]
    made = Pipeline.from_generator(iter, shards=shards)
    for name, options in case["pipeline"]:
        if name in ("mix", "interleave"):
            other = Pipeline.from_iterable(range(-8, 0)).shuffle(3, seed=1)
            made = getattr(Pipeline, name)([made, other], **options)
        else:
            made = getattr(made, name)(**options)
    made = made.with_readers(case["readers"]).split_by_node(0, 1)
    made.set_epoch(case["epoch"])
    return made


def base(**options: Any) -> dict[str, Any]:
    """Lanes as the base of another order."""
    return {"order": "lanes", **options}


def takes(*repeats: float) -> list[dict[str, float]]:
    """So many times each stream."""
    return [{"repeat": repeat} for repeat in repeats]


def stream_cases(all_orders: list[tuple[str, dict[str, Any]]], large: Case | None = LARGE) -> Iterator[Case]:
    """Orders of three streams: small layouts in full, and a large one at some positions."""
    for name, options in all_orders:
        for layout in STREAMS:
            for epoch in (0, 1, 5):
                yield {"order": name, "options": options, "layout": layout, "seed": 7, "epoch": epoch}
        yield {"order": name, "options": options, "layout": STREAMS[1], "seed": 2**70, "epoch": 0}
        if large is not None:
            question = {"order": name, "options": options, "layout": large, "seed": 7, "epoch": 3}
            yield question | {"inputs": probes(len(order_of(question)))}


CONCATENATIONS: list[tuple[str, dict[str, Any]]] = [
    ("concatenation", {"base": base(lanes=3)}),
    ("concatenation", {"takes": takes(2, 1.5, 0.3), "base": base(lanes=3)}),
    ("concatenation", {"takes": takes(0.5, 1, 2.25), "granularity": 4, "base": base(lanes=2, window=2)}),
    ("concatenation", {"takes": takes(0.5, 2, 0.5), "sampling": "fixed", "base": {"order": "global"}}),
    ("concatenation", {"takes": [{"proportion": p} for p in (1, 0.5, 2)], "base": base(lanes=2)}),
    ("concatenation", {"takes": takes(1, 2, 0.5), "epoch_records": 17, "base": base(lanes=2)}),
]
MIXTURES: list[tuple[str, dict[str, Any]]] = [
    ("mixture", {"weights": [5, 3, 2], "base": base(lanes=3)}),
    ("mixture", {"weights": [0.7, 0.2, 0.1], "base": base(lanes=4, homes="fresh")}),
    ("mixture", {"weights": [1, 2, 0], "schedule": [[20, [1, 1, 1]], [70, [0, 3, 4]]], "base": base(lanes=4)}),
    ("mixture", {"weights": [1, 1, 1], "epoch_records": 47, "base": base(lanes=2, window=2)}),
    ("mixture", {"weights": [3, 1, 2], "base": {"order": "global"}}),
    ("mixture", {"weights": [300, 31, 7], "epoch_records": 128, "base": base(lanes=16)}),
]
BATCHINGS: list[tuple[str, dict[str, Any]]] = [
    ("stratified", {"batch_size": 6, "combination": {"order": "mixture", "weights": [3, 2, 1], "base": base(lanes=3)}}),
    ("stratified", {"batch_size": 8, "combination": base(lanes=2)}),
    ("per_stream", {"batch_size": 6, "combination": {"order": "mixture", "weights": [3, 2, 1], "base": base(lanes=3)}}),
    ("per_stream", {"batch_size": 4, "combination": {"order": "concatenation", "takes": takes(1, 2, 1.5)}}),
    ("device_per_stream", {"run": 3, "combination": {"order": "mixture", "weights": [3, 2, 1], "base": base(lanes=2)}}),
    ("device_per_stream", {"run": 2, "combination": base(lanes=4)}),
]
PASSES: list[tuple[str, dict[str, Any]]] = [
    ("passes", {"epoch_records": 11, "base": base(lanes=3)}),
    ("passes", {"epoch_records": 100, "base": base(lanes=4, homes="fresh")}),
    ("passes", {"epoch_records": 17, "base": {"order": "global"}}),
]
SUBSETS: list[tuple[str, dict[str, Any]]] = [
    ("subset", {"kept": [0, 3, 4, 5, 9, 11, 13, 17, 18, 20, 21, 30], "base": base(lanes=3)}),
    ("subset", {"kept": [1, 2, 4, 8, 16, 31, 15, 7], "base": {"order": "global"}}),
]


def order_of(case: Case) -> Order:
    """The order a case names."""
    return make_spec(case["order"], **case["options"]).over(layout_of(case), seed=case["seed"])


FILES: dict[str, list[Case]] = {
    "arrays.json": list(array_cases()),
    "permutation.json": list(permutation_cases()),
    "pipeline.json": list(pipeline_cases()),
    "sequential.json": list(order_cases("sequential", [{}])),
    "global.json": list(order_cases("global", [{}])),
    "lanes.json": list(order_cases("lanes", LANES)),
    "concatenation.json": list(stream_cases(CONCATENATIONS)),
    "mixture.json": list(stream_cases(MIXTURES)),
    "batching.json": list(stream_cases(BATCHINGS, None)),
    "passes.json": list(stream_cases(PASSES)),
    "subset.json": list(stream_cases(SUBSETS, None)),
}

# ---- the answers


def answered(question: Case) -> Case:
    """The case with its answers as the code gives them now."""
    if "pipeline" in question:
        return question | {"records": list(pipeline_of(question))}
    if "method" in question:
        return question | array_answers(question)
    if "n" in question:
        permutation = Permutation(question["n"], question["seed"], *question["purpose"])
        key = derive_key(question["seed"], "permutation", *question["purpose"])
        outputs = permutation.at(np.array(question["inputs"], np.int64)).tolist()
        return question | {"key": hex(key), "outputs": outputs}
    order = order_of(question)
    answers: Case = {"keys": keys_of(question), "lanes": order.lanes}
    if "inputs" in question:
        answers["outputs"] = order.at(np.array(question["inputs"], np.int64), question["epoch"]).tolist()
    else:
        answers["records"] = order.at(np.arange(len(order)), question["epoch"]).tolist()
    return question | answers


def array_answers(question: Case) -> Case:
    """The rows that come to some places, and a sum over all that any change of two rows changes."""
    n, method = question["n"], question["method"]
    given = {name: question[name] for name in ("iterations",) if name in question}
    if "options" in question:
        given["options"] = tombola.Options(**question["options"])
    rows = tombola.permutation(n, seed=question["seed"], method=method, **given)
    answers: Case = {"key": hex(derive_key(question["seed"], f"arrays/{method}", n))}
    if method == "pov":
        # The steps in full, also where the question leaves them to the defaults: the C++ core has none.
        full = tombola.optim_options_for_dataset(n, given.get("options"))
        answers["steps"] = {
            "iterations": given.get("iterations", next(count for most, count in ITERATIONS if n <= most)),
            "virtual_block_size": full.virtual_block_size,
            "physical_block_size": full.physical_block_size,
            "offsets": list(full.offsets or ()),
        }
    return answers | {
        "outputs": rows[question["inputs"]].tolist() if n else [],
        "checksum": int(((np.arange(n, dtype=np.uint64) + np.uint64(1)) * rows.astype(np.uint64)).sum(dtype=np.uint64)),
    }


def keys_of(case: Case) -> dict[str, str]:
    """The keys that the C++ core is given, which knows nothing of seeds."""
    seed, epoch = case["seed"], case["epoch"]
    if case["order"] == "global":
        return {"permutation": hex(derive_key(seed, "permutation", "global", epoch))}
    if case["order"] == "lanes":
        fresh = (epoch,) if case["options"].get("homes") == "fresh" else ()
        keys = {word: hex(derive_key(seed, f"lanes/{word}", epoch)) for word in ("parts", "records", "window", "phase")}
        return {"home": hex(derive_key(seed, "lanes/home", *fresh))} | keys
    return {}


def question_of(case: Case) -> Case:
    """A case without its answers."""
    return {name: value for name, value in case.items() if name not in ANSWERS}


# ---- the files


def load(path: Path) -> list[Case]:
    """The cases of a file; none when it is not there yet."""
    return json.loads(path.read_text())["cases"] if path.exists() else []


def update(there: list[Case], questions: list[Case], *, rewrite: bool = False) -> list[Case]:
    """The cases that are there, each checked, and those that are missing; with `rewrite`, all as they are now."""
    if rewrite:
        return [answered(question) for question in questions]
    for case in there:
        now = answered(question_of(case))
        if now != case:
            raise ChangedVector(f"this case would change, and a vector never does: {json.dumps(question_of(case))}")
    known = [question_of(case) for case in there]
    return there + [answered(question) for question in questions if question not in known]


def dump(path: Path, cases: list[Case]) -> None:
    """One case a line, so that a diff shows that none has changed."""
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"cases":[\n{lines}\n]}}\n')


def main(argv: list[str] | None = None) -> int:
    """Runs the tool; 1 when a vector would change or one is missing from a check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--rewrite", action="store_true", help=argparse.SUPPRESS)  # only until the first release
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are")
    options = parser.parse_args(argv)
    status = 0
    for name, questions in FILES.items():
        path = options.folder / name
        there = load(path)
        try:
            cases = update(there, questions, rewrite=options.rewrite)
        except ChangedVector as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
            continue
        added = len(cases) - len(there)
        print(f"{name}: {len(cases)} cases, {added} of them new")
        if options.check:
            status |= added > 0
        elif cases != there:
            dump(path, cases)
    return status


if __name__ == "__main__":
    sys.exit(main())
