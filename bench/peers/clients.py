"""The publisher and the subscriber of a measurement, each a process of its own, and what a system's client is given.

A publisher may be WINDOW publications ahead of the subscriber, whoever the peer is: what is at most once loses nothing
then, and no system is measured by how much it buffers. The two counts are in memory that the processes share.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import AsyncIterator, Coroutine
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import pyarrow as pa

from bench.peers.contract import Contender
from bench.peers.load import Tally
from gapless.cli.benches.limits import pin
from gapless.cli.benches.load import Load
from gapless.cli.benches.processes import run_loop

WINDOW = 16_384
GIVE_UP_S = 2.0  # what has not come for so long after the last one did is lost
TABLE_ROWS = 1024
SLOW_TABLE_ROWS = 64  # at rates where a full batch would wait to be filled
FULL_TABLES_FROM = 50_000.0
NAP_S = 0.001

RECEIVED, SENT = 0, 1  # places on the board

Board = Any  # a shared array of two integers; multiprocessing gives its type no name
Publication = tuple[int, dict[str, Any], bytes]


class Plan(NamedTuple):
    """What a publisher is asked for."""

    rate: float  # publications a second; 0: as fast as it goes
    seconds: float


class Outbox:
    """Gives a system's client what to publish, when it is time to, and ends when there is no more to do."""

    def __init__(self, pipe: Connection, board: Board, portion: int) -> None:
        self._pipe = pipe
        self._board = board
        self._portion = portion
        self._sent = 0
        self._given_up = 0

    async def portions(self) -> AsyncIterator[list[Publication]]:
        """Publications one by one, each with a seq, in lists: handing them out costs next to nothing then."""
        made = Load(TABLE_ROWS, seed=7).singles()
        async for room in self._turns(self._portion):
            first = self._sent + 1
            yield [(first + n, *next(made)) for n in range(room)]
            self._note(room)

    async def tables(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow record batches with the column `body`."""
        made = {rows: Load(rows, seed=7).tables() for rows in (SLOW_TABLE_ROWS, TABLE_ROWS)}
        async for room in self._turns(0):
            yield next(made[room])
            self._note(room)

    def _note(self, count: int) -> None:
        self._sent += count
        self._board[SENT] = self._sent

    async def _turns(self, portion: int) -> AsyncIterator[int]:
        """How many to publish now; `portion` 0 means full tables only."""
        tell(self._pipe, "up")
        gc.collect()
        gc.freeze()
        while plan := await hear(self._pipe):
            most = portion or (SLOW_TABLE_ROWS if 0 < plan.rate < FULL_TABLES_FROM else TABLE_ROWS)
            async for room in self._paced(plan, most, least=1 if portion else most):
                yield room
            await self._drained()
            tell(self._pipe, "done")

    async def _paced(self, plan: Plan, most: int, least: int) -> AsyncIterator[int]:
        start = time.perf_counter()
        before = self._sent
        while (now := time.perf_counter()) < start + plan.seconds:
            due = int((now - start) * plan.rate) - (self._sent - before) if plan.rate else most
            if due < least:
                await asyncio.sleep(NAP_S)
            elif await self._room_for(min(due, most)):
                yield min(due, most)
                await asyncio.sleep(0)

    async def _room_for(self, count: int) -> bool:
        """Wait while the subscriber is too far behind; false if it has to be given up on what is missing first."""
        if self._ahead() + count <= WINDOW:
            return True
        return await self._until(lambda: self._ahead() + count <= WINDOW)

    async def _drained(self) -> None:
        """Wait until everything has come that will come."""
        await self._until(lambda: self._ahead() <= 0)

    async def _until(self, fulfilled: Any) -> bool:
        seen, since = self._board[RECEIVED], time.perf_counter()
        while not fulfilled():
            await asyncio.sleep(NAP_S)
            if self._board[RECEIVED] != seen:
                seen, since = self._board[RECEIVED], time.perf_counter()
            elif time.perf_counter() > since + GIVE_UP_S:
                self._given_up += self._ahead()
                return False
        return True

    def _ahead(self) -> int:
        return self._sent - int(self._board[RECEIVED]) - self._given_up


class Inbox:
    """Takes what a system's client receives."""

    def __init__(self, pipe: Connection, board: Board) -> None:
        self._pipe = pipe
        self._board = board
        self.tally = Tally()

    def take(self, seq: int, price: Any, body: bytes) -> None:
        """One publication."""
        self.tally.take(seq, price, body)
        self._board[RECEIVED] = self.tally.count

    def take_batch(self, batch: Any) -> None:
        """A batch of Gapless."""
        self.tally.take_batch(batch)
        self._board[RECEIVED] = self.tally.count

    async def until_over(self, consume: Coroutine[Any, Any, None] | None = None) -> None:
        """Say that the subscription stands, and answer the harness until it is over; `consume` runs meanwhile."""
        task = asyncio.get_running_loop().create_task(consume) if consume else None
        gc.collect()
        gc.freeze()
        tell(self._pipe, "up")
        while word := await hear(self._pipe):
            if word == "latencies":
                self.tally.forget_latencies()
            else:
                tell(self._pipe, self._findings())
            if task and task.done():
                task.result()
        if task:
            task.cancel()

    def _findings(self) -> dict[str, Any]:
        tally = self.tally
        found = {"count": tally.count, "gaps": tally.lost, "repeated": tally.repeated, "changed": tally.changed}
        return {**found, "latency_ms": tally.latencies_ms()}


class Over(Exception):
    """Nobody listens any more: the measurement was broken off."""


def tell(pipe: Connection, word: Any) -> None:
    """Say something to the harness."""
    try:
        pipe.send(word)
    except BrokenPipeError:
        raise Over from None


async def hear(pipe: Connection) -> Any:
    """The next word of the harness; None when it is over, also because nobody is there any more."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(pipe.fileno(), ready.set)
    try:
        await ready.wait()
        return pipe.recv()
    except EOFError:
        return None
    finally:
        loop.remove_reader(pipe.fileno())


def publisher_process(contender: Contender, port: int, board: Board, core: int, pipe: Connection) -> None:
    """Publishes what it is asked for."""
    outbox = Outbox(pipe, board, contender.portion)
    _client(contender.publish(port, outbox), core, pipe)


def subscriber_process(contender: Contender, port: int, board: Board, core: int, pipe: Connection) -> None:
    """Checks everything that arrives."""
    _client(contender.subscribe(port, Inbox(pipe, board)), core, pipe)


def _client(work: Any, core: int, pipe: Connection) -> None:
    pin(core)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the harness's to handle

    async def main() -> None:
        try:
            await work
        except Over:
            return
        except Exception as error:
            with contextlib.suppress(BrokenPipeError):
                pipe.send(f"{type(error).__name__}: {error}")
            raise

    run_loop(main())
