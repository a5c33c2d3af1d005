"""Publications from arguments, NDJSON, CSV and Parquet, a portion at a time, each row with a name for complaints."""

from __future__ import annotations

import base64
import binascii
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet

from gapless.cli.cells import FLOAT, INTEGER, NOT_FINITE, float_of, integer_of, time_of
from gapless.model.arrow import BODY, TIMESTAMP, check_schema
from gapless.model.errors import AttributeTypeError, ConfigError, PublicationError
from gapless.model.types import AttributeType, AttributeValue
from gapless.node.sockets import cause_of

ROWS = 1024
READ_BYTES = 1 << 16
LINE_BYTES_MAX = 64 << 20
FORMATS = {".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv", ".parquet": "parquet"}

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
    """The attributes in arguments like `price=4.5`. Raises ConfigError and AttributeTypeError."""
    attributes: dict[str, AttributeValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"{text!r} is no attribute: write NAME=VALUE, for example price=4.5")
        if name in attributes:
            raise ConfigError(f"attribute {name!r} is given twice: give it once")
        attributes[name] = value_of(name, value, declared.get(name))
    return attributes


def value_of(name: str, text: str, declared: AttributeType | None) -> AttributeValue:
    """The value that a text means: what the space declares, else what it looks like. Quotes make it a string."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if declared is AttributeType.STRING:
        return text
    if declared is AttributeType.TIMESTAMP:
        return time_of(name, text)
    if text in ("true", "false"):
        return text == "true"
    if declared is AttributeType.FLOAT64 and text in NOT_FINITE:
        return float(text)
    if re.fullmatch(INTEGER, text) and declared is not AttributeType.FLOAT64:
        return integer_of(name, text)
    return float_of(name, text) if re.fullmatch(FLOAT, text) else text


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


def portions_of(
    name: str, kind: str, body: str, declared: Declared, complain: Complain, tell: Callable[[str], None]
) -> Iterator[Portion]:
    """The portions of a file, or of standard input (`-`); `tell` is told what is worth knowing of the whole.

    Raises ConfigError and PublicationError.
    """
    from gapless.cli.csv_rows import Source, csv_portions

    called = "standard input" if name == "-" else name
    try:
        # Unbuffered, so that what comes through a pipe is taken as it comes.
        with open(0 if name == "-" else name, "rb", buffering=0, closefd=name != "-") as file:
            if kind == "ndjson":
                yield from _ndjson(file, called, body, declared, complain)
            elif kind == "csv":
                yield from csv_portions(Source(file, called, body, complain, tell), declared)
            else:
                yield from _parquet(io.BytesIO(file.read()) if name == "-" else file, called, body)
    except OSError as error:
        raise ConfigError(f"{called} cannot be read: {cause_of(error)}; name a file") from None
    except pa.ArrowInvalid as error:
        raise PublicationError(f"{called} cannot be read on: {error}; correct it, or name its --format") from None


def _ndjson(file: BinaryIO, called: str, body: str, declared: Declared, complain: Complain) -> Iterator[Portion]:
    number = 0
    for lines in _line_groups(file, called):
        rows: list[dict[str, Any]] = []
        bodies: list[bytes] = []
        numbers: list[int] = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                row, content = _publication_of(line, body, declared)
            except PublicationError as error:
                complain(f"{called} line {number}", error)
                continue
            rows.append(row)
            bodies.append(content)
            numbers.append(number)
        if rows:
            yield from Portion(rows, bodies, Named(called, "line", numbers)).parts(ROWS)


def _line_groups(file: BinaryIO, called: str) -> Iterator[list[bytes]]:
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
                    f"{called} has a line longer than {LINE_BYTES_MAX} bytes: end each publication with a newline"
                )
    if last := b"".join(rest):
        yield [last]


def _publication_of(line: bytes, body: str, declared: Declared) -> tuple[dict[str, Any], bytes]:
    """A line: an object of attributes, or one with `attributes` beside the body, as `subscribe --json` prints it."""
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        said = str(error)
        raise PublicationError(f"this cannot be read as JSON: {said[:1].lower()}{said[1:]}") from None
    if not isinstance(row, dict):
        raise PublicationError(f'this is {type(row).__name__}, not an object: write {{"name": value}}')
    content = _body_of(row, body)
    types: dict[str, AttributeType] = {}
    if isinstance(row.get("attributes"), dict):
        types = _types_of(row.get("types"))
        row = row["attributes"]
    if declared or types:
        types = {**declared, **types}
        row = {name: _as_typed(name, value, types.get(name)) for name, value in row.items()}
    return row, content


def _types_of(types: Any) -> dict[str, AttributeType]:
    """What `subscribe --json` says of values whose type JSON does not show."""
    try:
        return {name: AttributeType[kind.upper()] for name, kind in (types or {}).items()}
    except (AttributeError, KeyError):
        known = ", ".join(kind.name.lower() for kind in AttributeType)
        raise PublicationError(f"its `types` do not name types: write an object of names with {known}") from None


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


def _as_typed(name: str, value: Any, kind: AttributeType | None) -> Any:
    """JSON has one kind of number, no times, and no numbers without end: the type decides."""
    if kind is AttributeType.FLOAT64 and (type(value) is int or value in NOT_FINITE):
        return float(value)
    if kind is AttributeType.TIMESTAMP and isinstance(value, str):
        return time_of(name, value)
    return value


def _parquet(file: BinaryIO, called: str, body: str) -> Iterator[Portion]:
    number = 0
    for batch in pa.parquet.ParquetFile(file).iter_batches(batch_size=ROWS * 16):
        check_columns(called, batch.schema, body)
        table = _as_attributes(batch, body)
        try:
            check_schema(table.schema)
        except AttributeTypeError as error:
            raise AttributeTypeError(f"{called}: {error}") from None
        names = Named(called, "row", range(number + 1, number + 1 + table.num_rows))
        number += table.num_rows
        if table.num_rows:
            yield Portion(table, None, names)


class Named(Sequence[str]):
    """`quotes.csv line 2`, `quotes.csv line 3` and so on, made when somebody asks."""

    def __init__(self, source: str, word: str, numbers: Sequence[int]) -> None:
        self._source = source
        self._word = word
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Named(self._source, self._word, self._numbers[index])
        return f"{self._source} {self._word} {self._numbers[index]}"


def check_columns(called: str, schema: pa.Schema, body: str) -> None:
    """Raise unless the columns of a file have names that attributes and a body can have."""
    names = schema.names
    if body != BODY and body not in names:
        raise ConfigError(f"{called} has no column {body!r} for the body; there are {', '.join(names)}")
    if body != BODY and BODY in names:
        raise ConfigError(f"{called} has a column {BODY!r} beside the body from {body!r}: rename the column")
    try:
        check_schema(pa.schema([(name, pa.string()) for name in names]))
    except AttributeTypeError as error:
        raise AttributeTypeError(f"{called}: {error}") from None


def _as_attributes(batch: pa.RecordBatch, body: str) -> pa.RecordBatch:
    """The columns as attributes can be: times to the microsecond, UTC if they have no zone, and a body named `body`."""
    names, columns = [], []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
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
