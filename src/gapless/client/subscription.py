"""A subscription: publications come out one by one, or as Arrow record batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from gapless.client.deadline import Deadline, within
from gapless.client.handout import GapNotice, Parcel, publications_of, rest_of
from gapless.delivery.port import Confirmed
from gapless.filters import Interest
from gapless.model.arrow import table_of_batch
from gapless.model.batch import Batch
from gapless.model.errors import Closed, DeadlineExceeded, GaplessError
from gapless.model.publication import Publication
from gapless.model.types import Source

GAPS_REMEMBERED = 1000


class Inlet(Protocol):
    """Where a subscription's publications come from: the space."""

    def handed(self, subscription: Subscription, part: Batch, each: Iterator[Publication]) -> Iterator[Publication]:
        """The same publications, each written down when it is taken, if a journal is kept."""
        ...

    def handed_whole(self, subscription: Subscription, part: Batch) -> None:
        """Write down that the application has all of these."""
        ...

    def taken_over(self, subscription: Subscription, part: Batch) -> None:
        """Write down that the application has asked for more after these."""
        ...

    def unsubscribe(self, subscription: Subscription) -> None:
        """Nothing more of it is wanted."""
        ...


class Subscription:
    """Await it, or enter it, and it is *confirmed*. Then iterate it, or its `batches()`.

    Asking for the next publication takes the one before over. The broker sends on as batches are begun. Several tasks
    may ask: each publication goes to one of them.
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
        self._current: Iterator[Publication] = iter(())  # those of the current parcel that are still to be handed out
        self._part: Batch | None = None  # the rows of the current parcel
        self._whole = False  # none of them has been handed out
        self._waiters: list[asyncio.Future[None]] = []
        self._confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = False
        self._error: GaplessError | None = None

    # --- what the space tells it --------------------------------------------------------------------------------------

    def confirm(self, outcome: Confirmed) -> None:
        """The broker has confirmed it; after a reconnection it does so again."""
        self.exceptions = outcome.exceptions
        if not self._confirmed.done():
            self._confirmed.set_result(None)

    def put(self, parcel: Parcel) -> None:
        """Publications have arrived."""
        self._queue.append(parcel)
        self._wake()

    def put_gap(self, notice: GapNotice) -> None:
        """Publications are missing at this place."""
        self._queue.append(notice)
        self._wake()

    def fail(self, error: GaplessError) -> None:
        """Nothing more will come, for this reason, and what is here is not handed out any more."""
        self._error = error
        self._let_go()
        if not self._confirmed.done():
            self._confirmed.set_exception(error)
            self._confirmed.exception()  # whoever awaits it still gets it; nobody is warned that nobody did
        self._wake()

    def disown(self, error: GaplessError) -> None:
        """This is the copy in a forked process: nothing is handed out here."""
        self._error = error
        self._current, self._part = iter(()), None
        self._queue.clear()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    @property
    def newest(self) -> tuple[Source, int] | None:
        """The latest that is here, source and seq, whether it was handed out or not; None: nothing is."""
        parcels = [item for item in self._queue if isinstance(item, Parcel)]
        part = parcels[-1].part() if parcels else self._part
        return None if part is None else (part.source, part.last)

    # --- what the application does ------------------------------------------------------------------------------------

    async def confirmed(self, deadline: float | None = None) -> Self:
        """Wait until the promises of the space hold for it."""
        async with within(deadline, lambda: self._unconfirmed(deadline)):
            await asyncio.shield(self._confirmed)
        return self

    def _unconfirmed(self, deadline: float | None) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"subscription {self.name!r} was not confirmed within {deadline:g} s: try again, or look for what is down"
        )

    def __await__(self) -> Generator[object, None, Self]:
        return self.confirmed().__await__()

    async def __aenter__(self) -> Self:
        return await self.confirmed()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Publication:
        for publication in self._current:
            return publication
        while await self._advance(None):
            for publication in self._each():
                return publication
        raise StopAsyncIteration

    async def next(self, deadline: float | None = None) -> Publication:
        """The next publication; raises DeadlineExceeded, or Closed when there will be none."""
        for publication in self._current:
            return publication
        limit = None if deadline is None else Deadline(deadline)
        while await self._advance(limit):
            for publication in self._each():
                return publication
        raise Closed(f"subscription {self.name!r} is closed: subscribe again")

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow record batches, as they arrive: source, seq, time, the attributes, body."""
        async for batch in self.raw_batches():
            yield table_of_batch(batch)

    async def raw_batches(self) -> AsyncIterator[Batch]:
        """Batches in Gapless' own layout, for those who work on columns themselves."""
        while (batch := await self.next_batch()) is not None:
            yield batch

    async def next_batch(self, deadline: float | None = None) -> Batch | None:
        """The next batch in Gapless' own layout, None when there will be none; raises DeadlineExceeded."""
        limit = None if deadline is None else Deadline(deadline)
        while True:
            if (batch := self._rest()) is not None:
                return batch
            if not await self._advance(limit):
                return None

    def _each(self) -> Iterator[Publication]:
        """The publications of the current parcel, as objects from now on."""
        if self._whole and self._part is not None:
            self._whole = False
            self._current = self._inlet.handed(self, self._part, publications_of(self._part))
        return self._current

    def _rest(self) -> Batch | None:
        """The current parcel, or what was not yet taken of it one by one."""
        if self._part is None:
            return None
        if self._whole:
            self._whole = False
            self._inlet.handed_whole(self, self._part)
            return self._part
        return rest_of(self._part, self._current)

    async def close(self) -> None:
        """Want nothing more."""
        if self._closed:
            return
        self._closed = True
        self._let_go()
        self._inlet.unsubscribe(self)
        if not self._confirmed.done():
            self._confirmed.set_exception(Closed(f"subscription {self.name!r} was closed before it was confirmed"))
            self._confirmed.exception()  # as in `fail`
        self._wake()

    # --- handing over -------------------------------------------------------------------------------------------------

    async def _advance(self, limit: Deadline | None) -> bool:
        """The current parcel is through: go on to the next, or wait for it. False when there will be none.

        After a wait the caller looks again: another task may have gone on meanwhile.
        """
        self._take_over()
        while self._queue:
            item = self._queue.popleft()
            if isinstance(item, Parcel):
                self._part = item.part()
                self._whole = True
                item.handout.release()
                return True
            self._tell(item)
        if self._error is not None:
            raise self._error.with_traceback(None)
        if self._closed:
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with within(limit.left() if limit else None, lambda: self._late(limit)):
                await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True

    def _take_over(self) -> None:
        """The application has asked for more: what it had is its own now."""
        part, self._part = self._part, None
        if part is not None:
            self._inlet.taken_over(self, part)

    def _let_go(self) -> None:
        """Hand out nothing more. What the application had last is not taken over: it has not asked for more."""
        self._current, self._part = iter(()), None
        queue, self._queue = self._queue, deque()
        for item in queue:
            if isinstance(item, Parcel):
                item.handout.release()

    def _late(self, limit: Deadline | None) -> DeadlineExceeded:
        return DeadlineExceeded(f"nothing arrived for subscription {self.name!r} within {limit}; ask again")

    def _tell(self, notice: GapNotice) -> None:
        self.gaps.append(notice)
        self.missed += max(notice.count, 0)
        if self._on_gap is not None:
            self._on_gap(notice)
