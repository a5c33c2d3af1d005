"""Clauses: the ways in which a filter can be true.

The normal form of a filter is a tree of AND and OR over predicates, and it is true exactly when the predicates along
one of its ways are. Each way is a clause: a conjunction, of which the index understands three things. A *key* is what
an attribute must be, so that the clause need only be looked at in rows that have it. A *range* is an interval in which
a number read off the row, by a *gauge*, must lie. The *rest* is whatever remains, and is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import inf, nextafter
from typing import Final, NamedTuple

from gapless.filters.interest import Interest
from gapless.filters.like import split_pattern
from gapless.filters.syntax import (
    And,
    Comparison,
    Condition,
    Constant,
    Identifier,
    In,
    Integer,
    IsNull,
    Like,
    Not,
    Or,
    Real,
    Text,
    Truth,
)
from gapless.filters.topic import TOPIC, TopicPattern

CLAUSES_MAX: Final = 16  # ways up to which a filter is taken apart; beyond, the largest OR stays whole
CHOICES_MAX: Final = 64  # strings of an IN up to which it is a key
AFFIX_MAX: Final = 16  # characters of a beginning or an end that make a key
RANGES_MAX: Final = 8  # of a clause: all have room for as many as any has
LEVELS_MAX: Final = 8  # levels of a topic pattern up to which it is a key
EXACT_INTEGERS: Final = 1 << 53

Leaf = Condition | TopicPattern


class Gauge(NamedTuple):
    """What reads a number off a row; nothing is read (NaN) where there is nothing of its kind.

    number: the number an attribute is. low, high: the same, but minus or plus infinity for what is present and no
    number. text: the code of a string among those asked for. truth: 1 or 0. presence: 1, or 0 where it is absent.
    """

    kind: str
    name: str


class Range(NamedTuple):
    """The reading must lie from `low` to `high`, both included. A `text` stands for its code, both ends of it."""

    gauge: Gauge
    low: float
    high: float
    text: str | None = None


class Key(NamedTuple):
    """What an attribute must be: a text or a number; or what some of it must be, as `shape` says."""

    kind: str  # text, number; head, tail: the first and last characters; levels: some levels of a topic
    name: str
    shape: int | Shape  # of a head or tail its length, of levels which; else 0
    value: str | float


class Shape(NamedTuple):
    """Which levels of a topic are asked for, and how many there must be."""

    asked: tuple[int, ...]
    size: int
    more: bool  # or more

    def value_of(self, levels: list[str]) -> str | None:
        """The levels asked for, of a topic that has as many as it must."""
        if len(levels) < self.size or (len(levels) > self.size and not self.more):
            return None
        return "/".join([levels[place] for place in self.asked])


class Place(NamedTuple):
    """Keys of which a row has one at the most, and the leaf they stand for, if they say all of it."""

    keys: tuple[Key, ...]
    leaf: Leaf
    exact: bool


class Clause(NamedTuple):
    """What remains to be checked where a clause is filed."""

    ranges: tuple[Range, ...]
    rest: tuple[Leaf, ...]


def clauses_of(interest: Interest) -> Iterator[tuple[Leaf, ...]]:
    """The leaves of each way in which an interest can be true."""
    topic: tuple[Leaf, ...] = () if interest.topic is None else (interest.topic,)
    normal = interest.filter.normal
    for leaves in _ways(normal):
        yield topic + leaves


def _ways(node: Condition) -> Iterable[tuple[Condition, ...]]:
    if isinstance(node, Or):
        if _count(node) <= CLAUSES_MAX:
            return [way for part in node.parts for way in _ways(part)]
        return [(node,)]
    if isinstance(node, And):
        return _ways_of_all(node)
    if isinstance(node, Constant):
        return [()] if node.value else []
    return [(node,)]


def _ways_of_all(node: And) -> list[tuple[Condition, ...]]:
    plain = tuple([part for part in node.parts if not isinstance(part, Or)])
    taken: list[Iterable[tuple[Condition, ...]]] = []
    count = 1
    for part in sorted((part for part in node.parts if isinstance(part, Or)), key=_count):
        count *= _count(part)
        taken.append(_ways(part) if count <= CLAUSES_MAX else [(part,)])
    if not taken:
        return [plain]
    return [sum(way, plain) for way in product(*taken)]


def _count(node: Condition) -> int:
    """How many ways there are."""
    if isinstance(node, Or):
        return sum(map(_count, node.parts))
    if isinstance(node, And):
        count = 1
        for part in node.parts:
            count *= _count(part)
        return count
    return 1


def clause_of(leaves: Iterable[Leaf], ranges_max: int = RANGES_MAX) -> Clause | None:
    """Ranges, up to so many, and rest of a conjunction; None when no row can be in all of its ranges."""
    ranges: dict[Gauge, Range] = {}
    rest: list[Leaf] = []
    for leaf in leaves:
        found = range_of(leaf)
        if found is None:
            rest.append(leaf)
            continue
        before = ranges.get(found.gauge)
        if before is None and len(ranges) >= ranges_max:
            rest.append(leaf)
            continue
        if before is not None:
            if before.text != found.text:
                return None
            found = found._replace(low=max(found.low, before.low), high=min(found.high, before.high))
        if found.low > found.high:
            return None
        ranges[found.gauge] = found
    return Clause(tuple(ranges.values()), tuple(rest))


def range_of(leaf: Leaf) -> Range | None:
    """The range that says just what a leaf says, if there is one."""
    if isinstance(leaf, Comparison):
        if not isinstance(leaf.left, Identifier):
            return None
        name, right = leaf.left.name, leaf.right
        if isinstance(right, Integer | Real):
            return _number_range(Gauge("number", name), leaf.operator, right.value)
        if leaf.operator != "=":
            return None
        if isinstance(right, Text):
            return Range(Gauge("text", name), 0.0, 0.0, right.value)
        if isinstance(right, Truth):
            return Range(Gauge("truth", name), float(right.value), float(right.value))
    elif isinstance(leaf, IsNull):
        return Range(Gauge("presence", leaf.operand.name), float(leaf.negated), float(leaf.negated))
    elif isinstance(leaf, Not):
        return _negated_range(leaf.operand)
    return None


def _number_range(gauge: Gauge, operator: str, value: int | float) -> Range | None:
    """Integers are compared exactly and become float64 here: below 2**53 that changes no comparison."""
    if operator == "<>" or (isinstance(value, int) and abs(value) >= EXACT_INTEGERS):
        return None
    edge = float(value)
    if operator == "=":
        return Range(gauge, edge, edge)
    if operator[0] == "<":
        return Range(gauge, -inf, edge if operator == "<=" else nextafter(edge, -inf))
    return Range(gauge, edge if operator == ">=" else nextafter(edge, inf), inf)


def _negated_range(leaf: Condition) -> Range | None:
    """NOT before an ordering of numbers is true of whatever is present and no number, too."""
    if not (isinstance(leaf, Comparison) and isinstance(leaf.left, Identifier)):
        return None
    if not isinstance(leaf.right, Integer | Real) or leaf.operator[0] not in "<>" or leaf.operator == "<>":
        return None
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[leaf.operator]
    gauge = Gauge("low" if leaf.operator[0] == ">" else "high", leaf.left.name)
    return _number_range(gauge, opposite, leaf.right.value)


def places_of(leaves: Iterable[Leaf]) -> list[Place]:
    """The keys under which a clause of these leaves may be filed."""
    places: list[Place] = []
    for leaf in leaves:
        if isinstance(leaf, Comparison):
            if leaf.operator == "=" and isinstance(leaf.left, Identifier):
                _add_equality(places, leaf, leaf.left.name)
        elif isinstance(leaf, In):
            if not leaf.negated and isinstance(leaf.operand, Identifier) and len(leaf.choices) <= CHOICES_MAX:
                name = leaf.operand.name
                places.append(Place(tuple([Key("text", name, 0, choice) for choice in leaf.choices]), leaf, True))
        elif isinstance(leaf, Like):
            if not leaf.negated and isinstance(leaf.operand, Identifier):
                _add_affix(places, leaf, leaf.operand.name, split_pattern(leaf.pattern, leaf.escape))
        elif isinstance(leaf, TopicPattern):
            _add_topic(places, leaf)
    return places


def _add_equality(places: list[Place], leaf: Comparison, name: str) -> None:
    right = leaf.right
    if isinstance(right, Text):
        places.append(Place((Key("text", name, 0, right.value),), leaf, True))
    elif isinstance(right, Integer | Real) and abs(right.value) < EXACT_INTEGERS:
        places.append(Place((Key("number", name, 0, float(right.value)),), leaf, True))


def _add_affix(places: list[Place], leaf: Leaf, name: str, pieces: list[list[str]]) -> None:
    """The characters before the first wildcard, or else those behind the last."""
    head = plain_start(pieces[0])
    if head:
        exact = len(pieces) == 2 and len(head) == len(pieces[0]) and not pieces[1] and len(head) <= AFFIX_MAX
        places.append(_affix("head", name, head[:AFFIX_MAX], leaf, exact))
        return
    tail = plain_start(pieces[-1][::-1])[::-1]
    if tail and len(pieces) > 1:
        exact = len(pieces) == 2 and len(tail) == len(pieces[1]) and not pieces[0] and len(tail) <= AFFIX_MAX
        places.append(_affix("tail", name, tail[-AFFIX_MAX:], leaf, exact))


def _affix(kind: str, name: str, text: str, leaf: Leaf, exact: bool) -> Place:
    return Place((Key(kind, name, len(text), text),), leaf, exact)


def plain_start(piece: list[str]) -> str:
    """The characters of a piece of a pattern before the first that may be any."""
    return "".join(piece[: piece.index("")] if "" in piece else piece)


def _add_topic(places: list[Place], pattern: TopicPattern) -> None:
    if pattern.exact:
        places.append(Place((Key("text", TOPIC, 0, pattern.text),), pattern, True))
        return
    levels = pattern.text.split("/")
    more = levels[-1] == "#"
    if more:
        levels.pop()
    asked = tuple([place for place, level in enumerate(levels) if level != "+"])
    if asked and len(levels) <= LEVELS_MAX:
        value = "/".join([levels[place] for place in asked])
        places.append(Place((Key("levels", TOPIC, Shape(asked, len(levels), more), value),), pattern, True))
