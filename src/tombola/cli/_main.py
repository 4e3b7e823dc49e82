"""The table of commands, and how a failure leaves: one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from tombola.cli import _cat, _head, _info, _order, _score, _shuffle, _verify, _where
from tombola.errors import TombolaError

# Each has add(commands), which sets `run` as the default of its parser.
_COMMANDS = (_info, _head, _cat, _verify, _where, _order, _score, _shuffle)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A wrong argument looks like any other failure: one line."""
        print(f"tombola: error: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


class _Version(argparse.Action):
    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        # Loaded only now: it takes longer than most commands run.
        print(f"tombola {import_module('importlib.metadata').version('tombola')}")
        sys.exit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; gives its exit code: 0, 1 when data is found to be
    damaged, or 2 when the input makes no sense.

    >>> main(["order", "2x8", "--lanes", "2", "--find", "3", "--json"])  # doctest: +ELLIPSIS
    {"positions": [{"position": ..., "record": 3, "shard": 0, ...}]}
    0
    """
    parser = _Parser(
        prog="tombola",
        allow_abbrev=False,
        description="Shuffles training data: the order of records as a pure function.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    arguments = parser.parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except TombolaError as error:
        print(f"tombola: error: {error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        what = f": {error}" if str(error) else ""
        print(f"tombola: error: there is not enough memory{what}; ask for fewer shards or positions", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `tombola … | head` closed the pipe: that is no failure, but Python would complain once more at exit.
        sys.stdout = None
        return 0
    return code
