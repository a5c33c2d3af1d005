"""The index of interests: what it answers, in which order, and what it leaves unlooked at."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from gapless.filters import EVERY_ROW, FilterIndex, Interest
from gapless.filters.index import store
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source


def batch_of(*rows: dict[str, Any]) -> Batch:
    """A batch with these attributes."""
    return batch_of_rows(Source("p", 1), 1, rows, [b""] * len(rows))


def many(count: int) -> Batch:
    """A batch with a symbol of ten, a price and a topic a row."""
    return batch_of(*[{"sym": f"S{row % 10}", "price": float(row), "topic": f"t/{row % 3}"} for row in range(count)])


def plain(found: dict[Any, Any]) -> dict[Any, Any]:
    """The rows as lists, so that they compare."""
    return {owner: "all" if rows is EVERY_ROW else rows.tolist() for owner, rows in found.items()}


@pytest.mark.parametrize("count", [4, 100])
def test_owners_get_their_rows(count: int) -> None:
    """Each owner gets the united rows of its interests, EVERY_ROW for all; who gets nothing is not named."""
    index = FilterIndex()
    index.add(Interest.parse("sym = 'S1'"), "one")
    index.add(Interest.parse("sym IN ('S1', 'S2')"), "two")
    index.add(Interest.parse("price < 1"), "two")
    index.add(Interest.parse("sym = 'S3' AND price > 1000"), "none")
    index.add(Interest.parse("price >= 0"), "every")
    index.add(Interest.parse(""), "blank")
    index.add(Interest.parse("sym = 'S1'"), "blank")
    index.add(Interest.parse("price > 1", "t/0"), "topic")
    index.add(Interest.parse("", "+/2"), "plus")
    rows = range(count)
    assert plain(index.match(many(count))) == {
        "one": [row for row in rows if row % 10 == 1],
        "two": [row for row in rows if row % 10 in (1, 2) or row == 0],
        "every": "all",
        "blank": "all",
        "topic": [row for row in rows if row % 3 == 0 and row > 1],
        "plus": [row for row in rows if row % 3 == 2],
    }


@pytest.mark.parametrize("count", [3, 50])
def test_the_order_is_that_of_joining(count: int) -> None:
    """Owners come in the order of their first call, whatever interest found them; who left and came back is last."""
    index = FilterIndex()
    index.add(Interest.parse("price >= 0"), "a")
    index.add(Interest.parse("sym = 'S1'"), "b")
    index.add(Interest.parse(""), "c")
    index.add(Interest.parse("sym = 'S0'"), "d")
    assert list(index.match(many(count))) == ["a", "b", "c", "d"]
    index.remove(Interest.parse("price >= 0"), "a")
    index.add(Interest.parse("price >= 0"), "a")
    assert list(index.match(many(count))) == ["b", "c", "d", "a"] == list(index.owners)


def test_what_was_added_twice_is_removed_twice() -> None:
    """Two equal subscriptions of one owner count as two."""
    index = FilterIndex()
    assert index.add(Interest.parse("price > 3"), "a") is True
    assert index.add(Interest.parse("3 < price"), "a") is False
    assert index.add(Interest.parse("price > 3.0"), "b") is False
    assert len(index) == 1
    assert index.remove(Interest.parse("price > 3"), "a") is False
    assert index.owners_of(Interest.parse("price > 3")) == ("a", "b")
    assert index.remove(Interest.parse("price > 3"), "a") is False
    assert index.owners_of(Interest.parse("price > 3")) == ("b",)
    assert index.remove(Interest.parse("price > 3"), "b") is True
    assert len(index) == 0 and index.match(many(20)) == {}


def test_removing_what_is_not_there_is_a_key_error() -> None:
    """A removal without its addition is a mistake of the caller and changes nothing."""
    index = FilterIndex()
    index.add(Interest.parse("a"), "x")
    for interest, owner in ((Interest.parse("b"), "x"), (Interest.parse("a"), "y")):
        with pytest.raises(KeyError):
            index.remove(interest, owner)
    assert index.interests_of("x") == (Interest.parse("a"),)


def test_an_owner_leaves_with_all_its_interests() -> None:
    """Removing an owner tells how many interests nobody has any more, and leaves nothing behind."""
    index = FilterIndex()
    for text in ("sym = 'S1'", "price > 1", "", "sym IN ('S1', 'S2') AND price > 2"):
        index.add(Interest.parse(text), "a")
    index.add(Interest.parse("price > 1"), "b")
    assert index.remove_owner("a") == 3
    assert index.remove_owner("a") == 0
    assert list(index) == [Interest.parse("price > 1")]
    index.remove_owner("b")
    assert len(index) == 0 and index.owners == ()


@pytest.mark.parametrize("count", [4, 100])
def test_only_what_the_batch_names_is_looked_at(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand interests filed under other strings none is checked."""
    index = FilterIndex()
    for place in range(1000):
        index.add(Interest.parse(f"sym = 'X{place}' AND price > {place}"), place)
    index.add(Interest.parse("sym = 'S1' AND price > 5"), "mine")
    looked: list[int] = []
    one_checked, checked = store.Store._checked, store.Search.checked

    def watched_one(self: store.Store, lows: Any, highs: Any, slots: Any) -> Any:
        looked.extend(slots.tolist())
        return one_checked(self, lows, highs, slots)

    def watched_many(self: store.Search, rows: Any, slots: Any) -> Any:
        looked.extend(slots.tolist())
        return checked(self, rows, slots)

    monkeypatch.setattr(store.Store, "_checked", watched_one)
    monkeypatch.setattr(store.Search, "checked", watched_many)
    index.match(many(count))
    assert {*looked} == {1000}


