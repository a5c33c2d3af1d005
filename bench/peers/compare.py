"""What rounds say together: medians with their spread, and whether anything is decided between two systems."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from bench.peers.contract import Contender
from bench.peers.measure import LATENCY_MS_MAX

QUIET = 0.1  # of a core: what others may use while we measure
DECIDED_FROM = 2.0  # below this factor between different systems nothing is decided
FULL_CORE = 0.85  # of a core: who is there decides the rate


class Middle(NamedTuple):
    """A median, with the smallest and the largest beside it."""

    median: float
    low: float
    high: float


def middle(values: Sequence[float]) -> Middle:
    """The median and the spread."""
    return Middle(median(values), min(values), max(values))


def rounds_of(contenders: Sequence[Contender], pairs: int) -> list[list[Contender]]:
    """Everybody in every round, in one order and then in the other: what drifts harms nobody more than another."""
    return [list(contenders) if number % 2 == 0 else list(reversed(contenders)) for number in range(pairs)]


def summary(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One contender's rounds together."""
    found: dict[str, Any] = {
        "rate": middle([sample["rate"] for sample in samples]),
        "cpu_us": {name: middle([s["cpu_us"][name] for s in samples]) for name in samples[0]["cpu_us"]},
        "server_core": middle([sample["server_core"] for sample in samples]),
        "client_core": middle([sample["client_core"] for sample in samples]),
        "others": middle([sample["others"] for sample in samples]),
    }
    for phase in ("at_80_percent", "at_fixed_rate"):
        if phase in samples[0]:
            found[phase] = {name: middle([s[phase][name] for s in samples]) for name in samples[0][phase]}
    return found | {name: sum(sample[name] for sample in samples) for name in ("sent", "lost", "repeated", "changed")}


def objections(found: dict[str, Any]) -> list[str]:
    """Why a contender's rate does not count; empty when it does."""
    said = [f"{found[what]:,} {what}" for what in ("lost", "repeated", "changed") if found[what]]
    late = found["at_80_percent"]["p99"].median
    return [*said, f"p99 at 80% of it is {late:.0f} ms"] if late > LATENCY_MS_MAX else said


def verdict(name: str, other: str, ratios: Sequence[float], doubts: str = "") -> str:
    """What the pairs decide, in words; a ratio is `name`'s rate divided by `other`'s of the same round."""
    found = middle(ratios)
    more = found if found.median >= 1 else Middle(1 / found.median, 1 / found.high, 1 / found.low)
    spread = f"{more.low:.1f} to {more.high:.1f} in {len(ratios)} pair{'s' * (len(ratios) > 1)}"
    figures = f"{more.median:.1f} times as many publications a second ({spread})"
    winner, loser = (name, other) if found.median >= 1 else (other, name)
    if more.median < DECIDED_FROM:
        doubts = f"a factor below {DECIDED_FROM:.0f} says nothing between systems"
    elif more.low < 1:
        doubts = "the pairs disagree"
    if doubts:
        return f"{name} and {other}: nothing is decided; {winner} had {figures}, and {doubts}."
    return f"{winner} and {loser}: decided; {winner} had {figures}."


def doubt(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> str:
    """What speaks against deciding anything by these rounds, however far apart they are; empty if nothing does."""
    if objections(summary(ours)) or objections(summary(theirs)):
        return "not both rates count"
    return "this was no quiet run" if unrest([*ours, *theirs]) else ""


def cpu_sentence(name: str, other: str, ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> str:
    """What a publication costs all processes together, for two contenders: it varies less than rates do."""
    mine, its = (middle([sum(sample["cpu_us"].values()) for sample in samples]) for samples in (ours, theirs))
    return (
        f"  CPU of all processes: {mine.median:.1f} µs a publication with {name}, "
        f"{its.median:.1f} µs with {other}, {its.median / mine.median:.1f} times that."
    )


def unrest(samples: Sequence[dict[str, Any]]) -> str:
    """A warning when others used the cores while we measured; empty when it was quiet."""
    used = middle([sample["others"] for sample in samples] or [0.0])
    if used.median <= QUIET:
        return ""
    return (
        f"This was no quiet run: others used {used.median:.2f} of the cores meanwhile (up to {used.high:.2f}); "
        "rates suffer from it, CPU for each publication less."
    )


def who_decides(found: dict[str, Any]) -> str:
    """Which core was full while the rate was measured."""
    server, clients = found["server_core"].median, found["client_core"].median
    full = [name for name, used in (("server", server), ("clients", clients)) if used >= FULL_CORE]
    return " and ".join(full) or "neither core full"
