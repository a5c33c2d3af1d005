"""A column of text cells as values of one type: the declared one, or the one that all of its cells look like."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from gapless.model.arrow import ARROW_TYPES
from gapless.model.errors import AttributeTypeError, PublicationError, SchemaError
from gapless.model.types import INT64_MAX, INT64_MIN, AttributeType

INTEGER = r"[+-]?[0-9]+"
FLOAT = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
NOT_FINITE = ("inf", "-inf", "nan")  # floats that only a declared type tells from text
# Where a column is no text, these words for nothing mean that the attribute is absent.
NOTHING = pa.array(pa.csv.ConvertOptions().null_values, pa.string())


class Look(Enum):
    """What a cell looks like; the word is for people."""

    NUMBER = "numbers"
    FRACTION = "numbers with a fraction"
    TRUTH = "true and false"
    TIME = "times"
    TEXT = "text"


# In the order in which they are tried: a cell has the first look that fits it.
PATTERNS = {
    Look.NUMBER: INTEGER,
    Look.FRACTION: FLOAT,
    Look.TRUTH: "true|True|TRUE|false|False|FALSE",
    Look.TIME: DATE + r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?",
}
TYPES = {
    frozenset({Look.NUMBER}): AttributeType.INT64,
    frozenset({Look.FRACTION}): AttributeType.FLOAT64,
    frozenset({Look.NUMBER, Look.FRACTION}): AttributeType.FLOAT64,
    frozenset({Look.TRUTH}): AttributeType.BOOL,
    frozenset({Look.TIME}): AttributeType.TIMESTAMP,
}


class Seen(NamedTuple):
    """How many cells had a look, and the first of them."""

    times: int
    line: int
    cell: str


class Column:
    """A column: first all of its cells are looked at, then they are converted."""

    def __init__(self, name: str, declared: AttributeType | None) -> None:
        self.name = name
        self.kind = declared  # None at the end: there is nothing in it
        self._declared = declared is not None
        self._seen: dict[Look, Seen] = {}

    def look_at(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Take note of what these cells, of rows that begin at these lines, look like."""
        if self._declared:
            return
        array = _stripped(cells)
        left = pc.invert(pc.is_in(array, NOTHING))
        for look, pattern in PATTERNS.items():
            fits = pc.and_(left, pc.match_substring_regex(array, f"^({pattern})$"))
            self._note(look, fits, cells, lines)
            left = pc.and_not(left, fits)
        self._note(Look.TEXT, left, cells, lines)

    def _note(self, look: Look, fits: pa.BooleanArray, cells: Sequence[str], lines: Sequence[int]) -> None:
        count = fits.true_count
        if count:
            seen = self._seen.get(look)
            if seen is None:
                first = pc.index(fits, True).as_py()
                seen = Seen(0, lines[first], cells[first])
            self._seen[look] = seen._replace(times=seen.times + count)

    def decide(self) -> str:
        """Choose the type; what to tell if it is text only because of the lesser part of the cells, else nothing."""
        if self._declared or not self._seen:
            return ""
        self.kind = TYPES.get(frozenset(self._seen), AttributeType.STRING)
        usual = max(self._seen, key=lambda look: self._seen[look].times)
        if self.kind is not AttributeType.STRING or usual is Look.TEXT:
            return ""
        others = [seen for look, seen in self._seen.items() if frozenset({look, usual}) not in TYPES]
        odd = min(others, key=lambda seen: seen.line)
        what = f"line {odd.line} has {odd.cell!r} among {usual.value}"
        return f"column {self.name!r} is published as strings, because {what}"

    def converted(self, cells: Sequence[str]) -> tuple[pa.Array, dict[int, PublicationError]]:
        """The cells as values, and what is wrong with those that cannot be (null where they would be)."""
        assert self.kind is not None
        if self.kind is AttributeType.STRING:
            return pa.array(cells, pa.string()), {}
        array = _stripped(cells)
        array = pc.if_else(pc.is_in(array, NOTHING), None, array)
        try:
            if self.kind is AttributeType.INT64 and pc.all(pc.match_substring_regex(array, "^-?[0-9]+$")).as_py():
                return array.cast(pa.int64()), {}
            if self.kind is AttributeType.FLOAT64 and pc.all(pc.match_substring_regex(array, f"^({FLOAT})$")).as_py():
                values = array.cast(pa.float64())
                if pc.all(pc.is_finite(values)).as_py():
                    return values, {}
        except pa.ArrowInvalid:
            pass  # some cell does not fit: find out which
        return self._one_by_one(array.to_pylist())

    def _one_by_one(self, cells: Sequence[str | None]) -> tuple[pa.Array, dict[int, PublicationError]]:
        assert self.kind is not None
        read = READERS[self.kind]
        values: list[Any] = []
        flaws: dict[int, PublicationError] = {}
        for index, cell in enumerate(cells):
            try:
                values.append(None if cell is None else read(self.name, cell))
            except PublicationError as error:
                flaws[index] = error
                values.append(None)
        return pa.array(values, ARROW_TYPES[self.kind]), flaws


def _stripped(cells: Sequence[str]) -> pa.StringArray:
    return pc.utf8_trim_whitespace(pa.array(cells, pa.string()))


# --- single cells -----------------------------------------------------------------------------------------------------


def integer_of(name: str, text: str) -> int:
    """The integer that a text is. Raises SchemaError and AttributeTypeError."""
    if not re.fullmatch(INTEGER, text):
        raise _not_as_declared(name, text, AttributeType.INT64, "7")
    if len(text) > 40 or not INT64_MIN <= int(text) <= INT64_MAX:  # Python itself limits how long a text it reads
        raise AttributeTypeError(
            f"attribute {name!r} is {text[:60]}, outside the 64-bit integers: publish it as float or str"
        )
    return int(text)


def float_of(name: str, text: str) -> float:
    """The float that a text is. Raises SchemaError and AttributeTypeError."""
    if text in NOT_FINITE:
        return float(text)
    if not re.fullmatch(FLOAT, text):
        raise _not_as_declared(name, text, AttributeType.FLOAT64, "4.5")
    value = float(text)
    if math.isinf(value):
        raise AttributeTypeError(
            f"attribute {name!r} is {text[:60]}, beyond the 64-bit floats: publish it as a string, or as inf where the "
            "space declares a float64"
        )
    return value


def truth_of(name: str, text: str) -> bool:
    """The truth that a text is. Raises SchemaError."""
    if text.lower() not in ("true", "false", "1", "0"):
        raise _not_as_declared(name, text, AttributeType.BOOL, "true or false")
    return text.lower() in ("true", "1")


def time_of(name: str, text: str) -> datetime:
    """The time that a text is, UTC if it names no zone. Raises AttributeTypeError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise AttributeTypeError(
            f"attribute {name!r} is {text!r}, and should be a timestamp: write it like 2024-01-31T12:00Z"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _not_as_declared(name: str, text: str, kind: AttributeType, example: str) -> SchemaError:
    return SchemaError(
        f"attribute {name!r} is {text!r}, but its space declares it as {kind.name.lower()}: write it like {example}"
    )


READERS: dict[AttributeType, Callable[[str, str], Any]] = {
    AttributeType.INT64: integer_of,
    AttributeType.FLOAT64: float_of,
    AttributeType.BOOL: truth_of,
    AttributeType.TIMESTAMP: time_of,
}
