"""The GPU kernels, in Triton: compiled for the size at hand when they are first used.

The methods are those of the CPU, bit for bit: ``pov``, and ``exact_gpu1``, whose Fisher–Yates steps are made by the
hundred thousand at once. This file needs torch and triton, so only _gpu.py imports it. Everything here also runs on CPU
tensors in Triton's interpreter, which is how the tests compare it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from tombola import _core
from tombola.arrays._pov import Options, PovSteps, optim_options_for_dataset, steps_of
from tombola.arrays._seeds import key_of, seed_of
from tombola.arrays._views import is_torch
from tombola.errors import ArrayError

_SCRATCH_BYTES_MAX = 64 << 20
_SCRATCH_SHARE = 20  # or one such part of the data, when that is more
_BYTES_PER_STEP = 96  # what resolving one Fisher–Yates step keeps for a while
_STEPS_MIN = 1 << 10
_TILE_ELEMENTS = 8192
_GAMMA = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


# ---- random numbers: the mixers of native/src/keys.hpp


@triton.jit
def _mix64(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def _mix32(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _word(key, i):
    return _mix64(key + (i + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)


@triton.jit
def _child(key, i):
    return _mix64(_mix64(key ^ 0xD1B54A32D192ED03) + (i + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)


# ---- kernels


@triton.jit
def draw_kernel(draws, keys, first, rows, count, BLOCK: tl.constexpr):
    """draws[i] = the place that Fisher–Yates step first + i takes its row from."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    step = first + i
    bound = (rows - step).to(tl.uint64)
    bound = tl.where(i < count, bound, bound * 0 + 1)
    key = tl.load(keys).to(tl.uint64, bitcast=True)
    least = (bound * 0 - bound) % bound  # 2^64 mod bound: low products below it are refused
    attempt = step * 0
    number = _word(_child(key, attempt), step)
    refused = (number * bound) < least
    while tl.max(refused.to(tl.int32), axis=0) > 0:
        attempt += refused.to(tl.int64)
        number = tl.where(refused, _word(_child(key, attempt), step), number)
        refused = (number * bound) < least
    tl.store(draws + i, step + tl.umulhi(number, bound).to(tl.int64), mask=i < count)


