"""What tests of the client stand on: a cluster in this process, clients of it, and a broker that obeys the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.node.stage import SPACE, Raw, brokers, cluster, port_of, run, until

import gapless
from gapless.delivery.direct.messages import Accept, Confirm, Credit, Publish, Subscribe
from gapless.delivery.port import SpaceSettings
from gapless.node.broker import Broker
from gapless.node.config import ClusterConfig
from gapless.node.control import Hello, Open, Opened, Welcome

__all__ = [
    "SPACE",
    "Obedient",
    "brokers",
    "cluster",
    "house",
    "meet",
    "obedient",
    "port_of",
    "run",
    "servers_of",
    "until",
]

FRAME_BYTES_MAX = 8 << 20


def servers_of(config: ClusterConfig, *ids: str) -> list[str]:
    """The addresses of these brokers (none named: all)."""
    return [f"127.0.0.1:{port_of(config, me)}" for me in ids or [broker.id for broker in config.brokers]]


@asynccontextmanager
async def house(
    count: int = 1, more: str = "", space: str = ""
) -> AsyncIterator[tuple[gapless.Bus, ClusterConfig, list[Broker]]]:
    """Brokers in a chain, and a client of the first."""
    config = cluster(count, more, space=space)
    async with brokers(config) as started, gapless.connect(servers_of(config, "b0"), name="tester") as bus:
        yield bus, config, started


class Obedient(Raw):
    """A broker that does what the test says, and nothing else."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: SpaceSettings) -> None:
        super().__init__(reader, writer)
        self.settings = settings

    async def welcome(self, room: int = 1 << 40) -> None:
        """Greet a client, and open the space that it asks for with so much room."""
        await self.heard(Hello)
        self.writer.write(b"GAPLESS\x01")
        self.say(Welcome("obedient", "demo", 60_000, 120_000, FRAME_BYTES_MAX))
        asked = await self.heard(Open)
        assert isinstance(asked, Open)
        self.say(Opened(asked.channel, self.settings))
        if room:
            self.message(Credit(room))

    async def published(self) -> Publish:
        """The next batch."""
        message = await self.message_of(Publish)
        assert isinstance(message, Publish)
        return message

    def accept(self, message: Publish) -> None:
        """Take a batch."""
        batch = message.batch
        self.message(Accept(batch.source.name, batch.source.incarnation, batch.first, batch.last))

    async def confirm(self) -> int:
        """Confirm the next subscription."""
        message = await self.message_of(Subscribe)
        assert isinstance(message, Subscribe)
        self.message(Confirm(message.subscription, ()))
        return message.subscription

    def vanish(self) -> None:
        """The connection breaks."""
        self.writer.transport.abort()


class Waiting:
    """Connections as they come."""

    def __init__(self, port: int) -> None:
        self.server = f"127.0.0.1:{port}"
        self.coming: asyncio.Queue[Obedient] = asyncio.Queue()

    async def next(self) -> Obedient:
        """The next connection."""
        return await self.coming.get()


@asynccontextmanager
async def obedient(settings: SpaceSettings | None = None) -> AsyncIterator[Waiting]:
    """A server whose brokers do what the test says."""
    told = settings or SpaceSettings(name=SPACE)
    everyone: list[Obedient] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        everyone.append(Obedient(reader, writer, told))
        waiting.coming.put_nowait(everyone[-1])

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    waiting = Waiting(server.sockets[0].getsockname()[1])
    try:
        yield waiting
    finally:
        server.close()
        for one in everyone:
            one.vanish()


async def meet(server: Waiting, room: int = 1 << 40) -> tuple[gapless.Bus, Obedient, gapless.Publisher]:
    """A client of such a broker, with a publisher that has so much room."""
    connecting = asyncio.ensure_future(gapless.connect(server.server).open())
    broker = await server.next()
    greeting = asyncio.ensure_future(broker.welcome(room))
    bus = await connecting
    out = await bus.publisher(SPACE)
    await greeting
    return bus, broker, out
