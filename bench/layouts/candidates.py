"""The layouts that are compared. Each does the same six things with the same publications."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.model.arrow import batch_of_table, table_of_batch
from gapless.model.batch import Batch, Texts, assemble
from gapless.model.columns import batch_of_rows
from gapless.model.layout import Header
from gapless.model.types import Source

SOURCE = Source("till-7", 1)
Rows = list[dict[str, Any]]


class Layout(Protocol):
    """Bytes of a batch: made from Python rows or an Arrow record batch, and what is done with them on the way."""

    name: str

    def encode(self, rows: Rows, bodies: list[bytes]) -> bytes:
        """From dicts and bodies."""
        ...

    def encode_table(self, table: pa.RecordBatch) -> bytes:
        """From columns that are there already."""
        ...

    def header(self, data: bytes) -> tuple[int, int]:
        """How many publications, and the first seq: what a hop needs that only forwards."""
        ...

    def decode(self, data: bytes) -> list[Any]:
        """Python objects of everything."""
        ...

    def take(self, data: bytes, rows: npt.NDArray[np.intp]) -> bytes:
        """The bytes of some of the rows."""
        ...

    def concatenate(self, pieces: Sequence[bytes]) -> bytes:
        """Several batches, one after the other, as one."""
        ...

    def arrow(self, data: bytes) -> pa.RecordBatch:
        """An Arrow record batch."""
        ...


class Ours:
    """`gapless.model.layout`: a fixed header, a schema block that is looked up, plain buffers."""

    name = "gapless"

    def encode(self, rows: Rows, bodies: list[bytes]) -> bytes:
        """See `Layout`."""
        return batch_of_rows(SOURCE, 1, rows, bodies).encode()

    def encode_table(self, table: pa.RecordBatch) -> bytes:
        """See `Layout`."""
        return batch_of_table(SOURCE, 1, table).encode()

    def header(self, data: bytes) -> tuple[int, int]:
        """See `Layout`."""
        batch = Batch(data)
        return batch.rows, batch.first

    def decode(self, data: bytes) -> list[Any]:
        """See `Layout`."""
        batch = Batch(data)
        return list(zip(batch.attributes, batch.bodies.slices(), strict=True))

    def take(self, data: bytes, rows: npt.NDArray[np.intp]) -> bytes:
        """See `Layout`."""
        return Batch(data).take(rows).encode()

    def concatenate(self, pieces: Sequence[bytes]) -> bytes:
        """Batches of one schema, as those of one publisher mostly are."""
        batches = [Batch(piece) for piece in pieces]
        first = batches[0]
        rows = sum(batch.rows for batch in batches)
        buffers: list[bytes] = []
        for columns in zip(*(batch.columns for batch in batches), strict=True):
            raws = [column.raw for column in columns]
            if isinstance(raws[0], Texts):
                buffers += _joined_texts(raws)
            else:
                buffers.append(np.concatenate(raws).tobytes())
        buffers += _joined_texts([batch.bodies for batch in batches])
        header = Header(0, rows, 1, rows, SOURCE.incarnation, 0, len(SOURCE.name), len(first.fields),
                        len(first.schema_block))  # fmt: skip
        return assemble(header, SOURCE.name.encode(), first.schema_block, buffers).encode()

    def arrow(self, data: bytes) -> pa.RecordBatch:
        """See `Layout`."""
        return table_of_batch(Batch(data))


def _joined_texts(texts: Sequence[Any]) -> list[bytes]:
    shift, offsets = 0, [np.zeros(1, np.uint32)]
    for one in texts:
        offsets.append(one.offsets[1:] + np.uint32(shift))
        shift += int(one.offsets[-1])
    return [np.concatenate(offsets).tobytes(), b"".join(bytes(one.data) for one in texts)]


class ArrowMessage:
    """Arrow IPC: one record batch message; both ends know the schema, as they do of a long connection."""

    name = "Arrow IPC, schema known"

    def __init__(self, dictionaries: bool = False) -> None:
        self.schema: pa.Schema | None = None
        self.dictionaries = dictionaries

    def encode(self, rows: Rows, bodies: list[bytes]) -> bytes:
        """See `Layout`."""
        return self.encode_table(
            pa.RecordBatch.from_pylist([{**row, "body": body} for row, body in zip(rows, bodies, strict=True)])
        )

    def encode_table(self, table: pa.RecordBatch) -> bytes:
        """See `Layout`."""
        self.schema = table.schema
        return bytes(table.serialize())

    def header(self, data: bytes) -> tuple[int, int]:
        """See `Layout`; Arrow has no seq, it would be metadata or a column."""
        return self.arrow(data).num_rows, 1

    def decode(self, data: bytes) -> list[Any]:
        """See `Layout`."""
        rows: list[Any] = self.arrow(data).to_pylist()
        return rows

    def take(self, data: bytes, rows: npt.NDArray[np.intp]) -> bytes:
        """See `Layout`."""
        return bytes(self.arrow(data).take(pa.array(rows)).serialize())

    def concatenate(self, pieces: Sequence[bytes]) -> bytes:
        """See `Layout`."""
        table = pa.Table.from_batches([self.arrow(piece) for piece in pieces])
        return bytes(table.combine_chunks().to_batches()[0].serialize())

    def arrow(self, data: bytes) -> pa.RecordBatch:
        """See `Layout`."""
        return pa.ipc.read_record_batch(pa.py_buffer(data), self.schema)


class ArrowStream(ArrowMessage):
    """Arrow IPC: a stream of its own each time, schema and all."""

    name = "Arrow IPC, whole stream"

    def encode_table(self, table: pa.RecordBatch) -> bytes:
        """See `Layout`."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(table)
        return bytes(sink.getvalue())

    def take(self, data: bytes, rows: npt.NDArray[np.intp]) -> bytes:
        """See `Layout`."""
        return self.encode_table(self.arrow(data).take(pa.array(rows)))

    def concatenate(self, pieces: Sequence[bytes]) -> bytes:
        """See `Layout`."""
        table = pa.Table.from_batches([self.arrow(piece) for piece in pieces])
        return self.encode_table(table.combine_chunks().to_batches()[0])

    def arrow(self, data: bytes) -> pa.RecordBatch:
        """See `Layout`."""
        return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()


