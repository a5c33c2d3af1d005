"""all-delivered, all-confirmed, all-covered and state-drained: what must have come about once the run is calm.

`judge` calls these only when the history lets liveness be judged (`View.due_by`). What began later than the bound
before the end need not have come about yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.model.events import LIMITS, Event
from gapless.sim.checker.due import is_due, settled_at
from gapless.sim.checker.owed import Debts
from gapless.sim.checker.verdict import Violation
from gapless.sim.checker.view import Publication, Subscription, View, reason_of


def all_delivered(view: View, debts: Debts) -> Iterator[Violation]:
    """D(s, P) = M(s, P) for every live subscription; a violation for each source that is behind."""
    deadline, _ = view.due_by()
    for subscription in view.subscriptions:
        if not is_due(subscription, deadline):
            continue
        places = subscription.lives[-1].places
        for lane in debts.wanted(subscription).values():
            missing = [
                debt.publication
                for debt in lane
                if debt.owed and debt.publication.identity not in places and settled_at(debt.publication) <= deadline
            ]
            if missing:
                yield _undelivered(view, subscription, missing)
        yield from _missed_untold(view, debts, subscription, deadline)


def _missed_untold(view: View, debts: Debts, subscription: Subscription, deadline: int) -> Iterator[Violation]:
    """A gap of `direct` tells how many a slow subscriber missed: no more than that may be missing."""
    slow = [excuse for excuse in subscription.excuses if excuse.whole and reason_of(excuse.mark.event) in LIMITS]
    told = sum(excuse.mark.event.count for excuse in slow)
    missing = [
        debt.publication
        for lane in debts.wanted(subscription).values()
        for debt in lane
        if debt.excuses and all(excuse in slow for excuse in debt.excuses)
        if debt.publication.identity not in subscription.lives[-1].places
        if settled_at(debt.publication) <= deadline
    ]
    if len(missing) > told:
        message = f"{len(missing)} publications are missing, and the gaps of a slow subscriber tell of {told}"
        witness = (missing[0].event, *[excuse.mark.event for excuse in slow])
        yield Violation("all-delivered", subscription.name, message, witness)


def _undelivered(view: View, subscription: Subscription, missing: list[Publication]) -> Violation:
    first = missing[0]
    more = f" and {len(missing) - 1} more of its source" if len(missing) > 1 else ""
    message = f"{first}{more} had not been delivered when the run ended"
    witness: list[Event] = [first.event]
    if first.accepted:
        witness.append(first.accepted)
    elif first.handed:
        witness.append(first.handed)
    if view.world.end:
        witness.append(view.world.end.event)
    return Violation("all-delivered", subscription.name, message, tuple(witness))


def all_confirmed(view: View, debts: Debts) -> Iterator[Violation]:
    """Every pending subscribe, publish, join and leave is confirmed, or refused with a reason."""
    deadline, _ = view.due_by()
    for subscription in view.subscriptions:
        pending = subscription.pending
        if pending and pending.at <= deadline and subscription.over is None:
            refused = subscription.refused
            state = "refused without a reason" if refused else "neither confirmed nor refused"
            witness = (pending, refused) if refused else (pending,)
            yield Violation("all-confirmed", subscription.name, f"the subscribe was {state}", witness)
    for publication in view.publications.values():
        yield from _unanswered(view, publication, deadline)
    for node, event in view.world.asking.items():
        if event.at <= deadline:
            yield Violation("all-confirmed", "", f"the {event.event.value} of {node} has no answer", (event,))


def _unanswered(view: View, publication: Publication, deadline: int) -> Iterator[Violation]:
    event, refused, unknown = publication.event, publication.refused, publication.unknown
    if publication.accepted or event.at > deadline or view.world.died_after(event.node, publication.when):
        return
    if refused and reason_of(refused):
        return
    if refused:
        yield Violation("all-confirmed", "", f"{publication} was refused without a reason", (event, refused))
    elif unknown:
        message = f"the outcome of {publication} is still unknown, and its publisher lives"
        yield Violation("all-confirmed", "", message, (event, unknown))
    else:
        yield Violation("all-confirmed", "", f"{publication} was neither accepted nor refused", (event,))


def all_covered(view: View, debts: Debts) -> Iterator[Violation]:
    """Every exception has ended in `covered`."""
    deadline, _ = view.due_by()
    for subscription in view.subscriptions:
        if subscription.over:
            continue
        for name, excuses in subscription.open.items():
            event = excuses[0].mark.event
            if event.at <= deadline:
                message = f"the exception {name} was never covered"
                yield Violation("all-covered", subscription.name, message, (event,))


def state_drained(view: View, debts: Debts) -> Iterator[Violation]:
    """Queues, outgoing sets, locks, held messages, old incarnations and partition tables are empty again."""
    for event in view.world.held:
        if event.count and event.space in ("", view.space):
            message = f"{event.node or 'a node'} still holds {event.count} of {event.reason or 'something'}"
            yield Violation("state-drained", "", message, (event,))
