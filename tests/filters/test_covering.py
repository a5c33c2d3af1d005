"""Covering is never claimed wrongly, and found where people would expect it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.test_index_laws import crowds, filters, interests
from tests.filters.test_meaning import PATTERNS, TOPICS, messages

from gapless.filters import Interest, parse_topic
from gapless.filters import cover as cover_module
from gapless.filters import covering as covering_module
from gapless.filters.cover import Cover
from gapless.filters.covering import covers, facts_of, pattern_covers

rows = st.lists(st.one_of(crowds, messages), min_size=1, max_size=30)


@settings(max_examples=600)
@given(wide=interests, extra=filters, narrow=interests, some=rows)
def test_whatever_matches_the_narrow_matches_the_wide(
    wide: Interest, extra: str, narrow: Interest, some: list[dict[str, Any]]
) -> None:
    """For any two interests, and for one made narrower by a condition: where covering is claimed it holds."""
    narrower = Interest.parse(f"({wide.filter.text}) AND ({extra})", wide.topic.text if wide.topic else "")
    for one, other in ((wide, narrow), (narrow, wide), (wide, narrower), (narrower, wide)):
        if covers(one, other):
            assert not [row for row in some if other.matches(row) and not one.matches(row)]


FOUND = [
    ("", "price > 3"),
    ("price > 3", "price > 4"),
    ("price >= 3", "price BETWEEN 3 AND 4"),
    ("price > 3", "price > 4 AND sym = 'IBM'"),
    ("sym = 'IBM'", "sym = 'IBM' AND price > 3"),
    ("sym IN ('IBM', 'SUN')", "sym = 'IBM'"),
    ("sym IN ('IBM', 'SUN', 'HP')", "sym IN ('HP', 'IBM')"),
    ("sym = 'IBM' OR price > 3", "price > 5"),
    ("sym = 'IBM' OR price > 3", "(sym = 'IBM' AND vol = 2) OR price = 5"),
    ("sym LIKE 'I%'", "sym = 'IBM'"),
    ("sym LIKE 'I%'", "sym LIKE 'IB%'"),
    ("sym LIKE 'I%'", "sym LIKE 'IB%M'"),
    ("sym LIKE '%B%'", "sym = 'IBM'"),
    ("sym <> 'SUN'", "sym = 'IBM'"),
    ("price <> 3", "price > 3"),
    ("price IS NOT NULL", "price < 3"),
    ("sym IS NOT NULL", "sym LIKE '%x%'"),
    ("NOT (price > 3)", "price < 2"),
    ("NOT (price > 3)", "price = 'cheap'"),
    ("vol * 2 = 4", "vol * 2 = 4 AND price > 3"),
    ("active", "active AND price > 3"),
]
MISSED = [
    ("price > 4", "price > 3"),
    ("price > 3 AND sym = 'IBM'", "price > 3"),
    ("sym = 'IBM'", "sym IN ('IBM', 'SUN')"),
    ("sym LIKE 'IB%'", "sym LIKE 'I%'"),
    ("price <> 3", "price >= 3"),
    ("price > 3", "NOT (price <= 3)"),  # which is true of strings, too
    ("price > 3", "price IS NOT NULL"),
    ("vol > 3 OR price > 3", "sym = 'IBM'"),
    ("a = 1", "a = 1.5"),
]


@pytest.mark.parametrize(("wide", "narrow"), FOUND)
def test_what_is_found(wide: str, narrow: str) -> None:
    """The implications that people's filters have."""
    assert covers(Interest.parse(wide), Interest.parse(narrow))


@pytest.mark.parametrize(("wide", "narrow"), MISSED)
def test_what_is_not_one(wide: str, narrow: str) -> None:
    """What looks like one and is none."""
    assert not covers(Interest.parse(wide), Interest.parse(narrow))


@given(one=st.sampled_from(PATTERNS), other=st.sampled_from(PATTERNS))
def test_patterns_cover_patterns(one: str, other: str) -> None:
    """One topic pattern covers another when every topic of it matches."""
    wide, narrow = parse_topic(one), parse_topic(other)
    if pattern_covers(wide, narrow):
        assert all(wide.matches(topic) for topic in TOPICS if narrow.matches(topic))
    assert pattern_covers(wide, wide)


