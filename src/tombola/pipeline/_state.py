"""The state of a pipeline as JSON: what is in it, whether it fits, and those of all ranks and workers as one."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

from tombola.errors import StateError
from tombola.pipeline._share import merged_parts
from tombola.pipeline._step import Node

State = Mapping[str, Any]
_NAME = "tombola.pipeline"
_SCHEMA = 1
_KEYS = {"pipeline", "epoch", "readers", "consumer", "left", "done", "merged", "parts"}


def state_head(node: Node, epoch: int, readers: int | None) -> dict[str, Any]:
    """The state at the beginning of an epoch."""
    return {
        "format": _NAME,
        "schema": _SCHEMA,
        "pipeline": node.describe(),
        "epoch": epoch,
        "readers": readers,
        "consumer": None,
        "left": None,
        "done": False,
        "merged": False,
        "parts": None,
    }


def check_state(state: Any, node: Node, readers: int | None) -> dict[str, Any]:
    """A state of this very pipeline, or an error that says what differs."""
    found = _checked(state)
    here, there = node.describe(), found["pipeline"]
    if here != there:
        raise StateError(f"the state is that of another pipeline: {_difference(here, there)}")
    if readers is not None and found["readers"] not in (None, readers):
        raise StateError(
            f"the state has {found['readers']} logical readers, and this pipeline is fixed to {readers}: the order "
            f"depends on their number. Leave with_readers out to go on as it was"
        )
    return found


def is_state(value: Any) -> bool:
    """Whether a value is, or was, the state of a pipeline, of this version or another.

    >>> from tombola.pipeline import Pipeline
    >>> is_state(Pipeline.from_iterable([1]).state_dict()), is_state({"format": "another"})
    (True, False)
    """
    return isinstance(value, Mapping) and value.get("format") == _NAME


def _checked(state: Any) -> dict[str, Any]:
    if not is_state(state):
        raise StateError(f"this is no state of a pipeline: {str(state)[:80]}")
    if state.get("schema") != _SCHEMA:
        raise StateError(f"the state has schema {state.get('schema')!r}; this version reads schema {_SCHEMA}")
    missing = _KEYS - state.keys()
    if missing:
        raise StateError(f"the state is damaged: {', '.join(sorted(missing))} missing")
    whole = all(type(state[name]) is kind for name, kind in (("epoch", int), ("done", bool), ("merged", bool)))
    if not whole or not isinstance(state["parts"], (list, tuple, type(None))):
        raise StateError("the state is damaged: epoch, done, merged or parts are not what a state has there")
    return dict(state)


def _difference(here: Any, there: Any, path: str = "") -> str:
    """The first step that differs."""
    if isinstance(here, list) and isinstance(there, list):
        for at, (one, other) in enumerate(zip(here, there, strict=False), 1):
            if one != other:
                return _difference(one, other, f"{path}{'.' if path else ''}{at}")
        longer, which = (here, "this pipeline") if len(here) > len(there) else (there, "the state")
        extra = longer[min(len(here), len(there))]
        return f"{which} has one more step{f' in {path}' if path else ''}, {extra}"
    return f"step {path} is {here} here and {there} in the state"


def _is_same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # of arrays among records that were kept
        return pickle.dumps(one) == pickle.dumps(other)


def merge_states(states: Iterable[State]) -> dict[str, Any]:
    """The states of all ranks and workers, taken at the same step, as one that any number of them can load.

    >>> from tombola.pipeline import Pipeline
    >>> ranks = [Pipeline.from_iterable(range(9)).split_by_node(rank, 3) for rank in range(3)]
    >>> [next(iter(rank)) for rank in ranks]
    [0, 1, 2]
    >>> alone = Pipeline.from_iterable(range(9))
    >>> alone.load_state_dict(merge_states([rank.state_dict() for rank in ranks]))
    >>> list(alone)
    [3, 4, 5, 6, 7, 8]
    """
    found = [_checked(state) for state in states]
    if not found:
        raise StateError("there are no states to merge")
    first = found[0]
    for what in ("pipeline", "epoch", "readers"):
        different = next((one for one in found if one[what] != first[what]), None)
        if different is not None:
            raise StateError(
                f"the states are not of one moment of one run: {what} is {first[what]} in one and {different[what]} in "
                f"another"
            )
    begun = [one for one in found if one["parts"] is not None]
    if not begun:
        return first
    merged = [one for one in found if one["merged"]]
    if len(merged) == len(found) and all(_is_same(one["parts"], first["parts"]) for one in found):
        return first  # loaded, and nothing read since
    if len(begun) < len(found) or merged:
        raise StateError("the states are not of one moment: some ranks or workers have begun to read, others have not")
    head = {**first, "consumer": None, "left": None, "done": False, "merged": True, "parts": None}
    if all(one["done"] for one in found):
        return {**head, "epoch": first["epoch"] + 1, "merged": False}
    return {**head, "parts": merged_parts([part for one in found for part in one["parts"]], first["readers"])}
