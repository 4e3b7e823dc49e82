"""What all contestants of bench/pipeline.py read and do. Needs nothing but the standard library."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

BATCH = 64
SEED = 7
FILES = 8


def numbers(rows: list[dict[str, int]]) -> Iterator[dict[str, int]]:
    """A Python iterator that costs next to nothing."""
    yield from rows


def write(folder: Path, records: int) -> None:
    """Files of JSON Lines, about 200 bytes a line."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(2000)]
    for number in range(FILES):
        lines = []
        for at in range(number, records, FILES):
            text = " ".join(draw.choices(words, k=20))
            row = {"id": at, "file": number, "label": draw.randrange(100), "score": draw.random(), "text": text}
            lines.append(json.dumps(row))
        (folder / f"part-{number}.jsonl").write_text("\n".join(lines) + "\n")


def changed(row: dict[str, Any]) -> dict[str, Any]:
    """The map: a small piece of work on each record."""
    row["text"] = row["text"].lower()
    return row


def lines(path: str) -> Iterator[dict[str, Any]]:
    """JSON Lines as one reads them in Python, for those who have no reader."""
    with open(path, "rb") as file:
        for line in file:
            yield json.loads(line)


def spread(batches: Iterable[Any]) -> float:
    """Files per full batch, on the mean."""
    counts = [len(set(map(int, files))) for files in batches if len(files) == BATCH]
    return sum(counts) / len(counts)
