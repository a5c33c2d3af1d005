"""no-invention and no-duplicate: what was handed over is what was published, once."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.model.events import Event
from gapless.sim.checker.owed import Debts
from gapless.sim.checker.verdict import Violation, name_of
from gapless.sim.checker.view import Handover, Publication, Subscription, View

Attributes = dict[str, bool | int | float | str | None]


def no_invention(view: View, debts: Debts) -> Iterator[Violation]:
    """Everything in D(s) was published in this space, was not refused, matches `s`, and arrives as it was published."""
    for subscription in view.subscriptions:
        fits = debts.matches(subscription)
        for life in subscription.lives:
            for handover in life.handed[life.kept :]:
                publication = handover.publication
                if publication is None:
                    yield _unpublished(view, subscription, handover.event)
                elif publication.refused or subscription.asked is None or not fits[publication.number]:
                    yield _unwanted(subscription, handover.event, publication)
                elif handover.event.body != publication.event.body or not _has_its_attributes(handover, publication):
                    yield from _changed(subscription, handover, publication)


def _unpublished(view: View, subscription: Subscription, event: Event) -> Violation:
    later = view.publications.get((event.source, event.incarnation, event.seq))
    if later:
        message = f"{later} was delivered before it was published"
        return Violation("no-invention", subscription.name, message, (event, later.event))
    message = f"{name_of(event)} was delivered and never published in this space"
    return Violation("no-invention", subscription.name, message, (event,))


def _unwanted(subscription: Subscription, event: Event, publication: Publication) -> Violation:
    asked = subscription.asked
    if publication.refused:
        message = f"{publication} was refused and yet delivered"
        witness: tuple[Event, ...] = (publication.event, publication.refused, event)
    elif asked is None:
        message = f"{publication} was delivered to a subscription that nobody asked for"
        witness = (publication.event, event)
    else:
        message = f"{publication} does not match and was delivered"
        witness = (asked, publication.event, event)
    return Violation("no-invention", subscription.name, message, witness)


def _changed(subscription: Subscription, handover: Handover, publication: Publication) -> Iterator[Violation]:
    event, offered = handover.event, publication.event
    if event.body != offered.body:
        message = f"the body of {publication} is not the one that was published"
        yield Violation("no-invention", subscription.name, message, (offered, event))
    else:
        message = f"the attributes of {publication} are not those that were published"
        yield Violation("no-invention", subscription.name, message, (offered, event))


def _has_its_attributes(handover: Handover, publication: Publication) -> bool:
    """By their digest, or by the attributes themselves where a history tells them; where it tells neither, it has."""
    event, published = handover.event, publication.event.attributes or {}
    if event.digest and event.digest != publication.digest:
        return False
    return event.attributes is None or _same(published, event.attributes)


def _same(left: Attributes, right: Attributes) -> bool:
    """Equal in values and types; an absent attribute is null."""
    if left == right:
        return all(type(value) is type(right.get(name)) for name, value in left.items())
    for name in {**left, **right}:
        one, other = left.get(name), right.get(name)
        both_nan = one != one and other != other
        if type(one) is not type(other) or (one != other and not both_nan):
            return False
    return True


def no_duplicate(view: View, debts: Debts) -> Iterator[Violation]:
    """Nothing occurs twice in D(s); what a later process is handed again is marked."""
    for subscription in view.subscriptions:
        for first, second in subscription.repeats:
            message = f"{name_of(second)} was delivered twice"
            yield Violation("no-duplicate", subscription.name, message, (first, second))
        if view.delivery in ("stream", "delta"):  # the others do not go on with a subscription after a process
            for first, second in subscription.unmarked:
                message = f"{name_of(second)} was handed to a later process again and not marked as redelivered"
                yield Violation("no-duplicate", subscription.name, message, (first, second))
