"""The six shuffles: from units laid end to end to virtual position → virtual record."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import Ints, IntsLike, integer, integers
from tombola.errors import OrderError
from tombola.order._order import check_epoch
from tombola.order.mosaic._draws import SEED_END, check_seed, width

#: The names, in the order of the core's enumeration.
NAMES = ("naive", "py1b", "py1s", "py2s", "py1br", "py1e")
#: The peer's default block, in records.
BLOCK_RECORDS = 1 << 18


def shuffle(
    name: str,
    units: IntsLike,
    *,
    canonical_nodes: int,
    seed: int,
    epoch: int = 0,
    block_records: int = BLOCK_RECORDS,
    compact: bool = False,
) -> npt.NDArray[Any]:
    """The virtual record at each virtual position: what the peer calls get_shuffle, one entry a record.

    name
        *naive* permutes all records and knows no shards. *py1s* shuffles the shards once for the whole run, cuts the
        line into canonical nodes, shuffles each node's parts anew every epoch and the records in each part. *py2s*
        shuffles the records of each shard before the cut as well. *py1b* shuffles fixed blocks of each node's line,
        *py1br* blocks of random size that start at a random stagger, *py1e* moves each record by a random distance of
        up to half a block.
    units
        Records per shard, each repeat of a shard being one of its own (`Sample.units`).
    block_records
        Only for py1b, py1br, py1e.
    compact
        Give 32-bit numbers where they are enough: half the memory.

    Kept as they are, because the order depends on them:

    - the seed of an epoch is seed + epoch: epoch 1 of seed 7 is epoch 0 of seed 8, and in epoch 0 the shuffle of the
      run and that of the epoch draw the same numbers;
    - py1br can leave up to three quarters of a block at the end of a canonical node in the order it is stored in;
    - py1e mixes half as many shards at both ends of an epoch as in its middle;
    - py1e sorts floating-point keys. Equal keys, about n²/2⁵⁴ pairs among the n records of a canonical node, stay
      here in the order they came in; there their order depends on the processor;
    - py1e refuses a canonical node without records; the others accept it.

    >>> shuffle("naive", [3, 2], canonical_nodes=1, seed=1).tolist()
    [4, 0, 1, 2, 3]
    """
    if name not in NAMES:
        raise OrderError(f"there is no exact MosaicML shuffle {name!r}; known are {', '.join(NAMES)}")
    sizes = unit_sizes(units)
    records = int(sizes.sum())
    nodes = check_canonical_nodes(canonical_nodes)
    seed, epoch = check_seed(seed), check_epoch(epoch)
    if seed + epoch >= SEED_END:
        raise OrderError(f"seed + epoch is {seed + epoch}; an exact MosaicML order adds them, to less than 2^63")
    block = check_block(name, block_records)
    if name == "py1e" and records < nodes:
        raise OrderError(
            f"py1e needs a record for each canonical node, but there are {records} for {nodes}; "
            f"use canonical_nodes={max(records, 1)} or fewer, or another shuffle"
        )
    low, high = int(0.75 * block), int(1.25 * block)
    wide = not compact or width(records) == np.int64
    out: npt.NDArray[Any] = np.empty(records, np.int64 if wide else np.int32)
    # A 64-bit answer is shuffled as 32 bits in its own upper half: half the memory to move, and none besides.
    ids = out.view(np.int32)[records:] if wide and width(records) == np.int32 else out
    _core.mosaic_order(NAMES.index(name), sizes, nodes, seed, epoch, block, low, high, ids)
    if ids is not out:
        _core.mosaic_widen(out)
    return out


def unit_sizes(units: IntsLike) -> Ints:
    """Records per unit, checked."""
    sizes = integers(units, "records per unit", 2**62, OrderError)
    if sizes.ndim != 1:
        raise OrderError(f"records per unit have {sizes.ndim} dimensions; give a flat list or array")
    if sizes.size and float(sizes.sum(dtype=np.float64)) > 2.0**61:
        raise OrderError("the units hold more than 2^61 records together")
    return sizes


def check_canonical_nodes(canonical_nodes: Any) -> int:
    """The canonical nodes as an int from 1 on."""
    return integer(canonical_nodes, "canonical_nodes", 1, 2**31 - 1, OrderError)


def check_block(name: str, block_records: Any) -> int:
    """The block as an int that the shuffle can use; any is fine for one that uses none."""
    low = {"py1br": 2, "py1b": 1, "py1e": 1}.get(name, 0)
    return integer(block_records, f"block_records of {name}", low, 2**61, OrderError)
