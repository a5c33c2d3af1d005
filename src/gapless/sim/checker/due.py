"""When liveness falls due: who is live, and since when."""

from __future__ import annotations

from gapless.sim.checker.view import Publication, Subscription


def is_due(subscription: Subscription, deadline: int) -> bool:
    """Whether a subscription is live, and has been since the deadline or longer."""
    return subscription.confirmed is not None and subscription.over is None and subscription.since <= deadline


def settled_at(publication: Publication) -> int:
    """When it became certain that the publication is owed to somebody."""
    if publication.accepted:
        return publication.accepted.at
    return publication.handed.at if publication.handed else publication.event.at
