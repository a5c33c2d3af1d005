"""causal-order: no subscription owed both delivers a publication before one that happened before it.

Happened-before is kept as vector clocks over publishing processes. What one process published is a chain, so
`clock[i] = k` says that the first `k` causal or total publications of process `i` happened before; and a subscription
needs only a finger for each process that moves along the part of its chain that the subscription is owed.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.model.events import Event
from gapless.sim.checker.owed import Debts
from gapless.sim.checker.verdict import Violation
from gapless.sim.checker.view import Life, Publication, Subscription, View

Clock = dict[int, int]  # of each process, how many of its publications happened before


def causal_order(view: View, debts: Debts) -> Iterator[Violation]:
    """For every `q` delivered, each owed `p` that happened before it had been delivered."""
    if not view.acts:
        return
    clocks, chains = _happened_before(view)
    for subscription in view.subscriptions:
        owed = debts.owed(subscription)
        mine = {
            process: [(place, each) for place, each in enumerate(chain) if owed[each.number]]
            for process, chain in chains.items()
        }
        for life in subscription.lives:
            yield from _overtaken(
                subscription, life, owed, clocks, {key: chain for key, chain in mine.items() if chain}
            )


def _happened_before(view: View) -> tuple[dict[int, Clock], dict[int, list[Publication]]]:
    """The clock of each publication by number, and what each process published in its order."""
    clocks: dict[int, Clock] = {}
    chains: dict[int, list[Publication]] = {}
    knowing: dict[str, Clock] = {}  # what each process that lives has seen
    for node, publication, published, kept in view.acts:
        if publication is None:
            known = knowing[node] = {}
            for each in kept:
                if each.number in clocks:
                    _learn(known, each, clocks, chains)
            continue
        known = knowing.setdefault(node, {})
        if published:
            chain = chains.setdefault(publication.process, [])
            clocks[publication.number] = dict(known)
            chain.append(publication)
            known[publication.process] = len(chain)
        else:
            _learn(known, publication, clocks, chains)
    return clocks, chains


def _learn(
    known: Clock, publication: Publication, clocks: dict[int, Clock], chains: dict[int, list[Publication]]
) -> None:
    """Whoever was handed it comes after it, and after all that happened before it."""
    clock = clocks[publication.number]
    own = clock.get(publication.process, 0) + 1  # its place in its chain: its own process knew of all before it
    if known.get(publication.process, 0) >= own:
        return
    for process, count in clock.items():
        if count > known.get(process, 0):
            known[process] = count
    known[publication.process] = own


def _overtaken(
    subscription: Subscription,
    life: Life,
    owed: list[bool],
    clocks: dict[int, Clock],
    chains: dict[int, list[tuple[int, Publication]]],
) -> Iterator[Violation]:
    fingers = dict.fromkeys(chains, 0)
    told: dict[int, None] = {}
    for place, (_, event, publication) in enumerate(life.handed):
        if publication is None or publication.number not in clocks or not owed[publication.number]:
            continue
        for process, count in clocks[publication.number].items():
            chain = chains.get(process)
            if chain is None:
                continue
            finger = fingers[process]
            while finger < len(chain) and chain[finger][0] < count:
                cause = chain[finger][1]
                if life.places.get(cause.identity, place) >= place and cause.number not in told:
                    told[cause.number] = None
                    if place >= life.kept:
                        yield _violation(subscription, life, cause, publication, event)
                finger += 1
            fingers[process] = finger


def _violation(
    subscription: Subscription, life: Life, cause: Publication, publication: Publication, event: Event
) -> Violation:
    place = life.places.get(cause.identity)
    how = "was never delivered" if place is None else "was delivered later"
    message = f"{publication} was delivered without {cause}, which happened before it and {how}"
    witness = [cause.event, publication.event, event]
    if place is not None:
        witness.append(life.handed[place].event)
    return Violation("causal-order", subscription.name, message, tuple(witness))
