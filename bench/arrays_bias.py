"""Measures how the bias of `pov` falls with its iterations, beside that of an exact shuffle.

    python bench/arrays_bias.py [--rows N …] [--observations N]

Three measures of total variation distance (TVD) over independent shuffles of 0…n−1, all with wrap-around: positional,
how far rows travel; 2-gram, how far apart two rows that stand side by side were before; 3-gram, the same for three.
For a uniform shuffle each would be 0 but for the number of observations, so the exact method, with other seeds, is the
baseline: its mean and spread. `pov` has converged when no measure is above the baseline by more than four spreads.
The table of default iterations in tombola/arrays/_pov.py comes from this.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import tombola

Orders = npt.NDArray[np.int64]
_BASELINES = 6
_SPREADS = 4.0
_EXCESS = 1e-4  # a difference that small is below what any number of epochs shows
_ITERATIONS_MAX = 12


def positional(orders: Orders) -> float:
    """TVD of travel distances, place − row, from uniform; one order a line."""
    n = orders.shape[1]
    return _tvd(np.bincount(((np.arange(n) - orders) % n).ravel(), minlength=n))


def pairs(orders: Orders) -> float:
    """TVD of the differences between neighbours from uniform over 1…n−1."""
    n = orders.shape[1]
    return _tvd(np.bincount(((np.roll(orders, -1, 1) - orders) % n).ravel(), minlength=n)[1:])


def triples(orders: Orders) -> float:
    """TVD of the pairs of differences between three neighbours from uniform over all of them, or over as many as there
    are observations when those are fewer."""
    n = orders.shape[1]
    first, second = ((np.roll(orders, -k, 1) - orders) % n for k in (1, 2))
    found = np.unique((first * n + second).ravel(), return_counts=True)[1]
    share = 1 / min(orders.size, (n - 1) * (n - 2))
    return float(0.5 * (np.abs(found / orders.size - share).sum() + max(0.0, 1 - found.size * share)))


MEASURES: dict[str, Callable[[Orders], float]] = {"positional": positional, "2-gram": pairs, "3-gram": triples}


def _tvd(counts: npt.NDArray[np.int64]) -> float:
    return float(0.5 * np.abs(counts / counts.sum() - 1 / counts.size).sum())


def shuffles(n: int, count: int, first_seed: int, **arguments: object) -> Orders:
    """Independent shuffles of 0…n−1."""
    return np.stack([tombola.permutation(n, seed=first_seed + k, **arguments) for k in range(count)])  # type: ignore[arg-type]


def baseline(n: int, count: int) -> dict[str, tuple[float, float]]:
    """Mean and spread of each measure for exact shuffles."""
    runs = [shuffles(n, count, 10**6 * (k + 1)) for k in range(_BASELINES)]
    values = {name: [measure(run) for run in runs] for name, measure in MEASURES.items()}
    return {name: (float(np.mean(v)), float(np.std(v, ddof=1))) for name, v in values.items()}


def main() -> int:
    """Prints a table for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 1025, 4096, 20_000, 65_536, 1 << 18, 1 << 20])
    parser.add_argument("--observations", type=int, default=3_000_000, help="rows seen at each number of iterations")
    parser.add_argument("--virtual", type=int, help="virtual_block_size")
    parser.add_argument("--physical", type=int, help="physical_block_size")
    arguments = parser.parse_args()
    options = tombola.Options(arguments.virtual, arguments.physical)
    for n in arguments.rows:
        count = max(4, arguments.observations // n)
        base = baseline(n, count)
        print(f"{n:,} rows, {count} shuffles; {tombola.optim_options_for_dataset(n, options)}")
        print(
            "  exact       " + "  ".join(f"{name} {mean:.5f} ± {spread:.5f}" for name, (mean, spread) in base.items())
        )
        for iterations in range(1, _ITERATIONS_MAX + 1):
            run = shuffles(n, count, 1, iterations=iterations, options=options)
            got = {name: measure(run) for name, measure in MEASURES.items()}
            print(
                f"  {iterations:2d}          "
                + "  ".join(f"{name} {value:.5f}          " for name, value in got.items())
            )
            if all(got[name] <= mean + max(_SPREADS * spread, _EXCESS) for name, (mean, spread) in base.items()):
                break
    return 0


if __name__ == "__main__":
    sys.exit(main())
