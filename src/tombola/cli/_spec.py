"""The order that a command line names, for all commands that take one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tombola.errors import OrderError
from tombola.order import OrderSpec, make_spec, option_names

# Where orders keep another one in their options, and which it is unless given.
_INSIDE = {"base": "lanes", "combination": "concatenation"}


def add_options(parser: Any) -> None:
    """The options that `spec_of` takes."""
    parser.add_argument(
        "--lanes",
        type=int,
        help="how many lanes are read side by side; an order without lanes of its own hands them to the one inside it",
    )
    parser.add_argument("--window", type=int, help="mix this many shards of a lane; handed on likewise")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="any other option of the order"
    )


def spec_of(
    name: str,
    texts: Sequence[str],
    *,
    lanes: int | None = None,
    window: int | None = None,
    batch_size: int | None = None,
) -> OrderSpec:
    """The order of that name with the options of `--option`, `--lanes` and `--window`.

    An order that has no lanes of its own hands them to the one inside it; one that is bound to a batch size takes that
    of the command.

    >>> spec_of("mixture", ["weights=[3,1]"], lanes=4).base.lanes
    4
    """
    options = dict(parse_option(text) for text in texts)
    if batch_size is not None and "batch_size" in option_names(name):
        options.setdefault("batch_size", batch_size)
    given = {"lanes": lanes, "window": window}
    for word, value in given.items():
        if value is not None and word in options:
            raise OrderError(f"--{word} {value} and --option {word}={options[word]} both set it; leave one of them out")
    return make_spec(
        name, **_placed(name, options, {word: value for word, value in given.items() if value is not None})
    )


def _placed(name: str, options: dict[str, Any], given: dict[str, int]) -> dict[str, Any]:
    """The options with those of `given` at the order that has them, however deep inside."""
    known = option_names(name)
    if "canonical_nodes" in known and "lanes" in given:
        given = {("canonical_nodes" if word == "lanes" else word): value for word, value in given.items()}
    inside = next((option for option in _INSIDE if option in known), None)
    here = {word: value for word, value in given.items() if word in known or inside is None}
    deeper = {word: value for word, value in given.items() if word not in here}
    if inside is None or not deeper:
        return options | here
    value = options.get(inside, _INSIDE[inside])
    if isinstance(value, Mapping) and isinstance(value.get("order"), str):
        other = {word: option for word, option in value.items() if word != "order"}
        value = {"order": value["order"]} | _placed(value["order"], other, deeper)
    elif isinstance(value, str):
        value = {"order": value} | _placed(value, {}, deeper)
    return options | here | {inside: value}


def parse_option(text: str) -> tuple[str, Any]:
    """An option of an order, as `name=value`; the value is JSON where it can be read as such."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise OrderError(f"the option {text!r} is not understood; write --option name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def described(options: Mapping[str, Any]) -> str:
    """Options as a line of text, those that are not set left out.

    >>> described({"weights": [3, 1], "base": {"order": "lanes", "lanes": 4, "window": None}})
    'weights=[3, 1] base=lanes(lanes=4)'
    """
    return " ".join(f"{name}={_shown(value)}" for name, value in options.items() if value is not None)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping) and "order" in value:
        inside = [described({name: option}) for name, option in value.items() if name != "order" and option is not None]
        return f"{value['order']}({', '.join(inside)})"
    return str(value)
