"""Several pipelines as one: end to end, side by side, in turn, or by weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal, get_args

from tombola._ints import integer
from tombola.errors import InputError
from tombola.order import check_seed
from tombola.pipeline._slow import word
from tombola.pipeline._step import Context, State, Step

Stop = Literal["first_exhausted", "all_exhausted", "all_exhausted_without_replacement"]
_END = object()


class Concatenate(Step):
    """One after the other."""

    def begin(self) -> None:
        self._at = 0

    def iterate(self) -> Iterator[Any]:
        while self._at < len(self.inputs):
            yield from self.sources[self._at]
            self._at += 1

    def state(self) -> State:
        return self._at

    def load(self, state: State) -> None:
        self._at = state

    def length(self, inputs: Sequence[int | None]) -> int | None:
        known = [one for one in inputs if one is not None]
        return sum(known) if len(known) == len(inputs) else None


class Zip(Step):
    """Side by side, as tuples, until the first ends."""

    whole = True

    def iterate(self) -> Iterator[Any]:
        yield from zip(*self.sources, strict=False)

    def length(self, inputs: Sequence[int | None]) -> int | None:
        known = [one for one in inputs if one is not None]
        return min(known) if len(known) == len(inputs) else None


class Interleave(Step):
    """In turn, or by weights, until the first or all of them have ended."""

    seeded = True
    keeps_inputs = True

    def __init__(self, weights: Sequence[float] | None, seed: int, stop: Stop) -> None:
        if stop not in get_args(Stop):
            raise InputError(f"stop is {stop!r}; it must be one of {', '.join(get_args(Stop))}")
        self.weights = None if weights is None else check_weights(weights)
        self.seed = check_seed(seed)
        self.stop: Stop = stop

    def below(self, context: Context) -> Context:
        return replace(context, passes=(*context.passes, 0))

    def begin(self) -> None:
        inputs = len(self.inputs)
        self._drawn = 0
        self._turn = 0
        self._passes = [0] * inputs
        self._given = [False] * inputs  # in this pass
        self._ended = [False] * inputs  # at least once
        self._empty = [False] * inputs

    def iterate(self) -> Iterator[Any]:
        key = self.key(self.seed, "mix")
        live = self._live()
        while live:
            at = self._choose(live, key)
            record = next(self.inputs[at].iterator, _END)
            if record is _END:
                if not self._go_on(at):
                    return
                live = self._live()
                continue  # with the same draw: it may have begun anew
            self._advance(at)
            self._given[at] = True
            yield record

    def _live(self) -> list[int]:
        """The inputs that are still drawn from."""
        if self.stop == "all_exhausted_without_replacement":
            return [at for at, ended in enumerate(self._ended) if not ended]
        return [at for at, empty in enumerate(self._empty) if not empty]

    def _choose(self, live: list[int], key: int) -> int:
        if self.weights is None:
            while self._turn not in live:
                self._turn = (self._turn + 1) % len(self.inputs)
            return self._turn
        bounds = list(accumulate(self.weights[at] for at in live))
        place = word(key, self._drawn) / 2**64 * bounds[-1]
        return next((at for at, bound in zip(live, bounds, strict=True) if place < bound), live[-1])

    def _advance(self, at: int) -> None:
        self._drawn += 1
        self._turn = (at + 1) % len(self.inputs)

    def _go_on(self, at: int) -> bool:
        """After an input has ended: whether there is more to come."""
        self._ended[at] = True
        if self.stop == "first_exhausted" or all(self._ended):
            return False
        # What has nothing would have nothing the next time: it is left out.
        self._empty[at] = not self._given[at]
        if self.stop == "all_exhausted" and not self._empty[at]:
            self._passes[at] += 1
            self._given[at] = False
            self.inputs[at].again(self._passes[at])
        return True

    def state(self) -> State:
        below = [run.state() for run in self.inputs]
        passes, flags = list(self._passes), [list(self._given), list(self._ended), list(self._empty)]
        return [self._drawn, self._turn, passes, flags, below]

    def load(self, state: State) -> None:
        self._drawn, self._turn, passes, flags, below = state
        self._passes = list(passes)
        self._given, self._ended, self._empty = map(list, flags)
        for run, number, place in zip(self.inputs, passes, below, strict=True):
            run.go_to(number)
            run.load(place)

    def length(self, inputs: Sequence[int | None]) -> int | None:
        known = [one for one in inputs if one is not None]
        if self.stop == "all_exhausted_without_replacement" and len(known) == len(inputs):
            return sum(known)
        if self.weights is not None or len(known) != len(inputs):
            return None
        if self.stop == "first_exhausted":
            # In turn: up to the first that is not there when its turn comes.
            least = min(known)
            return least * len(known) + known.index(least)
        return None

    def describe(self) -> str:
        weights = "" if self.weights is None else f"weights={tuple(self.weights)}, seed={self.seed}, "
        return f"interleave({weights}stop={self.stop})"


def check_weights(weights: Sequence[float]) -> tuple[float, ...]:
    """The weights, none negative and not all nothing."""
    try:
        checked = tuple(float(weight) for weight in weights)
    except (TypeError, ValueError):
        raise InputError(f"weights are {weights!r}; give a number for each pipeline") from None
    if not all(0 <= weight < float("inf") for weight in checked) or not sum(checked) > 0:
        raise InputError(f"weights are {checked}; give numbers of at least 0 that are not all 0")
    return checked


def check_inputs(count: int, weights: Sequence[float] | None) -> None:
    """Refuses what there is nothing to combine of."""
    integer(count, "the number of pipelines", 1, None, InputError)
    if weights is not None and len(check_weights(weights)) != count:
        raise InputError(f"there are {len(weights)} weights for {count} pipelines")
