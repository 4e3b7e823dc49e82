"""A digest of bytes at memory speed: is this file still the one that something was made from?

Against accidents only. What has to stand against forgers uses hashlib.
"""

from __future__ import annotations

import numpy as np

from tombola import _core
from tombola.stores import Bytes

_GAMMA = 0x9E3779B97F4A7C15
_ODD = 0xBF58476D1CE4E5B9
_WORD = (1 << 64) - 1


def digest(data: Bytes) -> bytes:
    """16 bytes that change when any of these bytes, or their number, do."""
    low, high = _core.digest(np.frombuffer(data, np.uint8))
    return int(low).to_bytes(8, "little") + int(high).to_bytes(8, "little")


def digest_slow(data: Bytes) -> bytes:
    """The slow twin of `digest`: the definition, a step at a time."""
    given = bytes(data)
    lanes = [_mix(len(given) + (lane + 1) * _GAMMA) for lane in range(8)]
    for at in range(0, len(given), 64):
        block = given[at : at + 64].ljust(64, b"\0")
        for lane in range(8):
            word = int.from_bytes(block[8 * lane : 8 * lane + 8], "little")
            mixed = (lanes[lane] + word * _ODD) & _WORD
            lanes[lane] = ((mixed << 31 | mixed >> 33) * _GAMMA) & _WORD
    low, high = _mix(len(given) + _GAMMA), _mix(len(given) + 2 * _GAMMA)
    for lane_word in lanes:
        low, high = _mix(low ^ lane_word), _mix(high + lane_word * _GAMMA)
    return low.to_bytes(8, "little") + high.to_bytes(8, "little")


def _mix(z: int) -> int:
    z &= _WORD
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _WORD
    return z ^ z >> 31
