"""announced-gap and justified-gap: what is given up is told in time, and nothing is given up without a cause."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.model.events import FENCED, GOODBYES, HARMLESS, MISTAKES, Event, Kind
from gapless.sim.checker.owed import Debt, Debts
from gapless.sim.checker.sequence import later_of_its_source
from gapless.sim.checker.verdict import Violation
from gapless.sim.checker.view import Life, Mark, Publication, Subscription, View, reason_of


def announced_gap(view: View, debts: Debts) -> Iterator[Violation]:
    """What is given up is named to the subscriber, before anything later of the source is delivered."""
    for subscription, mark in view.gaps:
        if not mark.event.source and not mark.event.exceptions:
            message = "a gap was announced that names neither a range nor a partition"
            yield Violation("announced-gap", subscription.name, message, (mark.event,))
    dropped = [(mark.event, publication) for mark in view.drops for publication in _let_go(view, mark.event)]
    for subscription in view.subscriptions:
        if subscription.excuses:
            yield from _told_late(subscription, debts)
        for drop, publication in dropped:
            yield from _untold(subscription, debts, drop, publication)


def _told_late(subscription: Subscription, debts: Debts) -> Iterator[Violation]:
    for lane in debts.wanted(subscription).values():
        for debt in lane:
            if debt.owed or debt.publication.loose or not all(excuse.told for excuse in debt.excuses):
                continue
            for life in subscription.lives:
                found = _late(debt, life)
                if found:
                    yield Violation("announced-gap", subscription.name, *found)
                    break


def _late(debt: Debt, life: Life) -> tuple[str, tuple[Event, ...]] | None:
    publication, excuses = debt
    if publication.identity in life.places:
        return None
    later = later_of_its_source(publication, life)
    told = min((excuse.mark for excuse in excuses), key=lambda mark: mark.when)
    if later is None or told.when < later.when:
        return None
    message = f"the gap of {publication} was announced after {later.publication} had been delivered"
    return message, (publication.event, later.event, told.event)


def _let_go(view: View, event: Event) -> list[Publication]:
    """The publications that a core named when it dropped them."""
    return view.named(event) if event.source and reason_of(event) not in HARMLESS else []


def _untold(subscription: Subscription, debts: Debts, drop: Event, publication: Publication) -> Iterator[Violation]:
    """It was let go, the subscription was owed it and goes on with its source, and was never told."""
    if drop.subscription not in ("", subscription.name) or not debts.owed(subscription)[publication.number]:
        return
    for life in subscription.lives:
        later = later_in_rank(publication, life)
        if publication.identity not in life.places and later:
            message = f"{publication} was let go ({drop.reason}) and no gap says so"
            yield Violation("announced-gap", subscription.name, message, (publication.event, drop, later))
            return


def later_in_rank(publication: Publication, life: Life) -> Event | None:
    """The first delivery of something later of the same source, whatever its order."""
    for _, event, other in life.handed:
        if other and other.lane == publication.lane and other.rank > publication.rank:
            return event
    return None


def justified_gap(view: View, debts: Debts) -> Iterator[Violation]:
    """Gaps, exceptions, refusals, disconnections (in `direct` drops) have a cause in the run."""
    for subscription, mark in view.gaps:
        if not _caused(view, mark):
            yield _unjustified(mark, subscription.name, "a gap was announced")
    for subscription, mark in view.confirmations:
        if not _caused(view, mark):
            yield _unjustified(mark, subscription.name, "an exception was made")
    for mark in view.refusals:
        if not _own_mistake(view, mark.event) and not _caused(view, mark):
            what = "a subscribe" if mark.event.subscription else "a publication"
            yield _unjustified(mark, mark.event.subscription, f"{what} was refused")
    for mark in view.world.disconnected:
        if reason_of(mark.event) not in GOODBYES and not _caused(view, mark):
            yield _unjustified(
                mark, "", f"{mark.node or 'a host'} ended its session with {mark.event.peer or 'a peer'}"
            )
    if view.delivery == "direct":
        for mark in view.drops:
            if reason_of(mark.event) not in HARMLESS and not _caused(view, mark):
                yield _unjustified(mark, mark.event.subscription, f"{mark.event.count or 1} publications were dropped")


def _caused(view: View, mark: Mark) -> bool:
    """Whether a fault came first, or a limit was reached that the run declares."""
    fault = view.world.first_fault
    if fault and (fault.when < mark.when or view.world.clock == "causal"):
        return True
    return reason_of(mark.event) in view.limits


def _own_mistake(view: View, event: Event) -> bool:
    """Whether whoever was refused had done something that cannot be granted."""
    if reason_of(event) == FENCED:
        return view.holders.get(event.source, event.incarnation) > event.incarnation
    return event.event is Kind.REFUSED and reason_of(event) in MISTAKES


def _unjustified(mark: Mark, subscription: str, what: str) -> Violation:
    reason = mark.event.reason or "no reason given"
    return Violation(
        "justified-gap", subscription, f"{what} ({reason}) and nothing in the run gave cause", (mark.event,)
    )
