"""Coverage: what must have occurred in a soak for its being clean to mean something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gapless.sim.faults import KINDS
from gapless.sim.hazards import DROPS, HAZARDS

STORING = ("stream", "delta", "keyed")  # deliveries for which faults of disks mean something
ENOUGH_RUNS = 200  # from so many runs on, whatever never occurred is a failure
MEDIAN_BROKERS = 10
MEDIAN_PUBLICATIONS = 500
MEDIAN_FAULTS = 5


def expected(delivery: str) -> list[str]:
    """Everything that must occur: kinds of faults, hazards, reasons of drops."""
    faults = [name for name, kind in KINDS.items() if delivery in STORING or not kind.stores]
    return [
        *(f"fault:{name}" for name in faults),
        *(f"hazard:{name}" for name in HAZARDS[delivery]),
        *(f"drop:{name}" for name in DROPS[delivery]),
    ]


class Coverage:
    """In how many runs each thing occurred."""

    def __init__(self, delivery: str) -> None:
        self.delivery = delivery
        self.runs = 0
        self.seen: Counter[str] = Counter()

    def add(self, counts: Mapping[str, int]) -> None:
        """One more run."""
        self.runs += 1
        self.seen.update(name for name, count in counts.items() if count)

    def missing(self) -> list[str]:
        """What should have occurred, and never did."""
        return [name for name in expected(self.delivery) if not self.seen[name]]

    def lines(self) -> list[str]:
        """A table: in how many runs each thing occurred."""
        names = list(dict.fromkeys([*expected(self.delivery), *sorted(self.seen)]))
        says = {f"hazard:{name}": text for name, text in HAZARDS[self.delivery].items()}
        says.update((f"fault:{name}", kind.says) for name, kind in KINDS.items())
        return [f"{self.seen[name]:7}  {name:36} {says.get(name, '')}".rstrip() for name in names]


def median(values: Iterable[int]) -> int:
    """The middle one, the lower of two."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0
