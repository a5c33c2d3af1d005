"""Batches to and from Arrow, sharing bytes where the layouts agree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.batch import Batch, Bytes, Column, Texts, assemble
from gapless.model.columns import NAME_BYTES_MAX
from gapless.model.errors import AttributeTypeError, PublicationError
from gapless.model.layout import Field, Header, write_schema
from gapless.model.types import AttributeType, Source

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
    fields: list[Field] = []
    buffers: list[Bytes] = []
    bodies: list[Bytes] = [bytes(4 * (table.num_rows + 1)), b""]
    for name, array in zip(table.schema.names, table.columns, strict=True):
        if name == BODY:
            bodies = _texts(_cast(name, array, pa.binary()))
            continue
        if not name or len(name.encode()) > NAME_BYTES_MAX:
            raise AttributeTypeError(f"a column is named {name[:40]!r}: names have 1 to {NAME_BYTES_MAX} bytes")
        kind = _kind_of(name, array.type)
        typed = _cast(name, array, ARROW_TYPES[kind])
        fields.append(Field(name, kind, typed.null_count > 0))
        if typed.null_count:
            buffers.append(_bits(typed.buffers()[0], typed.offset, len(typed)))
        buffers.extend(_texts(typed) if kind is AttributeType.STRING else [_fixed(kind, typed)])
    buffers.extend(bodies)
    schema = write_schema(tuple(fields))
    name_bytes = source.name.encode()
    last = first + table.num_rows - 1
    header = Header(0, table.num_rows, first, last, source.incarnation, 0, len(name_bytes), len(fields), len(schema))
    return assemble(header, name_bytes, schema, buffers)


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
    named `name:type`.
    """
    rows = batch.rows
    names = ["source", "seq", "time"]
    arrays: list[pa.Array] = [
        _repeated(batch.source.name, rows),
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(batch.seqs)]),
        pa.Array.from_buffers(TIMESTAMP, rows, [None, pa.py_buffer(np.full(rows, batch.time // 1000, "<i8"))]),
    ]
    for column in batch.columns:
        names.append(column.name if column.name not in names else f"{column.name}:{column.type.name.lower()}")
        arrays.append(_array_of(column, rows))
    names.append(BODY)
    arrays.append(_variable(pa.binary(), None, batch.bodies, rows))
    return pa.RecordBatch.from_arrays(arrays, names)


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
