"""Batches to and from Arrow, sharing bytes where the layouts agree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.batch import Batch, Bytes, Column, Texts, assemble
from gapless.model.columns import NAME_BYTES_MAX
from gapless.model.errors import AttributeTypeError, PublicationError
from gapless.model.layout import COLUMNS_MAX, Field, Header, write_schema
from gapless.model.types import MICROSECOND_FIRST, MICROSECOND_LAST, AttributeType, Source

BODY = "body"
TIMESTAMP = pa.timestamp("us", tz="UTC")
ARROW_TYPES: dict[AttributeType, pa.DataType] = {
    AttributeType.BOOL: pa.bool_(),
    AttributeType.INT64: pa.int64(),
    AttributeType.FLOAT64: pa.float64(),
    AttributeType.STRING: pa.string(),
    AttributeType.TIMESTAMP: TIMESTAMP,
}


def batch_of_table(source: Source, first: int, table: pa.RecordBatch) -> Batch:
    """The batch of the rows of an Arrow record batch, numbered from `first`.

    The column `body` (binary or string), if there is one, gives the bodies; every other column is an attribute.
    Raises AttributeTypeError for a column of another type than the attributes can have.
    """
    if table.num_rows == 0:
        raise PublicationError("a record batch without rows cannot become a batch of publications")
    check_schema(table.schema)
    fields: list[Field] = []
    buffers: list[Bytes] = []
    bodies: list[Bytes] = [bytes(4 * (table.num_rows + 1)), b""]
    for name, array in zip(table.schema.names, table.columns, strict=True):
        if name == BODY:
            bodies = _texts(_cast(name, array, pa.binary()))
            continue
        if pa.types.is_null(array.type):
            continue
        kind = _kind_of(name, array.type)
        typed = _cast(name, array, ARROW_TYPES[kind])
        fields.append(Field(name, kind, typed.null_count > 0))
        if typed.null_count:
            buffers.append(_bits(typed.buffers()[0], typed.offset, len(typed)))
        buffers.extend(_values(name, kind, typed))
    buffers.extend(bodies)
    schema = write_schema(tuple(fields))
    name_bytes = source.name.encode()
    last = first + table.num_rows - 1
    header = Header(0, table.num_rows, first, last, source.incarnation, 0, len(name_bytes), len(fields), len(schema))
    return assemble(header, name_bytes, schema, buffers)


def check_schema(schema: pa.Schema) -> None:
    """Raise AttributeTypeError unless the columns of a table can be attributes, whatever its rows are."""
    if len(schema) > COLUMNS_MAX:
        raise AttributeTypeError(f"a table of {len(schema)} columns: at most {COLUMNS_MAX} can be attributes")
    known: dict[str, None] = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        if name in known:
            raise AttributeTypeError(f"two columns are named {name!r}: give each a name of its own")
        known[name] = None
        if name == BODY:
            if not any(test(kind) for test in _BODY_TYPES):
                raise AttributeTypeError(f"column {BODY!r} has the Arrow type {kind}: bodies are binary or string")
            continue
        if not name or len(name.encode()) > NAME_BYTES_MAX:
            raise AttributeTypeError(f"a column is named {name[:40]!r}: names have 1 to {NAME_BYTES_MAX} bytes")
        if not pa.types.is_null(kind):
            _kind_of(name, kind)


_BODY_TYPES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)


def _values(name: str, kind: AttributeType, array: pa.Array) -> list[Bytes]:
    """The buffers of the values, nothing accidental in them where there is none. Raises AttributeTypeError."""
    if kind is AttributeType.STRING:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise AttributeTypeError(f"column {name!r} holds text that is not UTF-8: {error}") from None
        return _texts(array)
    if array.null_count:
        array = array.fill_null(pa.scalar(False if kind is AttributeType.BOOL else 0, array.type))
    values = _fixed(kind, array)
    if kind is AttributeType.TIMESTAMP:
        times = np.frombuffer(values, "<i8")
        if bool(((times < MICROSECOND_FIRST) | (times > MICROSECOND_LAST)).any()):
            raise AttributeTypeError(f"column {name!r} holds times outside the years 1 to 9999")
    return [values]


def _kind_of(name: str, kind: pa.DataType) -> AttributeType:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return AttributeType.BOOL
    if pa.types.is_integer(kind):
        return AttributeType.INT64
    if pa.types.is_floating(kind):
        return AttributeType.FLOAT64
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return AttributeType.STRING
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return AttributeType.TIMESTAMP
    raise AttributeTypeError(
        f"column {name!r} has the Arrow type {kind}: attributes are bool, integer, floating, string, "
        f"or timestamp with a zone; {BODY!r} is binary or string"
    )


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    try:
        return pc.cast(array, kind)
    except pa.ArrowInvalid as error:
        raise AttributeTypeError(f"column {name!r} of type {array.type} cannot become {kind}: {error}") from None


def _fixed(kind: AttributeType, array: pa.Array) -> bytes:
    if kind is AttributeType.BOOL:
        return _bits(array.buffers()[1], array.offset, len(array))
    plain = array.view(pa.int64()) if kind is AttributeType.TIMESTAMP else array
    buffer = plain.buffers()[1]
    return bytes(memoryview(buffer)[8 * plain.offset : 8 * (plain.offset + len(plain))])


def _bits(buffer: pa.Buffer, offset: int, count: int) -> bytes:
    """Arrow's bits as a byte each. Not by `to_numpy`, which looks for pandas and so may take seconds to import it."""
    packed = np.frombuffer(buffer, np.uint8)
    return np.unpackbits(packed, count=offset + count, bitorder="little")[offset:].tobytes()


