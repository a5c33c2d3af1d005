"""The failure detector of links: idle ones stay, dead ones end, and a process that was stopped blames nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.node.stage import LOOPS, Log, brokers, bystanders, cluster, port_of, raw, run, until

from gapless.node.config import ClusterConfig, parse_config
from gapless.node.control import Pong

BEATS = "[tuning]\nheartbeat_ms = 40\nsuspect_after_ms = 200\nredial_min_ms = 10\nredial_max_ms = 20\n"


class Wire:
    """Passes bytes on between two ends; either direction can be made to swallow them instead."""

    def __init__(self) -> None:
        self.deaf = {"up": False, "down": False}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        """One connection: `up` is from whoever connected."""
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await asyncio.gather(self.carry("up", reader, far_writer), self.carry("down", far_reader, writer))
            finally:
                far_writer.transport.abort()
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def carry(self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction."""
        with suppress(OSError):
            while data := await reader.read(65536):
                if not self.deaf[way]:
                    writer.write(data)
        writer.close()


@asynccontextmanager
async def wired() -> AsyncIterator[tuple[ClusterConfig, ClusterConfig, Wire]]:
    """A cluster of two as the parent and as its child sees it, with a wire between them."""
    config, wire = cluster(2, BEATS), Wire()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(wire.serve(reader, writer, port_of(config))))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    child = parse_config(
        f'[cluster]\nname = "demo"\n[[broker]]\nid = "b0"\nlisten = "127.0.0.1:{port}"\n'
        f'[[broker]]\nid = "b1"\nlisten = "127.0.0.1:{port_of(config, "b1")}"\nparent = "b0"\n'
        f'[[space]]\nname = "quotes"\ndelivery = "direct"\n{BEATS}'
    )
    try:
        yield config, child, wire
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # a transport that was aborted is closed in the next turn of the loop


@pytest.mark.parametrize("loop", LOOPS)
def test_an_idle_link_stays_up(loop: str) -> None:
    """Links over which nothing is said but heartbeats live far longer than it takes to suspect a peer."""

    async def story() -> None:
        config, log = cluster(2, BEATS), Log()
        async with brokers(config, log=log) as (parent, child), bystanders(port_of(config), port_of(config, "b1")):
            number = parent.latest["b1"]
            await asyncio.sleep(0.7)
            assert parent.latest["b1"] == number
            assert "b0" in child.latest
            assert log.lines("link ended") == []

    run(story(), loop)


def test_a_peer_that_answers_no_heartbeat_is_given_up() -> None:
    """A peer that falls silent is suspected after the time that the configuration gives it."""

    async def story() -> None:
        config, log = cluster(1, BEATS), Log()
        async with brokers(config, log=log), raw(port_of(config)) as peer, bystanders(port_of(config)):
            await peer.enter()
            began = asyncio.get_running_loop().time()
            told = await peer.farewell()
            assert told is not None
            assert told.code == "Unreachable"
            assert told.text.startswith("the peer was not heard from for 0.2 s")
            assert asyncio.get_running_loop().time() - began < 1

    run(story())


def test_a_peer_that_answers_stays_however_little_it_says() -> None:
    """One pong for each ping is enough."""

    async def story() -> None:
        config = cluster(1, BEATS)
        async with brokers(config) as (broker,), raw(port_of(config)) as peer:
            await peer.enter()
            until_then = asyncio.get_running_loop().time() + 0.6
            while asyncio.get_running_loop().time() < until_then:
                await peer.read()
                peer.say(Pong())
            assert "raw" in broker.latest

    run(story())


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_link_that_carries_one_way_only_is_given_up_and_made_anew(way: str) -> None:
    """Whichever direction fails, both ends come to know; when it works again they find each other by themselves."""

    async def story() -> None:
        log = Log()
        async with (
            wired() as (above, below, wire),
            brokers(above, "b0", log=log) as (parent,),
            brokers(below, "b1", log=log) as (child,),
        ):
            await until(lambda: "b1" in parent.latest and "b0" in child.latest)
            wire.deaf[way] = True
            await until(lambda: "b1" not in parent.latest and "b0" not in child.latest)
            assert any("not heard from" in line["reason"] for line in log.lines("link ended"))
            wire.deaf[way] = False
            await until(lambda: "b1" in parent.latest and "b0" in child.latest)

    run(story())


@pytest.mark.parametrize("loop", LOOPS)
def test_whoever_was_stopped_itself_suspects_nobody(loop: str) -> None:
    """A broker whose own loop stood still listens first before it takes its peers for dead."""

    async def story() -> None:
        import time

        config, log = cluster(1, BEATS), Log()
        async with brokers(config, log=log), raw(port_of(config)) as peer:
            await peer.enter()
            time.sleep(0.5)  # noqa: ASYNC251  # the whole process stands still, as when it was stopped
            peer.say(Pong())
            await asyncio.sleep(0.05)
            assert log.lines("link ended") == []

    run(story(), loop)
