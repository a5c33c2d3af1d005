"""The layout of a batch: the same bytes on the wire, in a log and in memory.

    0   magic "GB", version, flags          16  last seq              40  source length, column count
    4   rows                                24  incarnation           44  schema length
    8   first seq                           32  time (ns UTC)         48  source, schema, then the buffers

Every buffer begins at a multiple of eight from the start of the batch:

    seqs       uint32 per row, seq - first (only with SPARSE; otherwise the seqs are first, first + 1, …)
    columns    for each: validity, one byte per row (only if nullable), then its values:
               bool one byte, int64, float64 and timestamp eight bytes per row;
               string offsets (uint32, rows + 1) and UTF-8 bytes
    bodies     offsets (uint32, rows + 1) and bytes

The schema block repeats, per column: type, nullable, length of the name, name. It is the same bytes from batch to batch
of one publisher, so what it means is looked up, not parsed again.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from gapless.model.errors import WireError
from gapless.model.types import AttributeType

MAGIC = b"GB"
VERSION = 1
SPARSE = 1

HEADER = struct.Struct("<2sBBIQQQqHHI")
HEADER_SIZE = HEADER.size
TIME_OFFSET = 32
ROWS_MAX = 1 << 20
COLUMNS_MAX = 1024

_COLUMN = struct.Struct("<BBH")


class Field(NamedTuple):
    """One column of a schema."""

    name: str
    type: AttributeType
    nullable: bool


class Header(NamedTuple):
    """What a hop reads of a batch that it only forwards."""

    flags: int
    rows: int
    first: int
    last: int
    incarnation: int
    time: int
    source_length: int
    columns: int
    schema_length: int


def padded(size: int) -> int:
    """The size of a buffer with its padding."""
    return (size + 7) & ~7


def read_header(data: bytes | bytearray | memoryview) -> Header:
    """Read and check the fixed header; raises WireError."""
    if len(data) < HEADER_SIZE:
        raise WireError(f"a batch of {len(data)} bytes is shorter than its header of {HEADER_SIZE}")
    magic, version, *rest = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise WireError(f"a batch begins with {magic!r} instead of {MAGIC!r}")
    if version != VERSION:
        raise WireError(f"a batch has layout version {version}; this program reads version {VERSION}")
    header = Header(*rest)
    if not 1 <= header.rows <= ROWS_MAX:
        raise WireError(f"a batch of {header.rows} rows; between 1 and {ROWS_MAX} are allowed")
    if header.columns > COLUMNS_MAX:
        raise WireError(f"a batch of {header.columns} columns; at most {COLUMNS_MAX} are allowed")
    span = header.last - header.first
    if span != header.rows - 1 if not header.flags & SPARSE else not header.rows - 1 <= span < 1 << 32:
        raise WireError(f"a batch of {header.rows} rows cannot span seq {header.first} to {header.last}")
    return header


def write_schema(fields: tuple[Field, ...]) -> bytes:
    """The schema block of these columns."""
    parts = []
    for field in fields:
        name = field.name.encode()
        parts.append(_COLUMN.pack(field.type, field.nullable, len(name)))
        parts.append(name)
    return b"".join(parts)


@lru_cache(maxsize=4096)
def read_schema(block: bytes, count: int) -> tuple[Field, ...]:
    """The columns that a schema block describes; raises WireError."""
    fields = []
    at = 0
    try:
        for _ in range(count):
            kind, nullable, length = _COLUMN.unpack_from(block, at)
            at += _COLUMN.size
            if at + length > len(block):
                raise WireError("a schema block ends inside the name of a column")
            fields.append(Field(block[at : at + length].decode(), AttributeType(kind), bool(nullable)))
            at += length
    except (struct.error, ValueError) as error:
        raise WireError(f"a schema block cannot be read: {error}") from None
    if at != len(block):
        raise WireError(f"a schema block has {len(block) - at} bytes after its last column")
    if len({(field.name, field.type) for field in fields}) != len(fields):
        raise WireError("a schema block names a column twice")
    return tuple(fields)
