"""The meaning of a filter over the attributes of one publication.

Three-valued: True, False, or None for unknown. The rules, where the Jakarta specification is silent or brokers
differ:

- An absent attribute is null. An operation on null is unknown (IS NULL excepted); so is one whose arithmetic has no
  value: arithmetic on what is no number, or division of an integer by the integer zero.
- An operation between unlike types is false, with or without the NOT of `NOT IN`, `NOT LIKE`, `NOT BETWEEN` and `<>`;
  a NOT before the whole makes it true. Ordering is for numbers, LIKE and IN are for strings: other values there are
  unlike types.
- An attribute alone as a condition asks whether it equals TRUE.
- Integers are int64 and wrap; dividing them truncates toward zero. When one side is float64 both are, for comparisons
  too, as Java promotes them. Floats follow IEEE 754. A timestamp is an int64, microseconds since 1970 UTC.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from math import copysign, inf, isnan, nan
from typing import Any

from gapless.filters.like import LikePattern
from gapless.filters.syntax import (
    And,
    Between,
    Comparison,
    Condition,
    Identifier,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Product,
    Sign,
    Sum,
    Value,
)
from gapless.model.errors import AttributeTypeError
from gapless.model.types import EPOCH, INT64_MAX, INT64_MIN

Scalar = bool | int | float | str | None
Decide = Callable[[Mapping[str, Any]], bool | None]
Compute = Callable[[Mapping[str, Any]], Scalar]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MICROSECOND = timedelta(microseconds=1)
_WRAP = 1 << 64
_PLAIN = dict.fromkeys((bool, int, float, str, type(None)))


def decider(node: Condition) -> Decide:
    """The function that evaluates this condition."""
    if isinstance(node, Comparison):
        return _comparison(node)
    if isinstance(node, And):
        return _all(tuple(map(decider, node.parts)))
    if isinstance(node, Or):
        return _any(tuple(map(decider, node.parts)))
    if isinstance(node, Not):
        return _not(decider(node.operand))
    if isinstance(node, In):
        return _in(node)
    if isinstance(node, Like):
        return _like(node)
    if isinstance(node, Between):
        return _between(node)
    if isinstance(node, IsNull):
        name, negated = node.operand.name, node.negated
        return lambda attributes: (attributes.get(name) is None) is not negated
    constant = node.value
    return lambda attributes: constant


# ------------------------------------------------------------------ conditions


def _all(parts: tuple[Decide, ...]) -> Decide:
    def decide(attributes: Mapping[str, Any]) -> bool | None:
        result: bool | None = True
        for part in parts:
            truth = part(attributes)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    return decide


def _any(parts: tuple[Decide, ...]) -> Decide:
    def decide(attributes: Mapping[str, Any]) -> bool | None:
        result: bool | None = False
        for part in parts:
            truth = part(attributes)
            if truth:
                return True
            if truth is None:
                result = None
        return result

    return decide


def _not(operand: Decide) -> Decide:
    def decide(attributes: Mapping[str, Any]) -> bool | None:
        truth = operand(attributes)
        return None if truth is None else not truth

    return decide


def _in(node: In) -> Decide:
    choices = dict.fromkeys(node.choices)
    return _of_string(node.operand, choices.__contains__, node.negated)


def _like(node: Like) -> Decide:
    return _of_string(node.operand, LikePattern(node.pattern, node.escape).matches, node.negated)


def _of_string(operand: Value, test: Callable[[str], bool], negated: bool) -> Decide:
    """A test that strings pass or fail, and other values fail in either case."""
    value_of = computer(operand)

    def decide(attributes: Mapping[str, Any]) -> bool | None:
        value = value_of(attributes)
        if value is None:
            return None
        return type(value) is str and test(value) is not negated

    return decide


def _between(node: Between) -> Decide:
    operand, low, high = computer(node.operand), computer(node.low), computer(node.high)
    if node.negated:
        below, above, join = "<", ">", _any
    else:
        below, above, join = ">=", "<=", _all
    return join((_compared(below, operand, low), _compared(above, operand, high)))


def _comparison(node: Comparison) -> Decide:
    literal = getattr(node.right, "value", None)
    if isinstance(node.left, Identifier) and literal is not None:
        if isinstance(literal, bool | str):
            return _compared_plainly(node.operator, node.left.name, literal)
        return _compared_number(node.operator, node.left.name, literal)
    return _compared(node.operator, computer(node.left), computer(node.right))


def _compared_plainly(sign: str, name: str, literal: bool | str) -> Decide:
    """An attribute against a string or truth value: the common case, without a detour."""
    equal = sign == "="
    kind = type(literal)

    def decide(attributes: Mapping[str, Any]) -> bool | None:
        value = attributes.get(name)
        if type(value) is kind:
            return (value == literal) is equal
        if value is None:
            return None
        value = plain(value)
        return type(value) is kind and (value == literal) is equal

    return decide


def _compared_number(sign: str, name: str, literal: int | float) -> Decide:
    """An attribute against a number: the common case, without a detour."""
    compare = OPERATORS[sign]
    kind = type(literal)
    promoted = float(literal)

    def decide(attributes: Mapping[str, Any]) -> bool | None:
        value = attributes.get(name)
        if type(value) is kind:
            return bool(compare(value, literal))
        if value is None:
            return None
        value = plain(value)
        if type(value) is kind:
            return bool(compare(value, literal))
        return isinstance(value, int | float) and not isinstance(value, bool) and bool(compare(float(value), promoted))

    return decide


def _compared(sign: str, left: Compute, right: Compute) -> Decide:
    def decide(attributes: Mapping[str, Any]) -> bool | None:
        return compare_scalars(sign, left(attributes), right(attributes))

    return decide


def compare_scalars(sign: str, left: Scalar, right: Scalar) -> bool | None:
    """The comparison of two values."""
    if left is None or right is None:
        return None
    if type(left) is type(right):
        if type(left) in (str, bool) and sign not in ("=", "<>"):
            return False
        return bool(OPERATORS[sign](left, right))
    if type(left) in (int, float) and type(right) in (int, float):
        return bool(OPERATORS[sign](float(left), float(right)))
    return False


# ------------------------------------------------------------------ values


def plain(value: Any) -> Scalar:
    """The value of an attribute as one of the types that filters know. Raises AttributeTypeError."""
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]  # the types of _PLAIN are those of Scalar
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise AttributeTypeError(f"{value!r} is a time without a zone: give it one, e.g. tzinfo=datetime.UTC")
        return (value - EPOCH) // _MICROSECOND
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise AttributeTypeError(
        f"{value!r} is of type {type(value).__name__}: attributes are bool, int, float, str or datetime"
    )


def computer(node: Value) -> Compute:
    """The function that computes this value."""
    if isinstance(node, Identifier):
        return _attribute(node.name)
    if isinstance(node, Sign):
        return _sign(node)
    if isinstance(node, Sum | Product):
        return _arithmetic(node)
    literal: Scalar = node.value
    return lambda attributes: literal


def _attribute(name: str) -> Compute:
    def compute(attributes: Mapping[str, Any]) -> Scalar:
        value = attributes.get(name)
        return value if type(value) in _PLAIN else plain(value)

    return compute


def _sign(node: Sign) -> Compute:
    operand, negative = computer(node.operand), node.negative

    def compute(attributes: Mapping[str, Any]) -> Scalar:
        value = operand(attributes)
        if type(value) is int or type(value) is float:
            return negate(value) if negative else value
        return None

    return compute


def _arithmetic(node: Sum | Product) -> Compute:
    first = computer(node.first)
    operators = [ARITHMETIC[sign] for sign, _ in node.rest]
    rest = tuple(zip(operators, map(computer, [operand for _, operand in node.rest]), strict=True))

    def compute(attributes: Mapping[str, Any]) -> Scalar:
        total = first(attributes)
        for apply, operand in rest:
            value = operand(attributes)
            if (type(total) is int or type(total) is float) and (type(value) is int or type(value) is float):
                total = apply(total, value)
            else:
                return None
        return total

    return compute


def wrapped(value: int) -> int:
    """The int64 that Java's arithmetic leaves of an integer."""
    return value if INT64_MIN <= value <= INT64_MAX else (value - INT64_MIN) % _WRAP + INT64_MIN


def negate(value: int | float) -> int | float:
    """Unary minus."""
    return wrapped(-value) if isinstance(value, int) else -value


def _promoting(
    integers: Callable[[int, int], Any], floats: Callable[[float, float], float]
) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if type(left) is int and type(right) is int:
            return integers(left, right)
        return floats(float(left), float(right))

    return apply


def _divide_integers(left: int, right: int) -> int | None:
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return wrapped(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_floats(left: float, right: float) -> float:
    if right != 0.0:
        return left / right
    if left == 0.0 or isnan(left):
        return nan
    return copysign(inf, left) * copysign(1.0, right)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": _promoting(lambda left, right: wrapped(left + right), operator.add),
    "-": _promoting(lambda left, right: wrapped(left - right), operator.sub),
    "*": _promoting(lambda left, right: wrapped(left * right), operator.mul),
    "/": _promoting(_divide_integers, _divide_floats),
}
