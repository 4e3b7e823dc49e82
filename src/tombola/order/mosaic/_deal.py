"""Who reads which virtual position: the peer's two partitioners."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import THREADS, Ints, integer
from tombola.errors import OrderError
from tombola.order.mosaic._draws import width
from tombola.order.mosaic._shuffle import check_canonical_nodes

RULES = ("orig", "relaxed")


def deal(
    records: int,
    *,
    canonical_nodes: int,
    nodes: int,
    ranks_per_node: int,
    workers_per_rank: int,
    device_batch: int,
    drop_first: int = 0,
    first_nodes: int | None = None,
    rule: str = "relaxed",
    ids: npt.NDArray[Any] | None = None,
    records_of: npt.NDArray[Any] | None = None,
    compact: bool = False,
    threads: int = THREADS,
) -> npt.NDArray[Any]:
    """Virtual positions dealt to nodes, ranks and workers: the peer's get_partitions, and its mapping in one go.

    The answer has the shape (nodes, ranks, workers, batches, batch); −1 means nothing is left. Position p of the epoch
    is place p div C of canonical node p mod C; batch k of the world is positions k·B … (k + 1)·B − 1.

    rule
        "orig" needs canonical nodes that divide the nodes or are divided by them. "relaxed" deals any number of nodes
        as `first_nodes` would have been, if the global batch divides over those.
    drop_first
        How many positions have been read: a resume.
    ids, records_of
        Map each position p to ``ids[p]`` and that to ``records_of[ids[p]]``, as the answer is written.
    compact
        Give 32-bit numbers where both tables and the records are that narrow.

    Kept as it is: canonical nodes of unequal length, worlds that do not divide the epoch and more nodes than canonical
    nodes repeat records at the end; the last batch therefore depends on the world.

    >>> deal(6, canonical_nodes=2, nodes=1, ranks_per_node=1, workers_per_rank=1, device_batch=3).tolist()
    [[[[[0, 3, 1], [4, 2, 5]]]]]
    """
    if rule not in RULES:
        raise OrderError(f"the rule is {rule!r}; it must be one of {', '.join(RULES)}")
    records = integer(records, "records", 1, 2**61, OrderError)
    canonical = check_canonical_nodes(canonical_nodes)
    world = []
    for value, what in (
        (nodes, "nodes"),
        (ranks_per_node, "ranks_per_node"),
        (workers_per_rank, "workers_per_rank"),
        (device_batch, "device_batch"),
    ):
        world.append(integer(value, what, 1, 2**31 - 1, OrderError))
    nodes, ranks, workers, batch = world
    drop = integer(drop_first, "drop_first", 0, None, OrderError)
    devices = nodes * ranks
    if drop > records + devices - records % devices:
        raise OrderError(f"drop_first is {drop}, beyond the end of an epoch of {records} records; start the next epoch")
    tables = _tables(records, ids, records_of)
    if rule == "relaxed" and first_nodes is not None and not _divide(canonical, nodes):
        first = integer(first_nodes, "first_nodes", 1, 2**31 - 1, OrderError)
        if (devices * batch) % (first * ranks):
            raise OrderError(
                f"a global batch of {devices * batch} records does not divide over the {first * ranks} devices the run "
                f"started with; use a device_batch for which it does"
            )
        old = (first, ranks, workers, devices * batch // (first * ranks))
        flat = traversal(_orig(records, canonical, *old, drop, tables, compact, threads))
        return in_shape(flat, nodes, ranks, workers, batch)
    return _orig(records, canonical, nodes, ranks, workers, batch, drop, tables, compact, threads)


def traversal(dealt: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A deal in the order it is read: batch, worker, node, rank, place in the batch."""
    return dealt.transpose(3, 2, 0, 1, 4).reshape(-1)


def in_shape(flat: npt.NDArray[Any], nodes: int, ranks: int, workers: int, batch: int) -> npt.NDArray[Any]:
    """The inverse of `traversal`: entries in reading order → (nodes, ranks, workers, batches, batch)."""
    return np.ascontiguousarray(flat.reshape(-1, workers, nodes, ranks, batch).transpose(2, 3, 1, 0, 4))


def _divide(canonical: int, nodes: int) -> bool:
    return canonical % nodes == 0 or nodes % canonical == 0


_Tables = tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]


def _tables(records: int, ids: npt.NDArray[Any] | None, records_of: npt.NDArray[Any] | None) -> _Tables:
    """Both tables in one width, because the core has two of everything and not four."""
    given = [table for table in (ids, records_of) if table is not None]
    for table in given:
        if table.shape != (records,):
            raise OrderError(f"a table of {table.size} entries was given for {records} records; it needs one for each")
        if table.dtype not in (np.int32, np.int64):
            raise OrderError(f"a table has dtype {table.dtype}; it must be int32 or int64")
    if ids is not None and records and not 0 <= int(ids.min()) <= int(ids.max()) < records:
        raise OrderError(f"ids reach outside 0…{records - 1}; they must be a shuffle of the {records} records")
    wide = np.int64 if any(table.dtype == np.int64 for table in given) or width(records) == np.int64 else np.int32
    both = [None if table is None else np.ascontiguousarray(table, wide) for table in (ids, records_of)]
    return both[0], both[1]


def _orig(
    records: int,
    canonical: int,
    nodes: int,
    ranks: int,
    workers: int,
    batch: int,
    drop: int,
    tables: _Tables,
    compact: bool,
    threads: int,
) -> npt.NDArray[Any]:
    if not _divide(canonical, nodes):
        raise OrderError(
            f"{canonical} canonical nodes and {nodes} nodes do not divide one another; choose numbers that do, or deal "
            f"'relaxed' with the first_nodes the run started with"
        )
    filled = -(-records // canonical)
    ratio = nodes // canonical if canonical < nodes else 1
    pad = -filled % ratio
    tiled = records < canonical or (records == canonical and canonical < nodes)
    pads = _pads(filled, pad, ratio, records) if pad and not tiled else np.zeros(0, np.int64)
    if tiled:
        filled += pad
    drop = min(drop - drop % nodes, canonical * (filled + pads.size))
    per_rank = -(-((canonical * (filled + pads.size) - drop) // nodes) // ranks)
    batches = -(-per_rank // (workers * batch))
    ids, records_of = tables
    narrow = width(records) == np.int32 and all(table is None or table.dtype == np.int32 for table in tables)
    size = nodes * ranks * workers * batches * batch
    out: npt.NDArray[Any] = np.empty(size, np.int32 if compact and narrow else np.int64)
    _core.mosaic_deal(
        records,
        canonical,
        nodes,
        ranks,
        workers,
        batch,
        drop,
        filled,
        pads,
        tiled,
        ids,
        records_of,
        out,
        threads,
    )
    return out.reshape(nodes, ranks, workers, batches, batch)


def _pads(filled: int, pad: int, ratio: int, records: int) -> Ints:
    """Places of a canonical node's row that its padding repeats."""
    # The peer counts them from the end of the row: where the row is too short they stop at its start.
    places = np.arange(max(filled - pad - ratio + 1, 0), max(filled - ratio + 1, 0), dtype=np.int64)
    if places.size not in (1, pad):
        raise OrderError(
            f"{records} records are too few for that many more nodes than canonical nodes; use fewer nodes, or more "
            f"canonical nodes"
        )
    return np.resize(places, pad)
