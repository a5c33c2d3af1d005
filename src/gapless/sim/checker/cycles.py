"""Whether constraints of order fit together: a graph, and a cycle of it if there is one."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from gapless.model.events import Event
from gapless.sim.checker.view import Publication


class Edge(NamedTuple):
    """Why one comes before another: who had them so (nobody: their source), and the events that show it."""

    who: str
    events: tuple[Event, Event]


class Graph:
    """Which publication comes before which. The first reason given for an edge stays."""

    def __init__(self) -> None:
        self.nodes: dict[Publication, dict[Publication, Edge]] = {}

    def add(self, before: Publication, after: Publication, edge: Edge) -> None:
        """`before` comes before `after`."""
        self.nodes.setdefault(before, {}).setdefault(after, edge)
        self.nodes.setdefault(after, {})


def cycle_of(graph: Graph) -> list[tuple[Publication, Edge]] | None:
    """A short cycle, each publication with the edge to the next; None when all fits into one order."""
    left = _unsorted(graph)
    if not left:
        return None
    return _shortest_round(graph, _on_a_cycle(graph, left))


def _on_a_cycle(graph: Graph, left: dict[Publication, None]) -> Publication:
    """Walk backwards within what is left, where everything has something before it, until a node comes again."""
    before: dict[Publication, Publication] = {}
    for node in left:
        for successor in graph.nodes[node]:
            before.setdefault(successor, node)
    node = next(iter(left))
    seen: dict[Publication, None] = {}
    while node not in seen:
        seen[node] = None
        node = before[node]
    return node


def _shortest_round(graph: Graph, start: Publication) -> list[tuple[Publication, Edge]]:
    """The shortest way from a node back to itself, breadth first."""
    came: dict[Publication, Publication] = {}
    queue = deque([start])
    while start not in came:
        node = queue.popleft()
        for successor in graph.nodes[node]:
            if successor not in came:
                came[successor] = node
                queue.append(successor)
    way = [start]
    while not (len(way) > 1 and way[-1] is start):
        way.append(came[way[-1]])
    way.reverse()
    return [(node, graph.nodes[node][following]) for node, following in pairwise(way)]


def _unsorted(graph: Graph) -> dict[Publication, None]:
    """What a topological sort cannot place: the cycles and what comes after them."""
    before = dict.fromkeys(graph.nodes, 0)
    for successors in graph.nodes.values():
        for node in successors:
            before[node] += 1
    ready = deque(node for node, count in before.items() if not count)
    left = dict.fromkeys(graph.nodes)
    while ready:
        node = ready.popleft()
        del left[node]
        for successor in graph.nodes[node]:
            before[successor] -= 1
            if not before[successor]:
                ready.append(successor)
    return left
