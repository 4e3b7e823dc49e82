"""The verdict: every number that has a value in a perfect shuffle, against its sampling error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tombola._ints import Ints
from tombola.order import Layout
from tombola.quality import _perfect
from tombola.quality._feature import Feature
from tombola.quality._measure import Grid
from tombola.quality._relabel import Relabelled
from tombola.quality._relations import whole_shards
from tombola.quality._result import Finding, Lag, Number, Verdict, normal_score

# Numbers whose distance from a perfect shuffle is a bias, not the price of keeping few shards open.
_BIASES = (
    "storage_correlation",
    "epoch_correlation",
    "seed_correlation",
    "seed_epoch_correlation",
    "shard_size",
    "feature ",
)
# The sign of a deviation that mixes less: of what counts shards, and of what locality of shards may or may not explain.
_SHARDS = {"p_same": 1, "p_same_rank": 1, "shards_per_batch": -1, "shards_per_rank_batch": -1, "shards_per_window": -1}
_MIXING = {"deff": 1, "entropy": -1, "rare_absent": 1, "radius_5": -1, "radius_50": -1, "radius_95": -1}
_WHERE = {"first": " at the beginning of an epoch", "last": " at the end of an epoch"}
_LAGS_SHOWN_MAX = 20
_SEEN_TWICE = 2.0  # normal score that the scatter between epochs must allow too


def tests(numbers: list[Number]) -> int:
    """How many chances of a false alarm the verdict takes with these numbers and the lags."""
    tested = (n for n in numbers if n.name in {*_SHARDS, *_MIXING, "mates_again"} or n.name.startswith(_BIASES))
    return sum(1 for _ in tested) + 2 + 2 * _LAGS_SHOWN_MAX


@dataclass
class Weighing:
    """The numbers of a score, on the scales. `found` is what was found before, of flaws and others."""

    grid: Grid
    feature: Feature | None
    numbers: list[Number]
    lags: tuple[Lag, ...]
    period: int | None
    read: list[Ints]
    alarm: float
    found: list[Finding]
    #: Some records are read more often than others, as the order's plan says.
    uneven: bool
    #: The layout cut as the lanes cut it, where there are few shards a lane.
    parts: Layout | None = None

    @property
    def excuses(self) -> str | None:
        """What may explain numbers that differ; None where nothing may."""
        if not self.grid.source.shards_given:
            return None
        shards = "shards that move as a whole" if self.moves_shards else ""
        if self.parts is not None:
            shards = "parts of shards that stay in one lane"
        streams = "streams that are dealt" if self.grid.source.layout.streams is not None else ""
        return " and ".join(word for word in (streams, shards) if word) or None

    @property
    def moves_shards(self) -> bool:
        """True when shards plainly come together or are kept apart, so that less varies than records one by one."""
        return moves_shards(self.numbers, self.lags, self.period, self.alarm)

    def verdict(self) -> tuple[list[Finding], Verdict]:
        """What was found, flaws first, and the word for it."""
        before = [*self.found, *self._mates()]
        flaws = [*self._biased(), *self._ends(), *(f for f in before if f.flaw)]
        shards = [n for n in self._middle() if n.name in _SHARDS and abs(n.z_perfect) > self.alarm]
        shards = [n for n in shards if n.zone != "epoch" or abs(evidence(n)) > self.alarm]
        notes = [*self._repeats(), *self._others(shards), *(f for f in before if not f.flaw)]
        worse, better = self._mixing()
        explained: list[Number] = []
        excuses = self.excuses
        if worse and excuses:
            worse, explained = self._unexplained(worse)
        if self.moves_shards and self.parts is None:  # few shards also lie far apart by chance
            better = [n for n in better if not n.name.startswith(("lag ", "radius"))]
        flaws += [self._finding(n, flaw=True) for n in worse]
        notes += [self._finding(n, flaw=False) for n in better]
        if explained:
            plain = ("likeness at lags" if n.name.startswith("lag ") else n.name.replace("_", " ") for n in explained)
            names = ", ".join(dict.fromkeys(plain))
            notes.append(Finding(f"{excuses} explain what else differs: {names}", explained[0].z_perfect, False))
        if flaws:
            return [*flaws, *notes], "flawed"
        return notes, self._word(shards, explained, bool(better))

    def _word(self, shards: list[Number], explained: list[Number], better: bool) -> Verdict:
        # Pairs in a batch, of all ranks or of one, come first; the window and the rest decide where pairs say nothing.
        same = [n.z_perfect > 0 for n in shards if n.name.startswith("p_same")]
        if any(same):
            return "local"
        if same or self.period is not None:
            return "stratified"
        if self.parts is not None and not any(n.name.startswith("radius") for n in explained):
            return "stratified"  # the rows of a batch lie no nearer than in a perfect shuffle
        if explained or any(n.z_perfect * _SHARDS[n.name] > 0 for n in shards):
            return "local"
        return "stratified" if shards or better else "perfect"

    def _middle(self) -> Iterator[Number]:
        return (n for n in self.numbers if n.zone not in ("first", "last"))

    def _mixing(self) -> tuple[list[Number], list[Number]]:
        """Numbers that mix less than a perfect shuffle, and those that mix more."""
        worse: list[Number] = []
        better: list[Number] = []
        for n in [*self.numbers, *self._as_numbers()]:
            if n.name not in _MIXING and not n.name.startswith(("lag ", "displacement")):
                continue
            if n.zone in ("first", "last") and self.moves_shards:
                continue  # compared with the middle instead
            z = evidence(n)
            if n.name == "displacement":
                (worse if abs(z) > self.alarm else []).append(n)
            elif z * _MIXING.get(n.name, 1) > self.alarm:
                worse.append(n)
            elif z * _MIXING.get(n.name, 1) < -self.alarm:
                better.append(n)
        drift = {n.name: n for n in self.numbers if n.name.startswith("buffer_drift")}
        # The model reads every record once.
        if drift and not self.uneven and self._drifts(drift["buffer_drift"], drift["buffer_drift_model"]):
            worse.append(drift["buffer_drift"])
        return worse, better

    def _as_numbers(self) -> Iterator[Number]:
        for lag in self.lags:
            if lag.storage:
                scatter = abs(lag.storage / lag.z_storage)
                yield Number(f"lag {lag.lag}", "middle", lag.storage, 0.0, 0.0, scatter)

    def _drifts(self, n: Number, model: Number) -> bool:
        most = max(n.perfect or 0.0, model.value)
        windows = n.freedom + 1
        scale = math.hypot(n.error, model.error, most * math.sqrt(2 / windows))
        return normal_score((n.value - most) / scale, n.freedom) > self.alarm

    def _unexplained(self, worse: list[Number]) -> tuple[list[Number], list[Number]]:
        """Those that shards of like size, put in the place of the ones read, do not explain; and those they do."""
        layout, size = self.parts or self.grid.source.layout, self.grid.batch_size
        lags = tuple(int(n.name[4:]) for n in worse if n.name.startswith("lag "))
        floors = {n.name: n.perfect_error for n in worse if n.name not in ("radius_5", "radius_50", "radius_95")}
        scores = Relabelled(self.read, layout, self.feature, size, self.grid.seed).scores(lags, floors)
        left: list[Number] = []
        explained: list[Number] = []
        for n in worse:
            if n.name == "displacement":
                spread = _perfect.displacement(max(2, round(whole_shards(layout))))[1]
                bad = abs(n.value - (n.perfect or 0.0)) > self.alarm * math.hypot(spread, n.perfect_error)
            elif n.name.startswith("lag ") and self.parts is not None:
                # Where lanes read one part for ever, which of them lie side by side is fixed. Whether that brings rows
                # of a batch together is seen in the radius.
                bad = False
            elif n.name == "buffer_drift":
                bad = True  # its model is what shards explain
            elif n.name.startswith("radius"):
                bad = scores[n.name] > self.alarm  # the share of pairs within the distance
            else:
                bad = scores[n.name] * _MIXING.get(n.name, 1) > self.alarm
            (left if bad else explained).append(n)
        return left, explained

    def _finding(self, n: Number, *, flaw: bool) -> Finding:
        name = f"correlation of storage places at {n.name}" if n.name.startswith("lag ") else n.name.replace("_", " ")
        z = evidence(n)
        why = f", and {self.excuses} do not explain it" if flaw and self.excuses else ""
        return Finding(
            f"{name}{_WHERE.get(n.zone, '')} is {n.value:.4g}, not {n.perfect:.4g}{why}; z = {z:.3g}", z, flaw
        )

    def _repeats(self) -> list[Finding]:
        """Shards in a batch and along the epoch."""
        notes: list[Finding] = []
        p_same = next(n for n in self.numbers if n.name == "p_same" and n.zone == "middle")
        if abs(p_same.z_perfect) > self.alarm:
            word = "more" if p_same.z_perfect > 0 else "less"
            notes.append(
                Finding(
                    f"two rows of a batch come from one shard with chance {p_same.value:.3g}: {word} often than in a "
                    f"perfect shuffle ({p_same.perfect:.3g}); z = {p_same.z_perfect:.3g}",
                    p_same.z_perfect,
                    False,
                )
            )
        if self.period is not None:
            again = next(lag for lag in self.lags if lag.lag == self.period)
            notes.append(
                Finding(
                    f"shards come again every {self.period} positions (chance {again.same_shard:.3g}) and are avoided "
                    f"in between: rows are stratified over {self.period} lanes",
                    again.z,
                    False,
                )
            )
        elif self.lags and self.lags[0].z > self.alarm and p_same.z_perfect > self.alarm:
            lag = self.lags[0]
            notes.append(
                Finding(
                    f"neighbouring positions repeat shards (chance {lag.same_shard:.3g}, perfect "
                    f"{lag.same_shard_perfect:.3g}): repetition, not stratification",
                    lag.z,
                    False,
                )
            )
        return notes

    def _others(self, shards: list[Number]) -> list[Finding]:
        """What else counts shards, where it says something that the pairs of a batch do not."""
        signs = {n.z_perfect > 0 for n in shards if n.name == "p_same"}
        return [
            self._finding(n, flaw=False)
            for n in shards
            if n.name != "p_same" and (n.z_perfect * _SHARDS[n.name] > 0) not in signs
        ]

    def _biased(self) -> list[Finding]:
        found = []
        # Where nothing moves whole shards a perfect shuffle's scatter is the scale, and few epochs tell enough.
        least = self.alarm if self.moves_shards else _SEEN_TWICE
        for n in self.numbers:
            if n.name.startswith(_BIASES) and abs(n.z_bias) > least and abs(n.z_perfect) > self.alarm:
                z = n.z_bias if self.moves_shards else n.z_perfect
                found.append(
                    Finding(
                        f"{n.name.replace('_', ' ')}{_WHERE.get(n.zone, '')} is {n.value:.4g} ± {n.error:.2g}, "
                        f"not {n.perfect:.4g}; z = {z:.3g}",
                        z,
                        True,
                    )
                )
        return found

    def _mates(self) -> list[Finding]:
        """Batches that stay together from epoch to epoch: more lanes than rows, of fixed homes, do that too."""
        return [
            Finding(
                f"two rows of a batch share one in the next epoch too with chance {n.value:.3g}, not {n.perfect:.3g}; "
                f"z = {n.z_perfect:.3g}",
                n.z_perfect,
                not self.moves_shards and self.parts is None,
            )
            for n in self.numbers
            if n.name == "mates_again" and n.z_perfect > self.alarm
        ]

    def _ends(self) -> list[Finding]:
        """The ends of an epoch that mix less than its middle."""
        found = []
        middle = {n.name: n for n in self.numbers if n.zone == "middle"}
        for n in self.numbers:
            if n.zone not in ("first", "last") or n.name not in ("p_same", "rare_absent"):
                continue
            other = middle[n.name]
            scale = math.hypot(_floor(n), _floor(other))
            z = normal_score((n.value - other.value) / scale, n.freedom) if scale > 0 else 0.0
            if z > self.alarm:
                end = "beginning" if n.zone == "first" else "end"
                found.append(
                    Finding(
                        f"the {end} of an epoch mixes less than its middle: {n.name.replace('_', ' ')} is "
                        f"{n.value:.3g} there and {other.value:.3g} in the middle; z = {z:.3g}",
                        z,
                        True,
                    )
                )
        return found


def moves_shards(numbers: list[Number], lags: tuple[Lag, ...], period: int | None, alarm: float) -> bool:
    """Whether shards plainly come together or are kept apart."""
    kept = (n for n in numbers if n.name in _SHARDS and n.zone not in ("first", "last"))
    # A few pieces of an epoch that lack shards are no sign of shards that move.
    seen = any(abs(evidence(n) if n.zone == "epoch" else n.z_perfect) > alarm for n in kept)
    return seen or period is not None or any(lag.z > alarm for lag in lags)


def floored(numbers: list[Number], layout: Layout) -> list[Number]:
    """Correlations of an order that moves whole shards: one or two epochs have no scatter to measure the error by, so
    it is never below what that many shards in random order give."""
    least = 1 / math.sqrt(max(1.0, whole_shards(layout) - 1))
    out = []
    for n in numbers:
        scatter = least / math.sqrt(n.freedom + 1)
        if n.name.endswith("_correlation") and n.error < scatter:
            n = replace(n, error=scatter, freedom=0)  # a known scatter has no degrees of freedom to lose
        out.append(n)
    return out


def evidence(n: Number) -> float:
    """The normal score that both scales leave: a perfect shuffle's scatter, and the scatter of what was read."""
    if n.perfect is None:
        return 0.0
    scores = [n.z_perfect] if n.z_counted is not None or n.perfect_error > 0 else []
    if n.error > 0 and not n.name.startswith("radius"):
        scores.append(n.z_bias)
    return min(scores, key=abs, default=0.0)


def _floor(n: Number) -> float:
    """The error, but never below what independent counts of this size scatter by."""
    if not n.perfect:
        return n.error
    return max(n.error, n.perfect_error * math.sqrt(max(1.0, n.value / n.perfect)))
