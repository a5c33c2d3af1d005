"""From rows and tables to batches: what a publisher hands in becomes columns here, once."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

import numpy as np

from gapless.model.batch import Batch, Bytes, assemble
from gapless.model.errors import AttributeTypeError, TooLarge
from gapless.model.layout import COLUMNS_MAX, Field, Header, write_schema
from gapless.model.types import EPOCH, INT64_MAX, INT64_MIN, AttributeType, AttributeValue, Source

NAME_BYTES_MAX = 255
MICROSECOND = timedelta(microseconds=1)

_EXACT = {
    bool: AttributeType.BOOL,
    int: AttributeType.INT64,
    float: AttributeType.FLOAT64,
    str: AttributeType.STRING,
    datetime: AttributeType.TIMESTAMP,
}
_BLANK: dict[AttributeType, Any] = {
    AttributeType.BOOL: False,
    AttributeType.INT64: 0,
    AttributeType.FLOAT64: 0.0,
    AttributeType.STRING: "",
    AttributeType.TIMESTAMP: 0,
}


def batch_of_rows(
    source: Source, first: int, attributes: Sequence[Mapping[str, AttributeValue | None]], bodies: Sequence[bytes]
) -> Batch:
    """The batch of these publications, numbered from `first`. Raises AttributeTypeError naming attribute and value."""
    rows = len(attributes)
    fields: list[Field] = []
    buffers: list[Bytes] = []
    for name, values in _by_name(attributes).items():
        for kind, valid, typed in _by_type(name, values):
            fields.append(Field(name, kind, valid is not None))
            if valid is not None:
                buffers.append(bytes(valid))
            buffers.extend(_buffers(name, kind, typed))
    if len(fields) > COLUMNS_MAX:
        raise TooLarge(
            f"{rows} publications have {len(fields)} different attributes together, and a batch has room for "
            f"{COLUMNS_MAX}: put some of them into the body"
        )
    buffers.extend(_texts(bodies))
    schema = write_schema(tuple(fields))
    name_bytes = source.name.encode()
    header = Header(0, rows, first, first + rows - 1, source.incarnation, 0, len(name_bytes), len(fields), len(schema))
    return assemble(header, name_bytes, schema, buffers)


def _by_name(rows: Sequence[Mapping[str, AttributeValue | None]]) -> dict[str, list[Any]]:
    try:
        names = list(rows[0])
        width = len(names)
        if all(len(row) == width for row in rows):
            return {_checked_name(name): [row[name] for row in rows] for name in names}
    except (KeyError, TypeError, IndexError, AttributeTypeError):
        pass  # names that differ from row to row, or something wrong that is found below
    union: dict[str, None] = {}
    for row in rows:
        if not isinstance(row, Mapping):
            raise AttributeTypeError(
                f"attributes are given as {type(row).__name__}: give a mapping from names to values"
            )
        union.update(dict.fromkeys(row))
    return {_checked_name(name): [row.get(name) for row in rows] for name in union}


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise AttributeTypeError(f"an attribute is named {name!r}: names are non-empty strings")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise AttributeTypeError(f"an attribute is named {name!r}, which is not valid Unicode text") from None
    if size > NAME_BYTES_MAX:
        raise AttributeTypeError(f"the attribute name {name[:40]!r}… is longer than {NAME_BYTES_MAX} bytes")
    return name


def _by_type(name: str, values: list[Any]) -> list[tuple[AttributeType, bytearray | None, list[Any]]]:
    """The values as one column for each type that occurs; usually the one."""
    if len(set(map(type, values))) == 1:
        kind = _EXACT.get(type(values[0]))
        if kind is AttributeType.TIMESTAMP:
            return [(kind, None, [_plain(name, value)[1] for value in values])]
        if kind is not None:
            return [(kind, None, values)]
    columns: dict[AttributeType, tuple[bytearray, list[Any]]] = {}
    for row, value in enumerate(values):
        if value is None:
            continue
        kind, plain = _plain(name, value)
        if kind not in columns:
            columns[kind] = (bytearray(len(values)), [_BLANK[kind]] * len(values))
        valid, typed = columns[kind]
        valid[row] = 1
        typed[row] = plain
    return [(kind, None if all(valid) else valid, typed) for kind, (valid, typed) in columns.items()]


def _plain(name: str, value: object) -> tuple[AttributeType, Any]:
    """The type of a value and the value as it is stored."""
    if isinstance(value, bool | np.bool_):
        return AttributeType.BOOL, bool(value)
    if isinstance(value, int | np.integer):
        return AttributeType.INT64, int(value)
    if isinstance(value, float | np.floating):
        return AttributeType.FLOAT64, float(value)
    if isinstance(value, str):
        return AttributeType.STRING, str.__str__(value)  # of a member of an enumeration the value, not the name
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise AttributeTypeError(
                f"attribute {name!r} is {value!r}, a time without a zone: give it one, e.g. tzinfo=datetime.UTC"
            )
        return AttributeType.TIMESTAMP, (value - EPOCH) // MICROSECOND
    raise AttributeTypeError(
        f"attribute {name!r} is {value!r} of type {type(value).__name__}: "
        "attributes are bool, int, float, str, datetime with a zone, or None"
    )


def check_attributes(attributes: Mapping[str, AttributeValue | None]) -> None:
    """Raise AttributeTypeError unless these attributes can be published."""
    for name, value in attributes.items():
        _checked_name(name)
        if value is None:
            continue
        kind, plain = _plain(name, value)
        if kind is AttributeType.INT64:
            _check_range(name, plain)
        elif kind is AttributeType.STRING:
            _check_text(name, plain)


def _check_range(name: str, value: int) -> None:
    if not INT64_MIN <= value <= INT64_MAX:
        raise AttributeTypeError(
            f"attribute {name!r} is {value}, outside the 64-bit integers: publish it as float or str"
        )


def _check_text(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise AttributeTypeError(f"attribute {name!r} is {value!r}, which is not valid Unicode text") from None


def _buffers(name: str, kind: AttributeType, values: list[Any]) -> list[Bytes]:
    if kind is AttributeType.STRING:
        try:
            data = "".join(values).encode()
        except UnicodeEncodeError:
            for value in values:
                _check_text(name, value)
            raise
        lengths = list(map(len, values))
        if len(data) != sum(lengths):
            lengths = [len(value.encode()) for value in values]
        return [_offsets(lengths), data]
    if kind is AttributeType.BOOL:
        return [bytes(values)]
    if kind is AttributeType.FLOAT64:
        return [array("d", values).tobytes()]
    try:
        return [array("q", values).tobytes()]
    except OverflowError:
        for value in values:
            _check_range(name, value)
        raise


def _texts(bodies: Sequence[bytes]) -> list[Bytes]:
    for body in bodies if {*map(type, bodies)} != {bytes} else ():
        if not isinstance(body, bytes | bytearray):
            raise AttributeTypeError(f"a body is {type(body).__name__}: bodies are bytes; encode text first")
    return [_offsets(list(map(len, bodies))), b"".join(bodies)]


def _offsets(lengths: list[int]) -> bytes:
    bounds = array("L" if array("L").itemsize == 4 else "I", accumulate(lengths, initial=0))
    if bounds[-1] >= 1 << 31:
        raise TooLarge(f"{len(lengths)} values of {bounds[-1]} bytes together do not fit one batch: send fewer at once")
    return bounds.tobytes()
