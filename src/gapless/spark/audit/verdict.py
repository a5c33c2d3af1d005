"""What an audit says: each promise with its result, and what breaks it with the events that show it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum

JUDGED_PROMISES = ("no-invention", "no-duplicate", "publisher-order", "all-delivered")
"""The promises this audit judges, by their names in GUARANTEES."""


class Result(StrEnum):
    """How a promise came out."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Witness:
    """One event of the journals, and where it stands."""

    journal: str
    line: int
    event: str  # the event as one line of JSON

    def __str__(self) -> str:
        return f"{self.journal}:{self.line}: {self.event}"


@dataclass(frozen=True)
class Violation:
    """One place where a promise was not kept."""

    promise: str
    space: str
    subscription: str
    says: str
    publications: tuple[str, ...]  # each as source#incarnation/seq; the first few where there are many
    count: int = 1  # how many publications or deliveries it is about
    witnesses: tuple[Witness, ...] = ()


@dataclass(frozen=True)
class PromiseVerdict:
    """What became of one promise."""

    promise: str
    result: Result
    judged: int = 0  # deliveries looked at, or publications owed
    broken: int = 0  # of these, how many broke the promise
    why: str = ""  # why it was not judged, or for which subscriptions it was not
    violations: tuple[Violation, ...] = ()


@dataclass(frozen=True)
class AuditVerdict:
    """The outcome of an audit."""

    promises: tuple[PromiseVerdict, ...]
    journals: int
    events: int
    counts: dict[str, int] = field(default_factory=dict)  # events of each kind
    publications: int = 0
    subscriptions: int = 0
    torn: tuple[str, ...] = ()  # journals whose last line was cut off when their process was killed

    @property
    def kept(self) -> bool:
        """Whether no promise was broken."""
        return all(verdict.result is not Result.BROKEN for verdict in self.promises)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The violations of all promises, in the order of the promises."""
        return tuple(violation for verdict in self.promises for violation in verdict.violations)

    def of(self, promise: str) -> PromiseVerdict:
        """The verdict on the promise of that name."""
        for verdict in self.promises:
            if verdict.promise == promise:
                return verdict
        raise KeyError(promise)

    def render(self) -> str:
        """The verdict as text."""
        lines = [
            f"{self.journals} {_plural('journal', self.journals)}, {self.events} events: "
            f"{self.publications} publications, {self.counts.get('delivered', 0)} deliveries, "
            f"{self.subscriptions} subscriptions"
        ]
        lines += [f"torn line: the last line of {journal} is cut off and was left out" for journal in self.torn]
        width = max(len(verdict.promise) for verdict in self.promises)
        for verdict in self.promises:
            lines.append(f"{verdict.promise:<{width}}  {_outcome(verdict)}")
            lines += _violations(verdict)
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        """The verdict as one JSON document, for scripts."""
        told = {
            "verdict": Result.KEPT if self.kept else Result.BROKEN,
            "journals": self.journals,
            "events": self.events,
            "counts": self.counts,
            "publications": self.publications,
            "subscriptions": self.subscriptions,
            "torn": list(self.torn),
            "promises": {verdict.promise: _told(verdict) for verdict in self.promises},
        }
        return json.dumps(told, indent=2) + "\n"


def _told(verdict: PromiseVerdict) -> dict[str, object]:
    told = asdict(verdict)
    del told["promise"]
    return told


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"


def _outcome(verdict: PromiseVerdict) -> str:
    if verdict.result is Result.NOT_JUDGED:
        return f"{verdict.result}: {verdict.why}"
    what = "owed publications" if verdict.promise == "all-delivered" else "deliveries"
    of = f"{verdict.broken} of {verdict.judged}" if verdict.broken else str(verdict.judged)
    return f"{verdict.result} ({of} {what})" + (f"; {verdict.why}" if verdict.why else "")


def _violations(verdict: PromiseVerdict) -> list[str]:
    lines = []
    for violation in verdict.violations:
        named = ", ".join(violation.publications)
        left_out = violation.count - len(violation.publications)
        more = f" and {left_out} more" if left_out > 0 else ""
        lines.append(f"  {violation.space}/{violation.subscription}: {violation.says}: {named}{more}")
        lines += [f"    {witness}" for witness in violation.witnesses]
    left_out = verdict.broken - sum(violation.count for violation in verdict.violations)
    if left_out > 0:
        lines.append(f"  and {left_out} more")
    return lines
