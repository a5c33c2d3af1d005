"""Laws that hold for every filter: one meaning, however it is evaluated, written or shared."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.filters import EVERY_ROW, FilterError, FilterIndex, Interest, parse, parse_topic
from gapless.filters.columns import truth_masks
from gapless.filters.filter import Filter
from gapless.filters.parser import parse_any, parse_condition
from gapless.filters.shortcut import parse_usual
from gapless.filters.syntax import (
    And,
    Between,
    Comparison,
    Constant,
    Identifier,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Product,
    Sign,
    Sum,
    text_of,
)
from gapless.model.columns import batch_of_rows
from gapless.model.types import EPOCH, INT64_MAX, INT64_MIN, Source

NAMES = ("a", "b", "c", "d")
STRINGS = ("", "x", "y", "xy", "x_", "%", "it's", "\\", "ß🚀")
TOPICS = ("", "a", "a/b", "a/b/c", "b", "b//c", "/", "x")
PATTERNS = ("#", "a", "a/#", "a/+", "+/b", "a/+/c", "+/#", "b/+/c", "/+", "x/y")

integers = st.sampled_from((0, 1, -1, 2, 5, -7, 1 << 53, (1 << 53) + 1, INT64_MAX, INT64_MIN, INT64_MIN + 1))
floats = st.sampled_from((0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -7.5, 2.0**53, 9.3e18, 1e308, 5e-324))
wild_floats = st.one_of(floats, st.sampled_from((math.inf, -math.inf, math.nan)))
strings = st.sampled_from(STRINGS)
times = st.sampled_from((EPOCH, EPOCH + timedelta(microseconds=5), datetime(2024, 1, 1, tzinfo=UTC)))
attribute_values = st.one_of(st.none(), st.booleans(), integers, wild_floats, strings, times)
messages = st.fixed_dictionaries(
    {}, optional={**dict.fromkeys(NAMES, attribute_values), "topic": st.one_of(st.sampled_from(TOPICS), integers)}
)


def quoted(text: str) -> str:
    """A literal."""
    return "'" + text.replace("'", "''") + "'"


number_literals = st.one_of(integers.map(str), floats.map(repr), st.sampled_from(("0x10", "017", "5L", "2.5f", "1.e0")))
names = st.sampled_from(NAMES)
numbers: st.SearchStrategy[str] = st.recursive(
    st.one_of(names, names, number_literals),
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("({})".format, inner),
        st.builds("{} {}".format, st.sampled_from("+-"), inner),
    ),
    max_leaves=5,
)
orders = st.sampled_from(("=", "<>", "<", "<=", ">", ">="))
equals = st.sampled_from(("=", "<>"))
maybe_not = st.sampled_from(("", "NOT "))
subjects = st.one_of(names, names, names, strings.map(quoted))
patterns = st.lists(st.sampled_from(("%", "_", "x", "y", "!%", "!_", "!!", "\\", "''", "🚀")), max_size=6).map("".join)
predicates = st.one_of(
    names,
    st.builds("{} {} {}".format, numbers, orders, numbers),
    st.builds("{} {} {}".format, names, equals, strings.map(quoted)),
    st.builds("{} {} {}".format, names, equals, strings.map(quoted)),
    st.builds("{} {} {}".format, strings.map(quoted), equals, names),
    st.builds("{} {} {}".format, names, equals, st.sampled_from(("TRUE", "FALSE"))),
    st.builds("{} {}BETWEEN {} AND {}".format, numbers, maybe_not, numbers, numbers),
    st.builds(
        "{} {}IN ({})".format, subjects, maybe_not, st.lists(strings.map(quoted), min_size=1, max_size=4).map(", ".join)
    ),
    st.builds("{} {}LIKE '{}' ESCAPE '!'".format, subjects, maybe_not, patterns),
    st.builds("{} IS {}NULL".format, names, maybe_not),
    st.sampled_from(("TRUE", "FALSE", "1 / 0 = 1", "+a", "-b")),
)
conditions: st.SearchStrategy[str] = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("NOT {}".format, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)


# ------------------------------------------------------------------ an evaluator of its own, straight from the rules


def meaning(node: Any, message: dict[str, Any]) -> bool | None:
    """The truth of a tree by Kleene's minimum and maximum and a table of types."""
    ranks = {False: 0, None: 1, True: 2}
    match node:
        case Constant(value):
            return bool(value)
        case And(parts):
            return min((meaning(part, message) for part in parts), key=ranks.__getitem__)
        case Or(parts):
            return max((meaning(part, message) for part in parts), key=ranks.__getitem__)
        case Not(inner):
            return {True: False, False: True, None: None}[meaning(inner, message)]
        case IsNull(Identifier(name), negated):
            return (message.get(name) is None) != negated
        case Comparison(sign, left, right):
            return compared(sign, number(left, message), number(right, message))
        case Between(inner, low, high, negated):
            if negated:
                return meaning(Or((Comparison("<", inner, low), Comparison(">", inner, high))), message)
            return meaning(And((Comparison(">=", inner, low), Comparison("<=", inner, high))), message)
        case In(inner, choices, negated):
            value = number(inner, message)
            return None if value is None else isinstance(value, str) and (value in choices) != negated
        case Like(inner, pattern, escape, negated):
            value = number(inner, message)
            return None if value is None else isinstance(value, str) and liked(pattern, escape, value) != negated
    raise AssertionError(node)


