"""`tombola score`: how good an order is, next to a perfect shuffle of the same data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola.cli._imports import add_import, import_modules
from tombola.cli._layout import HELP, parse_layout
from tombola.cli._spec import add_options, spec_of
from tombola.cli._table import print_plain
from tombola.errors import InputError
from tombola.order import Layout, Order, order_names
from tombola.quality import Score, score

_OF_ORDERS = ("order", "lanes", "window", "option", "seed", "epoch", "epochs")
_EPOCHS = 16
_VERDICTS = ("perfect", "stratified", "local", "flawed")


def add(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("score", allow_abbrev=False, help="judge how good an order is", description=__doc__)
    parser.add_argument("layout", metavar="LAYOUT", help=HELP)
    names = ", ".join(order_names())
    parser.add_argument("--order", metavar="NAME", help=f"one of {names}; lanes unless given")
    add_options(parser)
    parser.add_argument(
        "--ids", metavar="FILE", help="a .npy file of recorded ids, one row an epoch, to judge instead of an order"
    )
    add_import(parser)
    parser.add_argument("--seed", type=int, help="of the order; 0 unless given")
    parser.add_argument("--epoch", type=int, help="of the order; 0 unless given")
    parser.add_argument("--epochs", type=int, help=f"of the order, compared with one another; {_EPOCHS} unless given")
    parser.add_argument("--batch-size", type=int, help="over all ranks; 64, or the order's own, unless given")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--label", metavar="FILE", help="a .npy file with one label, value or row of values per record")
    parser.add_argument("--kind", choices=("auto", "label", "value"), default="auto", help="how to read --label")
    parser.add_argument(
        "--worst", choices=_VERDICTS, default="local", help="exit with 1 when the verdict is worse; local unless given"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    import_modules(arguments.imports)
    layout = parse_layout(arguments.layout)
    feature = None if arguments.label is None else _load(arguments.label, "--label")
    common: dict[str, Any] = {"feature": feature, "feature_kind": arguments.kind}
    common |= {"batch_size": arguments.batch_size, "ranks": arguments.ranks}
    if arguments.ids is not None:
        taken = [name for name in _OF_ORDERS if getattr(arguments, name) not in (None, [])]
        if taken:
            raise InputError(
                f"--{taken[0]} describes an order, but --ids {arguments.ids} is judged instead; leave one of them out"
            )
        subject: Any = _load(arguments.ids, "--ids")
        common["layout"] = layout
    else:
        subject = _order(arguments, layout)
        common["epoch"] = arguments.epoch or 0
        common["epochs"] = _EPOCHS if arguments.epochs is None else arguments.epochs
    try:
        result = score(subject, **common)
    except InputError as problem:
        text = str(problem)
        for word, name in (("the feature ", arguments.label), ("ids ", arguments.ids)):
            if name is not None and text.startswith(word):
                raise InputError(f"{name}: {text}") from None
        raise
    _print(result, as_json=arguments.json)
    return int(_VERDICTS.index(result.verdict) > _VERDICTS.index(arguments.worst))


def _order(arguments: argparse.Namespace, layout: Layout) -> Order:
    given = {name: getattr(arguments, name) for name in ("lanes", "window", "batch_size")}
    spec = spec_of(arguments.order or "lanes", arguments.option, **given)
    return spec.over(layout, seed=arguments.seed or 0)


def _load(name: str, option: str) -> npt.NDArray[Any]:
    path = Path(name)
    try:
        # Mapped where it is an array of plain numbers: ids and features may be larger than memory.
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        if isinstance(problem, OSError):
            raise InputError(f"the {option} file {name} cannot be read: {problem}") from None
        raise InputError(
            f"the {option} file {name} cannot be read as a .npy file of numbers or strings; write one with "
            f"numpy.save, from text by numpy.save('{path.stem}.npy', numpy.loadtxt('{path.name}', delimiter=','))"
        ) from None
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"the {option} file {name} holds several arrays; save one with numpy.save")
    return loaded


def _print(result: Score, *, as_json: bool) -> None:
    if as_json:
        print(result.to_json())
    else:
        print_plain(result)
