"""The index against the filters it holds: whatever comes, goes, and is asked, it answers as each would alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.test_meaning import PATTERNS, conditions, messages, quoted

from gapless.filters import FilterIndex, Interest, RouteIndex
from gapless.filters.index import index as index_module
from gapless.filters.index import store as store_module
from gapless.filters.index.store import Store
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source

# Small limits, so that a handful of filters crowds a shelf, gets cells, moves into the table and leaves it again.
LIMITS = {"LOOSE_MAX": 2, "CUT_FROM": 3, "CUT_AGAIN": 2, "SINGLE_ROWS": 2, "MASKED_RESTS": 1, "PAIRS_MAX": 7}
OWNERS = ("ann", "bob", "cid", "dee")


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """The limits hold, and even a small index looks at columns."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LIMITS.items():
            patch.setattr(store_module, name, value)
        patch.setattr(index_module, "INTERESTS_MAX", 1)
        yield


# Filters that share attributes, so that they crowd: as those of many subscribers do.
shared = st.builds(
    "{} AND d {} {} AND c {} {}".format,
    st.sampled_from(("a = 'x'", "a = 'x'", "a IN ('x', 'y')", "a = 5", "a LIKE 'x%'", "a LIKE '%y'", "b", "NOT b")),
    st.sampled_from((">", ">=", "<", "=", "<>")),
    st.sampled_from(("-7.5", "0", "0.5", "2", "9007199254740993")),
    st.sampled_from((">", "<=")),
    st.integers(-8, 8).map(str),
)
filters = st.one_of(shared, shared, conditions)
topics = st.one_of(st.just(""), st.just(""), st.sampled_from(PATTERNS))
interests = st.builds(Interest.parse, filters, topics)
changes = st.lists(
    st.tuples(st.sampled_from(("add", "add", "add", "remove", "leave")), interests, st.sampled_from(OWNERS)),
    min_size=4,
    max_size=40,
)
crowds = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from(("x", "y", "xy", 5, 5.0)),
        "b": st.booleans(),
        "c": st.one_of(st.integers(-9, 9), st.floats(-9, 9), st.just("x")),
        "d": st.one_of(st.sampled_from((0, 2, 0.5, 2.0**53, (1 << 53) + 1)), st.floats(-9, 9)),
        "topic": st.sampled_from(("a", "a/b", "a/b/c")),
    },
)
rows_of_any_kind = st.lists(st.one_of(crowds, crowds, messages), min_size=1, max_size=24)


def batch_of(rows: list[dict[str, Any]]) -> Batch:
    """A batch with these attributes."""
    return batch_of_rows(Source("p", 1), 1, rows, [b""] * len(rows))


def changed(index: FilterIndex | RouteIndex, asked: dict[str, list[Interest]], steps: list[Any]) -> None:
    """Do the steps to the index, and keep the books beside it."""
    for what, interest, owner in steps:
        if what == "add":
            index.add(interest, owner)
            asked.setdefault(owner, []).append(interest)
        elif what == "remove" and asked.get(owner):
            index.remove(asked[owner].pop(0), owner)
        elif what == "leave":
            index.remove_owner(owner)
            asked.pop(owner, None)


def expected(asked: dict[str, list[Interest]], rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """What each owner gets, one filter and one publication at a time."""
    answer = {}
    for owner, mine in asked.items():
        got = [row for row, message in enumerate(rows) if any(one.matches(message) for one in mine)]
        if got:
            answer[owner] = got
    return answer


@settings(max_examples=400)
@given(steps=changes, rows=rows_of_any_kind, more=changes)
def test_the_index_answers_as_each_filter_alone(steps: list[Any], rows: list[Any], more: list[Any]) -> None:
    """For any filters, coming and going, and any publications: by batch, by small batch, and one at a time."""
    index = FilterIndex()
    asked: dict[str, list[Interest]] = {}
    for some in (steps, more):
        changed(index, asked, some)
        for portion in (rows, rows[:3]):
            found = index.match(batch_of(portion))
            plain = {owner: list(range(len(portion)))[matched] if isinstance(matched, slice) else matched.tolist()
                     for owner, matched in found.items()}  # fmt: skip
            assert plain == expected(asked, portion)
            assert list(found) == [owner for owner in index.owners if owner in found]
        for message in rows[:4]:
            assert sorted(map(str, index.match_one(message))) == sorted(expected(asked, [message]))


@settings(max_examples=200)
@given(steps=changes, rows=rows_of_any_kind)
def test_routes_are_where_anybody_matches(steps: list[Any], rows: list[Any]) -> None:
    """A neighbour gets the rows that any filter behind it is true of, whatever order they were looked at in."""
    index = RouteIndex()
    asked: dict[str, list[Interest]] = {}
    changed(index, asked, steps)
    found = index.route(batch_of(rows))
    plain = {owner: list(range(len(rows)))[matched] if isinstance(matched, slice) else matched.tolist()
             for owner, matched in found.items()}  # fmt: skip
    assert plain == expected(asked, rows)


@settings(max_examples=100)
@given(steps=changes, rows=rows_of_any_kind)
def test_nothing_is_left_of_what_has_gone(steps: list[Any], rows: list[Any]) -> None:
    """When everybody has left, the index holds nothing: no shelf, gauge, code, rest, or bit."""
    index = FilterIndex()
    asked: dict[str, list[Interest]] = {}
    changed(index, asked, steps)
    for owner in list(asked):
        index.remove_owner(owner)
    assert len(index) == 0 and index.owners == () and index.match(batch_of(rows)) == {}
    store: Store = index._store
    assert store.count == 0 and store.racks == {} and not store.table.alive.any() and not store.table.bits.any()
    assert not store.loose.lengths.any() and not store.words.lengths.any()
    assert [len(store.keys), len(store.rests), len(store.gauges.register), store.gauges.codes] == [1, 1, 1, {}]


def test_a_crowded_shelf_is_searched_through_the_table() -> None:
    """Of many clauses under one key, the table leaves few to be checked; without it all of them would be."""
    index = FilterIndex()
    for place in range(2000):
        index.add(Interest.parse(f"a = {quoted('x')} AND c BETWEEN {place} AND {place + 1}"), place)
    checked: list[int] = []
    search = store_module.Search.checked

    def watched(self: store_module.Search, rows: Any, slots: Any) -> Any:
        checked.append(len(slots))
        return search(self, rows, slots)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module.Search, "checked", watched)
        found = index.match(batch_of([{"a": "x", "c": row * 100 + 0.5} for row in range(16)]))
    assert len(found) == 16
    assert sum(checked) < 16 * 2000 / 20
