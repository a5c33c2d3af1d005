"""Batches: what was handed in comes out, whatever is done to them on the way, and nothing else is let in."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import Sent, all_rows, batches, taken

from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.errors import AttributeTypeError, TooLarge, WireError
from gapless.model.layout import (
    COLUMNS_MAX,
    HEADER_SIZE,
    ROWS_MAX,
    Field,
    padded,
    read_header,
    read_schema,
    write_schema,
)
from gapless.model.types import AttributeType, Source

SOURCE = Source("source", 7)


def says(batch: Batch) -> Sent:
    """What a batch says."""
    return [(seq, dict(attributes), body) for seq, attributes, body in batch]


@given(batches())
def test_what_goes_in_comes_out(drawn: tuple[Batch, Sent]) -> None:
    """A batch says what was handed in, but for nulls, before and after it was bytes; types are kept."""
    batch, sent = drawn
    again = Batch(batch.encode())
    again.validate()
    for one in (batch, again):
        assert says(one) == sent
        assert [{name: type(value) for name, value in row.items()} for _, row, _ in says(one)] == [
            {name: type(value) for name, value in row.items()} for _, row, _ in sent
        ]
        assert (one.first, one.last, one.rows) == (sent[0][0], sent[-1][0], len(sent))
        assert one.source == batch.source and one.size == len(one.encode())


@given(batches(), st.data())
def test_taking_rows(drawn: tuple[Batch, Sent], data: st.DataObject) -> None:
    """Any rows of a batch are a batch of those publications under the numbers they had, and again so."""
    batch, sent = drawn
    for _ in range(2):
        rows = sorted(data.draw(st.sets(st.integers(0, batch.rows - 1), min_size=1)))
        batch, sent = taken(batch, rows), [sent[row] for row in rows]
        batch.validate()
        assert says(batch) == sent and says(Batch(batch.encode())) == sent


@given(batches(), st.data())
def test_since(drawn: tuple[Batch, Sent], data: st.DataObject) -> None:
    """What is above a number is all of it, some of it, or nothing."""
    batch, sent = drawn
    seq = data.draw(st.sampled_from([one for one, _, _ in sent]) | st.integers(0, 1 << 62)) + data.draw(
        st.integers(-1, 1)
    )
    above = [one for one in sent if one[0] > seq]
    rest = batch.since(seq)
    assert (says(rest) if rest is not None else []) == above


@given(batches(), st.integers(-(1 << 62), 1 << 62))
def test_stamping(drawn: tuple[Batch, Sent], time: int) -> None:
    """A stamp changes the time and nothing else, and leaves the batch it came from alone."""
    batch, sent = drawn
    stamped = batch.stamped(time)
    assert (batch.time, stamped.time, Batch(stamped.encode()).time) == (0, time, time)
    assert says(stamped) == sent and stamped.encode()[HEADER_SIZE:] == batch.encode()[HEADER_SIZE:]


@given(batches())
def test_columns(drawn: tuple[Batch, Sent]) -> None:
    """Columns say the same as rows; where a name has several types, one at most is valid in a row."""
    batch, sent = drawn
    for name in {name for _, row, _ in sent for name in row}:
        columns = batch.columns_named(name)
        valid = [np.ones(batch.rows, bool) if column.valid is None else column.valid for column in columns]
        assert (np.sum(valid, axis=0) <= 1).all()
        for row, (_, attributes, _) in enumerate(sent):
            found = [column.python_values()[row] for column, mask in zip(columns, valid, strict=True) if mask[row]]
            assert found == ([attributes[name]] if name in attributes else [])
    assert batch.columns_named("no such name") == ()


@given(batches(), st.data())
def test_corrupt_bytes(drawn: tuple[Batch, Sent], data: st.DataObject) -> None:
    """Bytes changed, cut off or added are refused with a WireError, or are a batch that can be read in full."""
    corrupt = bytearray(drawn[0].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(corrupt) - 1))
        corrupt[at : at + 1] = data.draw(st.binary(max_size=2))
        if not corrupt:
            break
    try:
        batch = Batch(bytes(corrupt))
        batch.validate()
    except WireError:
        return
    assert batch.rows >= 1
    for column in batch.columns:
        assert len(column.values) == batch.rows
        if column.type is not AttributeType.TIMESTAMP:
            column.python_values()
    assert len(batch.bodies.slices()) == len(batch.seqs) == batch.rows
    seqs = batch.seqs.tolist()
    assert seqs == sorted(set(seqs)) and seqs[0] == batch.first and seqs[-1] == batch.last
    if batch.rows > 1:
        part = taken(batch, [0, batch.rows - 1])
        part.validate()


def _changed(batch: Batch, at: int, replacement: bytes) -> bytes:
    data = bytearray(batch.encode())
    data[at : at + len(replacement)] = replacement
    return bytes(data)


def test_each_flaw_is_named() -> None:
    """What is wrong with the bytes of a batch is said."""
    batch = batch_of_rows(SOURCE, 5, [{"s": "ä", "b": True}, {"s": "xy"}], [b"one", b""])
    sparse = taken(batch_of_rows(SOURCE, 5, [{}] * 4, [b""] * 4), [0, 1, 3])
    truth = batch_of_rows(SOURCE, 1, [{"b": True}], [b""])
    nameless = batch_of_rows(Source("", 1), 1, [{}], [b""])
    start = len(batch.encode())
    schema = HEADER_SIZE + len(SOURCE.name)
    flaws: list[tuple[bytes, str]] = [
        (b"GB", "shorter than its header"),
        (_changed(batch, 0, b"XX"), "begins with b'XX'"),
        (_changed(batch, 2, b"\x09"), "layout version 9"),
        (_changed(batch, 4, struct.pack("<I", 0)), "0 rows"),
        (_changed(batch, 4, struct.pack("<I", ROWS_MAX + 1)), "rows"),
        (_changed(batch, 4, struct.pack("<I", 3)), "cannot span"),
        (_changed(batch, 42, struct.pack("<H", COLUMNS_MAX + 1)), "columns"),
        (_changed(batch, HEADER_SIZE, b"\xff"), "name of a source is not UTF-8"),
        (batch.encode()[: start - 8], "inside a buffer"),
        (batch.encode().replace("ä".encode(), b"\xff\xff"), "not UTF-8"),
        (_changed(batch, schema, b"\x09"), "schema block cannot be read"),
        (_changed(sparse, padded(schema) + 4, b"\x09"), "do not rise from 5 to 8"),
        (_changed(truth, padded(schema + len(truth.schema_block)), b"\x02"), "neither 0 nor 1"),
        (nameless.encode(), "names no source"),
    ]
    for data, says_so in flaws:
        with pytest.raises(WireError, match=says_so):
            Batch(data).validate()


def test_a_row_has_one_value_of_a_name() -> None:
    """Two columns of one name may stand beside each other, but not both be valid in a row."""
    batch = batch_of_rows(SOURCE, 1, [{"n": 5}, {"n": "a"}] * 8, [b""] * 16)
    batch.validate()
    number = next(column for column in batch.columns if column.type is AttributeType.INT64)
    assert number.valid is not None
    at = batch.encode().index(number.valid.tobytes())
    both = Batch(_changed(batch, at, b"\1" * 16))
    with pytest.raises(WireError, match="'n' has two values in one row"):
        both.validate()


def test_what_stands_in_a_null_is_looked_at_by_nobody() -> None:
    """A timestamp that is not there may have any bytes: the rows beside it come out as they are."""
    there = datetime(2026, 1, 1, tzinfo=UTC)
    batch = batch_of_rows(SOURCE, 1, [{"t": there, "n": 1}, {"n": 2}], [b""] * 2)
    times = next(column for column in batch.columns if column.name == "t")
    assert isinstance(times.raw, np.ndarray)
    at = batch.encode().index(times.raw.tobytes())
    for garbage in (1 << 62, -(1 << 63)):
        strange = Batch(_changed(batch, at + 8, struct.pack("<q", garbage)))
        strange.validate()
        assert strange.attributes == [{"t": there, "n": 1}, {"n": 2}]
        assert strange.columns_named("t")[0].rows_beyond_calendar().tolist() == []


def test_texts_cut_inside_a_character() -> None:
    """Offsets that fall inside a character are refused, though all the bytes together are UTF-8."""
    batch = batch_of_rows(SOURCE, 1, [{"s": "ä"}, {"s": "b"}], [b"", b""])
    data = batch.encode()
    offsets = struct.pack("<III", 0, 2, 3)
    at = data.index(offsets)
    with pytest.raises(WireError, match="cut inside a character"):
        Batch(_changed(batch, at, struct.pack("<III", 0, 1, 3))).validate()
    with pytest.raises(WireError, match="do not rise"):
        Batch(_changed(batch, at, struct.pack("<III", 1, 2, 3))).validate()


@given(all_rows)
def test_schema_blocks(rows: list[dict[str, Any]]) -> None:
    """A schema block says its fields; cut short or run on it is refused."""
    fields = batch_of_rows(SOURCE, 1, rows, [b""] * len(rows)).fields
    block = write_schema(fields)
    assert read_schema(block, len(fields)) == fields
    with pytest.raises(WireError):
        read_schema(block + b"\0", len(fields))
    with pytest.raises(WireError):
        read_schema(block, len(fields) + 1)
    for cut in range(len(block)):
        with pytest.raises(WireError):
            read_schema(block[:cut], len(fields))


def test_schema_blocks_that_lie() -> None:
    """A column named twice under one type, of a type that does not exist, or in no alphabet, is refused."""
    twice = (Field("a", AttributeType.BOOL, False),) * 2
    unknown = bytearray(write_schema(twice[:1]))
    unknown[0] = 9
    letters = write_schema((Field("ab", AttributeType.BOOL, False),)).replace(b"ab", b"\xff\xfe")
    for block, count in ((write_schema(twice), 2), (bytes(unknown), 1), (letters, 1)):
        with pytest.raises(WireError):
            read_schema(block, count)


@given(st.binary(max_size=80))
def test_headers_of_noise(data: bytes) -> None:
    """Noise is no header."""
    with pytest.raises(WireError):
        read_header(data)


def test_numbers_that_are_not() -> None:
    """NaN and the infinities are float64 values like others."""
    rows = [{"x": math.nan}, {"x": math.inf}, {"x": -math.inf}, {"x": -0.0}]
    got = [row["x"] for row in Batch(batch_of_rows(SOURCE, 1, rows, [b""] * 4).encode()).attributes]
    assert str(got) == "[nan, inf, -inf, -0.0]"


def test_what_no_batch_can_hold() -> None:
    """More columns than fit, bodies that are no bytes, rows that are no mappings: each is said."""
    with pytest.raises(TooLarge, match="1025 different attributes"):
        batch_of_rows(SOURCE, 1, [{f"a{n}": n for n in range(COLUMNS_MAX + 1)}], [b""])
    with pytest.raises(AttributeTypeError, match="a body is str"):
        batch_of_rows(SOURCE, 1, [{}], ["text"])  # type: ignore[list-item]  # that is what is tried
    for row in ("text", 7, [1]):
        with pytest.raises(AttributeTypeError, match="give a mapping"):
            batch_of_rows(SOURCE, 1, [row, row], [b"", b""])  # type: ignore[list-item]  # as above
