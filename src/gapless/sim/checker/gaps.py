"""announced-gap and justified-gap: what is given up is told in time, and nothing is given up without a cause."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.model.events import CLOSED, DISCONNECTED, DRAINING, HARMLESS, SESSION_ENDED, TAKEN_OVER, Event
from gapless.sim.checker.mistakes import own_mistake
from gapless.sim.checker.owed import Debt, Debts
from gapless.sim.checker.sequence import later_of_its_source
from gapless.sim.checker.verdict import Violation
from gapless.sim.checker.view import Life, Mark, Publication, Subscription, View, reason_of


def announced_gap(view: View, debts: Debts) -> Iterator[Violation]:
    """What is given up is named to the subscriber, before anything later of the source is delivered."""
    for subscription, mark in view.gaps:
        if not mark.event.source and not mark.event.exceptions and view.delivery != "direct":
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
        if not _caused(view, mark) and not (reason_of(mark.event) == DISCONNECTED and _said_goodbye(view, mark)):
            yield _unjustified(mark, subscription.name, "a gap was announced")
    for subscription, mark in view.confirmations:
        drained = all(_drains(view, broker, mark) for broker in mark.event.exceptions)
        if not drained and not _caused(view, mark):
            yield _unjustified(mark, subscription.name, "an exception was made")
    for refusal in view.refusals:
        if not own_mistake(view, refusal) and not _caused(view, refusal.mark):
            event = refusal.mark.event
            what = "a subscribe" if event.subscription else "a publication"
            yield _unjustified(refusal.mark, event.subscription, f"{what} was refused")
    for mark in view.world.disconnected:
        if not _is_goodbye(view, mark) and not _caused(view, mark):
            yield _unjustified(
                mark, "", f"{mark.node or 'a host'} ended its session with {mark.event.peer or 'a peer'}"
            )
    if view.delivery == "direct":
        for mark in view.drops:
            if reason_of(mark.event) in HARMLESS or _caused(view, mark):
                continue
            if reason_of(mark.event) != SESSION_ENDED or not _said_goodbye(view, mark):
                yield _unjustified(mark, mark.event.subscription, f"{mark.event.count or 1} publications were dropped")


def _is_goodbye(view: View, mark: Mark) -> bool:
    """Whether a session may end so: clients close theirs, who drains says so to all, and one of a name goes."""
    event = mark.event
    if reason_of(event) == CLOSED:
        return event.peer not in view.world.applications  # what a broker says of a client is no goodbye
    if reason_of(event) == DRAINING:
        return not event.peer or _drains(view, event.node, mark)
    return reason_of(event) == TAKEN_OVER and view.world.started[event.peer] > 1


def _drains(view: View, node: str, by: Mark) -> bool:
    """Whether this process had said by then that it drains."""
    began = view.world.draining.get(node)
    return began is not None and (began.when <= by.when or view.world.clock == "causal")


def _said_goodbye(view: View, mark: Mark) -> bool:
    """Whether a session of the process ended in an orderly way, so that it may miss something, or let it go."""
    for goodbye in view.world.disconnected:
        event, reason = goodbye.event, reason_of(goodbye.event)
        if event.peer and mark.node in (event.node, event.peer) and _is_goodbye(view, goodbye):
            if reason == TAKEN_OVER or (reason == DRAINING and _drains(view, event.node, mark)):
                return True
    return False


def _caused(view: View, mark: Mark) -> bool:
    """Whether a fault came first, or a limit was reached that the run declares."""
    fault = view.world.first_fault
    if fault and (fault.when < mark.when or view.world.clock == "causal"):
        return True
    return reason_of(mark.event) in view.limits


def _unjustified(mark: Mark, subscription: str, what: str) -> Violation:
    reason = mark.event.reason or "no reason given"
    return Violation(
        "justified-gap", subscription, f"{what} ({reason}) and nothing in the run gave cause", (mark.event,)
    )
