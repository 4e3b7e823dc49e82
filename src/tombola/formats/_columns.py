"""The columns of a shard: names, encodings, and where each stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tombola.errors import FormatError
from tombola.formats._encodings import Encoding, encoding


class Columns(Mapping[str, Encoding]):
    """Names and encodings, in the order in which a record has them.

    >>> columns = Columns({"text": "str", "label": "int"})
    >>> columns.names, columns.sizes
    (('text', 'label'), (-1, 8))
    """

    __slots__ = ("_places", "encodings", "names", "schema", "sizes")

    def __init__(self, spec: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
        pairs = list(spec.items() if isinstance(spec, Mapping) else spec)
        self.names: tuple[str, ...] = tuple(name for name, _ in pairs)
        for name in self.names:
            if not isinstance(name, str) or not name:
                raise FormatError(f"{name!r} is no name for a column: give a string that is not empty")
        self._places = {name: place for place, name in enumerate(self.names)}
        if len(self._places) != len(pairs):
            raise FormatError(f"the columns {list(self.names)} hold a name twice")
        self.encodings: tuple[Encoding, ...] = tuple(encoding(name) for _, name in pairs)
        #: Bytes per value of each column, −1 where they vary.
        self.sizes: tuple[int, ...] = tuple(-1 if each.size is None else each.size for each in self.encodings)

        #: A hash, equal for equal columns, in this process.
        self.schema: int = hash(self) & ((1 << 64) - 1)

    def place(self, name: str) -> int:
        """Where a column stands; a FormatError when there is none by that name."""
        try:
            return self._places[name]
        except (KeyError, TypeError):
            raise FormatError(f"there is no column {name!r}; there are {', '.join(self.names)}") from None

    def places(self, names: Iterable[str] | None) -> list[int]:
        """Where several columns stand; all of them for None."""
        if names is None:
            return list(range(len(self.names)))
        if isinstance(names, str):
            raise FormatError(f"columns={names!r} is one string: give a list, [{names!r}]")
        return [self.place(name) for name in names]

    @property
    def unsafe(self) -> str | None:
        """The first column whose decoding runs code that the data brings along."""
        return next((name for name, each in zip(self.names, self.encodings, strict=True) if each.unsafe), None)

    def spec(self) -> dict[str, str]:
        """Names and encodings as strings: what makes the same columns again."""
        return {name: each.name for name, each in zip(self.names, self.encodings, strict=True)}

    def __getitem__(self, name: str) -> Encoding:
        return self.encodings[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Columns) and self.names == other.names and self.encodings == other.encodings

    def __hash__(self) -> int:
        return hash((self.names, self.encodings))

    def __reduce__(self) -> tuple[Any, ...]:
        return Columns, (self.spec(),)

    def __repr__(self) -> str:
        return f"Columns({self.spec()})"
