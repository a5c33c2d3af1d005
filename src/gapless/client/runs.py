"""What an application hands in, before it is a batch: rows or an Arrow table, which can be encoded or halved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from gapless.delivery.port import SpaceSettings
from gapless.model.arrow import batch_of_table, check_schema
from gapless.model.batch import Batch, Column, Rows, Texts, values_in_rows
from gapless.model.columns import batch_of_rows
from gapless.model.errors import AttributeTypeError, PublicationError, SchemaError, TooLarge
from gapless.model.types import AttributeType, AttributeValue, Source

BATCH_ROWS_MAX = 1024
BATCH_BYTES_MAX = 1 << 20
Row = Mapping[str, AttributeValue | None]


class Run(Protocol):
    """Publications that follow one another."""

    count: int  # how many

    def part(self, start: int, stop: int) -> Self:
        """Some of them."""
        ...

    def encode(self, source: Source, first: int) -> Batch:
        """Their batch, numbered from `first`. Raises PublicationError when one of them cannot be published."""
        ...


class RowsRun:
    """Attributes and bodies as lists."""

    __slots__ = ("bodies", "count", "rows")

    def __init__(self, rows: Sequence[Row], bodies: Sequence[bytes]) -> None:
        self.rows = rows
        self.bodies = bodies
        self.count = len(rows)

    def part(self, start: int, stop: int) -> RowsRun:
        """Some of them."""
        return RowsRun(self.rows[start:stop], self.bodies[start:stop])

    def encode(self, source: Source, first: int) -> Batch:
        """Their batch."""
        return batch_of_rows(source, first, self.rows, self.bodies)


class TableRun:
    """Rows of an Arrow table."""

    __slots__ = ("count", "table")

    def __init__(self, table: pa.RecordBatch) -> None:
        self.table = table
        self.count = int(table.num_rows)

    def part(self, start: int, stop: int) -> TableRun:
        """Some of them."""
        return TableRun(self.table.slice(start, stop - start))

    def encode(self, source: Source, first: int) -> Batch:
        """Their batch."""
        return batch_of_table(source, first, self.table)


def runs_of(rows: Any, bodies: Sequence[bytes] | None) -> Iterator[Run]:
    """What `send_many` was given, in runs of the size of a batch. Raises AttributeTypeError for what is neither."""
    if _is_frame(rows):
        if bodies is not None:
            raise PublicationError("bodies of a table are its column `body`: do not give them a second time")
        return _table_runs(rows)
    if isinstance(rows, Mapping | str | bytes) or not isinstance(rows, Iterable):
        raise AttributeTypeError(
            f"send_many takes rows in a list, an Arrow table or a data frame, not {type(rows).__name__}: "
            "one publication goes by send"
        )
    some = rows if isinstance(rows, Sequence) else list(rows)
    if bodies is not None and len(bodies) != len(some):
        raise PublicationError(f"{len(some)} rows with {len(bodies)} bodies: give one body for each row")
    return (
        RowsRun(
            some[start : start + BATCH_ROWS_MAX],
            [b""] * len(some[start : start + BATCH_ROWS_MAX])
            if bodies is None
            else bodies[start : start + BATCH_ROWS_MAX],
        )
        for start in range(0, len(some), BATCH_ROWS_MAX)
    )


def _is_frame(rows: Any) -> bool:
    return hasattr(rows, "to_arrow") or type(rows).__module__.partition(".")[0] in ("pyarrow", "pandas")


def _table_runs(rows: Any) -> Iterator[Run]:
    if hasattr(rows, "to_arrow"):
        rows = rows.to_arrow()
    elif type(rows).__module__.partition(".")[0] == "pandas":
        try:
            rows = pa.Table.from_pandas(rows, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise AttributeTypeError(f"the data frame has a column of mixed or foreign values: {error}") from None
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise AttributeTypeError(f"send_many takes an Arrow table or record batch, not {type(rows).__name__}")
    check_schema(rows.schema)
    size = max(1, min(BATCH_ROWS_MAX, BATCH_BYTES_MAX * rows.num_rows // max(rows.nbytes, 1)))
    return (TableRun(part) for part in rows.to_batches(max_chunksize=size) if part.num_rows)


# --- what the space will not have -------------------------------------------------------------------------------------


def flaws_of(batch: Batch, settings: SpaceSettings, frame_bytes_max: int) -> dict[int, PublicationError]:
    """What is wrong with which rows, by the rules of the space: the broker would refuse the whole batch for them."""
    flaws: dict[int, PublicationError] = {}
    if batch.header.columns > settings.attributes_max:
        flaws.update(_too_many(batch, settings))
    if settings.attributes:
        for column in batch.columns:
            declared = settings.attributes.get(column.name)
            if declared is not None and declared is not column.type:
                flaws.update(_mistyped(column, declared, batch.rows, settings.name))
    for column in batch.columns:
        if column.type is AttributeType.TIMESTAMP:
            flaws.update(_beyond_calendar(column))
    if batch.size > min(settings.body_bytes_max, settings.attribute_bytes_max):
        flaws.update(_too_large(batch, settings))
    if batch.size > frame_bytes_max and batch.rows == 1:
        flaws[0] = TooLarge(
            f"a publication of {batch.size} bytes, and at most {frame_bytes_max} go over the wire to this broker: "
            "send it in parts, or raise frame_bytes_max"
        )
    return flaws


def _too_many(batch: Batch, settings: SpaceSettings) -> dict[int, PublicationError]:
    counts = values_in_rows(batch.columns, batch.rows)
    return {
        row: TooLarge(
            f"a publication with {counts[row]} attributes for space {settings.name!r}, which takes at most "
            f"{settings.attributes_max}: put some of them into the body, or raise attributes_max"
        )
        for row in np.nonzero(counts > settings.attributes_max)[0].tolist()
    }


def _mistyped(column: Column, declared: AttributeType, rows: int, space: str) -> dict[int, PublicationError]:
    values = column.python_values()
    return {
        row: SchemaError(
            f"attribute {column.name!r} is {values[row]!r}, which is {column.type.name.lower()}, but space {space!r} "
            f"declares it as {declared.name.lower()}: publish it with that type"
        )
        for row in _valid_rows(column, rows)
    }


def _beyond_calendar(column: Column) -> dict[int, PublicationError]:
    return {
        row: AttributeTypeError(f"timestamp {column.name!r} is outside the years 1 to 9999, in UTC: publish it as int")
        for row in column.rows_beyond_calendar().tolist()
    }


def _valid_rows(column: Column, rows: int) -> list[int]:
    return list(range(rows)) if column.valid is None else np.nonzero(column.valid)[0].tolist()


def _too_large(batch: Batch, settings: SpaceSettings) -> dict[int, PublicationError]:
    flaws: dict[int, PublicationError] = {}
    limit = settings.body_bytes_max
    for row, size in _beyond(batch.bodies, limit):
        flaws[row] = TooLarge(body_too_large(size, settings))
    limit = settings.attribute_bytes_max
    for column in batch.columns:
        if isinstance(column.raw, Texts):
            for row, size in _beyond(column.raw, limit):
                flaws[row] = TooLarge(
                    f"attribute {column.name!r} of {size} bytes for space {settings.name!r}, which takes at most "
                    f"{limit}: put it into the body, or raise attribute_bytes_max"
                )
    return flaws


def _beyond(texts: Texts, limit: int) -> list[tuple[int, int]]:
    sizes = np.diff(texts.offsets.astype(np.int64))
    rows: Rows = np.nonzero(sizes > limit)[0]
    return list(zip(rows.tolist(), sizes[rows].tolist(), strict=True))


def body_too_large(size: int, settings: SpaceSettings) -> str:
    """The sentence for a body over the limit of its space."""
    return (
        f"a body of {size} bytes for space {settings.name!r}, which takes at most {settings.body_bytes_max}: "
        "send it in parts, or raise body_bytes_max"
    )