def _texts(array: pa.Array) -> list[Bytes]:
    if array.null_count:
        array = array.fill_null("" if pa.types.is_string(array.type) else b"")
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, "<i4", len(array) + 1, 4 * array.offset)
    view = memoryview(data)[int(bounds[0]) : int(bounds[-1])] if data is not None else memoryview(b"")
    return [(bounds - bounds[0]).astype("<u4").tobytes(), view]


def table_of_batch(batch: Batch) -> pa.RecordBatch:
    """An Arrow record batch: `source`, `seq`, `time`, the attributes, `body`. Strings and numbers share the same bytes.

    An attribute that carries several types within the batch becomes one column for each, the second and further ones
    named `name:type`; so does an attribute with the name of one of the other four.
    """
    rows = batch.rows
    names = ["source", "seq", "time", BODY]
    arrays: list[pa.Array] = [
        _repeated(batch.source.name, rows),
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(batch.seqs)]),
        pa.Array.from_buffers(TIMESTAMP, rows, [None, pa.py_buffer(np.full(rows, batch.time // 1000, "<i8"))]),
    ]
    for column in batch.columns:
        names.append(_free_name(column, names))
        arrays.append(_array_of(column, rows))
    arrays.append(_variable(pa.binary(), None, batch.bodies, rows))
    return pa.RecordBatch.from_arrays(arrays, [*names[:3], *names[4:], BODY])


def _free_name(column: Column, taken: list[str]) -> str:
    """The name of a column in a table where these are taken."""
    name = column.name if column.name not in taken else f"{column.name}:{column.type.name.lower()}"
    while name in taken:
        name += ":"
    return name


def _repeated(text: str, rows: int) -> pa.Array:
    """The same text in every row, stored once."""
    data = text.encode()
    bounds = np.array([0, len(data)], "<i4")
    once = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    places = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(np.zeros(rows, "<i4"))])
    return pa.DictionaryArray.from_arrays(places, once)


def _array_of(column: Column, rows: int) -> pa.Array:
    kind = ARROW_TYPES[column.type]
    valid = None
    if column.valid is not None:
        valid = pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if isinstance(column.raw, Texts):
        return _variable(kind, valid, column.raw, rows)
    if column.type is AttributeType.BOOL:
        return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(np.packbits(column.raw, bitorder="little"))])
    return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(column.raw)])


def _variable(kind: pa.DataType, valid: pa.Buffer | None, texts: Texts, rows: int) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)])
