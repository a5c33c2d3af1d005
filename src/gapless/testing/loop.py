"""An event loop with a time of its own: when there is nothing to do, the next thing that is due is due now.

The network is in memory, chance comes from a seed, journals go into one history. What runs here is what ships: client
and brokers ask their loop for connections and timers, and `gapless.node.surroundings` for the rest.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from gapless.delivery.port import Now
from gapless.model.errors import GaplessError
from gapless.node.journal import Journal
from gapless.node.surroundings import Surroundings
from gapless.testing.lending import Lending
from gapless.testing.process import Call, Process, process_of

if TYPE_CHECKING:
    from gapless.testing.network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NS = 1_000_000_000
BEGINNING_NS = 946_684_800 * NS  # the wall clock when time begins: midnight, 1 January 2000, UTC


class Stalled(GaplessError):
    """The story did not end: it waits for what does not come."""


class _Waiting:
    """In place of a selector: instead of waiting it moves the clock, except while a thread works for the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._woken = threading.Event()

    def select(self, timeout: float | None) -> list[Any]:
        """Nothing is ready for `timeout` seconds."""
        loop = self._loop
        if loop.troubles:
            raise loop.troubles.pop(0)
        if timeout != 0 and loop.lending.at_work:
            self._woken.wait()
        elif timeout is None:
            raise Stalled("nothing can happen any more, and the story has not ended")
        elif timeout > 0:
            loop.move(ceil(timeout * NS))
        self._woken.clear()
        return []

    def wake(self) -> None:
        """A thread has something for the loop."""
        self._woken.set()


class VirtualLoop(asyncio.BaseEventLoop, Surroundings):
    """The loop."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.network: Network
        self.journals: Callable[[str], Journal | None] = lambda node: None
        self.horizon_ns = 0  # when the story must have ended
        self.troubles: list[BaseException] = []  # what nobody caught in a callback: a bug, which ends the story
        self.lending = Lending(self)
        self.tasks: dict[asyncio.Task[Any], None] = {}  # that have not ended, the oldest first
        self._ns = 0
        self._selector = _Waiting(self)
        self.set_task_factory(_remembering)
        self.set_exception_handler(_on_exception)

    # --- time ---------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds since the beginning."""
        return self._ns / NS

    def move(self, ns: int) -> None:
        """Nothing is due before this: it is now. Raises Stalled beyond the horizon."""
        self._ns += ns
        if self._ns > self.horizon_ns:
            raise Stalled("time is up")

    def kill(self, process: Process) -> None:
        """Whatever it was about to do is not done any more."""
        process.die()
        for task in process.remains:
            self.tasks.pop(task, None)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: `_Waiting` finds nothing."""

    def _write_to_self(self) -> None:
        self._selector.wake()

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As every loop; what belongs to a process is done only while that process lives and runs."""
        process = process_of(context)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        call = Call(process, callback, args)
        call.handle = super().call_soon(call, context=context)
        return call.handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As `call_soon`, at that time."""
        process = process_of(context)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        call = Call(process, callback, args)
        handle = super().call_at(when, call, context=context)
        call.handle = handle
        return handle

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As every loop; time stands still until the thread has done it."""
        self.lending.at_work += 1
        try:
            future = super().run_in_executor(executor, self.lending.bound(func), *args)
        except BaseException:
            self.lending.at_work -= 1
            raise
        future.add_done_callback(self._worked, context=contextvars.Context())  # also if its process has died
        return future

    def _worked(self, future: asyncio.Future[T]) -> None:
        self.lending.at_work -= 1
        if self.lending.over and not future.cancelled():
            future.exception()  # nobody is left to be told

    async def shutdown_default_executor(self, *patience: Any) -> None:
        """As every loop; this is waited for as other threads are."""
        self.lending.at_work += 1
        try:
            await super().shutdown_default_executor(*patience)
        finally:
            self.lending.at_work -= 1

    # --- surroundings -------------------------------------------------------------------------------------------------

    def now(self) -> Now:
        """The time."""
        return Now(self._ns, BEGINNING_NS + self._ns)

    def uniform(self, least: float, most: float) -> float:
        """A number between the two, from the seed."""
        return self.chance.uniform(least, most)

    def token(self, size: int) -> str:
        """So many bytes from the seed."""
        return self.chance.randbytes(size).hex()

    def journal(self, node: str) -> Journal | None:
        """Every client's history is kept."""
        return self.journals(node)

    # --- network ------------------------------------------------------------------------------------------------------

    async def create_connection(  # type: ignore[override]  # of all the ways to connect only the common one
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to what listens in this network."""
        return await self.network.connect(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]  # as above
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> asyncio.AbstractServer:
        """Listen in this network."""
        return self.network.listen(protocol_factory, host, port)


def _remembering(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Tasks in the order in which they began, so that ending them has an order as well."""
    assert isinstance(loop, VirtualLoop)
    task = asyncio.Task(coroutine, loop=loop, **options)
    loop.tasks[task] = None
    process = process_of(options.get("context"))
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda task: process.tasks.pop(task, None))
    task.add_done_callback(lambda task: loop.tasks.pop(task, None))
    return task


def _on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What fails in a callback, and a broker's task that fails, ends the story; else as every loop."""
    assert isinstance(loop, VirtualLoop)
    error = context.get("exception")
    cancelled = isinstance(error, asyncio.CancelledError)  # as at the end of a story
    if isinstance(error, BaseException) and not cancelled and ("handle" in context or process_of(None) is not None):
        loop.troubles.append(error)
    else:
        loop.default_exception_handler(context)