def test_many_filed_interests_over_a_wide_batch() -> None:
    """With more candidates than columns are worth, rows are looked at singly, and the answer is the same."""
    index = FilterIndex()
    for place in range(400):
        index.add(Interest.parse(f"sym = 'S{place % 100}' AND price > {place}"), place % 7)
    batch = batch_of(*[{"sym": f"S{row % 100}", "price": row * 3.0} for row in range(300)])
    found = plain(index.match(batch))
    for owner in range(7):
        mine = index.interests_of(owner)
        assert found[owner] == [
            row for row, attributes in enumerate(batch.attributes) if any(one.matches(attributes) for one in mine)
        ]


def test_an_absent_string_is_not_the_empty_string() -> None:
    """Rows without the attribute do not match a filter for the empty string, though the column stores one there."""
    index = FilterIndex()
    for place, text in enumerate(("", "a", "b", "c", "d")):
        index.add(Interest.parse(f"s = '{text}'"), place)
    rows: list[dict[str, Any]] = [{"s": ""}, {}, {"s": "a"}, {"s": None}, {"s": 5}] * 10
    alone = FilterIndex()
    alone.add(Interest.parse("s = ''"), 0)
    for one in (index, alone):
        assert plain(one.match(batch_of(*rows)))[0] == list(range(0, 50, 5))
        assert plain(one.match(batch_of(*rows[:5])))[0] == [0]


def test_shared_answers_cannot_be_spoilt() -> None:
    """The rows of small answers are shared between calls, so they are read-only."""
    index = FilterIndex()
    index.add(Interest.parse("price > 1"), "a")
    rows = index.match(many(4))["a"]
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 3  # type: ignore[index]  # a slice would not take it, and this is none


def test_matching_does_not_import_pandas() -> None:
    """The first match of a broker does not stop it for the seconds that importing pandas takes."""
    script = """
import sys
from gapless.filters import FilterIndex, Interest, parse
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source
batch = batch_of_rows(Source("p", 1), 1, [{"a": str(row), "b": "x"} for row in range(20)], [b""] * 20)
index = FilterIndex()
for text in ("a = '1'", "a = '2'", "a = '3'", "a = '4'", "a LIKE '%1'", "a = b", "b IN ('x', 'y') AND a <> '7'"):
    index.add(Interest.parse(text), text)
    parse(text).rows(batch)
assert len(index.match(batch)) == 6
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env={"PYTHONPATH": ":".join(sys.path)})


def test_a_filter_with_very_many_ranges_costs_the_others_nothing() -> None:
    """However many attributes one filter names, the index keeps room for a few ranges each; the answer is the same."""
    index = FilterIndex()
    index.add(Interest.parse(" AND ".join(f"a{place} > {place}" for place in range(2000))), "wide")
    index.add(Interest.parse("a3 > 2"), "narrow")
    assert index._store.depth <= 8
    row = {f"a{place}": float(place + 1) for place in range(1000)}
    assert index.match_one({**row, **{f"a{place}": place + 1 for place in range(1000, 2000)}}) == ("wide", "narrow")
    assert index.match_one({**row, "a7": 7.0}) == ("narrow",)
