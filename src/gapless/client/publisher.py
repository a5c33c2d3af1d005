"""A publisher: what is handed in becomes numbered batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa

from gapless.client.deadline import Deadline, within
from gapless.client.receipt import Failures, Lot, Receipt
from gapless.client.runs import BATCH_BYTES_MAX, BATCH_ROWS_MAX, Row, RowsRun, Run, body_too_large, flaws_of, runs_of
from gapless.delivery.port import Accepted, Published, Refused, SpaceSettings, Unknown
from gapless.model import errors
from gapless.model.batch import Batch
from gapless.model.columns import check_attributes
from gapless.model.errors import (
    AttributeTypeError,
    Closed,
    Fenced,
    GaplessError,
    OutcomeUnknown,
    Overloaded,
    PublicationError,
    TooLarge,
)
from gapless.model.types import AttributeType, Source

UNDER_WAY_MAX = 2  # batches without an answer, beyond which what is handed in waits to go together
FRAME_BYTES_BESIDE_BATCH = 4096  # of a frame, what is kept free for all that is not the batch

_PLAIN = frozenset({str, int, float, bool, datetime})


class Outlet(Protocol):
    """Where a publisher's batches go: the space."""

    settings: SpaceSettings
    frame_bytes_max: int  # of the broker

    def publish(self, batch: Batch) -> None:
        """Hand a batch to the core."""
        ...

    def has_room(self) -> bool:
        """Whether little enough waits to be sent."""
        ...

    async def room(self, publisher: Publisher, deadline: float | None) -> None:
        """Wait until less waits to be sent, or the publisher is closed. Raises Overloaded when the deadline passes."""
        ...

    def retire(self, publisher: Publisher) -> None:
        """The publisher is closed; it will be told what is under way if anything is."""
        ...


class UnderWay(NamedTuple):
    """A batch without an answer."""

    first: int
    last: int
    rows: int
    lot: Lot


