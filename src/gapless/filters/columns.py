"""The meaning of a filter over a batch: the rules of `evaluate`, a column at a time.

The truth of a condition is a pair of masks, where it is true and where it is false; it is unknown where neither is
set. NOT swaps them. A mask is an array of the batch's rows, or a bool when all rows agree. One attribute may carry
several types within a batch, so a value is a list of parts of one kind each, and at most one of them is valid in a
row; it is null where none is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.filters.evaluate import ARITHMETIC, OPERATORS, compare_scalars, decider, negate
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
    Text,
    Value,
)
from gapless.model.batch import Batch, Column, Texts
from gapless.model.types import AttributeType

Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_] | bool
Masks = tuple[Mask, Mask]

ENCODE_AFTER = 3  # comparisons of a string column with literals after which its distinct values are gathered
SCALAR_ROWS = 8  # up to so many rows, evaluating each by itself is cheaper than setting up columns

_UNKNOWN: Masks = (False, False)


class Part(NamedTuple):
    """The rows of a value that are of one kind: int, float, bool, or str. A literal's `data` is the scalar itself."""

    kind: type
    data: Any
    valid: Mask


class Strings:
    """A string column, compared without making Python strings of its rows."""

    __slots__ = ("_codes", "_compared", "_distinct", "array")

    def __init__(self, texts: Texts) -> None:
        self.array = pa.StringArray.from_buffers(
            len(texts.offsets) - 1, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)
        )
        self._codes: npt.NDArray[np.int32] | None = None
        self._distinct: list[str] = []
        self._compared = 0

    def encoded(self) -> tuple[npt.NDArray[np.int32], list[str]]:
        """For each row the place of its string among the distinct ones, and those."""
        if self._codes is None:
            encoded = self.array.dictionary_encode()
            self._codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
            self._distinct = encoded.dictionary.to_pylist()
        return self._codes, self._distinct

    def equal_to(self, literal: str) -> npt.NDArray[np.bool_]:
        """Where the rows are this string."""
        self._compared += 1
        if self._codes is None and self._compared <= ENCODE_AFTER:
            return _bits(pc.equal(self.array, _string_scalar(literal)))
        return self.tested(literal.__eq__)

    def tested(self, test: Callable[[str], object]) -> npt.NDArray[np.bool_]:
        """Where the rows pass a test, which is asked once for each distinct string."""
        codes, distinct = self.encoded()
        passed = np.fromiter(map(test, distinct), np.bool_, len(distinct))
        answer: npt.NDArray[np.bool_] = passed[codes]
        return answer


# Arrow's own conversions from and to Python and numpy import pandas where it is installed: two seconds in the middle of
# a broker's work. Buffers need none of that.


def _string_scalar(text: str) -> pa.StringScalar:
    data = text.encode()
    return pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, len(data)], np.uint32)), pa.py_buffer(data))[0]


