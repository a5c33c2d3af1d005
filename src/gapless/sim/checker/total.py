"""key-total-order and uniform-total-order: what all subscriptions see in one order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapless.model.events import Event
from gapless.sim.checker.cycles import Edge, Graph, cycle_of
from gapless.sim.checker.owed import Debts
from gapless.sim.checker.verdict import Violation
from gapless.sim.checker.view import Life, Publication, Subscription, View

Pair = tuple[str, str]  # topic, key


def pairs_of(publication: Publication) -> list[Pair]:
    """The (topic, key) pairs that a publication touches."""
    topic = (publication.event.attributes or {}).get("topic")
    return [(topic if isinstance(topic, str) else "", key) for key in publication.event.keys]


def key_total_order(view: View, debts: Debts) -> Iterator[Violation]:
    """A total publication is a barrier for each of its pairs, the same at all who are owed both sides; no cycles."""
    members: dict[Pair, list[Publication]] = {}
    for publication in view.publications.values():
        for pair in pairs_of(publication):
            members.setdefault(pair, []).append(publication)
    members = {pair: each for pair, each in members.items() if any(one.event.order == "total" for one in each)}
    if not members:
        return
    columns = _columns(view, debts)
    told: dict[tuple[int, int], None] = {}
    for pair, group in members.items():
        for total, other, one, two in _disagreements(columns, group):
            key = min(total.number, other.number), max(total.number, other.number)
            if key not in told:
                told[key] = None
                yield _split(pair, total, other, one, two)
    cycle = cycle_of(_barriers(view))
    if cycle:
        yield _cyclic("key-total-order", "total publications that share keys", cycle)


class Columns(NamedTuple):
    """A row for each D(s): where each publication stands in it, and whether it is owed."""

    lives: list[tuple[Subscription, Life]]
    places: NDArray[np.int32]  # NOWHERE when not delivered
    owed: NDArray[np.bool_]


NOWHERE = np.iinfo(np.int32).max


def _columns(view: View, debts: Debts) -> Columns:
    lives = [(subscription, life) for subscription in view.subscriptions for life in subscription.lives]
    places = np.full((len(lives), len(view.publications)), NOWHERE, np.int32)
    owed = np.empty(places.shape, np.bool_)
    for row, (subscription, life) in enumerate(lives):
        owed[row] = debts.owed(subscription)
        for place, handover in reversed(list(enumerate(life.handed))):  # of a repetition the first place stays
            if handover.publication:
                places[row, handover.publication.number] = place
    return Columns(lives, places, owed)


Split = tuple[Subscription, Life]


def _disagreements(
    columns: Columns, group: list[Publication]
) -> Iterator[tuple[Publication, Publication, Split, Split]]:
    """Where one delivered the total without `p` before it, and another `p` without the total before it."""
    numbers = np.array([each.number for each in group])
    places, owed = columns.places[:, numbers], columns.owed[:, numbers]
    for column, total in enumerate(group):
        if total.event.order != "total":
            continue
        both = owed & owed[:, [column]]
        total_first = both & (places[:, [column]] < places)
        other_first = both & (places < places[:, [column]])
        for other in np.flatnonzero(total_first.any(axis=0) & other_first.any(axis=0)):
            one = columns.lives[int(total_first[:, other].argmax())]
            two = columns.lives[int(other_first[:, other].argmax())]
            yield total, group[int(other)], one, two


def _split(pair: Pair, total: Publication, other: Publication, one: Split, two: Split) -> Violation:
    (first, first_life), (second, second_life) = one, two
    message = (
        f"{first.name} delivered {total} without {other} before it, "
        f"{second.name} delivered {other} without {total} before it; "
        f"they share key {pair[1]!r} of topic {pair[0]!r}"
    )
    deliveries: list[Event] = []
    for life in (first_life, second_life):
        places = sorted(life.places[each.identity] for each in (total, other) if each.identity in life.places)
        deliveries += [life.handed[place].event for place in places]
    witness = (total.event, other.event, *deliveries)
    return Violation("key-total-order", first.name, message, witness)


def _barriers(view: View) -> Graph:
    """Delivered-before among totals that share a pair: for each pair, each and the next in every D(s)."""
    graph = Graph()
    for subscription in view.subscriptions:
        for life in subscription.lives:
            last: dict[Pair, tuple[Publication, Event]] = {}
            for _, event, publication in life.handed:
                if publication is None or publication.event.order != "total":
                    continue
                for pair in pairs_of(publication):
                    before = last.get(pair)
                    if before and before[0] is not publication:
                        graph.add(before[0], publication, Edge(subscription.name, (before[1], event)))
                    last[pair] = publication, event
    return graph


def uniform_total_order(view: View, debts: Debts) -> Iterator[Violation]:
    """One order extends every source's, and each D(s) is a prefix of M(s) sorted by it.

    That order exists exactly if the union of these constraints has no cycle: each source's order; the order of each
    D(s); and the last of D(s) before whatever else `s` is owed, of which the first of each lane is enough: its source's
    order brings the rest.
    """
    graph = Graph()
    for subscription in view.subscriptions:
        if not subscription.total:
            continue
        for life in subscription.lives:
            _constrain(graph, subscription, life, debts)
    if not graph.nodes:
        return
    for lane in view.lanes.values():
        present = [publication for publication in lane if publication in graph.nodes]
        for before, after in pairwise(present):
            graph.add(before, after, Edge("", (before.event, after.event)))
    cycle = cycle_of(graph)
    if cycle:
        yield _cyclic("uniform-total-order", "publications", cycle)


def _constrain(graph: Graph, subscription: Subscription, life: Life, debts: Debts) -> None:
    last: tuple[Publication, Event] | None = None
    for place, (_, event, publication) in enumerate(life.handed):
        if publication is None or life.places[publication.identity] != place:
            continue
        if last:
            graph.add(last[0], publication, Edge(subscription.name, (last[1], event)))
        last = publication, event
    if last is None:
        return
    for lane in debts.wanted(subscription).values():
        for debt in lane:
            if debt.owed and debt.publication.identity not in life.places:
                graph.add(last[0], debt.publication, Edge(subscription.name, (last[1], debt.publication.event)))
                break


def _cyclic(promise: str, what: str, cycle: list[tuple[Publication, Edge]]) -> Violation:
    names = " before ".join([str(publication) for publication, _ in cycle] + [str(cycle[0][0])])
    seen = ", ".join(dict.fromkeys(edge.who for _, edge in cycle if edge.who))
    message = f"no one order of {what}: {names} (as {seen} had them)"
    witness: dict[int, Event] = {}
    for _, edge in cycle:
        for event in edge.events:
            witness[id(event)] = event
    who = next((edge.who for _, edge in cycle if edge.who), "")
    return Violation(promise, who, message, tuple(witness.values()))
