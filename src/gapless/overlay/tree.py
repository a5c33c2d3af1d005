"""A tree of nodes: who is next to whom, how far apart, and behind whom."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from gapless.overlay.flaws import TreeError, flaws_of


class Tree:
    """A rooted tree that never changes; changes make new ones.

    Whatever comes out is in a fixed order: nodes as they were declared, of neighbours the parent first and then the
    children as declared. Two trees are equal when they have the same nodes, declared in the same order, with the same
    parents.
    """

    __slots__ = ("_children", "_depths", "_enters", "_exits", "_parents", "_preorder", "_root")

    _root: str
    _parents: dict[str, str | None]
    _children: dict[str, tuple[str, ...]]
    _depths: dict[str, int]
    # The subtree under a node is the slice of the preorder from where one enters it to where one leaves it.
    _preorder: tuple[str, ...]
    _enters: dict[str, int]
    _exits: dict[str, int]

    def __init__(self, parents: Mapping[str, str | None] | Iterable[tuple[str, str | None]]) -> None:
        """Of each node its parent; of the root None. Pairs will do as well as a mapping, and let repeats be seen."""
        entries = tuple(parents.items() if isinstance(parents, Mapping) else parents)
        if flaws := flaws_of(entries):
            raise TreeError("this is not a tree: " + "; ".join(map(str, flaws)))
        self._parents = dict(entries)
        children: dict[str, list[str]] = {node: [] for node in self._parents}
        for node, parent in entries:
            if parent is None:
                self._root = node
            else:
                children[parent].append(node)
        self._children = {node: tuple(below) for node, below in children.items()}
        self._walk()

    def _walk(self) -> None:
        """Number the nodes in preorder: a subtree becomes a slice, and "is it below?" two comparisons."""
        self._depths, self._enters, self._exits = {}, {}, {}
        preorder: list[str] = []
        stack = [self._root]
        while stack:
            node = stack.pop()
            parent = self._parents[node]
            self._depths[node] = 0 if parent is None else self._depths[parent] + 1
            self._enters[node] = len(preorder)
            preorder.append(node)
            stack.extend(reversed(self._children[node]))
        for node in reversed(preorder):
            below = self._children[node]
            self._exits[node] = self._exits[below[-1]] if below else self._enters[node] + 1
        self._preorder = tuple(preorder)

    @classmethod
    def from_links(cls, links: Iterable[tuple[str, str]], root: str) -> Tree:
        """The tree that these undirected links form, hung up at `root`; its nodes are declared nearest first."""
        return cls(_hung_up(tuple(links), root))

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, as declared."""
        return tuple(self._parents)

    @property
    def root(self) -> str:
        return self._root

    @property
    def leaves(self) -> tuple[str, ...]:
        """The nodes with at most one neighbour, as declared; the root of a chain is one of them."""
        return tuple(node for node in self._parents if len(self.neighbours(node)) <= 1)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Each link once, as (parent, child), in the order of the children."""
        return tuple((parent, node) for node, parent in self._parents.items() if parent is not None)

    def parent(self, node: str) -> str | None:
        return self._parents[self._known(node)]

    def children(self, node: str) -> tuple[str, ...]:
        return self._children[self._known(node)]

    def neighbours(self, node: str) -> tuple[str, ...]:
        """The parent, unless `node` is the root, and then the children."""
        parent = self.parent(node)
        return self._children[node] if parent is None else (parent, *self._children[node])

    def path(self, start: str, end: str) -> tuple[str, ...]:
        """The nodes from `start` to `end`, both included."""
        up, down = [self._known(start)], [self._known(end)]
        while up[-1] != down[-1]:
            side = up if self._depths[up[-1]] >= self._depths[down[-1]] else down
            side.append(self._above(side[-1]))
        return (*up, *reversed(down[:-1]))

    def distance(self, start: str, end: str) -> int:
        """The number of links between the two."""
        top = self._known(start)
        self._known(end)
        while not self._is_below(end, top):
            top = self._above(top)
        return self._depths[start] + self._depths[end] - 2 * self._depths[top]

    def next_hop(self, start: str, end: str) -> str:
        """The neighbour of `start` behind which `end` is."""
        if self._known(start) == self._known(end):
            raise TreeError(f'there is no hop from "{start}" to itself; ask only for another node')
        if not self._is_below(end, start):
            return self._above(start)
        below = self._children[start]
        return below[bisect_right(below, self._enters[end], key=self._enters.__getitem__) - 1]

    def behind(self, node: str, neighbour: str) -> tuple[str, ...]:
        """The nodes that `node` reaches through `neighbour`: it and everything beyond it."""
        self._known(neighbour)
        if self.parent(node) == neighbour:
            return self._preorder[: self._enters[node]] + self._preorder[self._exits[node] :]
        if self._parents[neighbour] != node:
            raise TreeError(f'"{neighbour}" is not a neighbour of "{node}"; ask for one that is')
        return self._preorder[self._enters[neighbour] : self._exits[neighbour]]

    def neighbourhood(self, node: str, radius: int) -> dict[str, int]:
        """The nodes at most `radius` links from `node`, nearest first, with their distances; `node` itself is at 0.

        The work is in proportion to the neighbours of what is found, not to the tree.
        """
        found = {self._known(node): 0}
        edge = [node]
        for distance in range(1, radius + 1):
            edge = [near for far in edge for near in self.neighbours(far) if near not in found]
            if not edge:
                break
            found.update(dict.fromkeys(edge, distance))
        return found

    def around(self, node: str, radius: int) -> Tree:
        """The neighbourhood as a tree: what a node with that horizon knows. Its root is the one nearest to ours."""
        near = self.neighbourhood(node, radius)
        above = ((found, self._parents[found]) for found in near)
        return Tree((found, parent if parent in near else None) for found, parent in above)

    def without(self, node: str) -> Tree:
        """The tree after `node` is gone for good: its children hang on its parent.

        Where there is no parent its first child becomes the root, and the others hang on that.
        """
        if len(self) == 1 and node in self:
            raise TreeError(f'"{node}" is the only node; a tree has at least one')
        heir = self.neighbours(node)[0]
        entries: dict[str, str | None] = {}
        for other, parent in self._parents.items():
            if other != node:
                entries[other] = parent if parent != node else heir if other != heir else None
        return Tree(entries)

    def __contains__(self, node: object) -> bool:
        return node in self._parents

    def __len__(self) -> int:
        return len(self._parents)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and tuple(self._parents.items()) == tuple(other._parents.items())

    def __hash__(self) -> int:
        return hash(tuple(self._parents.items()))

    def __repr__(self) -> str:
        return f"Tree({self._parents!r})"

    def _known(self, node: str) -> str:
        if node not in self._parents:
            raise TreeError(f'there is no node "{node}" in this tree of {len(self)} with the root "{self._root}"')
        return node

    def _above(self, node: str) -> str:
        parent = self._parents[node]
        assert parent is not None, "only nodes with something outside their subtree are asked"
        return parent

    def _is_below(self, node: str, top: str) -> bool:
        """Whether `node` is `top` or in the subtree under it."""
        return self._enters[top] <= self._enters[node] < self._exits[top]


def _hung_up(links: tuple[tuple[str, str], ...], root: str) -> dict[str, str | None]:
    """Give each node of these links its parent, seen from `root`, or say what keeps them from being a tree."""
    neighbours: dict[str, list[str]] = {root: []}
    for one, other in links:
        if one == other:
            raise TreeError(f'this is not a tree: a link joins "{one}" to itself; a link joins two nodes')
        if other in neighbours.get(one, ()):
            raise TreeError(f'this is not a tree: the link "{one}" - "{other}" is given twice; give it once')
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    parents: dict[str, str | None] = {root: None}
    queue = [root]
    for node in queue:
        for near in neighbours[node]:
            if near == parents[node]:
                continue
            if near in parents:
                raise TreeError(f'this is not a tree: the link "{node}" - "{near}" closes a cycle; leave out one link')
            parents[near] = node
            queue.append(near)
    apart = [node for node in neighbours if node not in parents]
    if apart:
        raise TreeError(f'this is not a tree: no links lead from "{root}" to {", ".join(apart)}; link them')
    return parents
