"""Batches to and from Arrow: the same values, the same bytes for whoever reads them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import Sent, batches, rows_of_one_kind

from gapless.model.arrow import BODY, TIMESTAMP, batch_of_table, table_of_batch
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.errors import AttributeTypeError, PublicationError
from gapless.model.types import Source

SOURCE = Source("source", 7)


@given(batches())
def test_every_batch_is_a_table(drawn: tuple[Batch, Sent]) -> None:
    """A table has source, seq, time and body of every row, and a column for each attribute and type."""
    batch, sent = drawn
    table = table_of_batch(batch.stamped(1_700_000_000_123_456_789))
    table.validate(full=True)
    assert len(set(table.schema.names)) == len(table.schema.names) == len(batch.columns) + 4
    assert table.schema.names[:3] == ["source", "seq", "time"] and table.schema.names[-1] == BODY
    assert table.column("seq").to_pylist() == [seq for seq, _, _ in sent]
    assert table.column("source").to_pylist() == [batch.source.name] * len(sent)
    assert table.column(BODY).to_pylist() == [body for _, _, body in sent]
    assert table.column("time").cast(pa.int64()).to_pylist() == [1_700_000_000_123_456] * len(sent)
    for row in range(table.num_rows):
        got = [column[row].as_py() for column in table.columns[3:-1] if column[row].is_valid]
        assert sorted(map(_shown, got)) == sorted(map(_shown, sent[row][1].values()))


def _shown(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


@given(rows_of_one_kind(), st.data())
def test_tables_and_rows_say_the_same(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """The batch of a table, or of a slice of one, is the batch of its rows."""
    bodies = [data.draw(st.binary(max_size=3)) for _ in range(min(len(rows), 5))]
    all_bodies = [bodies[row % len(bodies)] for row in range(len(rows))]
    columns = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
    table = pa.RecordBatch.from_pydict({**columns, BODY: pa.array(all_bodies, pa.binary())})
    start = data.draw(st.integers(0, len(rows) - 1))
    part = table.slice(start)
    of_table = batch_of_table(SOURCE, 9, part)
    of_table.validate()
    assert list(of_table) == list(batch_of_rows(SOURCE, 9, rows[start:], all_bodies[start:]))
    if all(value is not None for row in rows for value in row.values()):
        assert of_table.encode() == batch_of_rows(SOURCE, 9, rows[start:], all_bodies[start:]).encode()


@given(
    st.lists(st.none() | st.integers(-100, 100), min_size=1, max_size=20),
    st.sampled_from([pa.int8(), pa.int64(), pa.float32(), pa.float64()]),
    st.integers(0, 19),
)
def test_nulls(numbers: list[int | None], kind: pa.DataType, start: int) -> None:
    """Nulls are absent attributes; what lies under them in memory is not sent."""
    start = min(start, len(numbers) - 1)
    noise = np.full(len(numbers), 77)
    values = pa.array(noise, mask=np.array([number is None for number in numbers]))
    real = pa.array(numbers, pa.int64())
    mixed = pa.Array.from_buffers(pa.int64(), len(numbers), [values.buffers()[0], pa.py_buffer(_filled(numbers))])
    assert mixed.equals(real)
    batch = batch_of_table(SOURCE, 1, pa.RecordBatch.from_pydict({"n": mixed.cast(kind)}).slice(start))
    assert [row.get("n") for row in batch.attributes] == numbers[start:]
    (column,) = batch.columns
    if column.valid is not None:
        assert not column.values[~column.valid].any()


def _filled(numbers: list[int | None]) -> bytes:
    return np.array([77 if number is None else number for number in numbers], "<i8").tobytes()


def test_kinds_of_columns() -> None:
    """Dictionaries, large and view strings, small integers and times in other zones and units become attributes."""
    there = UTC
    when = datetime(2024, 5, 6, 7, 8, 9, 10, there)
    table = pa.RecordBatch.from_pydict(
        {
            "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
            "large": pa.array(["a", None, "ü"], pa.large_string()),
            "view": pa.array(["a", None, "ü"], pa.string_view()),
            "small": pa.array([1, None, -1], pa.int8()),
            "unsigned": pa.array([1, None, (1 << 63) - 1], pa.uint64()),
            "half": pa.array(np.array([0.5, 1, 2], np.float16)),
            "flag": pa.array([True, None, False]),
            "tokyo": pa.array([when, None, when]).cast(pa.timestamp("us", "Asia/Tokyo")),
            "seconds": pa.array([0, None, 1], pa.timestamp("s", "UTC")),
            "nothing": pa.nulls(3),
            BODY: pa.array(["x", None, "ü"], pa.large_string()),
        }
    )
    rows = list(batch_of_table(SOURCE, 1, table))
    assert rows[1] == (2, {"half": 1.0}, b"")
    assert rows[2][1]["unsigned"] == (1 << 63) - 1 and rows[2][2] == "ü".encode()
    assert rows[0][1] == {
        "dictionary": "a",
        "large": "a",
        "view": "a",
        "small": 1,
        "unsigned": 1,
        "half": 0.5,
        "flag": True,
        "tokyo": when,
        "seconds": datetime(1970, 1, 1, tzinfo=there),
    }


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.array([[1]]), "list"),
        (pa.array([b"x"]), "binary"),
        (pa.array([Decimal(1)]), "decimal"),
        (pa.array([date(2024, 1, 1)]), "date32"),
        (pa.array([datetime(2024, 1, 1)]), "timestamp"),  # noqa: DTZ001  # that is what is tried
        (pa.array([1 << 63], pa.uint64()), "cannot become int64"),
        (pa.array([1 << 62], TIMESTAMP), "years 1 to 9999"),
        (pa.array([-(1 << 62)], TIMESTAMP), "years 1 to 9999"),
        (pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")), "not UTF-8"),
    ],
)
def test_columns_that_are_no_attributes(column: pa.Array, says: str) -> None:
    """A column of another type, or with a value that no attribute can have, is named."""
    with pytest.raises(AttributeTypeError, match=f"'odd'.*{says}"):
        batch_of_table(SOURCE, 1, pa.RecordBatch.from_arrays([column], ["odd"]))


def test_tables_that_are_no_batch() -> None:
    """A table without rows, with two columns of one name, or with a nameless one, is refused."""
    with pytest.raises(PublicationError, match="without rows"):
        batch_of_table(SOURCE, 1, pa.RecordBatch.from_pydict({"a": pa.array([], pa.int64())}))
    for names, says in ((["a", "a"], "two columns are named 'a'"), (["", "a"], "names have 1 to 255 bytes")):
        with pytest.raises(AttributeTypeError, match=says):
            batch_of_table(SOURCE, 1, pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names))


def test_names_that_are_taken() -> None:
    """Attributes named like the four columns of every table, or alike but for their type, get names of their own."""
    rows: list[dict[str, Any]] = [{"source": 1, "seq": "s", "body": 2, "body:int64": 3}, {"source": "x", "body": True}]
    names = table_of_batch(batch_of_rows(SOURCE, 1, rows, [b"", b""])).schema.names
    assert len(set(names)) == len(names) and {"source:int64", "source:string", "seq:string"} <= set(names)
    assert [names.count(name) for name in ("source", "seq", "time", "body")] == [1, 1, 1, 1]
