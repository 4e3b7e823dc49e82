"""The cursor: a place in a run, as a few integers and what decides the order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tombola._ints import integer
from tombola.errors import CursorError, InputError
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
    #: What decides which record a position reads. Read-only, whatever was given.
    fingerprint: Mapping[str, Any] = field(hash=False)

    def __post_init__(self) -> None:
        try:
            changes = tuple((_whole(e), _whole(p), _whole(b, 1)) for e, p, b in self.batch_sizes)
            epoch, position = _whole(self.epoch), _whole(self.position)
            if not isinstance(self.fingerprint, Mapping):
                raise TypeError(f"the fingerprint is {self.fingerprint!r}")
            fingerprint = frozen(self.fingerprint)
        except (TypeError, ValueError) as problem:
            raise CursorError(f"the cursor is damaged: {problem}") from None
        if not changes:
            raise CursorError("the cursor is damaged: it has no batch size")
        for name, value in (
            ("epoch", epoch),
            ("position", position),
            ("batch_sizes", changes),
            ("fingerprint", fingerprint),
        ):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Cursor.from_dict, (self.to_dict(),))

    def to_dict(self) -> dict[str, Any]:
        """The cursor as plain JSON values."""
        return {
            "tombola_cursor": _SCHEMA,
            "epoch": self.epoch,
            "position": self.position,
            "batch_sizes": [list(change) for change in self.batch_sizes],
            "fingerprint": _thawed(self.fingerprint),
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
        if type(schema) is not int or schema != _SCHEMA:
            raise CursorError(
                f"the cursor has schema {schema!r} and this version reads schema {_SCHEMA}; "
                f"resume with the version that wrote it, or a newer one"
            )
        try:
            return cls(values["epoch"], values["position"], values["batch_sizes"], values["fingerprint"])
        except KeyError as missing:
            raise CursorError(f"the cursor is damaged: it has no entry {missing}") from None

    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """The cursor that `to_json` wrote."""
        try:
            values = json.loads(text)
        except (TypeError, ValueError, RecursionError) as problem:
            raise CursorError(f"the cursor is not JSON: {problem}") from None
        return cls.from_dict(values)

    def check(self, fingerprint: Mapping[str, Any]) -> None:
        """Refuse, by name, a cursor that was taken under another order."""
        differing = []
        for key in sorted({*self.fingerprint, *fingerprint}):
            then, now = self.fingerprint.get(key), fingerprint.get(key)
            if then == now:
                continue
            if isinstance(then, Mapping) or isinstance(now, Mapping):
                then, now = then or {}, now or {}
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


def frozen(value: Any) -> Any:
    """A read-only copy of plain JSON values, to any depth; of one made here, the same object."""
    if isinstance(value, MappingProxyType):
        return value
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(entry) for key, entry in value.items()})
    return tuple(frozen(entry) for entry in value) if isinstance(value, (list, tuple)) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(entry) for key, entry in value.items()}
    return [_thawed(entry) for entry in value] if isinstance(value, tuple) else value


def _whole(value: Any, low: int = 0) -> int:
    try:
        return integer(value, "one of its numbers", low, 2**63 - 1, InputError)
    except InputError as problem:
        raise ValueError(str(problem)) from None
