"""Covering: whether everything that matches one interest also matches another. Claimed only where it is certain.

Each clause of the narrower interest is turned into what is known of a row that satisfies it (`Facts`), and must
satisfy, so known, some clause of the wider one. Not every implication is found: arithmetic is compared by its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import inf
from typing import Any, Final

from gapless.filters.evaluate import decider
from gapless.filters.index.clauses import (
    Clause,
    Gauge,
    Leaf,
    Range,
    Shape,
    clause_of,
    clauses_of,
    plain_start,
    range_of,
)
from gapless.filters.index.lists import Register
from gapless.filters.interest import Interest
from gapless.filters.like import split_pattern
from gapless.filters.syntax import (
    And,
    Comparison,
    Identifier,
    In,
    Integer,
    IsNull,
    Like,
    Or,
    Real,
    Text,
    identifiers_of,
)
from gapless.filters.topic import TOPIC, TopicPattern

COMPARED: Final = 1 << 14  # pairs that are remembered: every neighbour has others told the same
COMPARED_TEXT: Final = 2048  # characters up to which an interest is compared, and may be remembered
CHOICES_MAX: Final = 64  # strings of an IN that are looked at one by one


def is_compared(interest: Interest) -> bool:
    """Whether it is short enough to be compared with others: that can take the product of their lengths."""
    return len(interest.key) <= COMPARED_TEXT


def covers(wide: Interest, narrow: Interest) -> bool:
    """Whether whatever matches `narrow` matches `wide`, for certain."""
    if wide.everything or wide.key == narrow.key:
        return True
    return is_compared(wide) and is_compared(narrow) and _covers(wide, narrow)


@lru_cache(COMPARED)
def _covers(wide: Interest, narrow: Interest) -> bool:
    ways = list(clauses_of(wide))
    return all(any(all(map(facts.imply, way)) for way in ways) for facts in facts_of(narrow))


def facts_of(interest: Interest) -> Iterator[Facts]:
    """What is known of a row that matches, for each way in which it can."""
    for leaves in clauses_of(interest):
        for some in _by_choice(leaves):
            clause = clause_of(some, len(some))
            if clause is not None:
                yield Facts(some, clause)


def _by_choice(leaves: tuple[Leaf, ...]) -> Iterator[tuple[Leaf, ...]]:
    """The first IN replaced by each of its strings in turn."""
    for leaf in leaves:
        if isinstance(leaf, In) and not leaf.negated and len(leaf.choices) <= CHOICES_MAX:
            others = tuple([other for other in leaves if other is not leaf])
            for choice in leaf.choices:
                yield (*others, Comparison("=", leaf.operand, Text(choice)))
            return
    yield leaves


class Facts:
    """What is known of a row that satisfies some leaves."""

    def __init__(self, leaves: tuple[Leaf, ...], clause: Clause) -> None:
        self.leaves = frozenset(leaves)
        self.patterns = [leaf for leaf in leaves if isinstance(leaf, TopicPattern)]
        self.heads = [head for leaf in leaves if (head := head_of(leaf)) is not None]
        self.tails = [tail for leaf in leaves if (tail := tail_of(leaf)) is not None]
        self.ranges: dict[Gauge, Range] = {}
        for asked in clause.ranges:
            self._learn(asked)
        for leaf in leaves:
            self._learn_presence(leaf)
        self.texts = {gauge.name: asked.text for gauge, asked in self.ranges.items() if asked.text is not None}
        for pattern in self.patterns:
            if pattern.exact:
                self.texts.setdefault(TOPIC, pattern.text)
        self.fixed = {
            gauge.name: asked.low
            for gauge, asked in self.ranges.items()
            if gauge.kind == "number" and asked.low == asked.high
        }

    def _learn(self, asked: Range) -> None:
        """A range, and what follows from it for other gauges of the attribute."""
        kind, name = asked.gauge
        self.ranges[asked.gauge] = asked
        if kind == "number":
            for other in ("low", "high"):
                self.ranges[Gauge(other, name)] = asked._replace(gauge=Gauge(other, name))
        elif kind in ("text", "truth"):
            self.ranges[Gauge("low", name)] = Range(Gauge("low", name), -inf, -inf)
            self.ranges[Gauge("high", name)] = Range(Gauge("high", name), inf, inf)

    def _learn_presence(self, leaf: Leaf) -> None:
        """What is asked of an attribute is only true when it is there; IS NULL excepted, and what is made of others."""
        if isinstance(leaf, IsNull | Or):
            return
        names = (TOPIC,) if isinstance(leaf, TopicPattern) else identifiers_of(leaf)
        for name in names:
            gauge = Gauge("presence", name)
            self.ranges[gauge] = Range(gauge, 1.0, 1.0)

    def imply(self, leaf: Leaf) -> bool:
        """Whether a leaf is true of such a row, for certain."""
        if leaf in self.leaves:
            return True
        asked = range_of(leaf)
        if asked is not None:
            return self._within(asked)
        if isinstance(leaf, TopicPattern):
            return self._imply_topic(leaf)
        if isinstance(leaf, Or):
            return any(map(self.imply, leaf.parts))
        if isinstance(leaf, And):
            return all(map(self.imply, leaf.parts))
        head = head_of(leaf)
        if head is not None and head[2] and any(self._begins(head, mine) for mine in self.heads):
            return True
        return self._unequal(leaf) or self._true_of_what_is_known(leaf)

    def _within(self, asked: Range) -> bool:
        known = self.ranges.get(asked.gauge)
        if known is None:
            return False
        if asked.text is not None:
            return known.text == asked.text
        return asked.low <= known.low and known.high <= asked.high

    def _imply_topic(self, pattern: TopicPattern) -> bool:
        text = self.texts.get(TOPIC)
        if text is not None:
            return pattern.matches(text)
        return any(pattern_covers(pattern, mine) for mine in self.patterns)

    @staticmethod
    def _begins(wide: tuple[str, str, bool], narrow: tuple[str, str, bool]) -> bool:
        return wide[0] == narrow[0] and narrow[1].startswith(wide[1])

    def _unequal(self, leaf: Leaf) -> bool:
        """`<>` a number that is out of the known range."""
        if not (isinstance(leaf, Comparison) and leaf.operator == "<>" and isinstance(leaf.left, Identifier)):
            return False
        if not isinstance(leaf.right, Integer | Real) or abs(leaf.right.value) >= 1 << 53:
            return False
        known = self.ranges.get(Gauge("number", leaf.left.name))
        return known is not None and not known.low <= leaf.right.value <= known.high

    def _true_of_what_is_known(self, leaf: Leaf) -> bool:
        """A predicate on one attribute whose value is known is asked."""
        if isinstance(leaf, TopicPattern):
            return False
        names = identifiers_of(leaf)
        if len(names) != 1:
            return False
        decide = decider(leaf)
        values = self._values_of(names[0])
        return bool(values) and all(decide({names[0]: value}) is True for value in values)

    def _values_of(self, name: str) -> list[Any]:
        text = self.texts.get(name)
        if text is not None:
            return [text]
        number = self.fixed.get(name)
        if number is None:
            return []
        return [number, int(number)] if number.is_integer() and abs(number) < 1 << 53 else [number]

    def reading(self, gauge: Gauge | None, codes: Mapping[str, Register]) -> tuple[float, float] | None:
        """The lowest and the highest that a gauge reads off such a row; None when that is not known."""
        known = None if gauge is None else self.ranges.get(gauge)
        if known is None:
            return None
        if known.text is None:
            return known.low, known.high
        code = codes[known.gauge.name].numbers.get(known.text)
        return None if code is None else (float(code), float(code))

    def shelf_value(self, kind: str, name: str, shape: int | Shape) -> str | float | None:
        """Under which value of this key such a row is, for certain."""
        text = self.texts.get(name)
        if kind == "number":
            return self.fixed.get(name)
        if isinstance(shape, Shape):
            return shape.value_of(text.split("/")) if text is not None else self._levels(shape)
        if text is not None:
            return text if kind == "text" else text[:shape] if kind == "head" else text[-shape:]
        if kind == "head":
            return next((head[:shape] for mine, head, _ in self.heads if mine == name and len(head) >= shape), None)
        if kind == "tail":
            return next((tail[-shape:] for mine, tail in self.tails if mine == name and len(tail) >= shape), None)
        return None

    def _levels(self, shape: Shape) -> str | None:
        for pattern in self.patterns:
            levels = pattern.text.split("/")
            if levels[-1] != "#":
                return shape.value_of(levels)
            if shape.more:
                return shape.value_of(levels[:-1])
        return None


def head_of(leaf: Leaf) -> tuple[str, str, bool] | None:
    """Attribute and the characters with which a LIKE says it begins, and whether it says no more."""
    if not isinstance(leaf, Like) or leaf.negated or not isinstance(leaf.operand, Identifier):
        return None
    pieces = split_pattern(leaf.pattern, leaf.escape)
    head = plain_start(pieces[0])
    return (
        (leaf.operand.name, head, len(pieces) == 2 and len(head) == len(pieces[0]) and not pieces[1]) if head else None
    )


def tail_of(leaf: Leaf) -> tuple[str, str] | None:
    """Attribute and the characters with which a LIKE says it ends."""
    if not isinstance(leaf, Like) or leaf.negated or not isinstance(leaf.operand, Identifier):
        return None
    tail = plain_start(split_pattern(leaf.pattern, leaf.escape)[-1][::-1])[::-1]
    return (leaf.operand.name, tail) if tail else None


def pattern_covers(wide: TopicPattern, narrow: TopicPattern) -> bool:
    """Whether every topic of one pattern is one of the other."""
    mine, others = wide.text.split("/"), narrow.text.split("/")
    for place, level in enumerate(mine):
        if level == "#":
            return True
        if place >= len(others) or others[place] == "#":
            return False
        if level not in ("+", others[place]):
            return False
    return len(others) == len(mine)
