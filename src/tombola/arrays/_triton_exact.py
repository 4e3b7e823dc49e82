"""exact_gpu1 on a GPU: Fisher–Yates upwards, in runs of steps that are made all at once.

Step k swaps row k with a row drawn from k, k + 1, …; the draw depends on the key and k alone. In a run that is short
beside the rows before it, most steps touch two rows that no other step of the run touches: these swap at once, whatever
their order. A bitmap finds them. The others are few; sorting their draws tells what they do to each other. The runs
become the longer part of what is left, until the rest is resolved as a single run, in which every step is among the
others; its rows then move by columns, as wide as the scratch memory holds.

Nothing waits for the GPU on the way: how many steps of a run are not alone is known there only. Should they be more
than there is room for, which is all but impossible, nothing moves from that run on, and it is made again in halves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from tombola.arrays._triton_moves import Words, child, move, rows_at_once, signed, word

_SCRATCH_BYTES_MAX = 64 << 20
_SCRATCH_SHARE = 20  # or one such part of the data, when that is more
_BYTES_PER_STEP = 112  # what resolving one step keeps for a while, beside its row
_BYTES_PER_ROW = 32  # where a row comes from and goes to
_STEPS_MIN = 1 << 10
_LINE_BYTES = 128
_BLOCK = 1024


# ---- kernels


@triton.jit
def _drawn(keys, first, k, rows, inside):
    """Where step first + k takes its row from, counted from first."""
    key = tl.load(keys).to(tl.uint64, bitcast=True)
    step = first + k
    bound = (rows - step).to(tl.uint64)
    bound = tl.where(inside, bound, bound * 0 + 1)
    attempt = step * 0
    number = word(child(key, attempt), step)
    # Low products below 2^64 mod bound are refused. That is below the bound, and a division is seldom needed to know.
    if tl.max(((number * bound) < bound).to(tl.int32), axis=0) > 0:
        least = (bound * 0 - bound) % bound
        refused = (number * bound) < least
        while tl.max(refused.to(tl.int32), axis=0) > 0:
            attempt += refused.to(tl.int64)
            number = tl.where(refused, word(child(key, attempt), step), number)
            refused = (number * bound) < least
    return k + tl.umulhi(number, bound).to(tl.int64)


@triton.jit
def _bit(place):
    return (tl.full([1], 1, tl.int32) << (place & 31).to(tl.int32)).to(tl.int32)


@triton.jit
def _alone(bits, keys, first, k, rows, count, mask, inside):
    """The draws of steps, and which of the steps touch rows that no other step of the run touches."""
    drawn = _drawn(keys, first, k, rows, inside)
    table_words = (mask + 1) // 32
    slot = drawn & mask
    twice = tl.load(bits + table_words + slot // 32, mask=inside, other=0) & _bit(slot)
    taken = tl.load(bits + 2 * table_words + k // 32, mask=inside, other=0) & _bit(k)
    return drawn, inside & (drawn >= count) & (twice == 0) & (taken == 0)


@triton.jit
def touch_kernel(bits, keys, first, rows, count, mask, BLOCK: tl.constexpr):
    """Three bitmaps: where a draw fell, where a second one did, and which rows of the run itself were drawn.

    The first two are by the draw's low bits, so that a table of any size will do.
    """
    k = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = k < count
    drawn = _drawn(keys, first, k, rows, inside)
    table_words = (mask + 1) // 32
    slot = drawn & mask
    before = tl.atomic_or(bits + slot // 32, _bit(slot), mask=inside, sem="relaxed")
    again = inside & ((before & _bit(slot)) != 0)
    tl.atomic_or(bits + table_words + slot // 32, _bit(slot), mask=again, sem="relaxed")
    tl.atomic_or(bits + 2 * table_words + drawn // 32, _bit(drawn), mask=inside & (drawn < count), sem="relaxed")


@triton.jit
def count_kernel(counts, bits, keys, first, rows, count, mask, BLOCK: tl.constexpr):
    """How many steps of each block are not alone."""
    k = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = k < count
    _drawn_there, alone = _alone(bits, keys, first, k, rows, count, mask, inside)
    tl.store(counts + tl.program_id(0), tl.sum((inside & ~alone).to(tl.int64), axis=0))


@triton.jit
def list_kernel(steps, state, sums, bits, keys, first, rows, count, mask, room, blocks, BLOCK: tl.constexpr):
    """The steps that are not alone, in order. state: their number, and the run that found no room, if any, plus 1."""
    program = tl.program_id(0)
    k = program.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = k < count
    _drawn_there, alone = _alone(bits, keys, first, k, rows, count, mask, inside)
    others = (inside & ~alone).to(tl.int64)
    end = tl.load(sums + program)
    place = end - tl.sum(others, axis=0) + tl.cumsum(others, axis=0) - 1
    tl.store(steps + place, k, mask=(others > 0) & (place < room))
    if program == 0:
        total = tl.load(sums + blocks - 1)
        stuck = tl.load(state + 1)
        stuck = tl.where((stuck == 0) & (total > room), first + 1, stuck)
        tl.store(state + 1, stuck)
        tl.store(state, tl.where(stuck == 0, total, 0))


@triton.jit
def swap_kernel(
    words_at, state, bits, keys, first, rows, count, mask, units, words, tiles,
    UNIT: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The steps that are alone."""
    if tl.load(state + 1) == 0:
        k = (tl.program_id(0) // tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        column = tl.program_id(0) % tiles * TILE + tl.arange(0, TILE)
        drawn, alone = _alone(bits, keys, first, k, rows, count, mask, k < count)
        inside = alone[:, None] & (column < words * UNIT)[None, :]
        here = words_at + ((first + k) * units * UNIT)[:, None] + column[None, :]
        there = words_at + ((first + drawn) * units * UNIT)[:, None] + column[None, :]
        own = tl.load(here, mask=inside)
        other = tl.load(there, mask=inside)
        tl.store(here, other, mask=inside)
        tl.store(there, own, mask=inside)


@triton.jit
def pack_kernel(packed, steps, state, keys, first, rows, room, shift, BLOCK: tl.constexpr):
    """Draw and number of each listed step in one word, to be sorted; what is left of the room comes last."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < tl.load(state)
    step = tl.load(steps + i, mask=inside, other=0)
    drawn = _drawn(keys, first, step, rows, inside)
    tl.store(packed + i, tl.where(inside, (drawn << shift) | i, 0x7FFFFFFFFFFFFFFF), mask=i < room)


@triton.jit
def _count_below(numbers, wanted, total, shift):
    """How many of the sorted numbers are below what is wanted."""
    low = wanted * 0
    high = low + total
    for _half in range(shift + 1):
        middle = (low + high) // 2
        below = (low < high) & (tl.load(numbers + middle, mask=low < high, other=0) < wanted)
        low = tl.where(below, middle + 1, low)
        high = tl.where(below, high, middle)
    return low


@triton.jit
def link_kernel(
    links, befores, targets, draws, lasts, packed, steps, state, count, shift, BLOCK: tl.constexpr
):  # fmt: skip
    """What each listed step has to know of the others.

    links: the last step that put its row at this step's own place, or the step itself. befores: the last earlier step
    with the same draw, or -1. targets: the step whose own place was drawn, or -1 beyond the run. lasts: whether no
    later step draws the same.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(state)
    inside = p < total
    low_bits = (tl.full([1], 1, tl.int64) << shift) - 1
    here = tl.load(packed + p, mask=inside, other=0)
    earlier = tl.load(packed + p - 1, mask=inside & (p > 0), other=-1)
    later = tl.load(packed + p + 1, mask=p + 1 < total, other=-1)
    drawn = here >> shift
    i = here & low_bits
    before = tl.where((earlier >> shift) == drawn, earlier & low_bits, -1)
    step = tl.load(steps + i, mask=inside, other=0)
    at = _count_below(packed, (step + 1) << shift, total, shift) - 1
    found = tl.load(packed + at, mask=inside & (at >= 0), other=-1)
    link = tl.where((found >> shift) == step, found & low_bits, i)
    # A step that drew its own place swapped nothing; what is there came with the one before it.
    link = tl.where(link == i, tl.where(drawn == step, tl.where(before >= 0, before, i), i), link)
    own = inside & (drawn < count)
    target = tl.where(own, _count_below(steps, drawn, total, shift), -1)
    tl.store(links + i, link, mask=inside)
    tl.store(befores + i, before, mask=inside)
    tl.store(targets + i, target, mask=inside)
    tl.store(draws + i, drawn, mask=inside)
    tl.store(lasts + i, ((later >> shift) != drawn).to(tl.int8), mask=inside)


@triton.jit
def _followed(links, i, inside):
    """The step whose own row a step finds at its place: it finds what another put there, which that one found …"""
    further = tl.load(links + i, mask=inside, other=0)
    moving = inside & (further != i)
    while tl.max(moving.to(tl.int32), axis=0) > 0:
        i = tl.where(moving, further, i)
        further = tl.load(links + i, mask=moving, other=0)
        moving = moving & (further != i)
    return i


@triton.jit
def resolve_kernel(
    own_rows, from_run, from_beyond, beyond, sent, links, befores, targets, draws, lasts, steps, state, first, room,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Which rows move where after all listed steps; -1 stands for none.

    own_rows: the row of each step's own place. from_run: the listed step whose own row comes there; else from_beyond:
    which row of those after the run does. beyond: which of those the step was the last to write; sent: the listed step
    whose own row it wrote there.
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < tl.load(state)
    before = tl.load(befores + i, mask=inside, other=-1).to(tl.int64)
    target = tl.load(targets + i, mask=inside, other=-1).to(tl.int64)
    drawn = tl.load(draws + i, mask=inside, other=0)
    last = tl.load(lasts + i, mask=inside, other=0)
    step = tl.load(steps + i, mask=inside, other=0)
    after = _followed(links, before, before >= 0)
    run = tl.where(before >= 0, after, target)
    sends = inside & (last > 0) & (target < 0)
    holds = _followed(links, i, sends)
    tl.store(own_rows + i, tl.where(inside, first + step, -1), mask=i < room)
    tl.store(from_run + i, run, mask=i < room)
    tl.store(from_beyond + i, tl.where(inside & (run < 0), first + drawn, -1), mask=i < room)
    tl.store(beyond + i, tl.where(sends, first + drawn, -1), mask=i < room)
    tl.store(sent + i, tl.where(sends, holds, -1), mask=i < room)


# ---- the method


class Limits(NamedTuple):
    """What fits the scratch memory. The result does not depend on it."""

    room: int  #: listed steps of a run
    last_run: int  #: steps of the last run, all of which are listed
    table_bits: int  #: places of the bitmap of draws are 2 to the power of it
    bytes_max: int  #: for columns of the last run's rows


class Moves(NamedTuple):
    """What a run of steps comes to, as resolve_kernel says it."""

    own_rows: torch.Tensor
    from_run: torch.Tensor
    from_beyond: torch.Tensor
    beyond: torch.Tensor
    sent: torch.Tensor


def limits_of(rows: int, row_bytes: int) -> Limits:
    """The limits for the memory this method may use beside the data."""
    budget = max(_SCRATCH_BYTES_MAX, rows * row_bytes // _SCRATCH_SHARE)
    table_bits = min(budget.bit_length() - 1, max((rows - 1).bit_length(), 5))  # two bitmaps: a quarter of the budget
    room = max((budget - budget // 4 - budget // 16) // (_BYTES_PER_STEP + row_bytes), _STEPS_MIN)
    return Limits(room, max(budget // _BYTES_PER_STEP, _STEPS_MIN), table_bits, budget)


def exact_gpu1(arrays: Sequence[Words], rows: int, key: int, limits: Limits | None = None) -> None:
    """Shuffles arrays in unison, by runs of steps."""
    device = arrays[0].flat.device
    limits = limits or limits_of(rows, sum(a.row_bytes for a in arrays))
    keys = torch.tensor([signed(key)], dtype=torch.int64, device=device)
    first, shorter = 0, 0
    while rows - first > limits.last_run:
        first, stuck = _runs(arrays, rows, keys, limits, first, shorter)
        shorter = shorter + 1 if stuck else 0
    _last_run(arrays, rows, keys, first, limits)


def _runs(
    arrays: Sequence[Words], rows: int, keys: torch.Tensor, limits: Limits, first: int, shorter: int
) -> tuple[int, bool]:
    """Runs until one finds no room, or the last one is next: where it begins, and whether there was no room."""
    device = keys.device
    state = torch.zeros(2, dtype=torch.int64, device=device)
    begin = first
    table_words = (1 << limits.table_bits) // 32
    bits = torch.empty(2 * table_words + _longest(rows - first, limits) // 32 + 1, dtype=torch.int32, device=device)
    steps = torch.empty(limits.room, dtype=torch.int64, device=device)
    number = torch.arange(limits.room, device=device)
    aside = [_scratch(a, a.row, limits.room) for a in arrays]
    while rows - first > limits.last_run:
        # A run that found no room, and only that one, is made again in shorter ones.
        count = max(_longest(rows - first, limits) >> (shorter if first == begin else 0), 1)
        _list(arrays, rows, keys, limits, first, count, bits, steps, state)
        moves = _resolved(steps, state, keys, rows, first, count)
        for a, kept in zip(arrays, aside, strict=True):
            move(kept, number, a, moves.own_rows)
            move(a, moves.own_rows, a, moves.from_beyond)
            move(a, moves.own_rows, kept, moves.from_run)
            move(a, moves.beyond, kept, moves.sent)
        first += count
    stuck = int(state[1])
    return (stuck - 1, True) if stuck else (first, False)


def _longest(left: int, limits: Limits) -> int:
    """Steps of a run of which about four fifths of the room are to be listed: those that meet another one."""
    meetings = 1 / left + 1 / min(left, 1 << limits.table_bits)  # of one step with one other
    return max(min(int(math.sqrt(0.8 * limits.room / meetings)), left - limits.last_run), 1)


def _list(
    arrays: Sequence[Words], rows: int, keys: torch.Tensor, limits: Limits, first: int, count: int,
    bits: torch.Tensor, steps: torch.Tensor, state: torch.Tensor,
) -> None:  # fmt: skip
    """Makes the steps of a run that are alone, and lists the others."""
    mask = (1 << limits.table_bits) - 1
    blocks = triton.cdiv(count, _BLOCK)
    counts = torch.empty(blocks, dtype=torch.int64, device=bits.device)
    bits.zero_()
    touch_kernel[(blocks,)](bits, keys, first, rows, count, mask, BLOCK=_BLOCK)
    count_kernel[(blocks,)](counts, bits, keys, first, rows, count, mask, BLOCK=_BLOCK)
    sums = torch.cumsum(counts, 0)
    list_kernel[(blocks,)](
        steps, state, sums, bits, keys, first, rows, count, mask, limits.room, blocks, BLOCK=_BLOCK
    )  # fmt: skip
    for a in arrays:
        at_once = rows_at_once(a.tile)
        tiles = triton.cdiv(a.row * a.unit, a.tile)
        swap_kernel[(triton.cdiv(count, at_once) * tiles,)](
            a.flat, state, bits, keys, first, rows, count, mask, a.step, a.row, tiles,
            UNIT=a.unit, ROWS=at_once, TILE=a.tile,
        )  # fmt: skip


def _resolved(steps: torch.Tensor, state: torch.Tensor, keys: torch.Tensor, rows: int, first: int, count: int) -> Moves:
    """What the listed steps do together."""
    room, device = len(steps), steps.device
    grid = (triton.cdiv(room, _BLOCK),)
    shift = max((room - 1).bit_length(), 1)
    packed = torch.empty(room, dtype=torch.int64, device=device)
    pack_kernel[grid](packed, steps, state, keys, first, rows, room, shift, BLOCK=_BLOCK)
    packed = torch.sort(packed).values
    links, befores, targets = torch.empty((3, room), dtype=torch.int32, device=device)
    draws = torch.empty(room, dtype=torch.int64, device=device)
    lasts = torch.empty(room, dtype=torch.int8, device=device)
    link_kernel[grid](links, befores, targets, draws, lasts, packed, steps, state, count, shift, BLOCK=_BLOCK)
    del packed
    moves = Moves(*torch.empty((5, room), dtype=torch.int64, device=device))
    resolve_kernel[grid](*moves, links, befores, targets, draws, lasts, steps, state, first, room, BLOCK=_BLOCK)
    return moves


def _last_run(arrays: Sequence[Words], rows: int, keys: torch.Tensor, first: int, limits: Limits) -> None:
    """The last run as one permutation of the rows that are left, which then move by columns."""
    count = rows - first
    device = keys.device
    own_rows = torch.arange(count, device=device)
    state = torch.tensor([count, 0], device=device)
    from_rows = first + _resolved(own_rows, state, keys, rows, first, count).from_run
    for a in arrays:
        width = _width(a, limits.bytes_max // count - _BYTES_PER_ROW)
        kept = _scratch(a, width, count)
        for begin in range(0, a.row, width):
            columns = a.columns(begin, min(begin + width, a.row))
            move(Words(kept.flat, a.unit, width, columns.row), own_rows, columns, from_rows)
            move(columns, first + own_rows, Words(kept.flat, a.unit, width, columns.row), own_rows)


def _width(a: Words, bytes_max: int) -> int:
    """Units of a row that move at once: whole cache lines, if there is room for one."""
    unit_bytes = a.unit * a.flat.element_size()
    units, line = bytes_max // unit_bytes, max(_LINE_BYTES // unit_bytes, 1)
    return int(min(max(units // line * line if units >= line else units, 1), a.row))


def _scratch(a: Words, width: int, rows: int) -> Words:
    flat = torch.empty(rows * width * a.unit, dtype=a.flat.dtype, device=a.flat.device)
    return Words(flat, a.unit, width, width)
