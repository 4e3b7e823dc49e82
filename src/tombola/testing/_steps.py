"""The laws of a step of a pipeline, as a pytest class that a user subclasses."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar

from tombola.errors import InputError
from tombola.pipeline import Pipeline, Step, merge_states


class StepTests:
    """What every step promises: an exact resume anywhere, and the same records for any ranks and workers.

    Give a `step`, or override `make`; pytest does the rest.

    step
        The step under test.
    records
        What it is fed with. Keep them few: a resume is tried at every one of them.
    ordered
        False for a step whose records may come in another order each time.
    worlds
        (ranks of a run, ranks of its resume), with as many logical readers as the run has ranks.

    >>> from tombola.pipeline import Shuffle
    >>> class TestSmallBuffer(StepTests):
    ...     step = Shuffle(3, None, 7, None, 1, "positions")
    """

    step: ClassVar[Step | None] = None
    records: ClassVar[Sequence[Any]] = range(23)
    ordered: ClassVar[bool] = True
    worlds: ClassVar[Sequence[tuple[int, int]]] = ((1, 1), (2, 2), (2, 1), (1, 3), (3, 2), (2, 4))

    # ---- what a subclass may override

    def make(self) -> Pipeline:
        """A new pipeline with the step under test."""
        if self.step is None:
            raise InputError(f"{type(self).__name__} has neither a step nor a make method; give it one of them")
        return Pipeline.from_iterable(self.records).step(self.step)

    def chains(self) -> list[Pipeline]:
        """The step in the company of others: below and above it, over shards."""
        made = [self.make()]
        if self.step is not None:
            shards = [list(self.records)[at::3] for at in range(3)]
            base = Pipeline.from_generator(iter, shards=shards)
            made += [
                base.shuffle(4, seed=3).step(self.step),
                base.step(self.step).shuffle(5, seed=4),
                base.step(self.step).batch(3),
                base.filter(_is_not_empty).step(self.step).prefetch(2),
                base.step(self.step).repeat(2),
            ]
        return made

    # ---- the laws

    def test_a_run_is_the_same_again(self) -> None:
        """Two runs give the same records."""
        for one, other in zip(self.chains(), self.chains(), strict=True):
            self._check(list(one), list(other), "two runs differ")

    def test_resume_is_exact_at_every_record(self) -> None:
        """What came before a cut and what comes after a resume are the whole."""
        for number in range(len(self.chains())):
            whole = plain(self.chains()[number])
            for cut in range(len(whole) + 1):
                head, state = _run(self.chains()[number], cut)
                again = self.chains()[number]
                again.load_state_dict(state)
                rest = plain(again) if cut < len(whole) else []
                self._check(head + rest, whole, f"{again!r} cut after {cut} of {len(whole)} records")

    def test_resume_after_a_resume(self) -> None:
        """A state of a run that was itself resumed is as good as the first."""
        for number in range(len(self.chains())):
            whole = plain(self.chains()[number])
            for cut in range(0, len(whole), 3):
                got: list[Any] = []
                state = None
                while len(got) < len(whole):
                    again = self.chains()[number]
                    if state is not None:
                        again.load_state_dict(state)
                    more, state = _run(again, min(cut + 1, len(whole) - len(got)))
                    got += more
                self._check(got, whole, f"{again!r} cut after every {cut + 1} records")

    def test_a_state_holds_at_the_time_it_was_taken(self) -> None:
        """Going on does not change a state that was taken before."""
        for one in self.chains():
            reading = iter(one)
            taken = []
            for _ in reading:
                state = one.state_dict()
                taken.append((state, json.dumps(state)))
            for state, text in taken:
                assert json.dumps(state) == text, f"{one!r} changed a state after it was given"

    def test_the_end_of_an_epoch_is_the_start_of_the_next(self) -> None:
        """A state of the end goes on with the next epoch."""
        for one, other in zip(self.chains(), self.chains(), strict=True):
            list(one)
            other.load_state_dict(json.loads(json.dumps(one.state_dict())))
            self._check(list(one), list(other), "the second epoch differs after a resume")

    def test_it_can_be_sent_to_another_process(self) -> None:
        """A pickled copy does the same."""
        for one in self.chains():
            copy = pickle.loads(pickle.dumps(one))
            self._check(list(one), list(copy), "a pickled copy differs")

    def test_any_world_reads_the_same(self) -> None:
        """Ranks, before and after a resume with another number of them, read together what one would."""
        for ranks, later in self.worlds:
            for number in range(len(self.chains())):
                whole = plain(self.chains()[number].with_readers(ranks))
                for cut in (0, 1, 2, 5):
                    self._check_world(number, whole, ranks, later, cut)

    # ---- helpers

    def _check_world(self, number: int, whole: list[Any], ranks: int, later: int, cut: int) -> None:
        given: list[Any] = []
        states = []
        for rank in range(ranks):
            one = self.chains()[number].with_readers(ranks).split_by_node(rank, ranks)
            head, state = _run(one, cut)
            given += head
            states.append(state)
        said = f"{self.chains()[number]!r} on {ranks} ranks, {cut} records each, then on {later} ranks"
        merged = json.loads(json.dumps(merge_states(states)))
        rest = []
        for rank in range(later):
            one = self.chains()[number].split_by_node(rank, later)
            one.load_state_dict(merged)
            rest.append(plain(one) if len(given) < len(whole) else [])
        found, planned = Counter(map(repr, chain.from_iterable([given, *rest]))), Counter(map(repr, whole))
        assert found == planned, f"{said}: lost {planned - found}, twice or new {found - planned}"
        if self.ordered:
            for one_rest in rest:
                assert _is_within(one_rest, whole), f"{said}: a rank reads in another order"

    def _check(self, found: Sequence[Any], planned: Sequence[Any], said: str) -> None:
        one, other = [plain_record(record) for record in found], [plain_record(record) for record in planned]
        if not self.ordered:
            one, other = sorted(one, key=repr), sorted(other, key=repr)
        assert one == other, f"{said}: {one} is not {other}"


def _is_not_empty(record: Any) -> bool:
    return record is not None


def _run(pipeline: Pipeline, count: int) -> tuple[list[Any], Any]:
    """The first records, and the state after them as it comes out of a file."""
    reading = iter(pipeline)
    head = [plain_record(record) for record in islice(reading, count)]
    return head, json.loads(json.dumps(pipeline.state_dict()))


def _is_within(some: Sequence[Any], whole: Sequence[Any]) -> bool:
    left: Iterator[Any] = iter(whole)
    return all(any(one == record for record in left) for one in some)


def plain(pipeline: Pipeline) -> list[Any]:
    """All records of an epoch, as plain values that compare."""
    return [plain_record(record) for record in pipeline]


def plain_record(record: Any) -> Any:
    """Arrays and tensors as lists, all the way down."""
    if hasattr(record, "tolist"):
        return record.tolist()
    if isinstance(record, dict):
        return {name: plain_record(value) for name, value in record.items()}
    if isinstance(record, (list, tuple)):
        return [plain_record(one) for one in record]
    return record
