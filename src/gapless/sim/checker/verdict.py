"""What the checker says: a verdict, its violations, and their witnesses as text for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from gapless.model.events import Event, Kind

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and the events that show it."""

    promise: str
    subscription: str  # empty when it is about none
    message: str
    witness: tuple[Event, ...]
    space: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """What was judged in one space, so that a clean verdict can be told from an empty one."""

    space: str
    delivery: str
    promises: tuple[str, ...]
    unjudged: dict[str, str]  # promise: why not
    publications: int = 0
    accepted: int = 0
    subscriptions: int = 0
    deliveries: int = 0
    owed: int = 0  # pairs of a subscription and a publication it is owed


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of `check`."""

    violations: tuple[Violation, ...]
    judged: tuple[Judged, ...]
    left_out: dict[str, int] = field(default_factory=dict)  # promise: violations beyond those listed

    @property
    def ok(self) -> bool:
        """Whether no promise was broken."""
        return not self.violations

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the broken promises, each once."""
        return tuple(dict.fromkeys(violation.promise for violation in self.violations))

    def render(self) -> str:
        """The verdict as text: what was judged, then each violation with its witness events."""
        lines: list[str] = []
        for judged in self.judged:
            lines += _judged_lines(judged)
        for violation in self.violations:
            lines += ["", *_violation_lines(violation)]
        if self.left_out:
            rest = ", ".join(f"{count} of {promise}" for promise, count in self.left_out.items())
            lines += ["", f"and more of the same: {rest}"]
        lines.append("")
        lines.append("every promise held" if self.ok else f"broken: {', '.join(self.broken)}")
        return "\n".join(lines) + "\n"


def _judged_lines(judged: Judged) -> list[str]:
    lines = [
        f"space {judged.space or '(unnamed)'}, delivery {judged.delivery or '(not said)'}: "
        f"{judged.publications} publications ({judged.accepted} accepted), {judged.subscriptions} subscriptions, "
        f"{judged.deliveries} deliveries, {judged.owed} owed",
        f"  judged: {', '.join(judged.promises) or 'nothing'}",
    ]
    why: dict[str, list[str]] = {}
    for promise, reason in judged.unjudged.items():
        why.setdefault(reason, []).append(promise)
    lines += [f"  not judged: {', '.join(names)} ({reason})" for reason, names in why.items()]
    return lines


def _violation_lines(violation: Violation) -> list[str]:
    about = "/".join(part for part in (violation.space, violation.subscription) if part)
    head = f"{violation.promise}{' ' + about if about else ''}: {violation.message}"
    return [head, *(f"  {describe(event)}" for event in violation.witness)]


def describe(event: Event) -> str:
    """One event as a line for people: time, process, what happened."""
    parts = [f"{event.at / NS_PER_S:12.6f}s", f"{event.node or '-':8}", f"{event.event.value:12}"]
    if event.subscription:
        parts.append(event.subscription)
    if event.source:
        name = name_of(event)
        parts.append(f"{name}-{event.last}" if event.last > event.seq else name)
    parts += [f"{label}={value}" for label, value in _details(event) if value]
    if event.redelivered:
        parts.append("redelivered")
    return " ".join(parts).rstrip()


def name_of(event: Event) -> str:
    """The publication an event is about: source, incarnation if there are several, seq."""
    return f"{event.source}{f'#{event.incarnation}' if event.incarnation else ''}:{event.seq}"


def _details(event: Event) -> list[tuple[str, str]]:
    attributes = event.attributes if event.event is Kind.PUBLISH else None
    return [
        ("attributes", "" if not attributes else _literal(attributes)),
        ("body", event.body),
        ("order", event.order),
        ("keys", ",".join(event.keys)),
        ("filter", repr(event.filter) if event.filter else ""),
        ("topic", event.topic),
        ("exceptions", ",".join(event.exceptions)),
        ("starts", "" if not event.starts else _literal(event.starts)),
        ("tick", str(event.tick) if event.tick else ""),
        ("peer", event.peer),
        ("reason", event.reason),
        ("count", str(event.count) if event.count else ""),
    ]


def _literal(values: dict[str, int] | dict[str, bool | int | float | str | None]) -> str:
    return "{" + ", ".join(f"{name}: {value!r}" for name, value in values.items()) + "}"
