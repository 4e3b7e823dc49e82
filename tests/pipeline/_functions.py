"""Functions that other processes can be given."""

from __future__ import annotations

import asyncio
from typing import Any


def double(record: Any) -> Any:
    return record * 2


class TwoWords(Exception):
    """Cannot be unpickled: it is made of two words and keeps one."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def fails_in_two_words(record: Any) -> Any:
    if record == 3:
        raise TwoWords("no", "luck")
    return record


def returns_a_function(record: Any) -> Any:
    return lambda: record


def odd(record: Any) -> bool:
    return int(record) % 2 == 1


def pairs(record: Any) -> list[int]:
    return [int(record)] * (int(record) % 3)


def twice_the_batch(records: list[Any]) -> list[Any]:
    return [one for record in records for one in (record, record)]


async def slow_double(record: Any) -> Any:
    await asyncio.sleep(0.0001 * (hash(str(record)) % 3))
    return record * 2
