"""A publisher: what is handed in becomes numbered batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from gapless.client.receipt import Lot, Receipt
from gapless.delivery.port import Accepted, Published, Refused, SpaceSettings, Unknown
from gapless.model import errors
from gapless.model.arrow import batch_of_table
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows, check_attributes
from gapless.model.errors import (
    AttributeTypeError,
    Closed,
    GaplessError,
    OutcomeUnknown,
    Overloaded,
    PublicationError,
    TooLarge,
)
from gapless.model.types import AttributeValue, Source

BATCH_ROWS_MAX = 1024
BATCH_BYTES_MAX = 1 << 20
UNDER_WAY_MAX = 2  # batches without an answer, beyond which what is handed in waits to go together
Row = Mapping[str, AttributeValue | None]

_PLAIN = frozenset({str, int, float, bool, datetime})


class Outlet(Protocol):
    """Where a publisher's batches go: the space."""

    settings: SpaceSettings

    def publish(self, batch: Batch) -> None:
        """Hand a batch to the core."""
        ...

    def queued(self) -> int:
        """Bytes that wait for room at the broker."""
        ...

    async def room(self, deadline: float | None) -> None:
        """Wait until less waits; raises Overloaded when the deadline passes first."""
        ...

    def retire(self, publisher: Publisher) -> None:
        """The publisher is closed."""
        ...


