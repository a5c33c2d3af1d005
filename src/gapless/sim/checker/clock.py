"""Time between processes: an order of events that respects causality, and who could have known of what."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from gapless.model.events import Event, Kind

_WAITS = (Kind.DELIVERED, Kind.ACCEPTED)  # these follow the publish of their publication

_Name = tuple[str, str, int, int]


def _name(event: Event) -> _Name:
    return event.space, event.source, event.incarnation, event.seq


def in_causal_order(events: Sequence[Event]) -> list[Event]:
    """The events with each journal in its own order, and nothing delivered before it was published.

    An event that cannot come in such an order, because its publish comes after it in the same journal, is put where it
    stands; the promises will say what is wrong with it.
    """
    journals: dict[str, list[Event]] = {}
    unpublished: dict[_Name, None] = {}
    for event in events:
        journals.setdefault(event.node, []).append(event)
        if event.event is Kind.PUBLISH:
            unpublished[_name(event)] = None
    queues = {node: deque(sorted(journal, key=lambda event: event.n)) for node, journal in journals.items()}
    ordered: list[Event] = []
    ready = deque(queues)
    waiting: dict[_Name, list[str]] = {}
    blocked: dict[str, _Name] = {}
    while ready or blocked:
        if not ready:  # only a history that contradicts itself comes here
            node, name = next(iter(blocked.items()))
            del blocked[node]
            ordered.append(queues[node].popleft())
        else:
            node = ready.popleft()
            if blocked.pop(node, None) is None and not queues[node]:
                continue
        queue = queues[node]
        while queue:
            event = queue[0]
            name = _name(event)
            if event.event in _WAITS and name in unpublished:
                waiting.setdefault(name, []).append(node)
                blocked[node] = name
                break
            ordered.append(queue.popleft())
            if event.event is Kind.PUBLISH and name in unpublished:
                del unpublished[name]
                for other in waiting.pop(name, ()):
                    if blocked.get(other) == name:
                        del blocked[other]
                        ready.append(other)
    return ordered


class VectorClock:
    """What each process could know of every journal, counted in events; knowledge travels with publications."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, int]] = {}

    def tick(self, node: str) -> int:
        """An event of this node: its place in its journal, from 1."""
        known = self._known.setdefault(node, {})
        known[node] = known.get(node, 0) + 1
        return known[node]

    def knowledge(self, node: str) -> dict[str, int]:
        """What the node knows now."""
        return dict(self._known.get(node, ()))

    def learn(self, node: str, knowledge: dict[str, int], origin: str) -> None:
        """The node was handed something that `origin` published with this knowledge."""
        known = self._known[node]
        if known.get(origin, 0) >= knowledge.get(origin, 0):
            return
        for other, count in knowledge.items():
            if count > known.get(other, 0):
                known[other] = count
