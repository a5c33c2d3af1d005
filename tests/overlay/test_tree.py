"""Trees against what brute force finds on the same links."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.overlay import Flaw, FlawKind, Tree, TreeError, flaws_of

#      a
#    / | \
#   b  c  d
#  / \    |
# e   f   g
SMALL = Tree({"a": None, "b": "a", "c": "a", "d": "a", "e": "b", "f": "b", "g": "d"})


@st.composite
def parent_maps(draw: st.DrawFn, largest: int = 24) -> dict[str, str | None]:
    """Random trees, their nodes declared in a random order, so that children may come before their parents."""
    count = draw(st.integers(1, largest))
    parents: dict[str, str | None] = {"n0": None}
    for number in range(1, count):
        parents[f"n{number}"] = f"n{draw(st.integers(0, number - 1))}"
    order = draw(st.permutations(list(parents)))
    return {node: parents[node] for node in order}


trees = parent_maps().map(Tree)


def distances_from(tree: Tree, start: str, but_not: str | None = None) -> dict[str, int]:
    """Breadth-first over nothing but the links, as if `but_not` were not there."""
    near: dict[str, list[str]] = {node: [] for node in tree.nodes}
    for parent, child in tree.links:
        near[parent].append(child)
        near[child].append(parent)
    found = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other in near[node]:
            if other not in found and other != but_not:
                found[other] = found[node] + 1
                queue.append(other)
    return found


def test_a_small_tree_answers_as_drawn() -> None:
    """Every question about the tree drawn above has the answer one reads off the drawing, in declared order."""
    assert SMALL.nodes == ("a", "b", "c", "d", "e", "f", "g")
    assert SMALL.root == "a"
    assert SMALL.leaves == ("c", "e", "f", "g")
    assert SMALL.parent("a") is None
    assert SMALL.parent("g") == "d"
    assert SMALL.children("a") == ("b", "c", "d")
    assert SMALL.neighbours("b") == ("a", "e", "f")
    assert SMALL.neighbours("a") == ("b", "c", "d")
    assert SMALL.path("e", "g") == ("e", "b", "a", "d", "g")
    assert SMALL.distance("e", "g") == 4
    assert SMALL.next_hop("a", "f") == "b"
    assert SMALL.next_hop("f", "g") == "b"
    assert SMALL.behind("a", "b") == ("b", "e", "f")
    assert SMALL.behind("b", "a") == ("a", "c", "d", "g")
    assert SMALL.neighbourhood("b", 2) == {"b": 0, "a": 1, "e": 1, "f": 1, "c": 2, "d": 2}
    assert list(SMALL.neighbourhood("b", 2)) == ["b", "a", "e", "f", "c", "d"]
    assert SMALL.links == (("a", "b"), ("a", "c"), ("a", "d"), ("b", "e"), ("b", "f"), ("d", "g"))


def test_one_node_is_a_tree() -> None:
    """A tree of one node is its own root and leaf, at distance 0 from itself, with nobody next to it."""
    one = Tree({"only": None})
    assert (one.root, one.leaves, one.neighbours("only"), len(one)) == ("only", ("only",), (), 1)
    assert one.path("only", "only") == ("only",)
    assert one.neighbourhood("only", 3) == {"only": 0}


@given(trees, st.data())
def test_paths_follow_links_and_turn_round(tree: Tree, data: st.DataObject) -> None:
    """A path goes over links, visits nothing twice, is as long as the distance, and backwards is the path back."""
    one, other = data.draw(st.sampled_from(tree.nodes)), data.draw(st.sampled_from(tree.nodes))
    path = tree.path(one, other)
    assert (path[0], path[-1]) == (one, other)
    assert len(dict.fromkeys(path)) == len(path) == tree.distance(one, other) + 1
    assert all(there in tree.neighbours(here) for here, there in pairwise(path))
    assert tree.path(other, one) == path[::-1]


@given(trees, st.data())
def test_distances_are_those_of_brute_force(tree: Tree, data: st.DataObject) -> None:
    """The distance from a node to every other is what a breadth-first search over the links finds."""
    start = data.draw(st.sampled_from(tree.nodes))
    assert {node: tree.distance(start, node) for node in tree.nodes} == distances_from(tree, start)


@given(trees, st.data())
def test_the_triangle_is_an_equality_exactly_on_the_path(tree: Tree, data: st.DataObject) -> None:
    """A detour over a node costs nothing when it is on the path, and two links for every one it is off it."""
    one, over, other = (data.draw(st.sampled_from(tree.nodes)) for _ in range(3))
    path = tree.path(one, other)
    detour = tree.distance(one, over) + tree.distance(over, other) - tree.distance(one, other)
    assert detour == 2 * min(tree.distance(over, node) for node in path)
    assert (detour == 0) == (over in path)


@given(trees, st.integers(0, 6), st.data())
def test_a_neighbourhood_is_what_is_within_its_radius(tree: Tree, radius: int, data: st.DataObject) -> None:
    """A neighbourhood holds exactly the nodes within its radius, with their distances, nearest first."""
    node = data.draw(st.sampled_from(tree.nodes))
    near = tree.neighbourhood(node, radius)
    assert near == {other: far for other, far in distances_from(tree, node).items() if far <= radius}
    assert list(near.values()) == sorted(near.values())


@given(trees, st.integers(0, 6), st.data())
def test_around_keeps_the_links_within_the_neighbourhood(tree: Tree, radius: int, data: st.DataObject) -> None:
    """The tree around a node has the nodes of its neighbourhood, the links between them, and the same parents."""
    node = data.draw(st.sampled_from(tree.nodes))
    around = tree.around(node, radius)
    near = tree.neighbourhood(node, radius)
    assert around.nodes == tuple(near)
    assert sorted(around.links) == sorted(link for link in tree.links if link[0] in near and link[1] in near)
    assert all(around.path(node, other) == tree.path(node, other) for other in near)


@given(trees, st.data())
def test_behind_partitions_the_other_nodes(tree: Tree, data: st.DataObject) -> None:
    """Behind a neighbour is what it reaches without us; all neighbours together have every other node once."""
    node = data.draw(st.sampled_from(tree.nodes))
    parts = {near: tree.behind(node, near) for near in tree.neighbours(node)}
    for near, part in parts.items():
        assert sorted(part) == sorted(distances_from(tree, near, but_not=node))
        assert all(tree.next_hop(node, other) == near for other in part)
    assert sorted([node, *(other for part in parts.values() for other in part)]) == sorted(tree.nodes)


@given(trees, st.data())
def test_hops_lead_along_the_path(tree: Tree, data: st.DataObject) -> None:
    """Taking the next hop again and again walks the path and arrives."""
    start, end = data.draw(st.sampled_from(tree.nodes)), data.draw(st.sampled_from(tree.nodes))
    walked = [start]
    while walked[-1] != end:
        walked.append(tree.next_hop(walked[-1], end))
        assert len(walked) <= len(tree)
    assert tuple(walked) == tree.path(start, end)


@given(trees)
def test_leaves_have_one_neighbour_at_most(tree: Tree) -> None:
    """The leaves are the nodes with at most one link, in declared order."""
    ends = [node for link in tree.links for node in link]
    assert tree.leaves == tuple(node for node in tree.nodes if ends.count(node) <= 1)


@given(trees, st.randoms(use_true_random=False), st.data())
def test_links_alone_give_the_tree_back(tree: Tree, shuffle: Random, data: st.DataObject) -> None:
    """Links in any order and direction give the same parents at the same root, the same distances at another."""
    links = [link if data.draw(st.booleans()) else link[::-1] for link in tree.links]
    shuffle.shuffle(links)
    again = Tree.from_links(links, tree.root)
    assert {node: again.parent(node) for node in tree.nodes} == {node: tree.parent(node) for node in tree.nodes}
    other = data.draw(st.sampled_from(tree.nodes))
    turned = Tree.from_links(links, other)
    assert turned.root == other
    assert {node: turned.distance(other, node) for node in turned.nodes} == distances_from(tree, other)


@given(parent_maps().filter(lambda parents: len(parents) > 1).map(Tree), st.data())
def test_without_a_node_its_neighbours_are_linked_up(tree: Tree, data: st.DataObject) -> None:
    """Taking a node out leaves the others in order, one tree, no two of them further apart than before."""
    gone = data.draw(st.sampled_from(tree.nodes))
    left = tree.without(gone)
    assert left.nodes == tuple(node for node in tree.nodes if node != gone)
    heir = tree.neighbours(gone)[0]
    assert left.root == (heir if gone == tree.root else tree.root)
    assert all(near == heir or heir in left.neighbours(near) for near in tree.neighbours(gone))
    one, other = data.draw(st.sampled_from(left.nodes)), data.draw(st.sampled_from(left.nodes))
    assert left.distance(one, other) <= tree.distance(one, other)


@given(parent_maps())
def test_equal_trees_are_equal_and_hash_alike(parents: dict[str, str | None]) -> None:
    """Trees from the same declaration are equal; declared in another order or hung otherwise they are not."""
    assert Tree(parents) == Tree(list(parents.items()))
    assert hash(Tree(parents)) == hash(Tree(dict(parents)))
    if len(parents) > 1:
        assert Tree(parents) != Tree(dict(reversed(parents.items())))
    assert Tree(parents) != parents


def test_a_thousand_brokers_in_a_chain_are_no_trouble() -> None:
    """A chain of a thousand nodes is built and crossed without deep recursion."""
    chain = Tree({f"b{n}": f"b{n - 1}" if n else None for n in range(1000)})
    assert chain.distance("b0", "b999") == 999
    assert len(chain.path("b999", "b0")) == 1000
    assert chain.leaves == ("b0", "b999")
    assert len(chain.behind("b500", "b499")) == 500


@pytest.mark.parametrize(
    ("entries", "flaws"),
    [
        ([], [Flaw(FlawKind.EMPTY, ())]),
        ([("a", None), ("b", "a"), ("b", "a")], [Flaw(FlawKind.DUPLICATE, ("b",))]),
        ([("a", None), ("b", "x")], [Flaw(FlawKind.UNKNOWN_PARENT, ("b", "x"))]),
        ([("a", None), ("b", "b")], [Flaw(FlawKind.CYCLE, ("b",))]),
        (
            [("r", None), ("t", "d"), ("b", "c"), ("c", "d"), ("d", "b")],
            [Flaw(FlawKind.CYCLE, ("b", "c", "d"))],
        ),
        ([("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")], [Flaw(FlawKind.CYCLE, p) for p in (("a", "b"), ("c", "d"))]),
        ([("a", None), ("b", None)], [Flaw(FlawKind.SEVERAL_ROOTS, ("a", "b"))]),
        (
            [("a", None), ("a", None), ("b", None), ("c", "x"), ("d", "d")],
            [
                Flaw(FlawKind.DUPLICATE, ("a",)),
                Flaw(FlawKind.UNKNOWN_PARENT, ("c", "x")),
                Flaw(FlawKind.CYCLE, ("d",)),
                Flaw(FlawKind.SEVERAL_ROOTS, ("a", "b")),
            ],
        ),
    ],
)
def test_flaws_are_found_and_named(entries: list[tuple[str, str | None]], flaws: list[Flaw]) -> None:
    """Each way of not being a tree is found, all of them together, and the error says each in words."""
    assert flaws_of(entries) == flaws
    with pytest.raises(TreeError, match="this is not a tree") as refused:
        Tree(entries)
    assert all(str(flaw) in str(refused.value) for flaw in flaws)


@given(parent_maps())
def test_a_tree_has_no_flaws(parents: dict[str, str | None]) -> None:
    """Whatever is a tree is not found to have flaws."""
    assert flaws_of(parents.items()) == []


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([("a", "a")], 'joins "a" to itself'),
        ([("a", "b"), ("b", "a")], '"b" - "a" is given twice'),
        ([("a", "b"), ("b", "c"), ("c", "a")], "closes a cycle"),
        ([("a", "b"), ("c", "d")], 'no links lead from "a" to c, d'),
        ([("b", "c")], 'no links lead from "a" to b, c'),
    ],
)
def test_links_that_are_no_tree_are_refused(links: list[tuple[str, str]], words: str) -> None:
    """A loop, a repeated link, a cycle and a part that hangs on nothing are each refused by name."""
    with pytest.raises(TreeError) as refused:
        Tree.from_links(links, "a")
    assert words in str(refused.value)


def test_questions_about_strangers_are_answered_with_an_error() -> None:
    """A node the tree does not have, in any place of any question, is named in the error."""
    questions: list[Callable[[], object]] = [
        lambda: SMALL.parent("x"),
        lambda: SMALL.children("x"),
        lambda: SMALL.neighbours("x"),
        lambda: SMALL.path("x", "a"),
        lambda: SMALL.path("a", "x"),
        lambda: SMALL.distance("x", "a"),
        lambda: SMALL.distance("a", "x"),
        lambda: SMALL.next_hop("x", "a"),
        lambda: SMALL.next_hop("a", "x"),
        lambda: SMALL.behind("x", "a"),
        lambda: SMALL.behind("a", "x"),
        lambda: SMALL.neighbourhood("x", 1),
        lambda: SMALL.without("x"),
        lambda: Tree({"a": None}).without("x"),
    ]
    for ask in questions:
        with pytest.raises(TreeError, match='no node "x"'):
            ask()
    assert "x" not in SMALL


def test_questions_without_an_answer_are_refused() -> None:
    """No hop to itself, nothing behind what is no neighbour, no tree without its only node."""
    with pytest.raises(TreeError, match='no hop from "a" to itself'):
        SMALL.next_hop("a", "a")
    with pytest.raises(TreeError, match='"g" is not a neighbour of "a"'):
        SMALL.behind("a", "g")
    with pytest.raises(TreeError, match='"only" is the only node'):
        Tree({"only": None}).without("only")