class Publisher:
    """Numbers publications and sends them in batches: what arrives while the last ones are under way goes together."""

    def __init__(self, outlet: Outlet, source: Source, loop: asyncio.AbstractEventLoop) -> None:
        self.source = source
        self.last_accepted = 0
        self._outlet = outlet
        self._loop = loop
        self._body_bytes_max = outlet.settings.body_bytes_max
        self._next = 1
        self._rows: list[Row] = []
        self._bodies: list[bytes] = []
        self._first = 1  # seq of the first row that waits here
        self._bytes = 0
        self._lot = Lot(source.name)
        self._under_way: deque[tuple[int, int, Lot]] = deque()
        self._failures: list[GaplessError] = []
        self._scheduled = False
        self._closed = False

    # --- sending ----------------------------------------------------------------------------------------------------

    async def send(self, attributes: Row, body: bytes = b"", *, deadline: float | None = None) -> Receipt:
        """Hand in one publication. Waits only for room; raises Overloaded when there is none within `deadline` seconds."""
        if len(self._rows) >= BATCH_ROWS_MAX or self._bytes >= BATCH_BYTES_MAX or self._closed:
            await self._make_room(deadline)
        if not _PLAIN.issuperset(map(type, attributes.values())):
            check_attributes(attributes)
        if type(body) is not bytes or len(body) > self._body_bytes_max:
            body = self._checked_body(body)
        self._rows.append(dict(attributes))
        self._bodies.append(body)
        self._bytes += len(body) + 64
        seq = self._next
        self._next = seq + 1
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._on_turn)
        return Receipt(self._lot, seq)

    async def send_many(
        self,
        rows: Sequence[Row] | pa.Table | pa.RecordBatch | Any,
        bodies: Sequence[bytes] | None = None,
        *,
        deadline: float | None = None,
    ) -> Receipt:
        """Hand in many: a list of dicts with a list of bodies, an Arrow table or record batch, or a pandas data frame.

        In a table the column `body` gives the bodies. The receipt stands for all of them.
        """
        self._flush()
        first = self._next
        lots: list[Lot] = []
        for encode, count in self._chunks(rows, bodies):
            await self._make_room(deadline)
            batch = encode(self._next)
            self._next += count
            self._first = self._next
            lot = Lot(self.source.name)
            lot.open = False
            self._send(batch, lot)
            lots.append(lot)
        if self._next == first:
            raise PublicationError("nothing to send: there are no rows")
        return Receipt(tuple(lots), self._next - 1, first)

    def _chunks(self, rows: Any, bodies: Sequence[bytes] | None) -> Iterable[tuple[Callable[[int], Batch], int]]:
        if hasattr(rows, "to_arrow"):
            rows = rows.to_arrow()
        elif type(rows).__module__.split(".")[0] == "pandas":
            rows = pa.Table.from_pandas(rows, preserve_index=False)
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        if isinstance(rows, pa.Table):
            if bodies is not None:
                raise PublicationError("bodies of a table are its column `body`: do not give them a second time")
            size = max(1, min(BATCH_ROWS_MAX, BATCH_BYTES_MAX * rows.num_rows // max(rows.nbytes, 1)))
            for part in rows.to_batches(max_chunksize=size):
                yield (lambda first, part=part: batch_of_table(self.source, first, part)), part.num_rows
            return
        if bodies is not None and len(bodies) != len(rows):
            raise PublicationError(f"{len(rows)} rows with {len(bodies)} bodies: give one body for each row")
        for start in range(0, len(rows), BATCH_ROWS_MAX):
            some = rows[start : start + BATCH_ROWS_MAX]
            theirs = [b""] * len(some) if bodies is None else bodies[start : start + BATCH_ROWS_MAX]
            yield (lambda first, some=some, theirs=theirs: batch_of_rows(self.source, first, some, theirs)), len(some)

    def _checked_body(self, body: object) -> bytes:
        if isinstance(body, bytearray | memoryview):
            body = bytes(body)
        if not isinstance(body, bytes):
            raise AttributeTypeError(f"a body is {type(body).__name__}: bodies are bytes; encode text first")
        if len(body) > self._body_bytes_max:
            space = self._outlet.settings.name
            raise TooLarge(
                f"a body of {len(body)} bytes for space {space!r}, which takes at most {self._body_bytes_max}: "
                "send it in parts, or raise body_bytes_max"
            )
        return body

    async def _make_room(self, deadline: float | None) -> None:
        if self._closed:
            raise Closed(f"publisher {self.source.name!r} is closed: make a new one with bus.publisher(…)")
        self._flush()
        await asyncio.sleep(0)
        await self._outlet.room(deadline)

    # --- batches ----------------------------------------------------------------------------------------------------

    def _on_turn(self) -> None:
        """The loop has come round: send what is here, unless enough is under way to wait for its answer."""
        self._scheduled = False
        if len(self._under_way) < UNDER_WAY_MAX:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        rows, bodies, first, lot = self._rows, self._bodies, self._first, self._lot
        self._rows, self._bodies, self._bytes = [], [], 0
        self._first = self._next
        self._lot = Lot(self.source.name)
        lot.open = False
        self._send_rows(first, rows, bodies, lot)
        lot.wake()

    def _send_rows(self, first: int, rows: list[Row], bodies: list[bytes], lot: Lot) -> None:
        try:
            batch = batch_of_rows(self.source, first, rows, bodies)
        except PublicationError as error:
            self._send_halves(first, rows, bodies, lot, error)
            return
        if batch.size > 4 * BATCH_BYTES_MAX and len(rows) > 1:
            self._send_halves(first, rows, bodies, lot, None)
        else:
            self._send(batch, lot)

    def _send_halves(
        self, first: int, rows: list[Row], bodies: list[bytes], lot: Lot, error: PublicationError | None
    ) -> None:
        """Something in these rows is wrong or they are too much: find the one that is, and send the others."""
        if len(rows) == 1:
            assert error is not None
            lot.errors[first] = error
            self._failures.append(error)
            return
        middle = len(rows) // 2
        self._send_rows(first, rows[:middle], bodies[:middle], lot)
        self._send_rows(first + middle, rows[middle:], bodies[middle:], lot)

    def _send(self, batch: Batch, lot: Lot) -> None:
        lot.unsettled += batch.rows
        self._under_way.append((batch.first, batch.last, lot))
        self._outlet.publish(batch)

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def settle(self, request: Published, outcome: Accepted | Refused | Unknown) -> None:
        """The core knows what became of these publications."""
        error = error_of(outcome)
        if error is None:
            self.last_accepted = max(self.last_accepted, request.last)
        else:
            self._failures.append(error)
        while self._under_way and self._under_way[0][0] <= request.last:
            first, last, lot = self._under_way.popleft()
            lot.settle(first, last, last - first + 1, error)
        if self._rows and len(self._under_way) < UNDER_WAY_MAX:
            self._flush()

    async def flush(self, deadline: float | None = None) -> None:
        """Wait until the outcome of everything handed in is known; raises the first failure since the last flush."""
        self._flush()
        for _, _, lot in tuple(self._under_way):
            await lot.wait(deadline)
        if self._failures:
            failure, self._failures = self._failures[0], []
            raise failure

    async def close(self, deadline: float | None = None) -> None:
        """Flush, and take no more."""
        if not self._closed:
            self._closed = True
            try:
                await self.flush(deadline)
            finally:
                self._outlet.retire(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def error_of(outcome: Accepted | Refused | Unknown) -> GaplessError | None:
    """The error an outcome raises, if it is none that one hopes for."""
    if isinstance(outcome, Accepted):
        return None
    if isinstance(outcome, Unknown):
        return OutcomeUnknown(f"{outcome.text}: it may or may not have been accepted")
    kind = getattr(errors, outcome.code, errors.Refused)
    error: GaplessError = kind(outcome.text)
    return error


__all__ = ["Outlet", "Overloaded", "Publisher", "error_of"]
