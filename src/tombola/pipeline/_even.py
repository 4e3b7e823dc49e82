"""How all ranks and workers give the same number of records, so that none waits for another one for ever."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from tombola._ints import integer
from tombola.errors import InputError, StreamError

Even = bool | int
_END = object()
_FAILED, _ENDED, _GOES_ON = -1, 0, 1


def check_even(even: Any) -> bool | int:
    """True, False, or how many records each consumer gives."""
    return even if isinstance(even, bool) else integer(even, "even", 0, None, InputError)


def check_group(group: Any, even: Any) -> Any:
    """A process group, and no second way besides."""
    if group is not None and even is not False:
        raise InputError("even and group are two ways to the same end; give one of them")
    return group


def counted(records: Iterator[Any], step: Count) -> Iterator[Any]:
    """So many records, and an error where there are fewer."""
    while step.left > 0:
        record = next(records, _END)
        if record is _END:
            raise StreamError(
                f"{step.left} of the records that all ranks agreed on are not there: the count that was given, or the "
                f"lengths of the source, promise more than there is"
            )
        step.left -= 1
        yield record


class Count:
    """How many records this consumer has to come."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


def together(records: Iterator[Any], group: Any) -> Iterator[Any]:
    """Records as long as every rank of a process group has one: one small all-reduce for each."""
    torch: Any = sys.modules.get("torch")
    distributed: Any = sys.modules.get("torch.distributed")
    if torch is None or distributed is None or not distributed.is_initialized():
        raise InputError("group was given, but torch.distributed has no process group in this process: initialise it")
    data: Any = sys.modules.get("torch.utils.data")
    if data is not None and data.get_worker_info() is not None:
        raise InputError(
            "ranks cannot agree over a process group from the workers of a loader, which are not part of it: use "
            "num_workers=0, or even=True where the length is known, or even=COUNT"
        )
    on = "cuda" if "nccl" in str(distributed.get_backend(group)) else "cpu"
    while True:
        failure: Exception | None = None
        record, word = _END, _GOES_ON
        try:
            record = next(records, _END)
        except Exception as error:  # noqa: BLE001  raised below, when the others know
            failure, word = error, _FAILED
        word = _ENDED if record is _END and failure is None else word
        least = torch.tensor([word], dtype=torch.int32, device=on)
        distributed.all_reduce(least, op=distributed.ReduceOp.MIN, group=group)
        if failure is not None:
            raise failure
        if int(least) == _FAILED:
            raise StreamError("another rank failed to read its next record; its own error says why")
        if int(least) == _ENDED:
            return
        yield record
