"""publisher-order, gapless and confirmed-start: what a subscription sees of one source."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gapless.model.events import Event
from gapless.sim.checker.owed import Debts, started_at
from gapless.sim.checker.verdict import Violation, name_of
from gapless.sim.checker.view import Handover, Life, Publication, Subscription, View


def publisher_order(view: View, debts: Debts) -> Iterator[Violation]:
    """D(s, P) is in `seq` order. A repetition is not out of order: `no-duplicate` has it."""
    for subscription in view.subscriptions:
        for life in subscription.lives:
            newest: dict[str, tuple[Publication, Event]] = {}
            for place, (_, event, publication) in enumerate(life.handed):
                if publication is None or publication.loose:
                    continue
                before = newest.get(publication.lane)
                if before is None or before[0].rank < publication.rank:
                    newest[publication.lane] = publication, event
                elif place >= life.kept and life.places[publication.identity] == place:
                    message = f"{publication} was delivered after {before[0]}"
                    yield Violation("publisher-order", subscription.name, message, (before[1], event))


def gapless(view: View, debts: Debts) -> Iterator[Violation]:
    """D(s, P) is a prefix of M(s, P): nothing owed is skipped.

    What is missing before the first publication of a source is the business of `confirmed_start`, unless the start was
    fixed by the confirmation or by an earlier process.
    """
    for subscription in view.subscriptions:
        for missing, life in _skips(subscription, debts):
            if not _before_start(missing[0], life, subscription):
                yield _skipped("gapless", "skipped", missing, life, subscription)


def confirmed_start(view: View, debts: Debts) -> Iterator[Violation]:
    """Every accepted matching publication whose publish began after the confirmation is owed: no start is later."""
    for subscription in view.subscriptions:
        for missing, life in _skips(subscription, debts):
            if _before_start(missing[0], life, subscription):
                how = "published after the confirmation and left out"
                yield _skipped("confirmed-start", how, missing, life, subscription)
        yield from _late_starts(view, debts, subscription)


def _skips(subscription: Subscription, debts: Debts) -> Iterator[tuple[list[Publication], Life]]:
    """Runs of owed publications that are missing before something later of their source, each run once.

    A run does not mix what was left out before the start with what was skipped after it.
    """
    told: dict[int, None] = {}
    for life in subscription.lives:
        for lane, top in tops(life).items():
            ordered = [debt for debt in debts.wanted(subscription).get(lane, ()) if not debt.publication.loose]
            missing = [
                (place, debt.publication)
                for place, debt in enumerate(ordered)
                if debt.publication.rank < top.rank
                and debt.owed
                and debt.publication.identity not in life.places
                and debt.publication.number not in told
            ]
            for run in _runs(missing, life, subscription):
                told.update((publication.number, None) for publication in run)
                yield run, life


def _runs(
    missing: list[tuple[int, Publication]], life: Life, subscription: Subscription
) -> Iterator[list[Publication]]:
    def key(each: tuple[int, tuple[int, Publication]]) -> tuple[int, bool]:
        order, (place, publication) = each
        return place - order, _before_start(publication, life, subscription)

    for _, run in groupby(enumerate(missing), key=key):
        yield [publication for _, (_, publication) in run]


def _before_start(publication: Publication, life: Life, subscription: Subscription) -> bool:
    """Whether it precedes the first delivery of its source, where that delivery is the start."""
    if (
        publication.accepted is None
        or life is not subscription.lives[0]
        or started_at(subscription, publication) is not None
    ):
        return False
    first = next(
        (other for _, _, other in life.handed if other and not other.loose and other.lane == publication.lane), None
    )
    return first is not None and publication.rank < first.rank


def _skipped(promise: str, how: str, missing: list[Publication], life: Life, subscription: Subscription) -> Violation:
    first, last = missing[0], missing[-1]
    later = later_of_its_source(last, life)
    what = str(first) if len(missing) == 1 else f"{first} to {last} ({len(missing)} publications)"
    verb = "was" if len(missing) == 1 else "were"
    then = f", {name_of(later.event)} was delivered" if later else ""
    before = [
        handover.event
        for handover in life.handed
        if handover.publication and handover.publication.lane == first.lane and handover.publication.rank < first.rank
    ]
    witness: list[Event] = [first.event]
    if promise == "confirmed-start" and subscription.confirmed:
        witness.insert(0, subscription.confirmed.event)
    if first.accepted:
        witness.append(first.accepted)
    witness += before[-1:]
    if later:
        witness.append(later.event)
    return Violation(promise, subscription.name, f"{what} {verb} {how}{then}", tuple(witness))


def _late_starts(view: View, debts: Debts, subscription: Subscription) -> Iterator[Violation]:
    """A start that the confirmation names must not leave out what was published after it."""
    confirmed = subscription.confirmed
    if confirmed is None or not subscription.starts:
        return
    fits = debts.matches(subscription)
    for publication in view.publications.values():
        start = started_at(subscription, publication)
        if start is None or publication.tick >= start or not fits[publication.number]:
            continue
        if (
            publication.accepted
            and view.begun_after(publication, confirmed)
            and not debts.excused(publication, subscription)
        ):
            message = (
                f"{publication} was published after the confirmation, and its tick {publication.tick} is before "
                f"the start {start}"
            )
            witness = (confirmed.event, publication.event, publication.accepted)
            yield Violation("confirmed-start", subscription.name, message, witness)


def tops(life: Life) -> dict[str, Publication]:
    """The highest publication with an order that was delivered of each lane."""
    highest: dict[str, Publication] = {}
    for _, _, publication in life.handed:
        if publication and not publication.loose:
            top = highest.get(publication.lane)
            if top is None or top.rank < publication.rank:
                highest[publication.lane] = publication
    return highest


def later_of_its_source(publication: Publication, life: Life) -> Handover | None:
    """The first delivery of something later of the same source."""
    for handover in life.handed:
        other = handover.publication
        if other and not other.loose and other.lane == publication.lane and other.rank > publication.rank:
            return handover
    return None
