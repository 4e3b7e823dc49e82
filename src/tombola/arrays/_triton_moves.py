"""What the GPU methods share: random numbers, rows as words, and the kernel that moves rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

_TILE_ELEMENTS = 8192


# ---- random numbers: the mixers of native/src/keys.hpp


@triton.jit
def mix64(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def mix32(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def word(key, i):
    return mix64(key + (i + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)


@triton.jit
def child(key, i):
    return mix64(mix64(key ^ 0xD1B54A32D192ED03) + (i + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)


def signed(key: int) -> int:
    """The same 64 bits as a number that a tensor of int64 holds."""
    return key - 2**64 if key >= 2**63 else key


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

    def columns(self, begin: int, end: int) -> Words:
        """The same rows, but of each only these units."""
        return Words(self.flat[begin * self.unit :], self.unit, self.step, end - begin)

    @property
    def tile(self) -> int:
        """Words of a row that a program moves at once."""
        return min(int(triton.next_power_of_2(self.row * self.unit)), 32)


def words_of(x: torch.Tensor) -> Words:
    """The rows of a tensor whose inner axes have no gaps."""
    size, row_bytes = x.element_size(), x.element_size() * math.prod(x.shape[1:])
    step = x.stride(0) * size
    aligned = math.gcd(row_bytes, step, x.data_ptr(), 16)
    width = min(aligned, 4)
    dtype = {4: torch.int32, 2: torch.int16, 1: torch.int8}[width]
    span = (len(x) - 1) * step + row_bytes
    flat = torch.empty(0, dtype=dtype, device=x.device)
    flat.set_(x.untyped_storage(), x.storage_offset() * size // width, (span // width,))
    unit = max(aligned // 4, 1) if width == 4 else 1
    return Words(flat, unit, step // (width * unit), row_bytes // (width * unit))


# ---- moving rows


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


def rows_at_once(tile: int) -> int:
    """Rows that a program moves when it moves tiles of so many words."""
    return max(_TILE_ELEMENTS // 4 // tile, 16)


def move(to: Words, to_rows: torch.Tensor, source: Words, source_rows: torch.Tensor) -> None:
    """Row to_rows[i] of `to` becomes row source_rows[i] of `source`; negative numbers are left out."""
    tile = source.tile
    at_once = rows_at_once(tile)
    tiles = triton.cdiv(source.row * source.unit, tile)
    move_kernel[(triton.cdiv(len(to_rows), at_once) * tiles,)](
        to.flat, to_rows, source.flat, source_rows, len(to_rows), to.step, source.step, source.row, tiles,
        UNIT=source.unit, ROWS=at_once, TILE=tile,
    )  # fmt: skip
