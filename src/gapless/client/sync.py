"""The client without `async`: every call is handed to the asynchronous client, which runs in a thread of its own.

Nothing is decided here. A call waits for its answer in the caller's thread; interrupted by Ctrl-C it is cancelled there
and raises KeyboardInterrupt, and everything can be used on. Any thread may call.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from gapless.client import bus as asynchronous
from gapless.client.address import parse_servers
from gapless.client.bus import CONNECT_DEADLINE
from gapless.client.handout import GapNotice, publications_of, rest_of
from gapless.client.publisher import Publisher as AsyncPublisher
from gapless.client.receipt import Receipt as AsyncReceipt
from gapless.client.runs import Row
from gapless.client.start import NOW, Start
from gapless.client.subscription import Subscription as AsyncSubscription
from gapless.model.arrow import table_of_batch
from gapless.model.batch import Batch
from gapless.model.errors import Closed, GaplessError
from gapless.model.publication import Publication
from gapless.model.types import AttributeType, AttributeValue
from gapless.node.loop import new_event_loop
from gapless.node.surroundings import Lender, borrowed

T = TypeVar("T")


class _Worker:
    """A thread with an event loop."""

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()  # nothing is handed over once it has been told to stop
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # while it takes work
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def _live(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._until_stopped())
        finally:
            self._loop = None
            self._ready.set()

    async def _until_stopped(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._stop.wait()

    def run(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do it there, and wait for what comes of it."""
        if self._pid != os.getpid():
            raise Closed("this bus belongs to the process that this one was forked from: connect again here")
        if threading.current_thread() is self._thread:
            raise GaplessError("gapless.sync was called from one of its own callbacks: only take note there")
        with self._lock:
            if self._loop is None:
                raise Closed("this bus is closed: connect again")
            future = asyncio.run_coroutine_threadsafe(start(), self._loop)
        return _outcome(future)

    def stop(self) -> None:
        """End the thread."""
        if self._pid != os.getpid():
            return
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None and self._stop is not None:
                loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