def test_topics_are_covered_with_their_filters() -> None:
    """A pattern and a filter cover together, by both."""
    wide = Interest.parse("price > 3", "nyse/#")
    assert covers(wide, Interest.parse("price > 4", "nyse/ibm/quotes"))
    assert covers(wide, Interest.parse("price > 4 AND topic = 'nyse/ibm'"))
    assert not covers(wide, Interest.parse("price > 4", "lse/ibm"))
    assert not covers(wide, Interest.parse("price > 2", "nyse/ibm"))


def _checked(cover: Cover, asked: dict[str, Interest]) -> None:
    """What is told covers what is asked for, and nothing told is covered by another told."""
    told = list(cover.told.values())
    for interest in asked.values():
        assert not list(facts_of(interest)) or any(covers(wide, interest) for wide in told)
    if not cover.busy:
        assert {*cover.told} <= {*asked}
        for place, one in enumerate(told):
            assert not [other for other in told[place + 1 :] if covers(one, other) or covers(other, one)]


@pytest.mark.parametrize("few", [0, 3, 16])
@settings(max_examples=150)
@given(steps=st.lists(st.tuples(st.integers(0, 3), interests), max_size=30), pieces=st.sampled_from((1, 2, 1000)))
def test_what_is_told_is_enough_and_no_more(few: int, steps: list[tuple[int, Interest]], pieces: int) -> None:
    """As interests come and go: never too narrow, and when the work is done nothing told is superfluous."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cover_module, "FEW", few)
        _told_is_enough(steps, pieces)


def _told_is_enough(steps: list[tuple[int, Interest]], pieces: int) -> None:
    cover = Cover(pieces)
    asked: dict[str, Interest] = {}
    known: dict[str, None] = {}
    for remove, interest in steps:
        if remove == 0 and asked:
            cover.remove(next(iter(asked)))
            del asked[next(iter(asked))]
        elif interest.key not in asked:
            cover.add(interest)
            asked[interest.key] = interest
        assert len(cover) == len(asked) and all(key in cover for key in asked)
        _checked(cover, asked)
        for key in cover.touched:
            if key in cover.told:
                known[key] = None
            else:
                known.pop(key, None)
        cover.touched.clear()
        assert known.keys() == cover.told.keys()
    cover.work(10_000)
    assert not cover.busy
    _checked(cover, asked)
    for key in list(asked):
        cover.remove(key)
    cover.work(10_000)
    assert len(cover) == 0 and not cover.told and (cover._store is None or cover._store.count == 0)


def test_a_wide_one_that_goes_is_told_until_others_take_its_place() -> None:
    """However many it covered: in pieces, and never with a hole."""
    cover = Cover()
    narrow = [Interest.parse(f"price > {place} AND sym = 'S{place}'") for place in range(1000)]
    for interest in narrow:
        cover.add(interest)
    assert len(cover.told) == 1000
    wide = Interest.parse("price > -1")
    cover.add(wide)
    assert cover.busy and wide.key in cover.told
    cover.work(5000)
    assert list(cover.told) == [wide.key] and len(cover) == 1001
    cover.remove(wide.key)
    assert cover.busy and wide.key in cover.told
    cover.work(5000)
    assert {*cover.told} == {interest.key for interest in narrow}


def test_what_is_too_long_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long filters are not compared with each other, few or many; what asks for everything covers them all the same."""

    def compared(*_: object) -> bool:
        raise AssertionError("compared")

    wide = Interest.parse(" AND ".join(f"a LIKE 'x{place}%'" for place in range(200)))
    narrow = Interest.parse(wide.filter.text + " AND c > 1")
    with monkeypatch.context() as patch:
        patch.setattr(covering_module, "_covers", compared)
        patch.setattr(cover_module, "facts_of", compared)
        cover = Cover()
        cover.add(wide)
        cover.add(narrow)
        assert {*cover.told} == {wide.key, narrow.key}
    for place in range(30):
        cover.add(Interest.parse(f"price = {place}"))
    everything = Interest.parse("")
    cover.add(everything)
    cover.work(1000)
    assert list(cover.told) == [everything.key]
    cover.remove(narrow.key)
    cover.add(narrow)
    cover.work(1000)
    assert list(cover.told) == [everything.key]