class Publisher:
    """Numbers publications and sends them in batches: what arrives while the last ones are under way goes together."""

    def __init__(self, outlet: Outlet, source: Source, loop: asyncio.AbstractEventLoop) -> None:
        self.source = source
        self.last_accepted = 0
        self.closed: GaplessError | None = None  # why it takes no more, if it does not
        self._outlet = outlet
        self._loop = loop
        self._body_bytes_max = outlet.settings.body_bytes_max
        self._next = 1
        self._rows: list[Row] = []
        self._bodies: list[bytes] = []
        self._first = 1  # seq of the first row that waits here
        self._bytes = 0
        self._failures = Failures()
        self._lot = Lot(source.name, self._failures)
        self._under_way: deque[UnderWay] = deque()
        self._scheduled = False
        self._foreign: GaplessError | None = None  # this is a copy in a forked process
        self._halt = False  # closed, or there was no room: look before anything is taken

    # --- sending ------------------------------------------------------------------------------------------------------

    async def send(self, attributes: Row, body: bytes = b"", *, deadline: float | None = None) -> Receipt:
        """Hand in one publication. Waits only for room; raises Overloaded when there is none within `deadline`."""
        if len(self._rows) >= BATCH_ROWS_MAX or self._bytes >= BATCH_BYTES_MAX or self._halt:
            await self._make_room(deadline)
        try:
            if not _PLAIN.issuperset(map(type, attributes.values())):
                check_attributes(attributes)
            row = dict(attributes)
        except AttributeError:
            raise AttributeTypeError(
                f"attributes are given as {type(attributes).__name__}: give a mapping from names to values"
            ) from None
        if type(body) is not bytes or len(body) > self._body_bytes_max:
            body = self._checked_body(body)
        self._rows.append(row)
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
        """Hand in many: a list of dicts with a list of bodies, an Arrow table or record batch, or a data frame.

        In a table the column `body` gives the bodies. The receipt stands for all of them; a row that cannot be
        published is among its `errors` and does the others no harm. Overloaded is raised only before the first is
        taken; when the deadline passes later, the rest is taken without waiting for room.
        """
        runs = runs_of(rows, bodies)
        limit = Deadline(deadline)
        lots: list[Lot] = []
        first = 0
        for run in runs:
            try:
                await self._make_room(limit.left())
            except Overloaded:
                if not lots:
                    raise
            first = first or self._next
            lots.append(self._take(run))
        if not lots:
            raise PublicationError("nothing to send: there are no rows")
        return Receipt(tuple(lots), self._next - 1, first)

    def _take(self, run: Run) -> Lot:
        """Number a run and send it."""
        self._flush()
        lot = Lot(self.source.name, self._failures)
        first = self._next
        self._next += run.count
        self._first = self._next
        self._send_run(run, first, lot)
        lot.open = False
        lot.wake()
        return lot

    def _checked_body(self, body: object) -> bytes:
        if isinstance(body, bytearray | memoryview):
            body = bytes(body)
        if not isinstance(body, bytes):
            raise AttributeTypeError(f"a body is {type(body).__name__}: bodies are bytes; encode text first")
        if len(body) > self._body_bytes_max:
            raise TooLarge(body_too_large(len(body), self._outlet.settings))
        return bytes(body)

    async def _make_room(self, deadline: float | None) -> None:
        """Let out what is here, and wait until more can be taken."""
        self._check()
        self._flush()
        await asyncio.sleep(0)
        await self._outlet.room(self, deadline)
        self._check()
        self._halt = False

    def _check(self) -> None:
        if self.closed is not None:
            raise self.closed.with_traceback(None)

    # --- batches ------------------------------------------------------------------------------------------------------

    def _on_turn(self) -> None:
        """The loop has come round: send what is here, unless enough is under way to wait for its answer."""
        self._scheduled = False
        if len(self._under_way) < UNDER_WAY_MAX:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        run, first, lot = RowsRun(self._rows, self._bodies), self._first, self._lot
        self._rows, self._bodies, self._bytes = [], [], 0
        self._first = self._next
        self._lot = Lot(self.source.name, self._failures)
        self._send_run(run, first, lot)
        lot.open = False
        lot.wake()

    def _send_run(self, run: Run, first: int, lot: Lot) -> None:
        """Send what can be sent; what cannot does the others no harm."""
        frame = self._outlet.frame_bytes_max - FRAME_BYTES_BESIDE_BATCH
        try:
            batch = run.encode(self.source, first)
        except PublicationError as error:
            if run.count == 1:
                self._fail(lot, first, error)
            else:
                self._send_halves(run, first, lot)
            return
        if batch.size > min(4 * BATCH_BYTES_MAX, frame // 2) and run.count > 1:
            self._send_halves(run, first, lot)
            return
        flaws = flaws_of(batch, self._outlet.settings, frame)
        if flaws:
            for row, flaw in flaws.items():
                self._fail(lot, first + row, flaw)
            if len(flaws) == batch.rows:
                return
            batch = batch.take(np.array([row for row in range(batch.rows) if row not in flaws], np.intp))
        lot.unsettled += batch.rows
        self._under_way.append(UnderWay(batch.first, batch.last, batch.rows, lot))
        self._outlet.publish(batch)
        if not self._outlet.has_room():
            self._halt = True

    def _send_halves(self, run: Run, first: int, lot: Lot) -> None:
        """Something in this run is wrong or it is too much: find the row that is, and send the others."""
        middle = run.count // 2
        self._send_run(run.part(0, middle), first, lot)
        self._send_run(run.part(middle, run.count), first + middle, lot)

    def _fail(self, lot: Lot, seq: int, error: GaplessError) -> None:
        lot.errors[seq] = error
        self._failures.add(error)

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def settle(self, request: Published, outcome: Accepted | Refused | Unknown) -> None:
        """The core knows what became of these publications."""
        error = error_of(outcome)
        if error is None:
            self.last_accepted = max(self.last_accepted, request.last)
        else:
            self._failures.add(error)
        if isinstance(error, Fenced):
            self.shut(error)
        while self._under_way and self._under_way[0].first <= request.last:
            first, last, rows, lot = self._under_way.popleft()
            lot.settle(first, last, rows, error)
        if self._rows and len(self._under_way) < UNDER_WAY_MAX:
            self._flush()
        if self.closed is not None and not self._under_way:
            self._outlet.retire(self)

    async def flush(self, deadline: float | None = None) -> None:
        """Wait until the outcome of everything handed in is known.

        Raises the first failure since the last flush, unless its receipt has raised it already.
        """
        if self._foreign is not None:
            raise self._foreign.with_traceback(None)
        self._flush()
        if self._under_way:
            last = self._under_way[-1].lot
            async with within(deadline, lambda: last.late(deadline)):
                for under_way in tuple(self._under_way):
                    await under_way.lot.wait()
        failure = self._failures.take()
        if failure is not None:
            raise failure.with_traceback(None)

    async def close(self, deadline: float | None = None) -> None:
        """Take no more, and wait for the outcome of what was handed in, as `flush` does."""
        self.stop()
        await self.flush(deadline)

    def stop(self) -> None:
        """Take no more, and wait for nothing: what was handed in goes out, and receipts learn what becomes of it."""
        self._flush()
        self.shut(Closed(f"publisher {self.source.name!r} is closed: make a new one with bus.publisher(…)"))
        self._outlet.retire(self)

    def shut(self, reason: GaplessError) -> None:
        """Take no more, for this reason if there was none before."""
        self.closed = self.closed or reason
        self._halt = True

    def discard(self, closed: GaplessError) -> None:
        """The connection is closed for good: what was not given to the core yet never will be."""
        self.shut(closed)
        lot, self._rows, self._bodies = self._lot, [], []
        for seq in range(self._first, self._next):
            self._fail(lot, seq, Closed(f"{closed}; publication {seq} of {self.source.name!r} was never sent"))
        self._first = self._next
        lot.open = False
        lot.wake()

    def disown(self, closed: GaplessError) -> None:
        """This is the copy of the publisher in a forked process: what was handed in is the parent's to send."""
        self.shut(closed)
        self._foreign = closed
        self._rows, self._bodies = [], []
        for seq in range(self._first, self._next):
            self._lot.errors[seq] = closed
        self._first = self._next
        self._lot.open = False
        self._lot.wake()
        while self._under_way:
            first, last, rows, lot = self._under_way.popleft()
            lot.settle(first, last, rows, closed)

    def abandon(self, closed: GaplessError) -> list[Published]:
        """The connection is closed for good: nobody will answer any more for these."""
        unanswered = [Published(self.source, under_way.first, under_way.last) for under_way in self._under_way]
        for request in unanswered:
            self.settle(request, Unknown(f"{closed}; what was sent before had not been answered"))
        return unanswered

    @property
    def declared(self) -> Mapping[str, AttributeType]:
        """The types that the space declares for attributes; others may have any."""
        return self._outlet.settings.attributes

    @property
    def under_way(self) -> int:
        """Publications that were sent and not answered yet."""
        return sum(under_way.rows for under_way in self._under_way)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            self.stop()


def error_of(outcome: Accepted | Refused | Unknown) -> GaplessError | None:
    """The error an outcome raises, if it is none that one hopes for."""
    if isinstance(outcome, Accepted):
        return None
    if isinstance(outcome, Unknown):
        return OutcomeUnknown(f"{outcome.text}: it may or may not have been accepted")
    return error_named(outcome.code, outcome.text)


def error_named(code: str, text: str) -> GaplessError:
    """The error of this name, as a broker sends it; Refused when this program does not know the name."""
    kind = getattr(errors, code, None)
    if not isinstance(kind, type) or not issubclass(kind, GaplessError):
        kind = errors.Refused
    error: GaplessError = kind(text)
    return error
