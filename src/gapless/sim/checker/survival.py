"""accepted-survives: what was accepted is not lost by failures within the budget."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.model.events import LIMITS
from gapless.sim.checker.due import is_due
from gapless.sim.checker.owed import Debts
from gapless.sim.checker.verdict import Violation
from gapless.sim.checker.view import Excuse, Publication, Subscription, View, reason_of


def accepted_survives(view: View, debts: Debts) -> Iterator[Violation]:
    """Nothing accepted is taken back, given up within the budget, or nowhere to be found when the run is calm."""
    for publication, earlier, later in view.contradictions:
        message = f"{publication} was {earlier.event.value} and then {later.event.value}"
        yield Violation("accepted-survives", "", message, (publication.event, earlier, later))
    yield from _given_up(view, debts)
    yield from _vanished(view, debts)


def _given_up(view: View, debts: Debts) -> Iterator[Violation]:
    """A gap was announced for it although no more had failed than the space promises to bear."""
    for subscription in view.subscriptions:
        if not any(excuse.told for excuse in subscription.excuses):
            continue
        for lane in debts.wanted(subscription).values():
            for publication, excuses in lane:
                accepted = publication.accepted
                if accepted is None or not excuses or any(_innocent(view, excuse) for excuse in excuses):
                    continue
                if not subscription.delivered(publication):
                    message = f"{publication} was accepted and then given up, with no more failures than the budget"
                    witness = (publication.event, accepted, excuses[0].mark.event)
                    yield Violation("accepted-survives", subscription.name, message, witness)


def _innocent(view: View, excuse: Excuse) -> bool:
    """An exception, a declared limit, a gap of `direct`, or what relaxed mode may give up beyond the budget."""
    if not excuse.told or excuse.whole or reason_of(excuse.mark.event) in LIMITS:
        return True
    return excuse.over_budget and view.mode != "hard"


def _vanished(view: View, debts: Debts) -> Iterator[Violation]:
    """It was owed to someone, the run has been calm for long enough, and nobody was ever handed it."""
    deadline, why_not = view.due_by()
    if why_not:
        return
    missing: dict[Publication, list[Subscription]] = {}
    for subscription in view.subscriptions:
        if not is_due(subscription, deadline):
            continue
        for lane in debts.wanted(subscription).values():
            for debt in lane:
                publication = debt.publication
                if debt.owed and publication.handed is None and publication.accepted:
                    if publication.accepted.at <= deadline:
                        missing.setdefault(publication, []).append(subscription)
    for publication, losers in missing.items():
        if any(subscription.delivered(publication) for subscription in view.subscriptions):
            continue  # before it was published: that is for no-invention to say
        names = ", ".join(subscription.name for subscription in losers[:3])
        more = f" and {len(losers) - 3} more" if len(losers) > 3 else ""
        message = f"{publication} was accepted and nobody was ever handed it; it is owed to {names}{more}"
        accepted = publication.accepted
        assert accepted is not None
        yield Violation("accepted-survives", "", message, (publication.event, accepted))
