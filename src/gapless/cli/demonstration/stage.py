"""The stage: three brokers as processes, publishers and subscribers, and what became of everything."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gapless
from gapless.filters import Interest
from gapless.model.events import Kind
from gapless.node.asking import ask_all
from gapless.node.clock import now
from gapless.node.config import default_config
from gapless.node.journal import Journal
from gapless.node.sockets import is_free

SPACE = "quotes"
BROKERS = 3
SYMBOLS = ("IBM", "SUN", "DEC", "HPQ", "SGI")
PLACES = ("NY", "TOK", "LON")
EVERY_S = 0.01  # a publisher hands in some publications a hundred times a second
AT_ONCE = 5
REDIAL_MAX_MS = 500  # so that the tree closes while one watches
START_S = 15.0
STOP_S = 15.0


@dataclass
class Watch:
    """What one subscriber has seen."""

    name: str
    broker: str
    filter: str
    interest: Interest
    count: int = 0
    owed: int = 0  # accepted publications that match
    gaps: list[str] = field(default_factory=list)


class Stage:
    """A chain of three brokers, a publisher at each end, and subscribers at all of them."""

    def __init__(self, folder: Path, faults: bool) -> None:
        self.faults = faults
        self.folder = folder
        self.journals = folder / "journals"
        self.config = folder / "cluster.toml"
        self.ports = _free_run(BROKERS)
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.watches: list[Watch] = []
        self.accepted: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        self.publishing = asyncio.Event()

    # --- brokers

    def write_config(self) -> None:
        """The cluster, as a file one can use again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = default_config(BROKERS, "chain", self.ports)
        self.config.write_text(text + f"\n[tuning]\nredial_max_ms = {REDIAL_MAX_MS}\n")

    async def start_broker(self, number: int) -> None:
        """Start a broker and wait until it takes connections."""
        name = f"b{number}"
        log = (self.folder / f"{name}.log").open("ab")
        command = [sys.executable, "-m", "gapless.cli.main", "broker", str(self.config), "--id", name]
        command += ["--journal", str(self.journals), *(["--faults"] if self.faults else [])]
        self.processes[name] = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.close()
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.ports + number)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
        raise gapless.GaplessError(
            f"broker {name} did not start within {START_S:g} s; {self.folder}/{name}.log says why"
        )

    def alive(self, name: str) -> bool:
        """Whether the process of a broker is there."""
        process = self.processes.get(name)
        return process is not None and process.returncode is None

    async def kill_broker(self, name: str) -> None:
        """Kill it without a word of warning, as a power cut would."""
        self.processes[name].send_signal(signal.SIGKILL)
        await self.processes[name].wait()

    async def stop_brokers(self) -> None:
        """Let them drain and end."""
        for process in self.processes.values():
            if process.returncode is None:
                process.terminate()
        for process in self.processes.values():
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    # --- clients

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[Journal]:
        """Publishers and subscribers at work; gives the journal of whoever runs the show."""
        own = Journal(self.journals, "director", faults=self.faults)
        tasks: list[asyncio.Task[None]] = []
        buses: list[gapless.Bus] = []
        try:
            for number in range(BROKERS):
                for name, text in ((f"all-{number}", ""), (f"picky-{number}", "loc = 'NY' AND price > 50")):
                    bus = await self._bus(name, number)
                    buses.append(bus)
                    watch = Watch(name, f"b{number}", text or "everything", Interest.parse(text))
                    self.watches.append(watch)
                    subscription = await bus.subscribe(SPACE, text, on_gap=_noting(watch), deadline=START_S)
                    tasks.append(asyncio.create_task(_consume(subscription, watch)))
            for number in (0, BROKERS - 1):
                bus = await self._bus(f"till-{number}", number)
                buses.append(bus)
                publisher = await bus.publisher(SPACE, f"till-{number}", deadline=START_S)
                tasks.append(asyncio.create_task(self._publish(publisher, number)))
            yield own
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for bus in buses:
                await bus.close()
            own.close(goodbye=True)

    async def _bus(self, name: str, number: int) -> gapless.Bus:
        """A client of that broker, which uses the others when its own is down."""
        order = [number, *(other for other in range(BROKERS) if other != number)]
        servers = [f"127.0.0.1:{self.ports + other}" for other in order]
        return await gapless.connect(servers, name=name, journal=self.journals, faults=self.faults).open()

    async def _publish(self, publisher: gapless.Publisher, seed: int) -> None:
        dice = random.Random(seed)
        name = publisher.source.name
        self.accepted[name] = self.unknown[name] = 0
        pending: set[asyncio.Task[None]] = set()
        while True:
            await self.publishing.wait()
            for _ in range(AT_ONCE):
                row: dict[str, Any] = {
                    "sym": dice.choice(SYMBOLS),
                    "price": round(dice.uniform(1, 100), 2),
                    "loc": dice.choice(PLACES),
                }
                receipt = await publisher.send(row, dice.randbytes(40))
                task = asyncio.create_task(self._settle(name, row, receipt))
                pending.add(task)
                task.add_done_callback(pending.discard)
            await asyncio.sleep(EVERY_S)

    async def _settle(self, name: str, row: dict[str, Any], receipt: gapless.Receipt) -> None:
        try:
            await receipt
        except gapless.OutcomeUnknown:
            self.unknown[name] += 1
        else:
            self.accepted[name] += 1
            for watch in self.watches:
                watch.owed += watch.interest.matches(row)

    # --- telling

    def delivered(self) -> int:
        """Deliveries so far, over all subscribers."""
        return sum(watch.count for watch in self.watches)

    async def closed(self, seconds: float = 10.0) -> float:
        """Wait until every broker but the root has a link with its parent; how long that took."""
        start = time.monotonic()
        children = {f"b{n}": ("127.0.0.1", self.ports + 1000 + n) for n in range(1, BROKERS)}
        while time.monotonic() - start < seconds:
            answers = await ask_all(children, 1.0)
            if all("down" not in answer.get("neighbours", {"": "down"}).values() for answer in answers.values()):
                break
            await asyncio.sleep(0.05)
        return time.monotonic() - start

    async def quiet(self, seconds: float = 10.0) -> None:
        """Wait until nothing is under way any more."""
        until = time.monotonic() + seconds
        last = -1
        while time.monotonic() < until and self.delivered() != last:
            last = self.delivered()
            await asyncio.sleep(0.3)


def note(journal: Journal, kind: Kind, **fields: Any) -> None:
    """Write into the director's journal what was done to the stage."""
    journal.write(kind, now(), **fields)
    journal.flush()


async def _consume(subscription: gapless.Subscription, watch: Watch) -> None:
    async for _ in subscription:
        watch.count += 1


def _noting(watch: Watch) -> Any:
    def on_gap(notice: gapless.GapNotice) -> None:
        watch.gaps.append(notice.reason)

    return on_gap


def _free_run(count: int) -> int:
    """The first of so many ports in a row that nobody uses at this moment, with those for health a thousand above."""
    for first in range(17400, 60000, 50):
        wanted = [first + n for n in range(count)] + [first + 1000 + n for n in range(count)]
        if all(is_free("127.0.0.1", port) for port in wanted):
            return first
    raise gapless.GaplessError("no ports are free on this machine between 17400 and 60000; stop what uses them")
