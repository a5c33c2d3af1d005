"""CSV: rows that know their lines, in portions with a type for each column.

A file is read twice, because the type of a column depends on all of its cells. A row that cannot be published is named
by its line, and does the others no harm.
"""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa

from gapless.cli.cells import Column
from gapless.cli.portions import LINE_BYTES_MAX, Complain, Declared, Named, Portion, check_columns
from gapless.model.arrow import BODY
from gapless.model.errors import PublicationError
from gapless.model.types import AttributeType

ROWS_AT_ONCE = 16 * 1024
CHARACTERS_AT_ONCE = 4 << 20


class Row(NamedTuple):
    """The line where a row begins, and its cells, or what is wrong with it."""

    line: int
    cells: list[str]
    error: str = ""


class Source(NamedTuple):
    """A file that can be read again, what to call it, and whom to tell of it."""

    file: BinaryIO
    name: str
    body: str
    complain: Complain
    tell: Callable[[str], None]


def csv_portions(source: Source, declared: Declared) -> Iterator[Portion]:
    """The rows in portions. Raises PublicationError when the columns as a whole cannot be attributes."""
    csv.field_size_limit(LINE_BYTES_MAX)
    if not source.file.seekable():
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(source.file, copy)
            copy.seek(0)
            yield from csv_portions(source._replace(file=cast("BinaryIO", copy)), declared)
        return
    start = source.file.tell()
    columns = _columns(source, declared)
    for rows in _groups(source, start, len(columns)):
        whole = [row for row in rows if not row.error]
        lines = [row.line for row in whole]
        for column, cells in zip(columns, _turned(whole, columns), strict=True):
            column.look_at(cells, lines)
    for notice in filter(None, [column.decide() for column in columns]):
        source.tell(f"{source.name}: {notice}")
    for rows in _groups(source, start, len(columns)):
        yield from _portion(source, rows, columns)


def _columns(source: Source, declared: Declared) -> list[Column]:
    with _lines(source.file, source.file.tell()) as lines:
        first = next(_rows(lines), None)
    if first is None or first.error:
        raise PublicationError(f"{source.name} has no header: its first line has to name the columns")
    check_columns(source.name, pa.schema([(name, pa.string()) for name in first.cells]), source.body)
    kinds = {**declared, source.body: AttributeType.STRING}
    return [Column(name, kinds.get(name)) for name in first.cells]


def _portion(source: Source, rows: list[Row], columns: list[Column]) -> Iterator[Portion]:
    """What of these rows can be published; of the others the first thing that is wrong is told."""
    flaws: dict[int, Exception] = {row.line: PublicationError(row.error) for row in rows if row.error}
    whole = [row for row in rows if not row.error]
    arrays: dict[str, pa.Array] = {}
    for column, cells in zip(columns, _turned(whole, columns), strict=True):
        if column.kind is None:
            continue  # nothing is in it anywhere
        values, wrong = column.converted(cells)
        arrays[BODY if column.name == source.body else column.name] = values
        for index, error in wrong.items():
            flaws.setdefault(whole[index].line, error)
    for line in sorted(flaws):
        source.complain(f"{source.name} line {line}", flaws[line])
    good = [row.line not in flaws for row in whole]
    lines = [row.line for row in whole if row.line not in flaws]
    if not lines:
        return
    names = Named(source.name, "line", lines)
    if arrays:
        table = pa.RecordBatch.from_pydict(arrays)
        yield Portion(table if all(good) else table.filter(pa.array(good)), None, names)
    else:
        yield Portion([{}] * len(lines), [b""] * len(lines), names)


def _turned(rows: Sequence[Row], columns: Sequence[Column]) -> list[Sequence[str]]:
    """The cells of these rows, column by column."""
    turned: list[Sequence[str]] = list(zip(*(row.cells for row in rows), strict=True))
    return turned or [()] * len(columns)


# --- rows -------------------------------------------------------------------------------------------------------------


class _Lines:
    """The lines of a text, which can be taken back."""

    def __init__(self, text: Iterator[str]) -> None:
        self._text = text
        self._again: deque[str] = deque()
        self.number = 0
        self.taken: list[str] = []  # for the row that is being read
        self.text = True  # all of them are UTF-8

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._text)
        self.number += 1
        self.taken.append(line)
        if not line.isascii() and not _is_text(line):
            self.text = False
        return line

    def take_back(self) -> None:
        """All that were taken but the first."""
        self._again.extendleft(reversed(self.taken[1:]))
        self.number -= len(self.taken) - 1


@contextmanager
def _lines(file: BinaryIO, start: int) -> Iterator[_Lines]:
    file.seek(start)
    # What is not UTF-8 must not end the reading: it is kept in a form that cannot be mistaken for text.
    buffered = io.BufferedReader(cast("io.RawIOBase", file))
    text = io.TextIOWrapper(buffered, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield _Lines(iter(text))
    finally:
        text.detach()
        buffered.detach()  # or the file would be closed with it
        file.seek(start)


def _rows(lines: _Lines) -> Iterator[Row]:
    """Row by row. A quote that fits no other costs the line where it is, not those that it would swallow."""
    reader = csv.reader(lines, strict=True)
    while True:
        lines.taken.clear()
        lines.text = True
        first = lines.number + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            lines.take_back()
            reader = csv.reader(lines, strict=True)
            yield Row(first, [], _quotes(str(error)))
            continue
        if not lines.text:
            yield Row(first, [], "it is not UTF-8: save the file as UTF-8")
        elif cells:
            yield Row(first, cells)


def _is_text(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def _quotes(error: str) -> str:
    if error == "unexpected end of data":
        return 'a quote is opened here and closed nowhere: write "" for a quote within quotes'
    return f'its quotes do not fit ({error}): write "" for a quote within quotes'


def _groups(source: Source, start: int, columns: int) -> Iterator[list[Row]]:
    """The rows below the header, so many together as are quickly turned into columns."""
    with _lines(source.file, start) as lines:
        rows = _rows(lines)
        next(rows)
        group: list[Row] = []
        size = 0
        for row in rows:
            if not row.error and len(row.cells) != columns:
                row = Row(row.line, [], f"{len(row.cells)} columns instead of {columns}")
            group.append(row)
            size += sum(map(len, row.cells))
            if len(group) >= ROWS_AT_ONCE or size >= CHARACTERS_AT_ONCE:
                yield group
                group, size = [], 0
        if group:
            yield group