class _Borrower(_Worker):
    """Has no thread: it works in the loop that was lent to the threads that call."""

    def __init__(self, lender: Lender) -> None:
        self._lender = lender

    def run(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do it there, and wait for what comes of it."""
        return _outcome(self._lender.submit(start))

    def stop(self) -> None:
        """The loop is its owner's."""


def _outcome(future: Future[T]) -> T:
    """What comes of it; if the wait is interrupted, it is cancelled."""
    try:
        return future.result()
    except CancelledError:
        raise Closed("this bus was closed while it was in use: connect again") from None
    except BaseException:
        future.cancel()
        raise


def connect(
    servers: str | Sequence[str],
    *,
    name: str | None = None,
    journal: str | Path | None = None,
    faults: bool = False,
    deadline: float | None = CONNECT_DEADLINE,
) -> Bus:
    """Connect at once: `with gapless.sync.connect("gapless://127.0.0.1:7400") as bus`. See `gapless.connect`."""
    folder = Path(journal) if journal is not None else None
    return Bus(asynchronous.Bus(parse_servers(servers), name, folder, faults, deadline))


class Bus:
    """A connection; see `gapless.Bus`."""

    def __init__(self, bus: asynchronous.Bus) -> None:
        self._bus = bus
        lender = borrowed.lender
        self._worker = _Worker(f"gapless {bus.name}") if lender is None else _Borrower(lender)
        try:
            self._worker.run(bus.open)
        except BaseException:
            self._worker.stop()
            raise

    @property
    def name(self) -> str:
        """This process' name in journals and status."""
        return self._bus.name

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._bus.cluster

    @property
    def server(self) -> str:
        """The broker it is connected to now; empty while it is looking for one."""
        return self._bus.server

    @property
    def trouble(self) -> str:
        """Why it is connected to no broker now; empty while it is."""
        return self._bus.trouble

    def publisher(self, space: str, name: str | None = None, *, deadline: float | None = None) -> Publisher:
        """A publisher in this space."""

        async def start() -> AsyncPublisher:
            return await self._bus.publisher(space, name, deadline=deadline)

        return Publisher(self._worker, self._worker.run(start))

    def publish(
        self,
        space: str,
        attributes: Mapping[str, AttributeValue | None],
        body: bytes = b"",
        *,
        deadline: float | None = None,
    ) -> int:
        """Send one publication and wait until it is accepted; returns its seq."""
        return self._worker.run(lambda: self._bus.publish(space, attributes, body, deadline=deadline))

    def subscribe(
        self,
        space: str,
        filter: str = "",  # noqa: A002  # the word that users know
        *,
        topic: str = "",
        start: Start = NOW,
        on_gap: Callable[[GapNotice], None] | None = None,
        deadline: float | None = None,
    ) -> Subscription:
        """Subscribe, and wait until it is confirmed. `on_gap` is called in the thread of the connection."""

        async def subscribed() -> AsyncSubscription:
            return await self._bus.subscribe(space, filter, topic=topic, start=start, on_gap=on_gap, deadline=deadline)

        return Subscription(self._worker, self._worker.run(subscribed))

    def drain(self, deadline: float | None = None) -> None:
        """Take nothing new, wait for the outcome of what was handed in, then close."""
        self._worker.run(lambda: self._bus.drain(deadline))
        self._worker.stop()

    def close(self) -> None:
        """Hang up at once."""
        try:
            self._worker.run(self._bus.close)
        except Closed:
            return  # already, or not ours: this process was forked from the one whose it is
        finally:
            self._worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Receipt:
    """What became of what was sent; see `gapless.Receipt`."""

    __slots__ = ("_receipt", "_worker")

    def __init__(self, worker: _Worker, receipt: AsyncReceipt) -> None:
        self._worker = worker
        self._receipt = receipt

    @property
    def seq(self) -> int:
        """The (last) number it stands for."""
        return self._receipt.seq

    @property
    def first(self) -> int:
        """The first number it stands for."""
        return self._receipt.first

    @property
    def settled(self) -> bool:
        """Whether its outcome is known."""
        return self._receipt.settled

    @property
    def errors(self) -> dict[int, GaplessError]:
        """What went wrong, as far as it is known, by seq."""
        return self._receipt.errors

    def accepted(self, deadline: float | None = None) -> int:
        """Wait until it is accepted; raises what went wrong otherwise."""
        return self._worker.run(lambda: self._receipt.accepted(deadline))

    def __repr__(self) -> str:
        return repr(self._receipt)


class Publisher:
    """Sends publications; see `gapless.Publisher`. Left without an error it waits for their outcome."""

    def __init__(self, worker: _Worker, publisher: AsyncPublisher) -> None:
        self._worker = worker
        self._publisher = publisher

    @property
    def name(self) -> str:
        """The name of the source."""
        return self._publisher.source.name

    @property
    def declared(self) -> Mapping[str, AttributeType]:
        """The types that the space declares for attributes; others may have any."""
        return self._publisher.declared

    @property
    def last_accepted(self) -> int:
        """The highest seq that was accepted."""
        return self._publisher.last_accepted

    def send(
        self, attributes: Mapping[str, AttributeValue | None], body: bytes = b"", *, deadline: float | None = None
    ) -> Receipt:
        """Hand in one publication. Many go much faster by `send_many`: each call changes threads twice."""
        return Receipt(
            self._worker, self._worker.run(lambda: self._publisher.send(attributes, body, deadline=deadline))
        )

    def send_many(
        self,
        rows: Sequence[Row] | pa.Table | pa.RecordBatch | Any,
        bodies: Sequence[bytes] | None = None,
        *,
        deadline: float | None = None,
    ) -> Receipt:
        """Hand in many: a list of dicts with a list of bodies, an Arrow table or record batch, or a data frame."""
        return Receipt(
            self._worker, self._worker.run(lambda: self._publisher.send_many(rows, bodies, deadline=deadline))
        )

    def flush(self, deadline: float | None = None) -> None:
        """Wait until the outcome of everything handed in is known; raises the first failure since the last flush."""
        self._worker.run(lambda: self._publisher.flush(deadline))

    def close(self, deadline: float | None = None) -> None:
        """Take no more, and wait for the outcome of what was handed in."""
        self._worker.run(lambda: self._publisher.close(deadline))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.run(lambda: self._publisher.__aexit__(kind, error, trace))


class Subscription:
    """Publications as they come; see `gapless.Subscription`. Iterating it waits for the next as long as it takes."""

    def __init__(self, worker: _Worker, subscription: AsyncSubscription) -> None:
        self._worker = worker
        self._subscription = subscription
        self._arrived: deque[Batch] = deque()  # filled in the other thread, so that an interrupted wait loses nothing
        self._part: Batch | None = None  # what `_current` runs over
        self._current: Iterator[Publication] = iter(())

    @property
    def name(self) -> str:
        """Its name in journals."""
        return self._subscription.name

    @property
    def exceptions(self) -> tuple[str, ...]:
        """Brokers out of reach when it was confirmed."""
        return self._subscription.exceptions

    @property
    def gaps(self) -> tuple[GapNotice, ...]:
        """What it was told of missing publications, the oldest first."""
        return tuple(self._subscription.gaps)

    @property
    def missed(self) -> int:
        """Publications known to have been dropped for this subscription."""
        return self._subscription.missed

    def next(self, deadline: float | None = None) -> Publication:
        """The next publication; raises DeadlineExceeded, or Closed when there will be none."""
        for publication in self._current:
            return publication
        while self._go_on(deadline):
            for publication in self._current:
                return publication
        raise Closed(f"subscription {self.name!r} is closed: subscribe again")

    def __iter__(self) -> Iterator[Publication]:
        return self

    def __next__(self) -> Publication:
        for publication in self._current:
            return publication
        while self._go_on(None):
            for publication in self._current:
                return publication
        raise StopIteration

    def some(self, deadline: float | None = None) -> list[Publication]:
        """The next publications, as many as came together; raises as `next`."""
        return [self.next(deadline), *self._current]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches, as they arrive."""
        while True:
            if self._part is not None and (rest := rest_of(self._part, self._current)) is not None:
                yield table_of_batch(rest)
            if not self._go_on(None):
                return

    def _go_on(self, deadline: float | None) -> bool:
        """Go on to the next batch; false when there will be none."""
        if not self._arrived:
            self._worker.run(lambda: self._fetch(deadline))
        if not self._arrived:
            return False
        self._part = self._arrived.popleft()
        self._current = publications_of(self._part)
        return True

    async def _fetch(self, deadline: float | None) -> None:
        batch = await self._subscription.next_batch(deadline)
        if batch is not None:
            self._arrived.append(batch)

    def close(self) -> None:
        """Want nothing more."""
        self._arrived.clear()
        self._part, self._current = None, iter(())
        self._worker.run(self._subscription.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Closed):  # with the bus
            self.close()
