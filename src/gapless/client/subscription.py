"""A subscription: publications come out one by one, or as Arrow record batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import pyarrow as pa

from gapless.client.handout import publications_of
from gapless.delivery.port import Confirmed, Refused
from gapless.filters import Interest
from gapless.model.arrow import table_of_batch
from gapless.model.batch import Batch, Rows
from gapless.model.errors import Closed, DeadlineExceeded, GaplessError
from gapless.model.publication import Publication

GAPS_REMEMBERED = 1000


class GapNotice(NamedTuple):
    """Publications are missing here. `count` is how many, -1 when nobody knows."""

    reason: str
    count: int


class Handout:
    """A delivery of the core, until every subscription in it has handed its rows over."""

    __slots__ = ("places", "taken", "token")

    def __init__(self, token: int, places: int, taken: Callable[[int], None]) -> None:
        self.token = token
        self.places = places
        self.taken = taken

    def release(self) -> None:
        """One subscription is through with it."""
        self.places -= 1
        if self.places == 0:
            self.taken(self.token)


class Parcel(NamedTuple):
    """Rows of a batch for one subscription."""

    batch: Batch
    rows: Rows | None
    handout: Handout


class Inlet(Protocol):
    """Where a subscription's publications come from: the space."""

    def journal_delivered(self, subscription: Subscription, batch: Batch, rows: Rows | None) -> None:
        """Write down what is handed over, if a journal is kept."""
        ...

    def unsubscribe(self, subscription: Subscription) -> None:
        """Nothing more of it is wanted."""
        ...


class Subscription:
    """Await it, or enter it, and it is *confirmed*. Then iterate it, or its `batches()`.

    Asking for the next publication takes the one before over; the broker sends on as they are taken.
    """

    def __init__(
        self, inlet: Inlet, number: int, name: str, interest: Interest, on_gap: Callable[[GapNotice], None] | None
    ) -> None:
        self.number = number
        self.name = name
        self.interest = interest
        self.exceptions: tuple[str, ...] = ()  # brokers out of reach when it was confirmed
        self.gaps: deque[GapNotice] = deque(maxlen=GAPS_REMEMBERED)
        self.missed = 0  # publications known to have been dropped for this subscription
        self._inlet = inlet
        self._on_gap = on_gap
        self._queue: deque[Parcel | GapNotice] = deque()
        self._current: Iterator[Publication] = iter(())
        self._handout: Handout | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = False
        self._error: GaplessError | None = None

    # --- what the space tells it ----------------------------------------------------------------------------------------

    def confirm(self, outcome: Confirmed | Refused, error: GaplessError | None) -> None:
        """The broker has answered; after a reconnection it answers again."""
        if isinstance(outcome, Confirmed):
            self.exceptions = outcome.exceptions
        if error is not None:
            self.fail(error)
        elif not self._confirmed.done():
            self._confirmed.set_result(None)

    def put(self, parcel: Parcel) -> None:
        """Publications have arrived."""
        if self._closed:
            parcel.handout.release()
            return
        self._queue.append(parcel)
        self._wake()

    def put_gap(self, notice: GapNotice) -> None:
        """Publications are missing at this place."""
        self._queue.append(notice)
        self._wake()

    def fail(self, error: GaplessError) -> None:
        """Nothing more will come, for this reason."""
        self._error = error
        if not self._confirmed.done():
            self._confirmed.set_exception(error)
            self._confirmed.exception()  # whoever awaits it still gets it; nobody is warned that nobody did
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- what the application does --------------------------------------------------------------------------------------

    async def confirmed(self, deadline: float | None = None) -> Self:
        """Wait until the promises of the space hold for it."""
        try:
            async with asyncio.timeout(deadline):
                await asyncio.shield(self._confirmed)
        except TimeoutError:
            raise DeadlineExceeded(
                f"subscription {self.name!r} was not confirmed within {deadline:g} s; it stands, and still may be"
            ) from None
        return self

    def __await__(self) -> Generator[object, None, Self]:
        return self.confirmed().__await__()

    async def __aenter__(self) -> Self:
        return await self.confirmed()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Publication]:
        return self._publications()

    async def _publications(self) -> AsyncIterator[Publication]:
        while True:
            for publication in self._current:
                yield publication
            self._take_over()
            parcel = await self._next_parcel(None)
            if parcel is None:
                return
            self._hand_out(parcel)
            self._current = publications_of(parcel.batch, parcel.rows)

    async def next(self, deadline: float | None = None) -> Publication:
        """The next publication; raises DeadlineExceeded, or Closed when there will be none."""
        while True:
            for publication in self._current:
                return publication
            self._take_over()
            parcel = await self._next_parcel(deadline)
            if parcel is None:
                raise Closed(f"subscription {self.name!r} is closed")
            self._hand_out(parcel)
            self._current = publications_of(parcel.batch, parcel.rows)

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow record batches, as they arrive: source, seq, time, the attributes, body."""
        async for batch in self.raw_batches():
            yield table_of_batch(batch)

    async def raw_batches(self) -> AsyncIterator[Batch]:
        """Batches in Gapless' own layout, for those who work on columns themselves."""
        while True:
            self._take_over()
            parcel = await self._next_parcel(None)
            if parcel is None:
                return
            self._hand_out(parcel)
            yield parcel.batch if parcel.rows is None else parcel.batch.take(parcel.rows)

    async def close(self) -> None:
        """Want nothing more."""
        if self._closed:
            return
        self._closed = True
        self._take_over()
        while self._queue:
            item = self._queue.popleft()
            if isinstance(item, Parcel):
                item.handout.release()
        self._inlet.unsubscribe(self)
        self._wake()

    # --- handing over ---------------------------------------------------------------------------------------------------

    def _hand_out(self, parcel: Parcel) -> None:
        self._handout = parcel.handout
        self._inlet.journal_delivered(self, parcel.batch, parcel.rows)

    def _take_over(self) -> None:
        """The application has asked for more: what it had is its own now."""
        handout, self._handout = self._handout, None
        if handout is not None:
            handout.release()

    async def _next_parcel(self, deadline: float | None) -> Parcel | None:
        while True:
            while self._queue:
                item = self._queue.popleft()
                if isinstance(item, Parcel):
                    return item
                self._tell(item)
            if self._error is not None:
                raise self._error
            if self._closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(deadline):
                    await self._waiter
            except TimeoutError:
                text = f"nothing arrived for subscription {self.name!r} within {deadline:g} s"
                raise DeadlineExceeded(text) from None
            finally:
                self._waiter = None

    def _tell(self, notice: GapNotice) -> None:
        self.gaps.append(notice)
        self.missed += max(notice.count, 0)
        if self._on_gap is not None:
            self._on_gap(notice)
