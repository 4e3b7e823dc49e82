"""The exceptions of tombola: one tree, so that one `except` catches as much as you mean.

    TombolaError
    ├── InputError (ValueError)      an argument makes no sense; nothing was done
    │   ├── LayoutError              records per shard
    │   ├── OrderError               an order, its options, a position or record outside it
    │   ├── WorldError               nodes, ranks, workers
    │   ├── PlanError                batch size, tail policy, step
    │   └── ArrayError               an array that cannot be shuffled as asked
    ├── CursorError (ValueError)     a cursor does not belong to this run
    └── MissingExtra (ImportError)   an optional dependency is not installed

Every message says what happened, to which thing, and what to do next.

>>> from tombola.errors import InputError, OrderError
>>> issubclass(OrderError, InputError) and issubclass(OrderError, ValueError)
True
"""

from __future__ import annotations

__all__ = [
    "ArrayError",
    "CursorError",
    "InputError",
    "LayoutError",
    "MissingExtra",
    "OrderError",
    "PlanError",
    "TombolaError",
    "WorldError",
]


class TombolaError(Exception):
    """The root: every exception that tombola raises on purpose."""


class InputError(TombolaError, ValueError):
    """An argument makes no sense; nothing was done."""


class LayoutError(InputError):
    """The records per shard make no sense."""


class OrderError(InputError):
    """An order, one of its options, or a position or record outside it."""


class WorldError(InputError):
    """The nodes, ranks or workers make no sense."""


class PlanError(InputError):
    """The batch size, the tail policy or a step make no sense."""


class ArrayError(InputError):
    """An array cannot be shuffled as asked; no row was moved."""


class CursorError(TombolaError, ValueError):
    """A cursor does not belong to this run."""


class MissingExtra(TombolaError, ImportError):
    """An optional dependency is not installed."""