@triton.jit
def move_kernel(
    to, to_rows, source, source_rows, count, to_units, source_units, words, tiles,
    UNIT: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Row to_rows[i] of `to` becomes row source_rows[i] of `source`; negative numbers are left out."""
    i = tl.program_id(0) // tiles * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % tiles * TILE + tl.arange(0, TILE)
    to_row = tl.load(to_rows + i, mask=i < count, other=-1)
    source_row = tl.load(source_rows + i, mask=i < count, other=-1)
    inside = ((to_row >= 0) & (source_row >= 0))[:, None] & (column < words * UNIT)[None, :]
    # A step of rows is a multiple of UNIT words: with four of them the compiler sees that 16 bytes are aligned.
    values = tl.load(source + (source_row * source_units * UNIT)[:, None] + column[None, :], mask=inside)
    tl.store(to + (to_row * to_units * UNIT)[:, None] + column[None, :], values, mask=inside)


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
            left = left ^ (_mix32(right ^ tl.load(keys + 2 + r).to(tl.uint32)) & left_mask)
            right = right ^ (_mix32(left ^ tl.load(keys + 3 + r).to(tl.uint32)) & right_mask)
        walked = (left.to(tl.int64) << right_bits) | right.to(tl.int64)
        value = tl.where(walking, walked, value)
        walking = value >= blocks
    return value


@triton.jit
def pov_kernel(
    words_at, keys, table, rows, blocks, held, left_bits, right_bits, units, words,
    VIRTUAL: tl.constexpr, PHYSICAL: tl.constexpr, SLOTS: tl.constexpr, UNIT: tl.constexpr, TILE: tl.constexpr,
    TABLE: tl.constexpr,
):  # fmt: skip
    """One program for each virtual block: it sorts the block's rows by random numbers and writes them to its places."""
    virtual = tl.program_id(0).to(tl.int64)
    bits = _word(tl.load(keys).to(tl.uint64, bitcast=True), virtual)
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
    number = _mix32(_mix32(slot.to(tl.uint32) ^ low) ^ high).to(tl.int64)
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
    for begin in range(0, words * UNIT, TILE):
        column = begin + tl.arange(0, TILE)
        inside = (slot < count)[:, None] & (column < words * UNIT)[None, :]
        values = tl.load(words_at + (source_row * units * UNIT)[:, None] + column[None, :], mask=inside)
        tl.debug_barrier()  # all rows are read before the first is written
        tl.store(words_at + (to_row * units * UNIT)[:, None] + column[None, :], values, mask=inside)


# ---- rows as words


class Words(NamedTuple):
    """A tensor's rows as words that can be moved with the widest aligned loads."""

    flat: torch.Tensor
    unit: int  #: words that every step is a multiple of: 4 of 4 bytes where 16-byte loads are aligned
    step: int  #: units from row to row
    row: int  #: units of a row

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.row * self.unit * int(self.flat.element_size())

    @property
    def tile(self) -> int:
        """Words of a row that a program moves at once."""
        return min(int(triton.next_power_of_2(self.row * self.unit)), 32)


def words_of(x: torch.Tensor) -> Words:
    """The rows of a tensor whose inner axes have no gaps."""
    size, row_bytes = x.element_size(), x.element_size() * math.prod(x.shape[1:])
    step = x.stride(0) * size
    aligned = math.gcd(row_bytes, step, x.data_ptr(), 16)
    word = min(aligned, 4)
    dtype = {4: torch.int32, 2: torch.int16, 1: torch.int8}[word]
    span = (len(x) - 1) * step + row_bytes
    flat = torch.empty(0, dtype=dtype, device=x.device)
    flat.set_(x.untyped_storage(), x.storage_offset() * size // word, (span // word,))
    unit = max(aligned // 4, 1) if word == 4 else 1
    return Words(flat, unit, step // (word * unit), row_bytes // (word * unit))


# ---- exact_gpu1


def exact_gpu1(arrays: Sequence[Words], rows: int, key: int, steps_at_once: int | None = None) -> None:
    """Fisher–Yates upwards, many steps at once: what they do to each other is found by sorting their draws."""
    device = arrays[0].flat.device
    row_bytes = sum(a.row_bytes for a in arrays)
    budget = max(_SCRATCH_BYTES_MAX, rows * row_bytes // _SCRATCH_SHARE)
    at_once = steps_at_once or max(budget // (row_bytes + _BYTES_PER_STEP), _STEPS_MIN)
    keys = torch.tensor([_signed(key)], dtype=torch.int64, device=device)
    scratch = [torch.empty(min(at_once, rows) * a.row * a.unit, dtype=a.flat.dtype, device=device) for a in arrays]
    for first in range(0, rows - 1, at_once):
        count = min(at_once, rows - first)
        draws = torch.empty(count, dtype=torch.int64, device=device)
        draw_kernel[(triton.cdiv(count, 1024),)](draws, keys, first, rows, count, BLOCK=1024)
        _swap(arrays, scratch, _resolved(draws, first), first)


class Moves(NamedTuple):
    """What a run of steps comes to. Rows of the run are numbered from its first, −1 stands for none."""

    from_run: torch.Tensor  #: which of the run's own rows comes to each of its places, or −1
    from_beyond: torch.Tensor  #: else which row after the run does
    beyond: torch.Tensor  #: which row after the run each step was the last to write, or −1
    sent: torch.Tensor  #: and which of the run's rows it wrote there


def _resolved(draws: torch.Tensor, first: int) -> Moves:
    """Steps first, first + 1, … swap place k with place draws[k]; what has moved where after all of them."""
    count = len(draws)
    number = torch.arange(count, device=draws.device)
    order = torch.argsort(draws, stable=True)
    places = draws[order]
    again = places[1:] == places[:-1]
    none = torch.full_like(number, -1)
    before = none.scatter(0, order[1:], torch.where(again, order[:-1], -1))  # the last earlier step with the same draw
    is_last = torch.ones_like(number, dtype=torch.bool).scatter(0, order[:-1], ~again)
    # The last earlier step that put its row at this step's own place.
    at = torch.searchsorted(places, first + number, right=True) - 1
    found = torch.where((at >= 0) & (places[at.clamp(min=0)] == first + number), order[at.clamp(min=0)], -1)
    found = torch.where(found == number, before, found)
    # A step finds at its own place the row that step put there, which that one found at its own, and so on.
    holds = torch.where(found >= 0, found, number)
    while not torch.equal(further := holds[holds], holds):
        holds = further
    own = draws < first + count
    from_run = torch.where(before >= 0, holds[before.clamp(min=0)], torch.where(own, draws - first, -1))
    sends = is_last & ~own
    return Moves(
        from_run, torch.where(from_run < 0, draws, -1), torch.where(sends, draws, -1), torch.where(sends, holds, -1)
    )


def _swap(arrays: Sequence[Words], scratch: Sequence[torch.Tensor], moves: Moves, first: int) -> None:
    count = len(moves.beyond)
    number = torch.arange(count, device=moves.beyond.device)
    for a, kept in zip(arrays, scratch, strict=True):
        aside = Words(kept, a.unit, a.row, a.row)
        _move(aside, number, a, first + number)
        _move(a, first + number, a, moves.from_beyond)
        _move(a, first + number, aside, moves.from_run)
        _move(a, moves.beyond, aside, moves.sent)


def _move(to: Words, to_rows: torch.Tensor, source: Words, source_rows: torch.Tensor) -> None:
    tile = source.tile
    at_once = max(_TILE_ELEMENTS // 4 // tile, 16)
    tiles = triton.cdiv(source.row * source.unit, tile)
    move_kernel[(triton.cdiv(len(to_rows), at_once) * tiles,)](
        to.flat, to_rows, source.flat, source_rows, len(to_rows), to.step, source.step, source.row, tiles,
        UNIT=source.unit, ROWS=at_once, TILE=tile,
    )  # fmt: skip


# ---- pov


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
        keys = torch.tensor([_signed(_core.child(its_key, 2)), offset, *halves], dtype=torch.int64, device=device)
        dealt = [_core.Permutation(blocks, deal_key).at_one(i) for i in range(blocks)] if table else [0]
        for a in arrays:
            pov_kernel[(triton.cdiv(blocks, steps.virtual_block_size),)](
                a.flat, keys, torch.tensor(dealt, dtype=torch.int64, device=device), rows, blocks,
                rows - (blocks - 1) * steps.physical_block_size, bits // 2, bits - bits // 2, a.step, a.row,
                VIRTUAL=steps.virtual_block_size, PHYSICAL=steps.physical_block_size, SLOTS=max(slots, 2), UNIT=a.unit,
                TILE=max(min(a.tile, _TILE_ELEMENTS // slots), a.unit), TABLE=table, num_warps=threads // 32,
            )  # fmt: skip


def _host_word(key: int, i: int) -> int:
    z = (key + (i + 1) * _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _signed(key: int) -> int:
    return key - 2**64 if key >= 2**63 else key


# ---- the call


def shuffle(
    arrays: Sequence[Any],
    names: Sequence[str],
    method: str,
    seed: Any,
    iterations: int | None,
    options: Options | None,
) -> None:
    """Shuffles arrays in unison that are on one GPU."""
    tensors = [_tensor(x, name) for x, name in zip(arrays, names, strict=True)]
    rows = len(tensors[0])
    for x, name in zip(tensors[1:], names[1:], strict=True):
        if len(x) != rows:
            raise ArrayError(
                f"{names[0]} has {rows} rows and {name} has {len(x)}; arrays in unison need the same number"
            )
        if x.device != tensors[0].device:
            raise ArrayError(
                f"{names[0]} is on {tensors[0].device} and {name} on {x.device}; arrays in unison need one device"
            )
    _check_apart(tensors, names)
    steps = steps_of(rows, iterations, options) if method == "pov" else None
    key = key_of(seed_of(seed), method, rows)
    if rows < 2 or all(x.numel() == 0 for x in tensors):
        return
    # Rows with gaps inside go through a copy; gaps between rows cost nothing.
    packed = [x if x[0].is_contiguous() and x.stride(0) > 0 else x.contiguous() for x in tensors if x.numel() > 0]
    words = [words_of(x) for x in packed]
    if steps is None:
        exact_gpu1(words, rows, key)
    else:
        pov(words, rows, key, steps, optim_options_for_dataset(rows, options).gpu_thread_block_size or 128)
    for x, copy in zip((x for x in tensors if x.numel() > 0), packed, strict=True):
        if copy is not x:
            x.copy_(copy)


def _tensor(x: Any, name: str) -> torch.Tensor:
    tensor: torch.Tensor = x if is_torch(x) else torch.from_dlpack(x)
    if tensor.ndim == 0:
        raise ArrayError(f"{name} is 0-d, so it has no rows; an array needs at least one axis")
    if tensor.requires_grad:
        raise ArrayError(f"{name} requires grad; shuffle {name}.detach(), which shares its memory")
    if tensor.is_conj() or tensor.is_neg():
        raise ArrayError(f"{name} is a lazy conjugate or negative view; shuffle {name}.resolve_conj().resolve_neg()")
    return tensor


def _check_apart(tensors: Sequence[torch.Tensor], names: Sequence[str]) -> None:
    """No element twice, within a tensor or between two; spans that overlap are refused, whatever lies between."""
    spans = []
    for x, name in zip(tensors, names, strict=True):
        axes = sorted((step, size) for size, step in zip(x.shape, x.stride(), strict=True) if size > 1)
        reach = 1
        for step, size in axes if x.numel() > 0 else ():
            if step < reach:
                raise ArrayError(
                    f"{name} is a view whose elements overlap in memory; shuffle a copy, or the array it views"
                )
            reach += (size - 1) * step
        spans.append((x.data_ptr(), x.data_ptr() + (reach * x.element_size() if x.numel() else 0), name))
    spans.sort()
    for (_, end, first), (begin, _, second) in pairwise(spans):
        if begin < end:
            raise ArrayError(f"{first} and {second} share memory; shuffle the array that holds both, once")
