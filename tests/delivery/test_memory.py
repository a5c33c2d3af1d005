"""What is remembered of sources, within a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.delivery.memory import Holders, Watermarks
from gapless.model.types import Source

sources = st.builds(Source, st.sampled_from("abcdef"), st.integers(1, 5))


@given(st.lists(st.tuples(sources, st.integers(0, 9)), max_size=40), st.integers(1, 4))
def test_forgetting_never_passes_for_not_having_seen(seen: list[tuple[Source, int]], limit: int) -> None:
    """Whatever was seen is known, or is of those that may have been forgotten; memory stays within its limit."""
    marks = Watermarks(limit)
    highest: dict[Source, int] = {}
    for source, seq in seen:
        highest[source] = max(seq, highest.get(source, -1))
        marks.raise_to(source, seq)
        assert len(marks.seen) <= limit
        for one, top in highest.items():
            assert marks.of(one) == top or marks.may_have_forgotten(one)
    if len(highest) <= limit:
        assert not any(marks.may_have_forgotten(Source("new", incarnation)) for incarnation in range(5))


@given(st.lists(sources, max_size=40), st.integers(1, 4))
def test_an_older_holder_never_passes_for_the_newest(opened: list[Source], limit: int) -> None:
    """Of two holders of a name the lower incarnation is fenced for ever; one higher than all never is."""
    holders = Holders(limit)
    newest: dict[str, int] = {}
    for source in opened:
        if not holders.has_newer(source):
            assert source.incarnation >= newest.get(source.name, 0)
            holders.note(source)
            newest[source.name] = source.incarnation
        assert len(holders.newest) <= limit
    assert holders.highest == max(newest.values(), default=0)
    assert not holders.has_newer(Source("a", holders.highest + 1))
