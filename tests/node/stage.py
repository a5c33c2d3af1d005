"""What tests of brokers stand on: brokers in this process, peers that say what they like, and bystanders."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

import gapless
from gapless.delivery.catalogue import DELIVERIES
from gapless.delivery.direct.messages import Credit
from gapless.delivery.port import Message, Role
from gapless.delivery.wire import Codec
from gapless.node.broker import Broker
from gapless.node.config import ClusterConfig, parse_config
from gapless.node.control import Control, Farewell, Hello, Open, Opened, Welcome, decode_control, encode_control
from gapless.node.frames import CONTROL, HEADER, PREAMBLE, frame_header
from gapless.node.logs import Logger
from gapless.node.loop import new_event_loop

SPACE = "quotes"
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": new_event_loop,
    "asyncio": asyncio.new_event_loop,
}
CODEC = Codec(DELIVERIES["direct"].messages)


def run(story: Coroutine[Any, Any, None], loop: str = "uvloop", deadline: float = 30) -> None:
    """Run a story; whatever the loop has to complain of meanwhile fails it, as it ends a broker process."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(deadline):
            await story

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(watched())
    assert complaints == []


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Ports that are taken."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        yield [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses at this moment."""
    with held_ports(count) as ports:
        return ports


def cluster_text(count: int = 1, more: str = "", http: bool = False, space: str = "") -> str:
    """A chain of brokers on free ports. `more` are further tables, `space` further keys of the space."""
    ports = free_ports(2 * count)
    parts = ['[cluster]\nname = "demo"\n']
    for number in range(count):
        parts.append(f'[[broker]]\nid = "b{number}"\nlisten = "127.0.0.1:{ports[number]}"\n')
        if number:
            parts.append(f'parent = "b{number - 1}"\n')
        if http:
            parts.append(f'http = "127.0.0.1:{ports[count + number]}"\n')
    parts.append(f'[[space]]\nname = "{SPACE}"\ndelivery = "direct"\n{space}\n')
    return "".join(parts) + more


def cluster(count: int = 1, more: str = "", http: bool = False, space: str = "") -> ClusterConfig:
    """The same, read."""
    return parse_config(cluster_text(count, more, http, space))


def port_of(config: ClusterConfig, me: str = "b0") -> int:
    """Where a broker listens."""
    return config.broker(me).listen.port


class Log:
    """What was logged."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.logger = Logger(self.stream, "debug")

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The lines of this event, or all."""
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in lines if event in ("", line["event"])]


@asynccontextmanager
async def brokers(config: ClusterConfig, *ids: str, log: Log | None = None) -> AsyncIterator[list[Broker]]:
    """These brokers of a cluster (none named: all), in this process."""
    log = log or Log()
    started: list[Broker] = []
    try:
        for me in ids or [broker.id for broker in config.brokers]:
            broker = Broker(config, me, log.logger)
            await broker.start()
            started.append(broker)
        yield started
    finally:
        for broker in started:
            await broker.drain()


async def until(true: Callable[[], bool], deadline: float = 10) -> None:
    """Wait for what is going to be true."""
    async with asyncio.timeout(deadline):
        while not true():  # noqa: ASYNC110  # any condition, of things that have no event for it
            await asyncio.sleep(0.005)


class Raw:
    """A peer that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, *messages: Control) -> None:
        """Control messages, in order."""
        for message in messages:
            self.frame(CONTROL, encode_control(message))

    def frame(self, channel: int, data: bytes) -> None:
        """One frame of any bytes."""
        self.writer.write(frame_header(channel, len(data)) + data)

    def message(self, message: Message, channel: int = 1) -> None:
        """A message for a space."""
        self.frame(channel, b"".join(CODEC.encode(message)))

    async def greet(self, node: str = "raw", role: Role = Role.CLIENT, cluster: str = "demo") -> Welcome:
        """Introduce itself as peers do."""
        self.writer.write(PREAMBLE)
        self.say(Hello(node, role, cluster))
        welcome = await self.heard(Welcome)
        assert isinstance(welcome, Welcome)
        return welcome

    async def enter(self, space: str = SPACE, node: str = "raw", role: Role = Role.CLIENT) -> Opened:
        """Introduce itself and open a space; leaves room for everything."""
        await self.greet(node, role)
        self.say(Open(1, space))
        opened = await self.heard(Opened)
        assert isinstance(opened, Opened)
        return opened

    async def heard(self, kind: type[Control]) -> Control:
        """Read on until such a message comes."""
        while True:
            channel, data = await self.read()
            if channel == CONTROL and isinstance(message := decode_control(memoryview(data)), kind):
                return message

    async def message_of(self, kind: type[Message]) -> Message:
        """Read on until such a message for a space comes."""
        while True:
            channel, data = await self.read()
            if channel != CONTROL and isinstance(message := CODEC.decode(memoryview(data)), kind):
                return message

    async def read(self) -> tuple[int, bytes]:
        """The next frame."""
        if not hasattr(self, "_greeted"):
            self._greeted = await self.reader.readexactly(len(PREAMBLE))
        length, channel, _ = HEADER.unpack(await self.reader.readexactly(HEADER.size))
        return channel, await self.reader.readexactly(length)

    async def farewell(self) -> Farewell | None:
        """Why the broker ended it; None when it closed without a word."""
        try:
            said = await self.heard(Farewell)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        assert isinstance(said, Farewell)
        return said

    def give_room(self, size: int = 1 << 40) -> None:
        """Credit."""
        self.message(Credit(size))


@asynccontextmanager
async def raw(port: int) -> AsyncIterator[Raw]:
    """A connection on which nothing has been said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()


class Bystanders:
    """A publisher and a subscriber who have nothing to do with it, and lose nothing."""

    def __init__(self, publisher: gapless.Publisher, subscription: gapless.Subscription) -> None:
        self.publisher = publisher
        self.subscription = subscription
        self.sent = 0

    async def go_on(self, count: int = 20) -> None:
        """Publish, and see everything arrive."""
        first = self.sent
        self.sent += count
        receipts = [await self.publisher.send({"n": n}, b"body") for n in range(first, self.sent)]
        for receipt in receipts:
            await receipt
        for n in range(first, self.sent):
            publication = await self.subscription.next(deadline=5)
            assert publication.attributes == {"n": n}
        assert not self.subscription.gaps


@asynccontextmanager
async def bystanders(port: int, other: int | None = None) -> AsyncIterator[Bystanders]:
    """They go on before and after what happens inside."""
    async with (
        gapless.connect(f"127.0.0.1:{port}", name="teller") as teller,
        gapless.connect(f"127.0.0.1:{other or port}", name="listener") as listener,
    ):
        subscription = await listener.subscribe(SPACE, "n >= 0", deadline=10)
        two = Bystanders(await teller.publisher(SPACE, "teller"), subscription)
        await two.go_on()
        yield two
        await two.go_on()


def encoded(message: Message) -> bytes:
    """The bytes of a message."""
    return b"".join(CODEC.encode(message))


def msgpack(value: object) -> bytes:
    """Any value, as messages are encoded."""
    return msgspec.msgpack.encode(value)


def write_cluster(folder: Path, text: str) -> Path:
    """The configuration as a file."""
    path = folder / "cluster.toml"
    path.write_text(text)
    return path
