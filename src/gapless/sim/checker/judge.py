"""`check`: reads a history and asks every promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from gapless.model.events import Event
from gapless.sim.checker import causal, gaps, handed, liveness, sequence, survival, total
from gapless.sim.checker.owed import Debts
from gapless.sim.checker.promises import LIVENESS, HistoryError, known, promises_of
from gapless.sim.checker.reader import read
from gapless.sim.checker.verdict import Judged, Verdict, Violation
from gapless.sim.checker.view import View

LISTED = 20  # violations of one promise in one space that a verdict lists; the others are counted

_JUDGES: dict[str, Callable[[View, Debts], Iterator[Violation]]] = {
    "no-invention": handed.no_invention,
    "no-duplicate": handed.no_duplicate,
    "publisher-order": sequence.publisher_order,
    "gapless": sequence.gapless,
    "confirmed-start": sequence.confirmed_start,
    "accepted-survives": survival.accepted_survives,
    "causal-order": causal.causal_order,
    "key-total-order": total.key_total_order,
    "uniform-total-order": total.uniform_total_order,
    "announced-gap": gaps.announced_gap,
    "justified-gap": gaps.justified_gap,
    "all-delivered": liveness.all_delivered,
    "all-confirmed": liveness.all_confirmed,
    "all-covered": liveness.all_covered,
    "state-drained": liveness.state_drained,
}


def check(events: Iterable[Event], promises: Sequence[str] | None = None) -> Verdict:
    """Judge a history by the promises that its run events make, or by those named.

    Raises HistoryError when the history does not say what it promises, or contradicts itself about it.
    """
    views = read(events)
    violations: dict[tuple[str, str, str, tuple[int, ...]], Violation] = {}
    judged: list[Judged] = []
    left_out: dict[str, int] = {}
    if not views:
        raise HistoryError("this history is empty: there is no run event and nothing happened in any space")
    for view in views:
        names = known(tuple(promises)) if promises is not None else _promised(view)
        debts = Debts(view)
        _, why_not = view.due_by()
        unjudged = {name: why_not for name in names if why_not and name in LIVENESS}
        for name in names:
            if name in unjudged:
                continue
            for count, violation in enumerate(_JUDGES[name](view, debts)):
                if count >= LISTED:
                    left_out[name] = left_out.get(name, 0) + 1
                    continue
                space = "" if _about_no_space(violation) else view.space
                key = name, space + "/" + violation.subscription, violation.message, tuple(map(id, violation.witness))
                violations.setdefault(key, replace(violation, space=space))
        judged.append(_summary(view, debts, names, unjudged))
    return Verdict(tuple(violations.values()), tuple(judged), left_out)


def _promised(view: View) -> tuple[str, ...]:
    if not view.delivery:
        raise HistoryError(
            f"no run event says what space {view.space!r} promises: "
            "add one to the history, or name the promises to judge"
        )
    return promises_of(view.delivery, view.faults, view.mode)


def _about_no_space(violation: Violation) -> bool:
    """What happened to the processes themselves is reported once, however many spaces there are."""
    return not any(event.space for event in violation.witness)


def _summary(view: View, debts: Debts, names: tuple[str, ...], unjudged: dict[str, str]) -> Judged:
    return Judged(
        space=view.space,
        delivery=view.delivery,
        promises=tuple(name for name in names if name not in unjudged),
        unjudged=unjudged,
        publications=len(view.publications),
        accepted=sum(publication.accepted is not None for publication in view.publications.values()),
        subscriptions=len(view.subscriptions),
        deliveries=view.deliveries,
        owed=debts.total(),
    )
