"""A column of values that are not of one size: their bytes back to back, and where each begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola.errors import DataError, FormatError
from tombola.formats._encodings import Encoding
from tombola.formats._ndarrays import array_spec, read_head


class Ragged:
    """Values of a variable-size column: value i is ``data[offsets[i]:offsets[i + 1]]``, decoded when asked for.

    data
        The bytes, as one uint8 array.
    offsets
        int64, one more than there are values.

    >>> import numpy as np
    >>> from tombola.formats import encoding
    >>> words = Ragged(np.frombuffer(b"onetwothree", np.uint8), np.array([0, 3, 6, 11]), encoding("str"))
    >>> words[1], words[1:].tolist(), words.lengths.tolist()
    ('two', ['two', 'three'], [3, 3, 5])
    """

    __slots__ = ("data", "encoding", "offsets")

    def __init__(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], encoding: Encoding) -> None:
        self.data = data
        self.offsets = offsets
        self.encoding = encoding

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Bytes of each value."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Ragged: ...
    def __getitem__(self, place: int | slice) -> Any:
        """One value, decoded; or, for a slice of step 1, a Ragged that shares the memory."""
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise FormatError(f"a Ragged is cut with step 1, not {step}; take tolist() and cut that")
            return Ragged(self.data, self.offsets[start : max(start, stop) + 1], self.encoding)
        return self.encoding.decode(self.payload(place))

    def payload(self, place: int) -> memoryview:
        """The bytes of one value, not decoded."""
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(f"value {place} of {len(self)}")
        return self.data[int(self.offsets[at]) : int(self.offsets[at + 1])].data

    def payloads(self) -> list[bytes]:
        """The bytes of all values, not decoded."""
        found: list[bytes] = _core.values(self.data, self.offsets, False)
        return found

    def tolist(self) -> list[Any]:
        """All values, decoded."""
        if self.encoding.name == "str":
            with suppress(UnicodeDecodeError):  # the decoder says it better
                texts: list[str] = _core.values(self.data, self.offsets, True)
                return texts
        payloads = self.payloads()
        if self.encoding.name == "bytes":
            return payloads
        decode = self.encoding.decode
        return [decode(memoryview(payload)) for payload in payloads]

    def stacked(self) -> npt.NDArray[Any] | None:
        """The values as one array, where they are arrays of one dtype and shape; None where they are not.

        An encoding "ndarray" writes the dtype and shape in front of each value. Where all are the same, one
        copy of the whole column makes an array of shape (values, *shape).
        """
        base, *rest = self.encoding.name.split(":")
        lengths = self.lengths
        if base != "ndarray" or not len(self) or (lengths != lengths[0]).any():
            return None
        first = int(self.offsets[0])
        rows = self.data[first : first + len(self) * int(lengths[0])].reshape(len(self), int(lengths[0]))
        try:
            at, dtype, shape = read_head(memoryview(rows[0]), *array_spec(self.encoding.name, rest))
        except DataError:
            return None
        if at and (rows[:, :at] != rows[0, :at]).any():
            return None
        return np.ascontiguousarray(rows[:, at:]).view(dtype).reshape(len(self), *shape)

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"<Ragged of {len(self)} {self.encoding.name} in {int(self.offsets[-1] - self.offsets[0])} bytes>"
