"""The command line: one file per command, which parses, calls the public functions and prints.

>>> from tombola.cli import main
>>> main(["order", "3x4", "--order", "sequential", "--at", "5", "--json"])  # doctest: +ELLIPSIS
{"positions": [{"position": 5, "record": 5, "shard": 1, "place": 1, ...}]}
0
"""

from tombola.cli._main import main

__all__ = ["main"]
