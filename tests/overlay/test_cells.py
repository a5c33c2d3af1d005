"""Cells, by the network of the paper's failure tests and by random ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.overlay import Cell, CellTree, Tree, TreeError


def ten_brokers_in_eight_cells() -> CellTree:
    """Strom et al. 2002, Figure 3: one publishing broker, two cells of two brokers, five subscribing brokers."""
    tree = Tree({"P1": None, "IB1": "P1", "IB2": "P1", "S1": "IB1", "S2": "IB1", "S3": "IB2", "S4": "IB2", "S5": "IB2"})
    pairs = [Cell("IB1", ("b1", "b2")), Cell("IB2", ("b3", "b4"))]
    return CellTree(tree, [Cell("P1", ("p1",)), *pairs, *(Cell(f"S{n}", (f"s{n}",)) for n in range(1, 6))])


def test_the_network_of_figure_3() -> None:
    """Ten brokers in eight cells, each intermediate one linked to p1, to its twin and to every subscriber end below."""
    network = ten_brokers_in_eight_cells()
    assert len(network.cells) == 8
    assert network.brokers == ("p1", "b1", "b2", "b3", "b4", "s1", "s2", "s3", "s4", "s5")
    assert network.bundle("P1", "IB1") == (("p1", "b1"), ("p1", "b2"))
    assert network.bundle("S3", "IB2") == (("s3", "b3"), ("s3", "b4"))
    assert network.reach("b1", "P1") == ("p1",)
    assert network.reach("p1", "IB2") == ("b3", "b4")
    assert network.siblings("b1") == ("b2",)
    assert network.siblings("p1") == ()
    assert network.cell_of("b4") == Cell("IB2", ("b3", "b4"))
    assert network.tree.path("S1", "S4") == ("S1", "IB1", "P1", "IB2", "S4")
    assert len(network.links) == 2 * 2 + 2 * 2 + 2 * 3 + 2
    assert ("b1", "b2") in network.links


def test_a_bundle_of_our_own_leaves_a_broker_only_the_way_sideways() -> None:
    """Where a bundle names its links, a broker without one in it reaches the next cell only through its siblings."""
    tree = Tree({"A": None, "B": "A"})
    cells = CellTree(tree, [Cell("B", ("b1", "b2")), Cell("A", ("a",))], {("B", "A"): [("b2", "a")]})
    assert [cell.id for cell in cells.cells] == ["A", "B"]
    assert cells.bundle("A", "B") == (("a", "b2"),)
    assert cells.bundle("B", "A") == (("b2", "a"),)
    assert cells.reach("b1", "A") == ()
    assert cells.links == (("a", "b2"), ("b1", "b2"))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 4)), min_size=1, max_size=10))
def test_bundles_and_siblings_make_every_link_once(shape: list[tuple[int, int]]) -> None:
    """In random trees of cells both ends see the same bundle; bundles and siblings add up to the links."""
    tree = Tree({f"c{n}": f"c{above % n}" if n else None for n, (above, _) in enumerate(shape)})
    cells = [Cell(f"c{n}", tuple(f"c{n}.{i}" for i in range(size))) for n, (_, size) in enumerate(shape)]
    network = CellTree(tree, cells)
    assert network.cells == tuple(cells)
    ends: list[tuple[str, str]] = []
    for broker in network.brokers:
        home = network.cell_of(broker)
        assert broker in home.brokers
        ends += [(broker, other) for other in network.siblings(broker)]
        ends += [(broker, other) for near in tree.neighbours(home.id) for other in network.reach(broker, near)]
    assert sorted(ends) == sorted([*network.links, *((b, a) for a, b in network.links)])
    for one, other in tree.links:
        assert sorted(network.bundle(one, other)) == sorted((a, b) for b, a in network.bundle(other, one))


TWO = Tree({"A": None, "B": "A"})
FINE = [Cell("A", ("a",)), Cell("B", ("b",))]


@pytest.mark.parametrize(
    ("cells", "bundles", "words"),
    [
        ([*FINE, Cell("A", ("x",))], {}, 'cell "A" is given twice'),
        ([*FINE, Cell("C", ("c",))], {}, 'cell "C" is not in the tree'),
        ([Cell("A", ()), Cell("B", ("b",))], {}, 'cell "A" has no brokers'),
        ([Cell("A", ("a",))], {}, "not described: B"),
        ([Cell("A", ("a",)), Cell("B", ("a",))], {}, 'broker "a" is in "A" and again in "B"'),
        (FINE, {("A", "A"): [("a", "a")]}, "not adjacent"),
        (FINE, {("X", "A"): [("a", "a")]}, 'no cell "X"'),
        (FINE, {("A", "B"): [("a", "b")], ("B", "A"): [("b", "a")]}, "given from both ends"),
        (FINE, {("A", "B"): []}, "has no links"),
        (FINE, {("A", "B"): [("a", "b"), ("a", "b")]}, "same link twice"),
        (FINE, {("A", "B"): [("b", "a")]}, 'from a broker of "A" to one of "B"'),
    ],
)
def test_cells_that_do_not_fit_are_refused(
    cells: list[Cell], bundles: dict[tuple[str, str], list[tuple[str, str]]], words: str
) -> None:
    """Each way of contradicting the tree or oneself is refused with a sentence that names it."""
    with pytest.raises(TreeError) as refused:
        CellTree(TWO, cells, bundles)
    assert words in str(refused.value)


def test_questions_about_strangers_are_refused() -> None:
    """A cell, broker or bundle that is not there is named in the error."""
    network = CellTree(TWO, FINE)
    with pytest.raises(TreeError, match='no cell "X"'):
        network.cell("X")
    with pytest.raises(TreeError, match='no broker "x"'):
        network.cell_of("x")
    with pytest.raises(TreeError, match="not adjacent"):
        network.bundle("A", "A")