def number(node: Any, message: dict[str, Any]) -> Any:
    """The value of a tree; None where it has none."""
    match node:
        case Identifier(name):
            value = message.get(name)
            return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value
        case Sign(negative, inner):
            return number(Product(inner, (("*", parse_value("-1" if negative else "1")),)), message)
        case Sum(first, rest) | Product(first, rest):
            total = number(first, message)
            for sign, inner in rest:
                total = calculated(sign, total, number(inner, message))
            return total
    return node.value


def parse_value(text: str) -> Any:
    """The tree of a literal."""
    comparison = parse_condition(f"a = {text}")
    assert isinstance(comparison, Comparison)
    return comparison.right


def calculated(sign: str, left: Any, right: Any) -> Any:
    """Java's arithmetic by numpy's."""
    if type(left) not in (int, float) or type(right) not in (int, float):
        return None
    if type(left) is int and type(right) is int:
        if sign == "/" and right == 0:
            return None
        exact = {"+": left + right, "-": left - right, "*": left * right, "/": 0}[sign]
        if sign == "/":
            exact = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return int(np.array(exact % (1 << 64), np.uint64).astype(np.int64))
    with np.errstate(all="ignore"):
        one, other = np.float64(left), np.float64(right)
        return float({"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[sign](one, other))


def compared(sign: str, left: Any, right: Any) -> bool | None:
    """The comparison of two values of any types."""
    if left is None or right is None:
        return None
    kinds = {type(left), type(right)}
    if kinds == {int, float}:
        left, right = float(left), float(right)
    elif len(kinds) == 2 or (kinds & {str, bool} and sign not in ("=", "<>")):
        return False
    below, same = left < right, left == right
    return bool(
        {"=": same, "<>": not same, "<": below, "<=": below or same, ">": left > right, ">=": left > right or same}[
            sign
        ]
    )


def liked(pattern: str, escape: str, text: str) -> bool:
    """LIKE by dynamic programming over every prefix of pattern and text."""
    reached = {0}
    at = 0
    while at < len(pattern):
        if pattern[at] == "%" and pattern[at] != escape:
            reached = set(range(min(reached), len(text) + 1)) if reached else reached
        else:
            anything = pattern[at] == "_" and escape != "_"
            if pattern[at] == escape:
                at += 1
                anything = False
            wanted = pattern[at]
            reached = {here + 1 for here in reached if here < len(text) and (anything or text[here] == wanted)}
        at += 1
    return len(text) in reached


# ------------------------------------------------------------------ the laws


@settings(max_examples=400)
@given(conditions, st.lists(messages, min_size=1, max_size=4))
@example("a / b = 0", [{"a": INT64_MIN, "b": -1}, {"a": 7, "b": 0}])
@example("-a = a", [{"a": INT64_MIN}])
def test_a_filter_means_what_the_rules_say(text: str, rows: list[dict[str, Any]]) -> None:
    """Evaluation over one publication agrees with an evaluator written for the test from the rules alone."""
    given_filter = parse(text)
    for row in rows:
        assert given_filter.evaluate(row) is meaning(given_filter.condition, row)


@settings(max_examples=400)
@given(conditions, st.lists(messages, min_size=1, max_size=30))
def test_columns_mean_the_same(text: str, rows: list[dict[str, Any]]) -> None:
    """Over a batch of any size and mix of types, each row is true, false or unknown as it is by itself."""
    given_filter = parse(text)
    batch = batch_of_rows(Source("p", 1), 1, rows, [b""] * len(rows))
    single = [given_filter.evaluate(row) for row in rows]
    true, unknown = truth_masks(given_filter.condition, batch)
    assert [None if u else bool(t) for t, u in zip(true, unknown, strict=True)] == single
    assert given_filter.rows(batch).tolist() == [row for row, truth in enumerate(single) if truth]


@settings(max_examples=400)
@given(conditions, st.lists(messages, min_size=1, max_size=12))
def test_the_normal_form_means_the_same(text: str, rows: list[dict[str, Any]]) -> None:
    """The normal form keeps all three truth values, parses, and is its own normal form."""
    given_filter = parse(text)
    normal = parse(given_filter.canonical)
    assert normal.canonical == given_filter.canonical
    assert normal == given_filter and hash(normal) == hash(given_filter)
    for row in rows:
        assert normal.evaluate(row) is given_filter.evaluate(row)


@settings(max_examples=400)
@given(conditions)
def test_printing_and_parsing_is_the_identity(text: str) -> None:
    """The text of a tree parses to the same tree."""
    tree = parse_condition(text)
    assert repr(parse_condition(text_of(tree))) == repr(tree)
    normal = Filter(text, tree).normal
    assert repr(parse_condition(text_of(normal))) == repr(normal)


blanks = st.sampled_from((" ", "", "\t", " \n "))
usual_names = st.sampled_from(("a", "b", "in1", "And_", "$x", "nOT", "true", "é", "TRUE"))
usual_numbers = st.sampled_from(
    ("5", "-5", "0", "007", "1.50", "-0.0", "2.", ".5", "1e3", "5L", "9" * 19, "1.5.2", "+1")
)
usual_predicates = st.one_of(
    usual_names,
    st.builds("{}{}{}{}{}".format, usual_names, blanks, orders, blanks, st.one_of(usual_numbers, strings.map(quoted))),
    st.builds("{} {}between {} and {}".format, usual_names, maybe_not, usual_numbers, usual_numbers),
    st.builds("{} {}IN{}('x'{},'it''s')".format, usual_names, maybe_not, blanks, blanks),
    st.builds("{} {}LIKE{}{}".format, usual_names, maybe_not, blanks, strings.map(quoted)),
    st.builds("{} is {}NULL".format, usual_names, maybe_not),
    st.builds("{} <> {}".format, usual_names, st.sampled_from(("TRUE", "false", "falsey"))),
)
usual_conditions: st.SearchStrategy[str] = st.recursive(
    usual_predicates,
    lambda inner: st.one_of(
        st.builds("{}{}{}{}{}".format, inner, blanks, st.sampled_from(("AND", "or", "Or ", " and ")), blanks, inner),
        st.builds("{}({}{}){}".format, blanks, inner, blanks, blanks),
        st.builds("NOT{}{}".format, blanks, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=1500)
@given(st.one_of(usual_conditions, conditions))
def test_the_short_way_says_what_the_parser_says(text: str) -> None:
    """Where the short way answers, the whole grammar gives the same tree and no error."""
    usual = parse_usual(text)
    if usual is not None:
        assert repr(usual) == repr(parse_any(text))


@pytest.mark.parametrize(
    "text",
    [
        "sym = 'IBM' AND price BETWEEN 3.5 AND 10 AND vol > 100",
        "NOT (a = 1 OR b IN ('x', 'y')) AND c LIKE 'x%' AND d IS NOT NULL",
        "active AND loc <> 'NY'",
    ],
)
def test_usual_filters_take_the_short_way(text: str) -> None:
    """The short way is taken by the filters that it is for."""
    assert parse_usual(text) is not None


@given(st.text(alphabet="abAND ORnot()=<>'+-*/.,0123456789eELx_%$ü\n", max_size=60))
def test_any_text_is_a_filter_or_an_error(text: str) -> None:
    """Whatever the text, parsing gives a filter that evaluates or an error with a column inside the text."""
    position = 1
    try:
        parse(text).evaluate({"a": 1, "b": "x"})
    except FilterError as error:
        position = error.position
    assert 1 <= position <= len(text) + 1


interests = st.builds(
    Interest.parse, st.one_of(conditions, st.just("")), st.one_of(st.just(""), st.sampled_from(PATTERNS))
)
equality_interests = st.builds(
    lambda name, text, more, topic: Interest.parse(f"{name} = {quoted(text)}{more}", topic),
    names,
    strings,
    st.one_of(st.just(""), predicates.map(" AND {}".format)),
    st.sampled_from(("", "", "a", "a/+")),
)
calls = st.lists(st.tuples(st.one_of(interests, equality_interests), st.integers(0, 5), st.booleans()), max_size=40)


@settings(max_examples=300)
@given(calls, st.lists(messages, min_size=1, max_size=40))
def test_the_index_is_exact(history: list[tuple[Interest, int, bool]], rows: list[dict[str, Any]]) -> None:
    """After any additions and removals, each owner gets just the rows that an interest of it matches, in order."""
    index = FilterIndex()
    asked: dict[int, list[Interest]] = {}
    for interest, owner, remove in history:
        if remove and interest in asked.get(owner, []):
            asked[owner].remove(interest)
            nobody = not any(interest in others for others in asked.values())
            assert index.remove(interest, owner) is nobody
            if not asked[owner]:
                del asked[owner]
        elif remove and owner in asked and len(asked[owner]) > 3:
            mine = asked.pop(owner)
            gone = {one.key for one in mine if not any(one in others for others in asked.values())}
            assert index.remove_owner(owner) == len(gone)
        else:
            first = not any(interest in others for others in asked.values())
            assert index.add(interest, owner) is first
            asked.setdefault(owner, []).append(interest)
    assert index.owners == tuple(asked)
    assert len(index) == len({one.key for mine in asked.values() for one in mine})
    for size in (len(rows), min(3, len(rows))):
        batch = batch_of_rows(Source("p", 1), 1, rows[:size], [b""] * size)
        expected: dict[int, list[int]] = {}
        for owner, mine in asked.items():
            matching = [row for row in range(size) if any(one.matches(rows[row]) for one in mine)]
            if matching:
                expected[owner] = matching
        found = index.match(batch)
        assert list(found) == list(expected) == list(index.owners_with_any(batch))
        for owner, matching in expected.items():
            got = found[owner]
            if len(matching) == size:
                assert got is EVERY_ROW
            else:
                assert isinstance(got, np.ndarray)
                assert got.tolist() == matching


@settings(max_examples=200)
@given(interests, st.lists(messages, min_size=1, max_size=30))
def test_an_interest_means_filter_and_topic(interest: Interest, rows: list[dict[str, Any]]) -> None:
    """An interest matches where its filter is true and its pattern matches, in a batch as in a single publication."""
    batch = batch_of_rows(Source("p", 1), 1, rows, [b""] * len(rows))
    matching = []
    for place, row in enumerate(rows):
        topic = interest.topic is None or interest.topic.matches(row.get("topic"))
        assert interest.matches(row) is (topic and interest.filter.evaluate(row) is True)
        if interest.matches(row):
            matching.append(place)
    assert interest.rows(batch).tolist() == matching
    assert not interest.everything or len(matching) == len(rows)


@given(interests, interests)
def test_equal_interests_have_one_key(one: Interest, other: Interest) -> None:
    """Keys are equal exactly when interests are, and equal interests hash alike."""
    assert (one.key == other.key) is (one == other)
    assert one != other or hash(one) == hash(other)


@given(st.sampled_from(PATTERNS), st.lists(st.sampled_from(("", "a", "b", "c", "+")), min_size=1, max_size=5))
def test_topic_patterns_mean_what_mqtt_says(pattern: str, levels: list[str]) -> None:
    """A pattern agrees with a recursive reading of MQTT's rules, level by level."""

    def agrees(wanted: list[str], have: list[str]) -> bool:
        if wanted == ["#"]:
            return True
        if not wanted or not have:
            return not wanted and not have
        return wanted[0] in ("+", have[0]) and agrees(wanted[1:], have[1:])

    assert parse_topic(pattern).matches("/".join(levels)) is agrees(pattern.split("/"), levels)
