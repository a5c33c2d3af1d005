"""What can be wrong with a would-be tree, found as data, so that whoever reads it can say where its author wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from gapless.model.errors import ConfigError


class TreeError(ConfigError):
    """Nodes and links that do not form a tree, or a question about a node that the tree does not have."""


class FlawKind(Enum):
    """The ways in which nodes that name their parents fail to be one tree."""

    EMPTY = "empty"
    DUPLICATE = "duplicate"
    UNKNOWN_PARENT = "unknown parent"
    CYCLE = "cycle"
    SEVERAL_ROOTS = "several roots"


class Flaw(NamedTuple):
    """One thing that is wrong. The nodes are, by kind:

    EMPTY           none
    DUPLICATE       the id that occurs more than once
    UNKNOWN_PARENT  the node, and the parent it names
    CYCLE           the nodes of the cycle, each followed by its parent, the first of them declared first
    SEVERAL_ROOTS   the nodes without a parent
    """

    kind: FlawKind
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        match self.kind:
            case FlawKind.EMPTY:
                return "there are no nodes; a tree has at least one"
            case FlawKind.DUPLICATE:
                return f'the id "{self.nodes[0]}" is given more than once; give each node an id of its own'
            case FlawKind.UNKNOWN_PARENT:
                node, parent = self.nodes
                return f'the parent of "{node}" is "{parent}", which is not a node; name one that is'
            case FlawKind.CYCLE:
                return f"a cycle: {cycle_in_words(self.nodes)}; give one of them a parent outside the cycle, or none"
            case FlawKind.SEVERAL_ROOTS:
                return f"several roots: {', '.join(self.nodes)}; give all but one of them a parent"


def cycle_in_words(nodes: Sequence[str]) -> str:
    """`a -> b -> a`: each node followed by its parent, and the first once more."""
    return " -> ".join((*nodes, nodes[0]))


def flaws_of(entries: Iterable[tuple[str, str | None]]) -> list[Flaw]:
    """Everything that keeps (node, parent) pairs, the root's parent being None, from being one tree.

    Of several entries for one node the first counts for the search for cycles and roots.
    """
    parents: dict[str, str | None] = {}
    repeated: dict[str, None] = {}
    for node, parent in entries:
        if node in parents:
            repeated[node] = None
        else:
            parents[node] = parent
    if not parents:
        return [Flaw(FlawKind.EMPTY, ())]
    flaws = [Flaw(FlawKind.DUPLICATE, (node,)) for node in repeated]
    for node, parent in parents.items():
        if parent is not None and parent not in parents:
            flaws.append(Flaw(FlawKind.UNKNOWN_PARENT, (node, parent)))
    flaws.extend(Flaw(FlawKind.CYCLE, cycle) for cycle in _cycles(parents))
    roots = tuple(node for node, parent in parents.items() if parent is None)
    if len(roots) > 1:
        flaws.append(Flaw(FlawKind.SEVERAL_ROOTS, roots))
    return flaws


def _cycles(parents: Mapping[str, str | None]) -> list[tuple[str, ...]]:
    """The cycles one meets on following parents, each turned so that the node declared first comes first."""
    rank = {node: position for position, node in enumerate(parents)}
    seen_from: dict[str, str] = {}
    cycles: list[tuple[str, ...]] = []
    for start in parents:
        climb: list[str] = []
        node: str | None = start
        while node is not None and node in parents and node not in seen_from:
            seen_from[node] = start
            climb.append(node)
            node = parents[node]
        if node is not None and seen_from.get(node) == start:
            cycle = climb[climb.index(node) :]
            first = cycle.index(min(cycle, key=rank.__getitem__))
            cycles.append((*cycle[first:], *cycle[:first]))
    return cycles
