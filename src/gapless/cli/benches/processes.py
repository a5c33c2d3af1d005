"""The processes of a measurement: brokers, a publisher, a subscriber, each on its core and counting its CPU."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import time
from collections.abc import Coroutine
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import gapless
from gapless.cli.benches.limits import pin
from gapless.cli.benches.load import BODY_BYTES, Checks, Load
from gapless.node.broker import Broker
from gapless.node.config import parse_config
from gapless.node.logs import Logger

SPACE = "quotes"
SETTLE_S = 2.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """On uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def cpu_s() -> float:
    """Seconds of CPU this process has used, in itself and in the kernel for it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def broker_process(text: str, me: str, core: int, pipe: Connection) -> None:
    """A broker; answers `cpu` with its CPU seconds, ends at `stop`."""
    pin(core)

    async def main() -> None:
        broker = Broker(parse_config(text, "bench"), me, Logger(level="error"))
        await broker.start()
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def on_pipe() -> None:
            word = pipe.recv()
            if word == "stop":
                done.set_result(None)
            else:
                pipe.send(cpu_s())

        loop.add_reader(pipe.fileno(), on_pipe)
        pipe.send("up")
        await done
        loop.remove_reader(pipe.fileno())

    run_loop(main())


class Plan:
    """What a publisher does: by which interface, how fast, in what portions."""

    def __init__(self, port: int, api: str, rate: float, seconds: float, rows: int) -> None:
        self.port = port
        self.api = api  # table, rows or single
        self.rate = rate  # publications a second; 0: as fast as it goes
        self.seconds = seconds
        self.rows = rows


def publisher_process(plan: Plan, core: int, pipe: Connection) -> None:
    """Publishes for so long after `go`; reports how many and its CPU."""
    pin(core)

    async def main() -> None:
        load = Load(plan.rows, seed=7)
        async with gapless.connect(f"127.0.0.1:{plan.port}") as bus:
            publisher = await bus.publisher(SPACE)
            pipe.send("up")
            await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
            gc.freeze()
            start, cpu = time.perf_counter(), cpu_s()
            send = _send_singles if plan.api == "single" else _send_batches
            count = await send(plan, load, publisher, start + plan.seconds)
            await publisher.flush(10)
            pipe.send({"count": count, "seconds": time.perf_counter() - start, "cpu_s": cpu_s() - cpu})
            await asyncio.get_running_loop().run_in_executor(None, pipe.recv)

    run_loop(main())


async def _send_batches(plan: Plan, load: Load, publisher: gapless.Publisher, until: float) -> int:
    count = 0
    start = time.perf_counter()
    portions = load.tables() if plan.api == "table" else load.python_rows()
    for portion in portions:
        now = time.perf_counter()
        if now >= until:
            break
        if plan.rate:
            early = start + count / plan.rate - now
            if early > 0:
                await asyncio.sleep(early)
        if isinstance(portion, tuple):
            await publisher.send_many(*portion)
        else:
            await publisher.send_many(portion)
        count += plan.rows
    return count


async def _send_singles(plan: Plan, load: Load, publisher: gapless.Publisher, until: float) -> int:
    count = 0
    start = time.perf_counter()
    send = publisher.send
    for attributes, body in load.singles():
        await send(attributes, body)
        count += 1
        if plan.rate:
            early = start + count / plan.rate - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
        if not count & 255 and time.perf_counter() >= until:
            break
    return count


def subscriber_process(port: int, text: str, api: str, core: int, pipe: Connection) -> None:
    """Checks everything that arrives; answers `mark` with count, time and CPU, ends at `stop`."""
    pin(core)

    async def main() -> None:
        checks = Checks()
        async with gapless.connect(f"127.0.0.1:{port}") as bus, bus.subscribe(SPACE, text) as subscription:
            loop = asyncio.get_running_loop()
            consume = _take_singles if api == "single" else _take_batches
            task = loop.create_task(consume(subscription, checks))
            done = loop.create_future()

            def on_pipe() -> None:
                word = pipe.recv()
                if word == "stop":
                    done.set_result(None)
                elif word == "latencies":
                    checks.keep_latencies = True
                    checks.latencies_ns.clear()
                    checks.single_latencies_ns.clear()
                else:
                    pipe.send(_mark(checks, subscription.missed))

            loop.add_reader(pipe.fileno(), on_pipe)
            gc.freeze()
            pipe.send("up")
            await asyncio.wait([task, done], return_when=asyncio.FIRST_COMPLETED)
            loop.remove_reader(pipe.fileno())
            if task.done():
                task.result()
            task.cancel()

    run_loop(main())


def _mark(checks: Checks, missed: int) -> dict[str, Any]:
    latencies = np.concatenate([np.array(checks.single_latencies_ns, np.int64), *checks.latencies_ns])
    quantiles = np.percentile(latencies, [50, 99]).tolist() if len(latencies) else []
    return {
        "count": checks.count,
        "at": time.perf_counter(),
        "cpu_s": cpu_s(),
        "lost": checks.lost,
        "missed": missed,
        "latency_ms": [round(value / 1e6, 3) for value in quantiles],
    }


async def _take_batches(subscription: gapless.Subscription, checks: Checks) -> None:
    async for batch in subscription.raw_batches():
        checks.batch(batch)


async def _take_singles(subscription: gapless.Subscription, checks: Checks) -> None:
    from zlib import crc32

    expected = 0
    clock, late = time.monotonic_ns, checks.single_latencies_ns.append
    async for publication in subscription:
        seq = publication.seq
        if seq != expected and expected:
            checks.lost += seq - expected
        expected = seq + 1
        price = publication.attributes["price"]
        assert type(price) is float, "an attribute has changed its type"
        checks.price_sum += price
        body = publication.body
        assert len(body) == BODY_BYTES, "a body has another length"
        assert crc32(body[4:]) == int.from_bytes(body[:4], "little"), "a body has changed on its way"
        checks.count += 1
        if checks.keep_latencies:
            handed_in = int.from_bytes(body[4:12], "little")
            late(clock() - handed_in)
