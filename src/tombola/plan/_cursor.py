"""The cursor: a place in a run, as a few integers and what decides the order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tombola.errors import CursorError
from tombola.plan._steps import Change

_SCHEMA = 1


@dataclass(frozen=True)
class Cursor:
    """The next position to read, of which epoch, under which batch sizes so far, and the fingerprint of the order.

    >>> cursor = Cursor(0, 64, ((0, 0, 64),), {"seed": 7})
    >>> Cursor.from_json(cursor.to_json()) == cursor
    True
    """

    epoch: int
    position: int
    #: Every change of the batch size since the start of the run, the first one included.
    batch_sizes: tuple[Change, ...]
    #: What decides which record a position reads.
    fingerprint: Mapping[str, Any] = field(hash=False)

    def to_dict(self) -> dict[str, Any]:
        """The cursor as plain JSON values."""
        return {
            "tombola_cursor": _SCHEMA,
            "epoch": self.epoch,
            "position": self.position,
            "batch_sizes": [list(change) for change in self.batch_sizes],
            "fingerprint": dict(self.fingerprint),
        }

    def to_json(self) -> str:
        """The cursor as one line of JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Cursor:
        """The cursor that `to_dict` described."""
        schema = values.get("tombola_cursor") if isinstance(values, Mapping) else None
        if schema is None:
            raise CursorError("this is not a cursor: it has no entry 'tombola_cursor'")
        if schema != _SCHEMA:
            raise CursorError(
                f"the cursor has schema {schema!r} and this version reads schema {_SCHEMA}; "
                f"resume with the version that wrote it, or a newer one"
            )
        try:
            changes = tuple((_whole(e), _whole(p), _whole(b)) for e, p, b in values["batch_sizes"])
            cursor = cls(_whole(values["epoch"]), _whole(values["position"]), changes, dict(values["fingerprint"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise CursorError(f"the cursor is damaged: {problem!r} in {values!r}") from None
        if not changes or cursor.epoch < 0 or cursor.position < 0:
            raise CursorError(f"the cursor is damaged: {values!r}")
        return cursor

    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """The cursor that `to_json` wrote."""
        try:
            values = json.loads(text)
        except ValueError as problem:
            raise CursorError(f"the cursor is not JSON: {problem}") from None
        return cls.from_dict(values)

    def check(self, fingerprint: Mapping[str, Any]) -> None:
        """Refuse, by name, a cursor that was taken under another order."""
        differing = []
        for key in sorted({*self.fingerprint, *fingerprint}):
            then, now = self.fingerprint.get(key), fingerprint.get(key)
            if then == now:
                continue
            if isinstance(then, Mapping) and isinstance(now, Mapping):
                for option in sorted({*then, *now}):
                    if then.get(option) != now.get(option):
                        differing.append(f"{option} ({then.get(option)!r} then, {now.get(option)!r} now)")
            else:
                differing.append(f"{key} ({then!r} then, {now!r} now)")
        if differing:
            raise CursorError(
                f"the cursor was taken under another order, which differs in {', '.join(differing)}; "
                f"resume with what it was taken under, or start anew without a cursor"
            )


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value
