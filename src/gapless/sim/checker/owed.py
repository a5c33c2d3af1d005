"""What each subscription is owed: M(s, P), by matching, start, settlement and excuses."""

from __future__ import annotations

from typing import NamedTuple

from gapless.filters import parse, parse_topic
from gapless.model.errors import FilterError
from gapless.sim.checker.view import Excuse, Publication, Rank, Subscription, View, World


class Debt(NamedTuple):
    """A publication that a subscription wants, and why it may go without."""

    publication: Publication
    excuses: tuple[Excuse, ...]

    @property
    def owed(self) -> bool:
        return not self.excuses


class Debts:
    """What is owed in one space; worked out once for each subscription."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._matches: dict[tuple[str, str], list[bool]] = {}
        self._wanted: dict[Subscription, dict[str, list[Debt]]] = {}
        self._owed: dict[Subscription, list[bool]] = {}
        self._paths = Paths(view.world)

    def matches(self, subscription: Subscription) -> list[bool]:
        """For each publication by number whether it matches: the filter is true, and the topic fits the pattern."""
        key = subscription.filter, subscription.topic
        if key not in self._matches:
            self._matches[key] = self._match(*key)
        return self._matches[key]

    def _match(self, text: str, pattern: str) -> list[bool]:
        publications = self._view.publications.values()
        try:
            expression = parse(text) if text else None
            topics = parse_topic(pattern) if pattern else None
        except FilterError:  # what cannot be read matches nothing; its subscribe should have been refused
            return [False] * len(publications)
        fits: list[bool] = []
        for publication in publications:
            attributes = publication.event.attributes or {}
            fit = expression is None or expression.evaluate(attributes) is True
            if fit and topics is not None:
                topic = attributes.get("topic")
                fit = isinstance(topic, str) and topics.matches(topic)
            fits.append(fit)
        return fits

    def wanted(self, subscription: Subscription) -> dict[str, list[Debt]]:
        """By lane and in rank order: what would be owed if nothing excused it. Nothing before it was confirmed."""
        if subscription not in self._wanted:
            self._wanted[subscription] = self._want(subscription) if subscription.confirmed else {}
        return self._wanted[subscription]

    def _want(self, subscription: Subscription) -> dict[str, list[Debt]]:
        firsts = first_ranks(subscription)
        fits = self.matches(subscription)
        wanted: dict[str, list[Debt]] = {}
        for lane, publications in self._view.lanes.items():
            first = firsts.get(lane)
            debts = [
                Debt(publication, self.excused(publication, subscription))
                for publication in publications
                if fits[publication.number]
                and self._settled(publication, subscription)
                and self._within(publication, subscription, first)
            ]
            if debts:
                wanted[lane] = debts
        return wanted

    def _settled(self, publication: Publication, subscription: Subscription) -> bool:
        """Accepted, or of unknown outcome and yet delivered to anyone (delta: to this one)."""
        if publication.refused:
            return False
        if publication.accepted or publication.handed is None:
            return publication.accepted is not None
        return self._view.delivery != "delta" or subscription.delivered(publication)

    def _within(self, publication: Publication, subscription: Subscription, first: Rank | None) -> bool:
        """From the start on, and before the end of the subscription."""
        over = subscription.over
        if over and publication.when > over.when:
            return False
        start = started_at(subscription, publication)
        if start is not None:
            return publication.tick >= start
        if first is not None and publication.rank >= first:
            return True
        return subscription.confirmed is not None and self._view.begun_after(publication, subscription.confirmed)

    def excused(self, publication: Publication, subscription: Subscription) -> tuple[Excuse, ...]:
        """The announced gaps and exceptions that cover it."""
        if not subscription.excuses:
            return ()
        return tuple(each for each in subscription.excuses if self._covers(each, publication, subscription))

    def _covers(self, excuse: Excuse, publication: Publication, subscription: Subscription) -> bool:
        if excuse.whole:
            return excuse.covered is None or not self._view.begun_after(publication, excuse.covered)
        if not excuse.partition:
            gap = excuse.mark.event
            source, incarnation, seq = publication.identity
            return (source, incarnation) == (gap.source, gap.incarnation) and gap.seq <= seq <= max(gap.seq, gap.last)
        if excuse.covered and self._view.begun_after(publication, excuse.covered):
            return False
        return self._paths.beyond(excuse.partition, publication.event.node, subscription.node)

    def owed(self, subscription: Subscription) -> list[bool]:
        """For each publication by number whether it is owed to this subscription."""
        if subscription not in self._owed:
            flags = [False] * len(self._view.publications)
            for debts in self.wanted(subscription).values():
                for debt in debts:
                    flags[debt.publication.number] = debt.owed
            self._owed[subscription] = flags
        return self._owed[subscription]

    def total(self) -> int:
        """How many pairs of a subscription and a publication it is owed."""
        return sum(sum(self.owed(subscription)) for subscription in self._view.subscriptions)


def started_at(subscription: Subscription, publication: Publication) -> int | None:
    """The start tick that the confirmation names for the pubend of this publication, if it does."""
    if not subscription.starts or not publication.pubend:
        return None
    return subscription.starts.get(publication.pubend)


def first_ranks(subscription: Subscription) -> dict[str, Rank]:
    """For each lane the publication that was delivered first: of those with an order, if there are any."""
    ordered: dict[str, Rank] = {}
    loose: dict[str, Rank] = {}
    for life in subscription.lives:
        for handover in life.handed[life.kept :]:
            publication = handover.publication
            if publication:
                (loose if publication.loose else ordered).setdefault(publication.lane, publication.rank)
    return {**loose, **ordered}


class Paths:
    """What lies beyond what, in the tree that the run describes."""

    def __init__(self, world: World) -> None:
        self._parents = world.parents or {}
        self._between: dict[tuple[str, str], frozenset[str]] = {}

    def beyond(self, partition: str, publisher: str, subscriber: str) -> bool:
        """Whether the way from one to the other leads through the partition; true when the tree does not tell."""
        if not all(
            node in self._parents or node in self._parents.values() for node in (partition, publisher, subscriber)
        ):
            return True
        key = publisher, subscriber
        if key not in self._between:
            up, down = self._to_root(publisher), self._to_root(subscriber)
            meeting = next((node for node in up if node in down), None)
            if meeting is None:
                return True
            self._between[key] = frozenset([*up[: up.index(meeting)], *down[: down.index(meeting)], meeting])
        return partition in self._between[key]

    def _to_root(self, node: str) -> list[str]:
        way = [node]
        while (parent := self._parents.get(way[-1])) and parent not in way:
            way.append(parent)
        return way