class ArrowDictionaries(ArrowStream):
    """The same with strings as dictionaries."""

    name = "Arrow IPC, dictionaries"

    def encode_table(self, table: pa.RecordBatch) -> bytes:
        """See `Layout`."""
        arrays = [a.dictionary_encode() if pa.types.is_string(a.type) else a for a in table.columns]
        return super().encode_table(pa.RecordBatch.from_arrays(arrays, table.schema.names))


class Columns(msgspec.Struct, array_like=True):
    """Lists, one for each attribute."""

    first: int
    names: list[str]
    values: list[list[Any]]
    bodies: list[bytes]


class MsgpackColumns:
    """msgpack of lists, one for each attribute."""

    name = "msgpack, columns"

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Columns).decode

    def encode(self, rows: Rows, bodies: list[bytes]) -> bytes:
        """See `Layout`."""
        names = list(rows[0])
        return self._encode(Columns(1, names, [[row[name] for row in rows] for name in names], bodies))

    def encode_table(self, table: pa.RecordBatch) -> bytes:
        """See `Layout`."""
        *attributes, bodies = [column.to_pylist() for column in table.columns]
        return self._encode(Columns(1, table.schema.names[:-1], attributes, bodies))

    def header(self, data: bytes) -> tuple[int, int]:
        """See `Layout`; there is none, all is decoded."""
        columns = self._decode(data)
        return len(columns.bodies), columns.first

    def decode(self, data: bytes) -> list[Any]:
        """See `Layout`."""
        columns = self._decode(data)
        names = columns.names
        attributes = [dict(zip(names, row, strict=True)) for row in zip(*columns.values, strict=True)]
        return list(zip(attributes, columns.bodies, strict=True))

    def take(self, data: bytes, rows: npt.NDArray[np.intp]) -> bytes:
        """See `Layout`."""
        columns, places = self._decode(data), rows.tolist()
        values = [[column[row] for row in places] for column in columns.values]
        return self._encode(Columns(columns.first, columns.names, values, [columns.bodies[row] for row in places]))

    def concatenate(self, pieces: Sequence[bytes]) -> bytes:
        """See `Layout`."""
        every = [self._decode(piece) for piece in pieces]
        values = [[*chain(*columns)] for columns in zip(*(one.values for one in every), strict=True)]
        return self._encode(Columns(1, every[0].names, values, [*chain(*(one.bodies for one in every))]))

    def arrow(self, data: bytes) -> pa.RecordBatch:
        """See `Layout`."""
        columns = self._decode(data)
        arrays = [pa.array(values) for values in (*columns.values, columns.bodies)]
        return pa.RecordBatch.from_arrays(arrays, [*columns.names, "body"])


def layouts() -> list[Layout]:
    """All of them, ours first."""
    return [Ours(), ArrowMessage(), ArrowStream(), ArrowDictionaries(), MsgpackColumns()]
