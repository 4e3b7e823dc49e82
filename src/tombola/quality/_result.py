"""The result of a score: plain frozen values, JSON, and the door to the table."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tombola.quality._table import table

Zone = Literal["first", "middle", "last", "epoch", "run"]
Verdict = Literal["perfect", "stratified", "local", "flawed"]

_TWO_SIDED_95 = 1.959963984540054


@dataclass(frozen=True)
class Number:
    """One number of a score, next to what a perfect shuffle of the same data gives."""

    name: str
    #: Where in the epoch: its first batches, its middle, its last batches; all of it; or over several epochs.
    zone: Zone
    value: float
    #: What a perfect shuffle gives; None where the question makes no sense for it.
    perfect: float | None = None
    #: Standard error of the value: how much it would differ for another epoch, or another sample of this one.
    error: float = 0.0
    #: How much the same number scatters over perfect shuffles.
    perfect_error: float = 0.0
    #: Degrees of freedom behind the error; 0 when it is exact or asymptotic.
    freedom: int = 0
    #: Normal score of the distance from a perfect shuffle where counts are too few for a division by the scatter.
    z_counted: float | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the value."""
        reach = _TWO_SIDED_95 * self.error * _student_to_normal(self.freedom)
        return self.value - reach, self.value + reach

    @property
    def z_perfect(self) -> float:
        """How far from a perfect shuffle, in that shuffle's own standard deviations."""
        if self.z_counted is not None:
            return self.z_counted
        return self._z(self.perfect_error)

    @property
    def z_bias(self) -> float:
        """How far the expectation is from a perfect shuffle's, in standard errors of the value, as a normal score.

        An order that moves whole shards scatters more than a perfect shuffle; that is no bias. One that seems to
        scatter less is measured by the perfect shuffle: a few epochs may look alike by chance.
        """
        if self.error <= self.perfect_error:
            return self._z(self.perfect_error)
        return normal_score(self._z(self.error), self.freedom)

    def _z(self, scale: float) -> float:
        if self.perfect is None:
            return 0.0
        gap = self.value - self.perfect
        if abs(gap) <= 1e-9 * max(abs(self.value), abs(self.perfect)):
            return 0.0
        return gap / scale if scale > 0 else math.copysign(math.inf, gap)


def normal_score(t: float, freedom: int) -> float:
    """The normal score with about the tail of Student's t."""
    if freedom <= 0 or math.isinf(t):
        return t
    # z² = ν ln(1 + t²/ν) (1 − 3/(4ν))…: Wallace's approximation, good far into the tails.
    shrink = (8 * freedom + 1) / (8 * freedom + 3)
    return math.copysign(shrink * math.sqrt(freedom * math.log1p(t * t / freedom)), t)


def share_score(value: float, chance: float, spread: float) -> float:
    """Normal score of a share, whose scatter in a perfect shuffle is known: the signed root of the deviance.

    As many independent trials as give that scatter stand behind it, so it is right where few hits are expected too.
    """
    if not 0 < chance < 1 or spread <= 0:
        return 0.0
    trials, seen = chance * (1 - chance) / spread**2, min(1.0, max(0.0, value))
    parts = [s * math.log(s / c) for s, c in ((seen, chance), (1 - seen, 1 - chance)) if s > 0]
    return math.copysign(math.sqrt(max(0.0, 2 * trials * sum(parts))), seen - chance)


def _student_to_normal(freedom: int) -> float:
    """About t₀.₉₇₅(ν) ÷ 1.96 (the first terms of its expansion in 1/ν)."""
    if freedom <= 0:
        return 1.0
    v = float(max(2, freedom))
    return 1 + 1.2104 / v + 1.4394 / v**2 + 1.19 / v**3


@dataclass(frozen=True)
class Lag:
    """How alike records are that lie `lag` positions apart."""

    lag: int
    #: Chance that both come from one shard, its value in a perfect shuffle, and the distance in standard deviations.
    same_shard: float
    same_shard_perfect: float
    z: float
    #: Correlation of their places in storage (0 in a perfect shuffle).
    storage: float
    #: The normal score of that correlation.
    z_storage: float = 0.0


@dataclass(frozen=True)
class Span:
    """A stretch of the epoch, from a position to the next span's, and the shards that are open in it."""

    position: int
    #: Mean number of shards open at a time.
    open_shards: float
    #: How many shards are opened in it.
    openings: int


@dataclass(frozen=True)
class Finding:
    """Something that sets an order apart from a perfect shuffle beyond sampling error."""

    what: str
    #: Normal score of the evidence; infinite for plain facts.
    z: float
    flaw: bool


@dataclass(frozen=True)
class Score:
    """The judgement of an order.

    verdict
        "perfect": nothing tells it from a perfect shuffle. "stratified": batches repeat shards less than a perfect
        shuffle's. "local": batches repeat shards more, as any order must that keeps few shards open. "flawed":
        something is biased that locality does not explain; `findings` says what.
    """

    verdict: Verdict
    subject: str
    records: int
    shards: int
    positions: int
    positions_read: int
    batch_size: int
    readers: int
    epochs: int
    numbers: tuple[Number, ...]
    lags: tuple[Lag, ...]
    #: The smallest lag at which shards come again although nearer positions avoid them; None without such a rhythm.
    period: int | None
    findings: tuple[Finding, ...]
    #: Normal score that evidence had to pass: one false alarm in a thousand scores of perfect orders.
    threshold: float
    #: Records that an epoch left out, and positions that repeated a record, of each epoch that was read whole.
    records_missing: tuple[int, ...] = ()
    records_repeated: tuple[int, ...] = ()
    #: Records that none of these epochs read.
    records_missing_always: int | None = None
    #: Share of the rows of a shuffled array that equal another row: which is which was drawn with the seed.
    tied_rows: float = 0.0
    #: Open shards and openings over the epoch, in 32 spans; empty where it is not known when shards are open.
    over_time: tuple[Span, ...] = ()
    #: What was not tested, and why.
    notes: tuple[str, ...] = ()

    def get(self, name: str, zone: Zone | None = None) -> Number:
        """One of the numbers by name, and by zone where there are several."""
        found = [n for n in self.numbers if n.name == name and zone in (None, n.zone)]
        if not found:
            known = ", ".join(sorted({n.name for n in self.numbers}))
            raise KeyError(f"no number {name!r}" + (f" of zone {zone!r}" if zone else "") + f"; there are {known}")
        return found[0]

    def __getitem__(self, name: str) -> float:
        """The value of a number: of the middle of the epoch when there is one for each zone."""
        zones = {n.zone: n for n in self.numbers if n.name == name}
        return zones["middle"].value if "middle" in zones else self.get(name).value

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values; infinities become null."""
        plain = asdict(self)
        for given, number in zip(plain["numbers"], self.numbers, strict=True):
            given |= {"interval": list(number.interval), "z_perfect": number.z_perfect, "z_bias": number.z_bias}
        out: dict[str, Any] = _finite(plain)
        return out

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.subject}"]
        lines += [f"  {'flaw: ' if f.flaw else ''}{f.what}" for f in self.findings]
        lines += [f"  note: {n}" for n in self.notes]
        return "\n".join(lines)

    def __rich__(self) -> object:
        """What `rich.print` shows."""
        return table(self)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
