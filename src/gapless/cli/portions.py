"""Publications from arguments, NDJSON, CSV and Parquet, a portion at a time, each row with a name for complaints."""

from __future__ import annotations

import base64
import binascii
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from gapless.model.arrow import ARROW_TYPES, BODY, TIMESTAMP
from gapless.model.errors import AttributeTypeError, ConfigError, PublicationError
from gapless.model.types import AttributeType, AttributeValue

ROWS = 1024
READ_BYTES = 1 << 16
LINE_BYTES_MAX = 64 << 20
FORMATS = {".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv", ".parquet": "parquet"}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

Declared = Mapping[str, AttributeType]


class Portion(NamedTuple):
    """Some rows, their bodies unless they are a table, and what each row is called in complaints."""

    rows: Sequence[dict[str, Any]] | pa.RecordBatch
    bodies: list[bytes] | None
    names: Sequence[str]

    def parts(self, size: int) -> Iterator[Portion]:
        """The same rows in portions of at most this size."""
        for start in range(0, len(self.names), size):
            end = min(start + size, len(self.names))
            rows = (
                self.rows.slice(start, end - start) if isinstance(self.rows, pa.RecordBatch) else self.rows[start:end]
            )
            yield Portion(rows, None if self.bodies is None else self.bodies[start:end], self.names[start:end])


Complain = Callable[[str, Exception], None]  # what is wrong with the row of that name


# --- one, from arguments ----------------------------------------------------------------------------------------------


