"""Records as NumPy arrays, torch tensors or Arrow batches. The file that imports torch and pyarrow for pipelines."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from tombola.errors import InputError, MissingExtra
from tombola.pipeline._step import Step
from tombola.pipeline._steps import function_failed

Format = Literal["numpy", "torch", "arrow"]


class Convert(Step):
    """Numbers, lists of them and arrays become those of a library; dicts keep their keys."""

    def __init__(self, kind: Format) -> None:
        if kind not in get_args(Format):
            raise InputError(f"the format is {kind!r}; with_format knows {', '.join(map(repr, get_args(Format)))}")
        self.kind: Format = kind

    def iterate(self) -> Iterator[Any]:
        convert = _CONVERTERS[self.kind]()
        for number, record in enumerate(self.source):
            try:
                out = convert(record)
            except Exception as error:
                raise function_failed(self.describe(), number, record, error) from error
            yield out

    def length(self, inputs: Sequence[int | None]) -> int | None:
        return inputs[0]

    def describe(self) -> str:
        return f"with_format({self.kind!r})"


def _each(record: Any, convert: Callable[[Any], Any]) -> Any:
    return {name: convert(value) for name, value in record.items()} if isinstance(record, Mapping) else convert(record)


def _to_numpy() -> Callable[[Any], Any]:
    return lambda record: _each(record, as_numpy)


def as_numpy(value: Any) -> Any:
    """Numbers and lists as arrays; texts, bytes and whatever has no shape stay as they are.

    >>> as_numpy([1, 2]).dtype, as_numpy("a"), as_numpy(["a", "b"])
    (dtype('int64'), 'a', ['a', 'b'])
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    if isinstance(value, (bool, int, float, complex)):
        return np.asarray(value)[()]
    if not isinstance(value, (list, tuple)):
        return np.asarray(value) if hasattr(value, "__array__") else value
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        return value
    return array if array.dtype.kind in "biufc" else value


def _to_torch() -> Callable[[Any], Any]:
    torch = _library("torch", "torch")

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value
        array = as_numpy(value)
        if not isinstance(array, (np.ndarray, np.generic)) or array.dtype.kind not in "biufc":
            return value
        # A tensor must not write into an array that others may have.
        return torch.tensor(array)

    return lambda record: _each(record, convert)


def _to_arrow() -> Callable[[Any], Any]:
    arrow = _library("pyarrow", "arrow")

    def convert(record: Any) -> Any:
        if isinstance(record, (arrow.RecordBatch, arrow.Table)):
            return record
        if not isinstance(record, Mapping):
            raise TypeError("arrow needs dicts: records, or batches of records")
        columns = all(isinstance(value, (list, np.ndarray)) for value in record.values())
        rows = {len(value) for value in record.values()} if columns and record else set()
        if len(rows) != 1:
            record = {name: [value] for name, value in record.items()}
        return arrow.RecordBatch.from_pydict({name: _arrow_values(value) for name, value in record.items()})

    return convert


def _arrow_values(values: Any) -> Any:
    return list(values) if isinstance(values, np.ndarray) and values.ndim > 1 else values


def _library(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"with_format({extra!r}) needs {name}: pip install 'tombola[{extra}]'") from error


_CONVERTERS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "numpy": _to_numpy,
    "torch": _to_torch,
    "arrow": _to_arrow,
}
