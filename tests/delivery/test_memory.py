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


steps = st.tuples(st.integers(1, 3), st.one_of(sources, st.none()))  # a session publishes, or ends


@given(st.lists(steps, max_size=60), st.integers(1, 3), st.integers(1, 4))
def test_nobody_is_fenced_but_by_a_newer_holder(taken: list[tuple[int, Source | None]], limit: int, most: int) -> None:
    """Who is fenced has a newer holder, and has one surely if a session is open that it came by; memory is bounded."""
    holders = Holders(limit, most)
    newest: dict[str, int] = {}
    by: dict[int, dict[str, int]] = {}  # of each open session the incarnations that it has published under
    for session, source in taken:
        if source is None:
            holders.leave(session)
            by.pop(session, None)
            continue
        fenced = holders.has_newer(source)
        if fenced:
            assert source.incarnation < newest[source.name]
        elif holders.admits(session, source.name):
            here = [names[source.name] for names in by.values() if source.name in names]
            assert source.incarnation >= max(here, default=0)
            holders.take(session, source).accepted += 1
            newest[source.name] = max(source.incarnation, newest.get(source.name, 0))
            by.setdefault(session, {})[source.name] = source.incarnation
        else:
            assert len(by[session]) == most
        assert len(holders.left) <= limit
        assert set(holders.in_use) == {name for names in by.values() for name in names}
    assert holders.highest == max(newest.values(), default=0)


def test_what_was_taken_of_a_holder_is_known_until_a_newer_one_comes() -> None:
    """The mark of repetition belongs to one holder of a name, and outlives its session."""
    holders = Holders(1, 1)
    holders.take(1, Source("p", 5)).accepted = 9
    holders.leave(1)
    assert holders.take(2, Source("p", 5)).accepted == 9
    assert holders.take(2, Source("p", 6)).accepted == -1
