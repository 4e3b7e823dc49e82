"""The parallel offset virtual-block shuffle on a GPU: a launch for each iteration, a program for each virtual block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from tombola import _core
from tombola.arrays._pov import PovSteps
from tombola.arrays._triton_moves import Words, mix32, signed, word

_TILE_ELEMENTS = 8192
_PROGRAMS = 4096
_TILES_MIN = 8
_GAMMA = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


@triton.jit
def _deal(place, blocks, keys, table, left_bits, right_bits, TABLE: tl.constexpr):
    """The physical block that is dealt to a place: the keyed permutation of native/src/permutation.hpp."""
    if TABLE:
        return tl.load(table + place)
    left_mask = ((tl.full([1], 1, tl.uint32) << left_bits) - 1).to(tl.uint32)
    right_mask = ((tl.full([1], 1, tl.uint32) << right_bits) - 1).to(tl.uint32)
    value = place
    walking = place >= 0
    while tl.max(walking.to(tl.int32), axis=0) > 0:
        left = (value >> right_bits).to(tl.uint32)
        right = value.to(tl.uint32) & right_mask
        for r in tl.static_range(0, 12, 2):
            left = left ^ (mix32(right ^ tl.load(keys + 2 + r).to(tl.uint32)) & left_mask)
            right = right ^ (mix32(left ^ tl.load(keys + 3 + r).to(tl.uint32)) & right_mask)
        walked = (left.to(tl.int64) << right_bits) | right.to(tl.int64)
        value = tl.where(walking, walked, value)
        walking = value >= blocks
    return value


@triton.jit
def pov_kernel(
    words_at, keys, table, rows, blocks, held, left_bits, right_bits, units, words, parts,
    VIRTUAL: tl.constexpr, PHYSICAL: tl.constexpr, SLOTS: tl.constexpr, UNIT: tl.constexpr, TILE: tl.constexpr,
    TABLE: tl.constexpr,
):  # fmt: skip
    """Sorts a virtual block's rows by random numbers and writes them to its places.

    Rows that are long are shared by several programs, by columns; each finds the same order anew.
    """
    virtual = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    bits = word(tl.load(keys).to(tl.uint64, bitcast=True), virtual)
    offset = tl.load(keys + 1)

    slot = tl.arange(0, SLOTS)
    dealt = virtual * VIRTUAL + slot // PHYSICAL
    valid = (slot < VIRTUAL * PHYSICAL) & (dealt < blocks)
    block = _deal(tl.where(valid, dealt, 0), blocks, keys, table, left_bits, right_bits, TABLE)
    place = block * PHYSICAL + slot % PHYSICAL
    valid = valid & (place < rows)
    row = place + offset
    row = tl.where(row < rows, row, row - rows)

    low, high = bits.to(tl.uint32), (bits >> 32).to(tl.uint32)
    number = mix32(mix32(slot.to(tl.uint32) ^ low) ^ high).to(tl.int64)
    # Slots without a row come last, the others by their numbers.
    by_number = tl.sort((tl.where(valid, number, 1 << 33) << 16) | slot.to(tl.int64))
    source_slot = (by_number & 0xFFFF).to(tl.int32)
    # The slots that have rows, in order: all but the end of the last block, which holds fewer.
    short = tl.min(tl.where((block == blocks - 1) & (dealt < blocks), slot, SLOTS), axis=0) // PHYSICAL * PHYSICAL
    to_slot = tl.where(slot < short + held, slot, slot + PHYSICAL - held)
    count = tl.sum(valid.to(tl.int32), axis=0)
    to_slot = tl.where(slot < count, to_slot, 0)

    source_row = tl.gather(row, source_slot, 0)
    to_row = tl.gather(row, to_slot, 0)
    for begin in range(part * TILE, words * UNIT, parts * TILE):
        column = begin + tl.arange(0, TILE)
        inside = (slot < count)[:, None] & (column < words * UNIT)[None, :]
        values = tl.load(words_at + (source_row * units * UNIT)[:, None] + column[None, :], mask=inside)
        tl.debug_barrier()  # all rows are read before the first is written
        tl.store(words_at + (to_row * units * UNIT)[:, None] + column[None, :], values, mask=inside)


def pov(arrays: Sequence[Words], rows: int, key: int, steps: PovSteps, threads: int) -> None:
    """The iterations one after the other, each a launch with a program for each virtual block."""
    device = arrays[0].flat.device
    blocks = triton.cdiv(rows, steps.physical_block_size)
    slots = triton.next_power_of_2(steps.virtual_block_size * steps.physical_block_size)
    table = blocks <= _core.TABLE_MAX
    bits = max((blocks - 1).bit_length(), 2)
    for iteration in range(steps.iterations):
        its_key = _core.child(key, iteration)
        deal_key = _core.child(its_key, 1)
        offset = steps.offsets[_host_word(its_key, 0) * len(steps.offsets) >> 64]
        halves = [
            half for i in range(6) for word in [_host_word(deal_key, i)] for half in (word & 0xFFFFFFFF, word >> 32)
        ]
        keys = torch.tensor([signed(_core.child(its_key, 2)), offset, *halves], dtype=torch.int64, device=device)
        dealt = [_core.Permutation(blocks, deal_key).at_one(i) for i in range(blocks)] if table else [0]
        for a in arrays:
            tile = max(min(a.tile, _TILE_ELEMENTS // slots), a.unit)
            virtual = triton.cdiv(blocks, steps.virtual_block_size)
            # Enough programs for any GPU, but several tiles for each: sorting takes time too.
            parts = max(min(_PROGRAMS // virtual, a.row * a.unit // (_TILES_MIN * tile)), 1)
            pov_kernel[(virtual * parts,)](
                a.flat, keys, torch.tensor(dealt, dtype=torch.int64, device=device), rows, blocks,
                rows - (blocks - 1) * steps.physical_block_size, bits // 2, bits - bits // 2, a.step, a.row, parts,
                VIRTUAL=steps.virtual_block_size, PHYSICAL=steps.physical_block_size, SLOTS=max(slots, 2), UNIT=a.unit,
                TILE=tile, TABLE=table, num_warps=threads // 32,
            )  # fmt: skip


def _host_word(key: int, i: int) -> int:
    z = (key + (i + 1) * _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
