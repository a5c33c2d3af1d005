"""A batch: a run of publications of one source, as columns over the bytes of `layout`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.model.errors import WireError
from gapless.model.layout import (
    HEADER,
    HEADER_SIZE,
    MAGIC,
    SPARSE,
    TIME_OFFSET,
    VERSION,
    Field,
    Header,
    padded,
    read_header,
    read_schema,
)
from gapless.model.types import EPOCH, MICROSECOND_FIRST, MICROSECOND_LAST, Attributes, AttributeType, Source

Bytes = bytes | bytearray | memoryview
Rows = npt.NDArray[np.intp]

DTYPES: dict[AttributeType, str] = {
    AttributeType.BOOL: "?",
    AttributeType.INT64: "<i8",
    AttributeType.FLOAT64: "<f8",
    AttributeType.TIMESTAMP: "<i8",
}
PY_VALUES_ROWS_MAX = 64  # up to here a list comprehension beats the set-up of a vectorised gather (docs/performance.md)


class Texts:
    """Variable-length values: offsets and bytes."""

    __slots__ = ("data", "offsets")

    def __init__(self, offsets: npt.NDArray[np.uint32], data: memoryview) -> None:
        self.offsets = offsets
        self.data = data

    def slices(self) -> list[bytes]:
        """Every value as bytes."""
        data = bytes(self.data)
        return [data[a:b] for a, b in pairwise(self.offsets.tolist())]

    def strings(self) -> list[str]:
        """Every value as text."""
        text = str(self.data, "utf-8")
        if len(text) == len(self.data):
            return [text[a:b] for a, b in pairwise(self.offsets.tolist())]
        return [str(self.data[a:b], "utf-8") for a, b in pairwise(self.offsets.tolist())]

    def take(self, rows: Rows) -> tuple[bytes, bytes]:
        """Offsets and bytes of these rows alone."""
        if len(rows) <= PY_VALUES_ROWS_MAX:
            bounds = self.offsets.tolist()
            parts = [self.data[bounds[row] : bounds[row + 1]] for row in rows.tolist()]
            ends = np.fromiter(map(len, parts), np.uint32, len(parts)).cumsum(dtype=np.uint32)
            return b"\0\0\0\0" + ends.tobytes(), b"".join(parts)
        whole = pa.BinaryArray.from_buffers(
            pa.binary(), len(self.offsets) - 1, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        )
        # pa.array() would look for pandas, which takes seconds to import where it is installed.
        indices = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows.astype(np.int64))])
        _, offsets, data = whole.take(indices).buffers()
        bounds_bytes = memoryview(offsets)[: 4 * (len(rows) + 1)]
        return bytes(bounds_bytes), bytes(memoryview(data) if data is not None else b"")

    def check(self, what: str) -> None:
        """Raise WireError unless the offsets rise from 0 to the length of the bytes."""
        bounds = self.offsets
        if bounds[0] != 0 or bool((bounds[1:] < bounds[:-1]).any()):
            raise WireError(f"the offsets of {what} do not rise from 0")

    def check_text(self, what: str) -> None:
        """Raise WireError unless every value is UTF-8 by itself."""
        try:
            text = str(self.data, "utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"{what} is not UTF-8: {error}") from None
        if len(text) != len(self.data):
            starts = self.offsets[self.offsets < len(self.data)]
            if bool(((np.frombuffer(self.data, np.uint8)[starts] & 0xC0) == 0x80).any()):
                raise WireError(f"{what} is cut inside a character")


class Column:
    """One attribute of one type over all rows of a batch."""

    __slots__ = ("_values", "name", "raw", "type", "valid")

    def __init__(self, field: Field, valid: npt.NDArray[np.bool_] | None, raw: npt.NDArray[Any] | Texts) -> None:
        self.name = field.name
        self.type = field.type
        self.valid = valid
        self.raw = raw
        self._values: npt.NDArray[Any] | list[str] | None = None

    def python_values(self) -> list[Any]:
        """The values as an application knows them: timestamps as datetime."""
        if isinstance(self.raw, Texts):
            return list(self.values)
        if self.type is not AttributeType.TIMESTAMP:
            return list(self.raw.tolist())
        if self.valid is None:
            return [EPOCH + timedelta(microseconds=value) for value in self.raw.tolist()]
        slots = zip(self.raw.tolist(), self.valid.tolist(), strict=True)  # what stands in a null need not be a time
        return [EPOCH + timedelta(microseconds=value) if valid else None for value, valid in slots]

    def rows_beyond_calendar(self) -> Rows:
        """Of a column of timestamps the rows whose times are outside the years 1 to 9999."""
        times = self.values
        beyond = (times < MICROSECOND_FIRST) | (times > MICROSECOND_LAST)
        return np.flatnonzero(beyond if self.valid is None else beyond & self.valid)

    @property
    def values(self) -> Any:
        """A numpy array, or for strings a list; what stands in rows that are not valid means nothing."""
        if self._values is None:
            self._values = self.raw.strings() if isinstance(self.raw, Texts) else self.raw
        return self._values


class Batch:
    """A run of publications of one source. Immutable; everything is read from its bytes when it is first asked for."""

    def __init__(self, data: Bytes, head: bytes | None = None, valid: bool = False) -> None:
        """Wrap the bytes of a batch; raises WireError when the header is not one. `head` replaces the fixed header.

        `valid`: every byte has been checked, or was made of what had been.
        """
        self.data = data
        self.head = bytes(data[:HEADER_SIZE]) if head is None else head
        self.header: Header = read_header(self.head)
        self._valid = valid

    @property
    def rows(self) -> int:
        """How many publications."""
        return self.header.rows

    @property
    def first(self) -> int:
        """The lowest seq."""
        return self.header.first

    @property
    def last(self) -> int:
        """The highest seq."""
        return self.header.last

    @property
    def time(self) -> int:
        """When the accepting broker took it, nanoseconds UTC; 0 before."""
        return self.header.time

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return len(self.data)

    def buffers(self) -> tuple[bytes, memoryview]:
        """The bytes of the batch in two pieces, to be written one after the other."""
        return self.head, memoryview(self.data)[HEADER_SIZE:]

    def encode(self) -> bytes:
        """The bytes of the batch in one piece."""
        return b"".join(self.buffers())

    def stamped(self, time: int) -> Batch:
        """The same batch with the time of its acceptance; the other bytes are shared."""
        head = bytearray(self.head)
        head[TIME_OFFSET : TIME_OFFSET + 8] = time.to_bytes(8, "little", signed=True)
        return Batch(self.data, bytes(head), self._valid)

    @cached_property
    def source(self) -> Source:
        """Whose publications these are."""
        name = bytes(self.data[HEADER_SIZE : HEADER_SIZE + self.header.source_length])
        try:
            return Source(name.decode(), self.header.incarnation)
        except UnicodeDecodeError:
            raise WireError(f"the name of a source is not UTF-8: {name!r}") from None

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The names and types of the columns."""
        return read_schema(self.schema_block, self.header.columns)

    @property
    def schema_block(self) -> bytes:
        """The bytes that describe the columns."""
        start = HEADER_SIZE + self.header.source_length
        return bytes(self.data[start : start + self.header.schema_length])

    @cached_property
    def seqs(self) -> npt.NDArray[np.int64]:
        """The seq of every row."""
        deltas = self._parts[0]
        if deltas is None:
            return np.arange(self.first, self.first + self.rows, dtype=np.int64)
        return deltas.astype(np.int64) + self.first

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns."""
        return self._parts[1]

    @cached_property
    def bodies(self) -> Texts:
        """The bodies, as offsets and bytes."""
        return self._parts[2]

    @cached_property
    def _by_name(self) -> dict[str, tuple[Column, ...]]:
        named: dict[str, tuple[Column, ...]] = {}
        for column in self.columns:
            named[column.name] = (*named.get(column.name, ()), column)
        return named

    def columns_named(self, name: str) -> tuple[Column, ...]:
        """The columns of that name, one for each type; in a row at most one is valid."""
        return self._by_name.get(name, ())

    @cached_property
    def _parts(self) -> tuple[npt.NDArray[np.uint32] | None, tuple[Column, ...], Texts]:
        reader = _Reader(self.data, HEADER_SIZE + self.header.source_length + self.header.schema_length)
        rows = self.rows
        deltas = reader.take("<u4", rows) if self.header.flags & SPARSE else None
        columns = []
        for field in self.fields:
            valid = reader.take("?", rows) if field.nullable else None
            raw = reader.texts(rows) if field.type is AttributeType.STRING else reader.take(DTYPES[field.type], rows)
            columns.append(Column(field, valid, raw))
        return deltas, tuple(columns), reader.texts(rows)

    @cached_property
    def attributes(self) -> list[Attributes]:
        """The attributes of every row as dicts. For small batches and single looks."""
        rows: list[Attributes] = [{} for _ in range(self.rows)]
        for column in self.columns:
            values = column.python_values()
            if column.valid is None:
                for row, value in zip(rows, values, strict=True):
                    row[column.name] = value
            else:
                for row, value, valid in zip(rows, values, column.valid.tolist(), strict=True):
                    if valid:
                        row[column.name] = value
        return rows

    @cached_property
    def plain_attributes(self) -> list[dict[str, Any]]:
        """The same with times as microseconds: what filters and journals look at."""
        rows: list[dict[str, Any]] = [{} for _ in range(self.rows)]
        for column in self.columns:
            name = column.name
            values = column.values if isinstance(column.raw, Texts) else column.values.tolist()
            if column.valid is None:
                for row, value in zip(rows, values, strict=True):
                    row[name] = value
            else:
                for row, value, valid in zip(rows, values, column.valid.tolist(), strict=True):
                    if valid:
                        row[name] = value
        return rows

    def validate(self) -> None:
        """Check every byte once, at the gate: what passes is trusted from then on. Raises WireError."""
        if self._valid:
            return
        source = self.source
        if not source.name:
            raise WireError("a batch names no source")
        deltas, columns, bodies = self._parts
        if deltas is not None:
            rising = bool((deltas[1:] > deltas[:-1]).all()) and deltas[0] == 0 and deltas[-1] == self.last - self.first
            if not rising:
                raise WireError(f"the seqs of a batch of {source} do not rise from {self.first} to {self.last}")
        for column in columns:
            _check_column(column)
        for name, several in self._by_name.items() if len(self._by_name) < len(columns) else ():
            if len(several) > 1 and bool((values_in_rows(several, self.rows) > 1).any()):
                raise WireError(f"attribute {name!r} has two values in one row")
        bodies.check("the bodies")
        self._valid = True

    def take(self, rows: Rows) -> Batch:
        """These rows alone, in this (rising) order; the seqs stay what they are."""
        if len(rows) == self.rows:
            return self
        deltas, columns, bodies = self._parts
        seqs = (rows if deltas is None else deltas[rows]).astype("<u4")
        first = self.first + int(seqs[0])
        last = self.first + int(seqs[-1])
        pieces: list[Bytes] = []
        sparse = last - first != len(rows) - 1
        if sparse:
            pieces.append((seqs - seqs[0]).tobytes())
        for column in columns:
            if column.valid is not None:
                pieces.append(column.valid[rows].tobytes())
            pieces.extend(column.raw.take(rows) if isinstance(column.raw, Texts) else (column.raw[rows].tobytes(),))
        pieces.extend(bodies.take(rows))
        header = self.header._replace(flags=SPARSE if sparse else 0, rows=len(rows), first=first, last=last)
        return assemble(header, self.source.name.encode(), self.schema_block, pieces, self._valid)

    def since(self, seq: int) -> Batch | None:
        """The rows above `seq`: None when there are none."""
        if self.first > seq:
            return self
        if self.last <= seq:
            return None
        return self.take(np.nonzero(self.seqs > seq)[0])

    def __iter__(self) -> Iterator[tuple[int, Attributes, bytes]]:
        """Each publication as seq, attributes and body."""
        return iter(zip(self.seqs.tolist(), self.attributes, self.bodies.slices(), strict=True))

    def __repr__(self) -> str:
        return f"Batch({self.source}, {self.first}..{self.last}, {self.rows} rows)"


class _Reader:
    """Walks the buffers of a batch in their order."""

    def __init__(self, data: Bytes, at: int) -> None:
        self.data = memoryview(data)
        self.at = padded(at)

    def take(self, dtype: str, count: int) -> npt.NDArray[Any]:
        size = np.dtype(dtype).itemsize * count
        if self.at + size > len(self.data):
            raise WireError(f"a batch ends at byte {len(self.data)}, inside a buffer that needs {self.at + size}")
        array = np.frombuffer(self.data, dtype, count, self.at)
        self.at += padded(size)
        return array

    def texts(self, rows: int) -> Texts:
        offsets = self.take("<u4", rows + 1)
        size = int(offsets[-1])
        if self.at + size > len(self.data):
            raise WireError(f"a batch ends at byte {len(self.data)}, inside a buffer that needs {self.at + size}")
        data = self.data[self.at : self.at + size]
        self.at += padded(size)
        return Texts(offsets, data)


def _check_column(column: Column) -> None:
    if isinstance(column.raw, Texts):
        column.raw.check(f"column {column.name!r}")
        column.raw.check_text(f"column {column.name!r}")
    for mask in (column.valid, column.raw if column.type is AttributeType.BOOL else None):
        if isinstance(mask, np.ndarray) and bool((mask.view(np.uint8) > 1).any()):
            raise WireError(f"column {column.name!r} holds a truth value that is neither 0 nor 1")


def values_in_rows(columns: Sequence[Column], rows: int) -> npt.NDArray[np.intp]:
    """How many of these columns have a value in each row."""
    counts = np.zeros(rows, np.intp)
    for column in columns:
        counts += 1 if column.valid is None else column.valid
    return counts


_PAD = [b"\0" * n for n in range(8)]


def assemble(header: Header, source: bytes, schema: bytes, buffers: Sequence[Bytes], valid: bool = True) -> Batch:
    """A batch of these parts, which are `valid` unless they are taken from a batch that has not been checked."""
    head = HEADER.pack(MAGIC, VERSION, *header)
    pieces: list[Bytes] = [head, source, schema, _PAD[-(HEADER_SIZE + len(source) + len(schema)) & 7]]
    for buffer in buffers:
        pieces.append(buffer)
        size = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
        if size & 7:
            pieces.append(_PAD[-size & 7])
    return Batch(b"".join(pieces), head, valid)
