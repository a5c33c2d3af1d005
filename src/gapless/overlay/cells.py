"""Cells: a tree whose nodes are groups of brokers that stand in for each other, joined by bundles of links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gapless.overlay.flaws import TreeError
from gapless.overlay.tree import Tree

Link = tuple[str, str]


class Cell(NamedTuple):
    """One node of the virtual tree, realised by these brokers; the brokers of a cell are all linked to each other."""

    id: str
    brokers: tuple[str, ...]


class CellTree:
    """A tree of cells with, for each pair of adjacent cells, the bundle of links between their brokers.

    A bundle that is not given joins every broker of the one cell to every broker of the other.
    """

    __slots__ = ("_bundles", "_cells", "_home", "tree")

    def __init__(
        self, tree: Tree, cells: Iterable[Cell], bundles: Mapping[tuple[str, str], Sequence[Link]] | None = None
    ) -> None:
        """`tree` is over the ids of `cells`; a bundle under (A, B) has links (broker of A, broker of B)."""
        self.tree = tree
        self._cells = _by_id(tree, tuple(cells))
        self._home = _homes(self._cells.values())
        self._bundles: dict[tuple[str, str], tuple[Link, ...]] = {}
        for (one, other), links in (bundles or {}).items():
            self._bundles[one, other] = self._checked(one, other, tuple(links))
            self._bundles[other, one] = _turned(self._bundles[one, other])
        for one, other in tree.links:
            if (one, other) not in self._bundles:
                every = tuple((a, b) for a in self._cells[one].brokers for b in self._cells[other].brokers)
                self._bundles[one, other], self._bundles[other, one] = every, _turned(every)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells, in the order of the tree's nodes."""
        return tuple(self._cells.values())

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers, cell by cell."""
        return tuple(self._home)

    def cell(self, cell: str) -> Cell:
        if cell not in self._cells:
            raise TreeError(f'there is no cell "{cell}"; there are {", ".join(self._cells)}')
        return self._cells[cell]

    def cell_of(self, broker: str) -> Cell:
        """The cell that this broker is in."""
        if broker not in self._home:
            raise TreeError(f'there is no broker "{broker}" in any cell')
        return self._cells[self._home[broker]]

    def siblings(self, broker: str) -> tuple[str, ...]:
        """The other brokers of its cell: the ways sideways."""
        return tuple(other for other in self.cell_of(broker).brokers if other != broker)

    def bundle(self, one: str, other: str) -> tuple[Link, ...]:
        """The links between two adjacent cells, each as (broker of `one`, broker of `other`)."""
        if (one, other) not in self._bundles:
            raise TreeError(f'"{one}" and "{other}" are not adjacent cells, so no bundle joins them')
        return self._bundles[one, other]

    def reach(self, broker: str, cell: str) -> tuple[str, ...]:
        """The brokers of the adjacent `cell` to which `broker` itself has a link; where none, the way is sideways."""
        return tuple(there for here, there in self.bundle(self.cell_of(broker).id, cell) if here == broker)

    @property
    def links(self) -> tuple[Link, ...]:
        """Every link once: the bundles, parent's side first, and then the links within the cells."""
        between = [link for pair in self.tree.links for link in self._bundles[pair]]
        within = [(a, b) for cell in self.cells for i, a in enumerate(cell.brokers) for b in cell.brokers[i + 1 :]]
        return (*between, *within)

    def _checked(self, one: str, other: str, links: tuple[Link, ...]) -> tuple[Link, ...]:
        name = f'the bundle "{one}" - "{other}"'
        if other not in self.tree.neighbours(self.cell(one).id):
            raise TreeError(f"{name} joins cells that are not adjacent in the tree; leave it out")
        if (one, other) in self._bundles:
            raise TreeError(f"{name} is given from both ends; give it once")
        if not links:
            raise TreeError(f"{name} has no links; give it at least one, or leave it out for all of them")
        if len(dict.fromkeys(links)) < len(links):
            raise TreeError(f"{name} has the same link twice; give each link once")
        for here, there in links:
            if self._home.get(here) != one or self._home.get(there) != other:
                ends = f'from a broker of "{one}" to one of "{other}"'
                raise TreeError(f'{name} has a link "{here}" - "{there}"; its links go {ends}')
        return links


def _turned(links: tuple[Link, ...]) -> tuple[Link, ...]:
    return tuple((there, here) for here, there in links)


def _by_id(tree: Tree, cells: tuple[Cell, ...]) -> dict[str, Cell]:
    """The cells by id in the tree's order, if they are exactly the tree's nodes."""
    given: dict[str, Cell] = {}
    for cell in cells:
        if cell.id in given:
            raise TreeError(f'the cell "{cell.id}" is given twice; give each cell once')
        if cell.id not in tree:
            raise TreeError(f'the cell "{cell.id}" is not in the tree; add it there or leave it out')
        if not cell.brokers:
            raise TreeError(f'the cell "{cell.id}" has no brokers; give it at least one')
        given[cell.id] = cell
    missing = [node for node in tree.nodes if node not in given]
    if missing:
        raise TreeError(f"the tree names cells that are not described: {', '.join(missing)}; give each its brokers")
    return {node: given[node] for node in tree.nodes}


def _homes(cells: Iterable[Cell]) -> dict[str, str]:
    """Of each broker the id of its cell."""
    home: dict[str, str] = {}
    for cell in cells:
        for broker in cell.brokers:
            if broker in home:
                places = f'in "{home[broker]}" and again in "{cell.id}"'
                raise TreeError(f'the broker "{broker}" is {places}; a broker is in one cell, once')
            home[broker] = cell.id
    return home
