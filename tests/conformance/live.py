"""Plays the stories over real sockets: brokers and clients of one process, connected over TCP."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

from tests.node.stage import Log, free_ports, until

import gapless
from gapless.node.broker import Broker
from gapless.node.config import ClusterConfig, parse_config

SPACE = "main"
Told = dict[str, list[str]]  # of each subscription what it was told, in order: `p:1`, or `gap disconnected`


class LiveStage:
    """Brokers and clients, and what the subscriptions of a story were told."""

    def __init__(self, expected: list[Told]) -> None:
        """`expected` is what the simulator had told by each `settle`: there the live stage waits for as much."""
        self.told: Told = {}
        self._expected = expected
        self._config: ClusterConfig
        self._links: list[tuple[str, str]] = []
        self._clients: list[tuple[str, list[str]]] = []
        self._brokers: dict[str, Broker] = {}
        self._buses: dict[str, gapless.Bus] = {}
        self._publishers: dict[str, gapless.Publisher] = {}
        self._subscriptions: dict[str, gapless.Subscription] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def play(self, commands: list[str]) -> Told:
        """Do all commands; what was told in the end."""
        async with self._stack:
            try:
                for command in commands:
                    verb, *words = command.split()
                    await getattr(self, f"_on_{verb}")(words)
                return self.told
            finally:
                for reader in self._readers:
                    reader.cancel()
                for broker in self._brokers.values():
                    await broker.drain()

    async def _on_brokers(self, words: list[str]) -> None:
        for chain in words:
            self._links.extend(pairwise(chain.split("-")))

    async def _on_client(self, words: list[str]) -> None:
        self._clients.append((words[0], words[1:]))

    async def _start(self) -> None:
        parents = {child: parent for parent, child in self._links}
        names = list(dict.fromkeys([self._links[0][0], *parents]))
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        text = f'[cluster]\nname = "demo"\n[[space]]\nname = "{SPACE}"\ndelivery = "direct"\n'
        text += "[tuning]\nredial_min_ms = 20\n"
        for name in names:
            text += f'[[broker]]\nid = "{name}"\nlisten = "127.0.0.1:{ports[name]}"\n'
            text += f'parent = "{parents[name]}"\n' if name in parents else ""
        self._config = parse_config(text)
        for name in names:
            await self._on_restart([name])
        for name, servers in self._clients:
            addresses = [f"127.0.0.1:{ports[server]}" for server in servers]
            self._buses[name] = await self._stack.enter_async_context(gapless.connect(addresses, name=name))

    async def _on_settle(self, words: list[str]) -> None:
        if not self._brokers:
            await self._start()
        await until(self._whole)
        expected = self._expected.pop(0)
        await until(lambda: all(self.told[name][: len(told)] == told for name, told in expected.items()), 5)
        if not self._expected:
            await asyncio.sleep(0.1)  # for what should not come

    def _whole(self) -> bool:
        """Everybody who is up has a link with everybody who should be, and nothing waits for an answer."""
        for name, broker in self._brokers.items():
            neighbours = [peer for peer in self._config.tree().neighbours(name) if peer in self._brokers]
            if any(peer not in broker.latest for peer in neighbours) or broker.spaces[SPACE].core.held():
                return False
        spaces = [bus._spaces[SPACE] for bus in self._buses.values() if SPACE in bus._spaces]
        confirmed = all(one.confirmed for space in spaces for one in space.core.subscriptions.values())  # type: ignore[attr-defined]  # of direct
        return confirmed and all(bus.server for bus in self._buses.values())

    async def _on_subscribe(self, words: list[str]) -> None:
        client, name, *rest = words
        topic = rest.pop(0).removeprefix("topic=") if rest and rest[0].startswith("topic=") else ""
        told = self.told[name] = []
        subscription = await self._buses[client].subscribe(
            SPACE, " ".join(rest), topic=topic, on_gap=lambda notice: told.append(f"gap {notice.reason}")
        )
        self._subscriptions[name] = subscription

        async def read() -> None:
            async for publication in subscription:
                told.append(f"{publication.source}:{publication.seq}")  # noqa: PERF401  # as they come

        self._readers.append(asyncio.ensure_future(read()))

    async def _on_unsubscribe(self, words: list[str]) -> None:
        await self._subscriptions[words[1]].close()

    async def _on_publish(self, words: list[str]) -> None:
        client, source, *rest = words
        if source not in self._publishers:
            self._publishers[source] = await self._buses[client].publisher(SPACE, source)
        rows = [_attributes(row.split()) for row in " ".join(rest).split(";")]
        await (await self._publishers[source].send_many(rows)).accepted(5)

    async def _on_crash(self, words: list[str]) -> None:
        broker = self._brokers.pop(words[0])
        assert broker._server is not None
        broker._server.close()
        broker._dialler.stop()
        for link in tuple(broker.links.values()):
            assert link._transport is not None
            link._transport.abort()
        await until(lambda: not broker.links)

    async def _on_restart(self, words: list[str]) -> None:
        broker = Broker(self._config, words[0], Log().logger)
        await broker.start()
        self._brokers[words[0]] = broker


def _attributes(words: list[str]) -> dict[str, Any]:
    drawn: dict[str, Any] = {}
    for name, _, value in (word.partition("=") for word in words):
        try:
            drawn[name] = float(value) if "." in value else int(value)
        except ValueError:
            drawn[name] = value
    return drawn