def _bits(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    packed = np.frombuffer(mask.buffers()[1], np.uint8)
    unpacked: npt.NDArray[np.bool_] = np.unpackbits(packed, count=len(mask), bitorder="little").view(np.bool_)
    return unpacked


class View:
    """A batch as filters look at it; keeps what several filters need."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.rows = batch.rows
        self._parts: dict[str, list[Part]] = {}
        self._memo: dict[Condition, Masks] = {}

    def parts(self, name: str) -> list[Part]:
        """The value of an attribute."""
        parts = self._parts.get(name)
        if parts is None:
            parts = self._parts[name] = [_part_of(column) for column in self.batch.columns_named(name)]
        return parts

    def masks(self, node: Condition) -> Masks:
        """The truth of a predicate, found once, as filters share them."""
        masks = self._memo.get(node)
        if masks is None:
            masks = self._memo[node] = masks_of(node, self)
        return masks

    def tested(self, name: str, test: Callable[[str], object]) -> Mask:
        """Where an attribute is a string that passes a test."""
        answer: Mask = False
        for part in self.parts(name):
            if part.kind is str:
                answer = part.data.tested(test) & part.valid | answer
        return answer


def _part_of(column: Column) -> Part:
    valid: Mask = True if column.valid is None else column.valid
    if isinstance(column.raw, Texts):
        return Part(str, Strings(column.raw), valid)
    if column.type is AttributeType.BOOL:
        return Part(bool, column.values, valid)
    return Part(float if column.type is AttributeType.FLOAT64 else int, column.values, valid)


def truth_masks(node: Condition, batch: Batch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Where a condition is true, and where it is unknown."""
    true, false = masks_of(node, View(batch))
    return spread(true, batch.rows), ~(spread(true, batch.rows) | spread(false, batch.rows))


def spread(mask: Mask, rows: int) -> npt.NDArray[np.bool_]:
    """The mask as an array."""
    return np.full(rows, mask) if isinstance(mask, bool) else mask


def masks_of(node: Condition, view: View) -> Masks:
    """Where a condition is true, and where it is false."""
    if isinstance(node, Comparison):
        return _compare(node.operator, _parts(node.left, view), _parts(node.right, view))
    if isinstance(node, And | Or):
        return _join(node, view)
    if isinstance(node, Not):
        true, false = masks_of(node.operand, view)
        return false, true
    if isinstance(node, In | Like):
        return _test(node, view)
    if isinstance(node, Between):
        return _between(node, view)
    if isinstance(node, IsNull):
        present: Mask = False
        for part in view.parts(node.operand.name):
            present = part.valid | present
        absent = _inverse(present)
        return (present, absent) if node.negated else (absent, present)
    return node.value, not node.value


def _inverse(mask: Mask) -> Mask:
    return not mask if isinstance(mask, bool) else ~mask


def _join(node: And | Or, view: View) -> Masks:
    """AND is true where all are and false where one is; OR the other way round."""
    conjunction = isinstance(node, And)
    every: Mask = True
    some: Mask = False
    for part in node.parts:
        true, false = masks_of(part, view) if isinstance(part, And | Or | Not) else view.masks(part)
        if not conjunction:
            true, false = false, true
        every = true & every
        some = false | some
        if some is True or (not isinstance(some, bool) and bool(some.all())):
            # No row is left that another part could change.
            break
    return (every, some) if conjunction else (some, every)


def _test(node: In | Like, view: View) -> Masks:
    """A test for strings: false, with or without its NOT, for what is no string."""
    if isinstance(node.operand, Text):
        truth = decider(node)({})
        return truth is True, truth is False
    test = dict.fromkeys(node.choices).__contains__ if isinstance(node, In) else _like_test(node)
    true: Mask = False
    false: Mask = False
    for part in view.parts(node.operand.name):
        if part.kind is not str:
            false = part.valid | false
            continue
        passed = part.data.tested(test)
        if node.negated:
            passed = ~passed
        true = passed & part.valid | true
        false = ~passed & part.valid | false
    return true, false


def _like_test(node: Like) -> Callable[[str], bool]:
    return LikePattern(node.pattern, node.escape).matches


def _between(node: Between, view: View) -> Masks:
    operand, low, high = _parts(node.operand, view), _parts(node.low, view), _parts(node.high, view)
    if node.negated:
        below, above = _compare("<", operand, low), _compare(">", operand, high)
        return below[0] | above[0], below[1] & above[1]
    below, above = _compare(">=", operand, low), _compare("<=", operand, high)
    return below[0] & above[0], below[1] | above[1]


# ------------------------------------------------------------------ comparisons


def _compare(sign: str, left: list[Part], right: list[Part]) -> Masks:
    true: Mask = False
    false: Mask = False
    for one in left:
        for other in right:
            both = one.valid & other.valid
            outcome = _outcome(sign, one, other)
            if isinstance(outcome, bool):
                if outcome:
                    true = both | true
                else:
                    false = both | false
            elif both is True:
                true = outcome | true
                false = ~outcome | false
            else:
                true = outcome & both | true
                false = ~outcome & both | false
    return true, false


def _outcome(sign: str, left: Part, right: Part) -> Mask:
    """Whether the comparison holds, where both sides are valid."""
    numbers = left.kind in (int, float) and right.kind in (int, float)
    if not numbers and (left.kind is not right.kind or sign not in ("=", "<>")):
        return False
    scalars = (not _is_column(left), not _is_column(right))
    if all(scalars):
        return compare_scalars(sign, left.data, right.data) is True
    if left.kind is str:
        equal = _equal_strings(left.data, right.data)
        return equal if sign == "=" else ~equal
    if left.kind is right.kind:
        outcome: npt.NDArray[np.bool_] = OPERATORS[sign](left.data, right.data)
    else:
        outcome = OPERATORS[sign](_as_float(left.data), _as_float(right.data))
    return outcome


def _is_column(part: Part) -> bool:
    return isinstance(part.data, np.ndarray | Strings)


def _as_float(data: Any) -> Any:
    return data.astype(np.float64) if isinstance(data, np.ndarray) else float(data)


def _equal_strings(left: Strings | str, right: Strings | str) -> npt.NDArray[np.bool_]:
    if isinstance(left, str):
        left, right = right, left
    assert isinstance(left, Strings)
    if isinstance(right, str):
        return left.equal_to(right)
    return _bits(pc.equal(left.array, right.array))


# ------------------------------------------------------------------ values


def _parts(node: Value, view: View) -> list[Part]:
    if isinstance(node, Identifier):
        return view.parts(node.name)
    if isinstance(node, Sign):
        parts = [part for part in _parts(node.operand, view) if part.kind in (int, float)]
        return [_negated(part) for part in parts] if node.negative else parts
    if isinstance(node, Sum | Product):
        total = _parts(node.first, view)
        for sign, operand in node.rest:
            total = _calculate(sign, total, _parts(operand, view))
        return total
    return [Part(type(node.value), node.value, True)]


def _negated(part: Part) -> Part:
    return part._replace(data=-part.data if isinstance(part.data, np.ndarray) else negate(part.data))


def _calculate(sign: str, left: list[Part], right: list[Part]) -> list[Part]:
    """The parts of the result: one of integers and one of floats at most."""
    merged: dict[type, Part] = {}
    for one in left:
        for other in right:
            if one.kind in (int, float) and other.kind in (int, float):
                part = _calculated(sign, one, other)
                before = merged.get(part.kind)
                merged[part.kind] = part if before is None else _merged(before, part)
    return list(merged.values())


def _merged(before: Part, after: Part) -> Part:
    """Two parts of one kind, valid in different rows, as one."""
    return Part(before.kind, np.where(after.valid, after.data, before.data), before.valid | after.valid)


def _calculated(sign: str, left: Part, right: Part) -> Part:
    valid = left.valid & right.valid
    if not _is_column(left) and not _is_column(right):
        value = ARITHMETIC[sign](left.data, right.data)
        return Part(int, 0, False) if value is None else Part(type(value), value, valid)
    with np.errstate(all="ignore"):
        if left.kind is int and right.kind is int:
            if sign == "/":
                return _divided(left.data, right.data, valid)
            return Part(int, _apply(sign, left.data, right.data), valid)
        return Part(float, _apply(sign, _as_float(left.data), _as_float(right.data)), valid)


def _apply(sign: str, left: Any, right: Any) -> Any:
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    return left * right if sign == "*" else np.divide(left, right)


def _divided(left: Any, right: Any, valid: Mask) -> Part:
    """Integers divided toward zero; by zero there is no value."""
    zero = right == 0
    divisor = np.where(zero | (right == -1), 1, right)
    quotient = left // divisor
    # Floor division is one too low where it is inexact and the signs differ.
    quotient = quotient + ((quotient * divisor != left) & ((left < 0) != (divisor < 0)))
    # Division by -1 is taken apart because the lowest integer has no positive counterpart: it wraps.
    return Part(int, np.where(right == -1, np.negative(left), quotient), valid & _inverse(zero))
