"""The public calls: shuffle, shuffled, permutation."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from tombola import _core
from tombola._ints import THREADS, Ints, integer
from tombola.arrays import _gpu, _pov
from tombola.arrays._pov import Options
from tombola.arrays._seeds import key_of
from tombola.arrays._views import Rows, as_array, check_unison, has_holes, is_on_gpu, is_torch, rows_of
from tombola.errors import ArrayError
from tombola.order import seed_of

METHODS = ("exact", "exact_gpu1", "pov")
_THREADS_MAX = 1024
_PLAIN = (np.ndarray, np.memmap)
_void = functools.lru_cache(256)(lambda size: np.dtype((np.void, size)))
_X = TypeVar("_X")


def shuffle(
    x: Any,
    *,
    seed: Any = None,
    method: str | None = None,
    iterations: int | None = None,
    options: Options | None = None,
    threads: int | None = None,
) -> None:
    """Shuffles the rows of an array in place, or of several arrays in unison.

    x is a NumPy array of any dtype and rank, a torch tensor, anything else writable with ``__dlpack__`` or the buffer
    protocol, or a tuple or list of such, which all get the same permutation. Rows are along axis 0.

    The result is a pure function of the seed, the number of rows and the method (with ``pov``: and its iterations and
    options). Neither threads nor dtype nor row size nor machine change it. ``seed`` is a whole number, a
    ``numpy.random.Generator`` or ``torch.Generator`` (drawn from once), or None for fresh entropy.

    ``method="exact"``, the default, is uniform over all n! orders. ``"pov"`` is the parallel offset virtual-block
    shuffle, an approximation; giving ``iterations`` or ``options`` selects it.

    >>> import numpy as np
    >>> x = np.arange(6)
    >>> shuffle(x, seed=7)
    >>> sorted(x.tolist())
    [0, 1, 2, 3, 4, 5]
    >>> features, labels = np.arange(20).reshape(10, 2), np.arange(10)
    >>> shuffle((features, labels), seed=7)
    >>> bool((features[:, 0] == 2 * labels).all())
    True
    """
    if type(x) in _PLAIN and method is None and iterations is None and options is None and not has_holes(x):
        # The usual call by the shortest way: of a few rows, looking at all that x might be would take most of the time.
        workers = THREADS if threads is None else _workers(threads)
        if type(seed) is not int:
            rows_of(x, "x")  # before a generator is drawn from
        key = key_of(seed_of(seed), "exact", len(x) if x.ndim else 0)
        dtype = x.dtype
        # With named fields NumPy would describe each of them.
        plain = x if dtype.names is None or dtype.hasobject else x.view(_void(dtype.itemsize))
        if _core.exact_array(plain.__array_struct__, key, workers, dtype.hasobject):
            return None
    several = isinstance(x, (tuple, list))
    arrays = list(x) if several else [x]
    names = [f"x[{i}]" for i in range(len(arrays))] if several else ["x"]
    if not arrays:
        raise ArrayError(f"x is an empty {type(x).__name__}; give at least one array")
    chosen = _method(arrays, method, iterations, options)
    if any(is_on_gpu(a) for a in arrays):
        return _gpu.shuffle(arrays, names, chosen, seed, iterations, options)
    workers = _workers(threads)
    all_rows = [rows_of(as_array(a, name), name) for a, name in zip(arrays, names, strict=True)]
    if several:
        check_unison(all_rows, names)
    run_on_cpu(all_rows, chosen, seed, iterations, options, workers)


def run_on_cpu(
    all_rows: Sequence[Rows], method: str, seed: Any, iterations: int | None, options: Options | None, threads: int
) -> None:
    """Shuffles rows that have been checked."""
    n = all_rows[0].length
    steps = _pov.steps_of(n, iterations, options) if method == "pov" else None
    key = key_of(seed_of(seed), method, n)
    if n < 2:
        return
    views = [view for rows in all_rows for view in rows.views()]
    threads = _core.threads_worth(n, sum(rows.row_bytes for rows in all_rows), threads)
    keep_gil = any(rows.holds_objects for rows in all_rows)
    if steps is not None:
        _core.pov_arrays(views, n, key, *steps, threads, keep_gil)
    elif method == "exact_gpu1":
        _core.gpu1_arrays(views, n, key, threads, keep_gil)
    else:
        _core.exact_arrays(views, n, key, threads, keep_gil)


def shuffled(
    x: _X,
    *,
    seed: Any = None,
    method: str | None = None,
    iterations: int | None = None,
    options: Options | None = None,
    threads: int | None = None,
) -> _X:
    """A shuffled copy: x[permutation(len(x))] for the same seed. x is an array or a torch tensor, and stays as it is.

    >>> import numpy as np
    >>> x = np.arange(5) * 10
    >>> bool((shuffled(x, seed=3) == x[permutation(5, seed=3)]).all())
    True
    """
    copy: Any
    if is_torch(x):
        copy = x.detach().clone()  # type: ignore[attr-defined]
    elif is_on_gpu(x):
        raise ArrayError(
            f"x is a {type(x).__name__} on a GPU; only torch tensors can be copied there: copy it yourself"
        )
    else:
        copy = np.array(as_array(x, "x"), order="C", subok=True)
    shuffle(copy, seed=seed, method=method, iterations=iterations, options=options, threads=threads)
    return copy  # type: ignore[no-any-return]


def permutation(
    n: int,
    *,
    seed: Any = None,
    method: str | None = None,
    iterations: int | None = None,
    options: Options | None = None,
    threads: int | None = None,
) -> Ints:
    """The permutation that a shuffle of n rows applies: shuffled(x, seed=s) equals x[permutation(len(x), seed=s)].

    >>> sorted(permutation(4, seed=1).tolist())
    [0, 1, 2, 3]
    """
    size = integer(n, "n, the size of a permutation,", 0, 2**48, ArrayError)
    out = np.arange(size, dtype=np.int64)
    shuffle(out, seed=seed, method=method, iterations=iterations, options=options, threads=threads)
    return out


def method_for(
    x: Any, *, method: str | None = None, iterations: int | None = None, options: Options | None = None
) -> str:
    """The name of the method that `shuffle` with these arguments uses.

    >>> method_for(np.arange(3)), method_for(np.arange(3), iterations=2)
    ('exact', 'pov')
    """
    return _method(list(x) if isinstance(x, (tuple, list)) else [x], method, iterations, options)


def _method(arrays: Sequence[Any], method: str | None, iterations: int | None, options: Options | None) -> str:
    asked_pov = iterations is not None or options is not None
    if method is None:
        method = "pov" if asked_pov else "exact"
    elif method not in METHODS:
        raise ArrayError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    if asked_pov and method != "pov":
        raise ArrayError(f"iterations and options belong to the method pov; leave them out with method={method!r}")
    if method == "exact" and any(is_on_gpu(a) for a in arrays):
        return "exact_gpu1"
    return method


def _workers(threads: int | None) -> int:
    return THREADS if threads is None else integer(threads, "threads", 1, _THREADS_MAX, ArrayError)