def attributes_of(texts: Sequence[str], declared: Declared) -> dict[str, AttributeValue]:
    """The attributes in arguments like `price=4.5`. Raises AttributeTypeError."""
    attributes: dict[str, AttributeValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise AttributeTypeError(f"{text!r} is no attribute: write NAME=VALUE, for example price=4.5")
        if name in attributes:
            raise AttributeTypeError(f"attribute {name!r} is given twice: give it once")
        attributes[name] = value_of(name, value, declared.get(name))
    return attributes


def value_of(name: str, text: str, declared: AttributeType | None) -> AttributeValue:
    """The value that a text means: what the space declares, else what it looks like. Quotes make it a string."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if declared is AttributeType.STRING:
        return text
    if text in ("true", "false"):
        return text == "true"
    if declared is AttributeType.FLOAT64 and _FLOAT.fullmatch(text):
        return float(text)
    if declared is AttributeType.TIMESTAMP:
        return _time(name, text)
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _time(name: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise AttributeTypeError(
            f"attribute {name!r} is {text!r}, but its space declares it as timestamp: write it like 2024-01-31T12:00Z"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


# --- many, from files -------------------------------------------------------------------------------------------------


def format_of(name: str, given: str | None) -> str:
    """Which format a file has. Raises ConfigError when nobody says."""
    if given is not None:
        return given
    if name == "-":
        return "ndjson"
    found = FORMATS.get(Path(name).suffix.lower())
    if found is None:
        raise ConfigError(f"{name!r} does not tell its format: name it with --format ndjson, csv or parquet")
    return found


def portions_of(name: str, kind: str, body: str, declared: Declared, complain: Complain) -> Iterator[Portion]:
    """The portions of a file, or of standard input (`-`). Raises ConfigError and PublicationError."""
    try:
        # Unbuffered, so that what comes through a pipe is taken as it comes.
        with open(0 if name == "-" else name, "rb", buffering=0, closefd=name != "-") as file:
            if kind == "ndjson":
                yield from _ndjson(file, body, declared, complain)
            elif kind == "csv":
                yield from _csv(file, body, declared, complain)
            else:
                yield from _parquet(io.BytesIO(file.read()) if name == "-" else file, body)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}; name a file") from None
    except pa.ArrowInvalid as error:
        raise PublicationError(f"{name} cannot be read on: {error}; correct it, or name its --format") from None


def _ndjson(file: BinaryIO, body: str, declared: Declared, complain: Complain) -> Iterator[Portion]:
    number = 0
    for lines in _line_groups(file):
        rows: list[dict[str, Any]] = []
        bodies: list[bytes] = []
        names: list[str] = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                row, content = _publication_of(line, body, declared)
            except PublicationError as error:
                complain(f"line {number}", error)
                continue
            rows.append(row)
            bodies.append(content)
            names.append(f"line {number}")
        if rows:
            yield from Portion(rows, bodies, names).parts(ROWS)


def _line_groups(file: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that are there, as they come."""
    rest: list[bytes] = []
    size = 0
    while chunk := file.read(READ_BYTES):
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield b"".join([*rest, head]).split(b"\n")
            rest, size = [tail], len(tail)
        else:
            rest.append(chunk)
            size += len(chunk)
            if size > LINE_BYTES_MAX:
                raise PublicationError(
                    f"a line is longer than {LINE_BYTES_MAX} bytes: end each publication with a newline"
                )
    if last := b"".join(rest):
        yield [last]


def _publication_of(line: bytes, body: str, declared: Declared) -> tuple[dict[str, Any], bytes]:
    """A line: an object of attributes, or one with `attributes` beside the body, as `subscribe --json` prints it."""
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PublicationError(f"this is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise PublicationError(f'this is {type(row).__name__}, not an object: write {{"name": value}}')
    content = _body_of(row, body)
    if isinstance(row.get("attributes"), dict):
        row = row["attributes"]
    if declared:
        row = {name: _as_declared(name, value, declared.get(name)) for name, value in row.items()}
    return row, content


def _body_of(row: dict[str, Any], body: str) -> bytes:
    encoded = row.pop("body_base64", None)
    content = row.pop(body, None)
    try:
        if encoded is not None:
            return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise PublicationError("its `body_base64` is not base64") from None
    if content is None:
        return b""
    if not isinstance(content, str):
        raise AttributeTypeError(f"its body {body!r} is {type(content).__name__}: bodies are text here")
    return content.encode()


def _as_declared(name: str, value: Any, declared: AttributeType | None) -> Any:
    """JSON has one kind of number and no times: what the space declares decides."""
    if declared is AttributeType.FLOAT64 and type(value) is int:
        return float(value)
    if declared is AttributeType.TIMESTAMP and isinstance(value, str):
        return _time(name, value)
    return value


def _csv(file: BinaryIO, body: str, declared: Declared, complain: Complain) -> Iterator[Portion]:
    def skip(row: pa.csv.InvalidRow) -> str:
        columns = f"{row.actual_columns} columns instead of {row.expected_columns}"
        complain(f"line {row.number}", PublicationError(columns))
        return "skip"

    # Times are taken as they look: a declared type would insist on a zone in every row, or in none.
    types = {name: ARROW_TYPES[kind] for name, kind in declared.items() if kind is not AttributeType.TIMESTAMP}
    reader = pa.csv.open_csv(
        file,
        read_options=pa.csv.ReadOptions(use_threads=False),
        parse_options=pa.csv.ParseOptions(invalid_row_handler=skip, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(column_types={**types, body: pa.string()}),
    )
    yield from _tables(reader, body)


def _parquet(file: BinaryIO, body: str) -> Iterator[Portion]:
    yield from _tables(pa.parquet.ParquetFile(file).iter_batches(batch_size=ROWS * 16), body)


def _tables(batches: Iterator[pa.RecordBatch], body: str) -> Iterator[Portion]:
    number = 0
    for batch in batches:
        table = _as_attributes(batch, body)
        names = _Numbered(number + 1, table.num_rows)
        number += table.num_rows
        if table.num_rows:
            yield Portion(table, None, names)


class _Numbered(Sequence[str]):
    """`row 1`, `row 2` and so on, made when somebody asks."""

    def __init__(self, first: int, count: int) -> None:
        self._numbers = range(first, first + count)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            some = self._numbers[index]
            return _Numbered(some.start, len(some))
        return f"row {self._numbers[index]}"


def _as_attributes(batch: pa.RecordBatch, body: str) -> pa.RecordBatch:
    """The columns as attributes can be: times to the microsecond, UTC if they have no zone, and a body named `body`."""
    if body != BODY and body not in batch.schema.names:
        raise ConfigError(f"there is no column {body!r} for the body; there are {', '.join(batch.schema.names)}")
    names, columns = [], []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if body != BODY and name == BODY:
            raise ConfigError(f"the column {BODY!r} cannot be an attribute beside a body from {body!r}: rename it")
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            column = column.cast(TIMESTAMP, safe=False)
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us"), safe=False).cast(TIMESTAMP)
        names.append(BODY if name == body else name)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names)


def standard_input_is_a_terminal() -> bool:
    """Whether a person would have to type what is published."""
    return sys.stdin is not None and sys.stdin.isatty()
