"""Peers that break the rules are told why and put out; bystanders lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
from tests.node.stage import (
    LOOPS,
    SPACE,
    Log,
    Raw,
    brokers,
    bystanders,
    cluster,
    encoded,
    held_ports,
    msgpack,
    port_of,
    raw,
    run,
    until,
)

import gapless
from gapless.delivery.direct.messages import Accept, Confirm, Credit, Forward, Publish, Subscribe
from gapless.delivery.port import Role
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source
from gapless.node.broker import Broker
from gapless.node.config import parse_config
from gapless.node.control import Hello, NotOpened, Open, Ping
from gapless.node.frames import CONTROL, HEADER, PREAMBLE, frame_header
from gapless.node.link import GREETING_BYTES_MAX

FRAME_MAX = 262144
LIMITS = f"""
[limits]
frame_bytes_max = {FRAME_MAX}
body_bytes_max = 1000
[tuning]
handshake_ms = 300
grace_ms = 100
credit_bytes = 131072
"""


def batch(rows: int = 3, first: int = 0, body: bytes = b"body") -> Batch:
    """Publications of the raw peer."""
    return batch_of_rows(Source("raw", 1), first, [{"n": -1, "text": "a"}] * rows, [body] * rows)


def damaged(at: int, value: bytes) -> bytes:
    """A publication whose batch has these bytes at this place, counted from its end when negative."""
    data = bytearray(encoded(Publish(batch())))
    place = at if at >= 0 else len(data) + at
    data[place : place + len(value)] = value
    return bytes(data)


class Breach(NamedTuple):
    """What a peer does, and what it is told."""

    name: str
    act: Callable[[Raw], Awaitable[None]]
    code: str
    words: str


def says(data: bytes) -> Callable[[Raw], Awaitable[None]]:
    """First thing on the connection, these bytes."""

    async def act(peer: Raw) -> None:
        peer.writer.write(data)

    return act


def greets(node: str, role: Role, of: str = "demo") -> Callable[[Raw], Awaitable[None]]:
    """Introduces itself like this."""

    async def act(peer: Raw) -> None:
        peer.writer.write(PREAMBLE)
        peer.say(Hello(node, role, of))

    return act


def sends(*frames: tuple[int, bytes]) -> Callable[[Raw], Awaitable[None]]:
    """Enters the space and sends these frames."""

    async def act(peer: Raw) -> None:
        await peer.enter()
        for channel, data in frames:
            peer.frame(channel, data)

    return act


async def opens_twice(peer: Raw) -> None:
    """Opens a space that it has open."""
    await peer.enter()
    peer.say(Open(2, SPACE))


async def opens_nowhere(peer: Raw) -> None:
    """Opens a space on a channel that frames cannot name."""
    await peer.greet()
    peer.say(Open(1 << 16, SPACE))


async def publishes_without_credit(peer: Raw) -> None:
    """Waits for its own publications without making room for them, and goes on when nobody has room any more."""
    await peer.enter()
    peer.message(Subscribe(1, "n < 0", ""))
    await peer.message_of(Confirm)
    for first in range(0, 300, 100):
        peer.message(Publish(batch(100, first, b"x" * 1000)))


BREACHES = [
    Breach("other version", says(b"GAPLESS\x63"), "VersionMismatch", "version 99"),
    Breach("garbage", says(bytes(range(200, 256))), "WireError", "does not speak"),
    Breach("http", says(b"GET / HTTP/1.1\r\nHost: b0\r\n\r\n"), "WireError", "b'GET / HT'"),
    Breach("silence", says(b""), "Unreachable", "did not introduce itself within 0.3 s"),
    Breach("half a preamble", says(b"GAPL"), "Unreachable", "did not introduce itself"),
    Breach("no hello", says(PREAMBLE + frame_header(7, 3) + b"abc"), "WireError", "channel 7 is not open"),
    Breach("malformed header", says(PREAMBLE + b"\0\0\0\0\0\0\1\0"), "WireError", "header"),
    Breach("empty control", says(PREAMBLE + frame_header(CONTROL, 0)), "WireError", "control message"),
    Breach(
        "hello twice", sends((CONTROL, msgpack({"c": "hello", "node": "x", "role": "client"}))), "WireError", "sense"
    ),
    Breach("unknown broker", greets("b9", Role.BROKER), "ConfigError", "'b9' does not hang on 'b0'"),
    Breach("no neighbour", greets("b2", Role.BROKER), "ConfigError", "those that do are: b1"),
    Breach("itself", greets("b0", Role.BROKER), "ConfigError", "does not hang on"),
    Breach("name of a broker", greets("b1", Role.CLIENT), "ConfigError", "give the client another name"),
    Breach("no name", greets("", Role.CLIENT), "ConfigError", "cannot name a peer"),
    Breach("name with a newline", greets("a\nb", Role.CLIENT), "ConfigError", "cannot name a peer"),
    Breach("other cluster", greets("raw", Role.CLIENT, "other"), "ConfigError", "belongs to cluster 'demo'"),
    Breach("other cluster's broker", greets("b1", Role.BROKER, "other"), "ConfigError", "not to 'other'"),
    Breach("frame too large", says(PREAMBLE + HEADER.pack(FRAME_MAX + 1, 0, 0)), "FrameTooLarge", "over the limit"),
    Breach(
        "large before hello",
        says(PREAMBLE + HEADER.pack(GREETING_BYTES_MAX + 1, 0, 0)),
        "FrameTooLarge",
        "over the limit",
    ),
    Breach("space opened twice", opens_twice, "WireError", "open on this link already"),
    Breach("channel out of range", opens_nowhere, "WireError", "cannot be opened"),
    Breach("random bytes", sends((1, bytes(range(256)))), "WireError", ""),
    Breach("short message", sends((1, b"\1")), "WireError", "too short"),
    Breach("truncated", sends((1, encoded(Subscribe(1, "n > 3", ""))[:-3])), "WireError", ""),
    Breach("truncated batch", sends((1, encoded(Publish(batch()))[:-9])), "WireError", "malformed batch"),
    Breach("no batch", sends((1, encoded(Publish(batch()))[:20])), "WireError", "header"),
    Breach("unknown message", sends((1, b"\x09\0\0\0" + msgpack(["sneak", 1, 2]))), "WireError", "cannot be read"),
    Breach("wrong types", sends((1, encoded(Credit(1)).replace(b"\1", b"\xc0"))), "WireError", ""),
    Breach("bodies out of order", sends((1, damaged(-24, b"\xff\0\0\0"))), "WireError", "malformed batch"),
    Breach("other magic", sends((1, damaged(0, b"")[:14] + b"XX" + damaged(0, b"")[16:])), "WireError", "begins with"),
    Breach("a broker's word", sends((1, encoded(Accept("raw", 1, 0, 0)))), "WireError", "does not send Accept"),
    Breach("a broker's batch", sends((1, encoded(Forward(batch())))), "WireError", "does not send Forward"),
    Breach("channel not open", sends((5, b"abc")), "WireError", "channel 5 is not open"),
    Breach("no credit", publishes_without_credit, "WireError", "without credit"),
]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.name)
def test_a_breach_is_told_logged_and_harms_nobody(breach: Breach, loop: str) -> None:
    """Whoever breaks a rule is told which, the log has it, and bystanders lose nothing."""

    async def story() -> None:
        config, log = cluster(3, LIMITS), Log()
        async with brokers(config, "b0", log=log), bystanders(port_of(config)) as others, raw(port_of(config)) as peer:
            await breach.act(peer)
            told = await peer.farewell()
            assert told is not None
            assert told.code == breach.code
            assert breach.words in told.text
            await until(lambda: any(line["reason"] == told.text for line in log.lines("link ended")))
            await others.go_on()

    run(story(), loop)


def test_vanishing_inside_a_frame_harms_nobody() -> None:
    """A client that is gone in the middle of a frame leaves no session and no part of its publication."""

    async def story() -> None:
        config = cluster(1, LIMITS)
        async with brokers(config) as (broker,), bystanders(port_of(config)) as others:
            async with raw(port_of(config)) as peer:
                await peer.enter()
                data = encoded(Publish(batch()))
                peer.writer.write((frame_header(1, len(data)) + data)[:-5])
                await until(lambda: "raw" in broker.latest)
            await until(lambda: "raw" not in broker.latest)
            assert len(broker.spaces[SPACE].links) == 2
            assert broker.spaces[SPACE].counters.publications_in == others.sent

    run(story())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_gives_room_but_does_not_read_is_put_out(loop: str) -> None:
    """What waits for a client that does not read is bounded, whatever room it says it has; others get everything."""

    async def story() -> None:
        config, log = cluster(1, LIMITS), Log()
        async with brokers(config, log=log) as (broker,), raw(port_of(config)) as peer:
            await peer.enter()
            broker.links[broker.latest["raw"]].unsent_bytes_max = 1 << 20
            peer.message(Subscribe(1, "", ""))
            peer.give_room()
            peer.reader._transport.pause_reading()  # type: ignore[attr-defined]  # streams offer no other way
            async with bystanders(port_of(config)) as others:
                body = b"x" * 1000
                while "raw" in broker.latest:
                    for receipt in [await others.publisher.send({"n": -1}, body) for _ in range(100)]:
                        await receipt
                assert broker.queued() == 0
            (line,) = [line for line in log.lines("link ended") if line["peer"] == "raw"]
            assert "does not read" in line["reason"]

    run(story(), loop)


def test_a_client_that_gives_no_room_is_told_what_it_missed_and_delays_nobody() -> None:
    """Without credit a subscriber gets nothing and keeps its session; what it was owed is dropped, counted and told."""

    async def story() -> None:
        config = cluster(1, space="patience_ms = 50")
        async with brokers(config) as (broker,), raw(port_of(config)) as peer, bystanders(port_of(config)) as others:
            await peer.enter()
            peer.message(Subscribe(1, "", ""))
            await until(lambda: broker.spaces[SPACE].core.held() == {} and "raw" in broker.latest)
            await asyncio.sleep(0.1)
            await others.go_on()
            counters = broker.spaces[SPACE].counters
            await until(lambda: counters.dropped.get("slow-subscriber", 0) == 20)
            assert "raw" in broker.latest

    run(story())


def test_the_newest_of_two_peers_of_one_name_stays() -> None:
    """A name that connects anew replaces its older link, which is told so."""

    async def story() -> None:
        config = cluster(1, LIMITS)
        port = port_of(config)
        async with brokers(config) as (broker,), bystanders(port), raw(port) as older, raw(port) as newer:
            await older.enter()
            await newer.enter()
            told = await older.farewell()
            assert told is not None
            assert told.code == "Fenced"
            assert "'raw' has connected to broker 'b0' anew" in told.text
            newer.say(Ping())
            await newer.read()
            assert broker.latest["raw"] in broker.links

    run(story())


def test_an_unknown_space_is_answered_with_those_there_are() -> None:
    """Opening a space that is not there gets an answer that names the others; the link stays."""

    async def story() -> None:
        config = cluster(1)
        async with brokers(config), raw(port_of(config)) as peer, bystanders(port_of(config)):
            await peer.greet()
            peer.say(Open(1, "ledger"))
            answer = await peer.heard(NotOpened)
            assert isinstance(answer, NotOpened)
            assert answer.code == "UnknownSpace"
            assert answer.text == "cluster 'demo' has no space 'ledger'; it has: quotes"
            peer.say(Open(1, SPACE))
            peer.say(Ping())
            async with gapless.connect(f"127.0.0.1:{port_of(config)}") as bus:
                with pytest.raises(gapless.UnknownSpace, match="it has: quotes"):
                    await bus.publisher("ledger", deadline=5)

    run(story())


def test_a_port_in_use_is_a_clear_error() -> None:
    """A broker that cannot listen says where, why, and what to do."""

    async def story() -> None:
        with held_ports(1) as (port,):
            text = f'[cluster]\nname = "demo"\n[[broker]]\nid = "b0"\nlisten = "127.0.0.1:{port}"\n'
            config = parse_config(text + f'[[space]]\nname = "{SPACE}"\ndelivery = "direct"\n')
            broker = Broker(config, "b0", Log().logger)
            with pytest.raises(gapless.ConfigError) as refused:
                await broker.start()
            assert str(refused.value) == (
                f"broker 'b0' cannot listen on 127.0.0.1:{port}: address already in use; "
                "stop what uses that port, or give the broker another `listen`"
            )

    run(story())


def test_a_parent_that_is_not_there_is_told_once_and_found_when_it_comes() -> None:
    """A broker keeps dialling its parent, says so once, and serves its own clients meanwhile."""

    async def story() -> None:
        config, log = cluster(2, "[tuning]\nredial_min_ms = 10\nredial_max_ms = 20\ngrace_ms = 100\n"), Log()
        async with brokers(config, "b1", log=log) as (child,), bystanders(port_of(config, "b1")):
            await asyncio.sleep(0.3)
            (line,) = log.lines("cannot reach broker")
            assert (line["peer"], line["reason"]) == ("b0", "connection refused")
            async with brokers(config, "b0"):
                await until(lambda: "b0" in child.latest)
            await until(lambda: len(log.lines("cannot reach broker")) == 2)

    run(story())


def test_whoever_answers_in_the_place_of_a_parent_is_refused() -> None:
    """A broker that dials its parent and finds another broker there says so once, and goes on trying."""

    async def story() -> None:
        real = cluster(2, "[tuning]\nredial_min_ms = 10\nredial_max_ms = 20\n")
        port = port_of(real)
        other = parse_config(
            f'[cluster]\nname = "demo"\n[[broker]]\nid = "b7"\nlisten = "127.0.0.1:{port}"\n'
            '[[broker]]\nid = "b1"\nlisten = "127.0.0.1:1"\nparent = "b7"\n'
            f'[[space]]\nname = "{SPACE}"\ndelivery = "direct"\n'
        )
        log = Log()
        async with brokers(other, "b7"), brokers(real, "b1", log=log) as (child,):
            await until(lambda: bool(log.lines("cannot reach broker")))
            await asyncio.sleep(0.1)
            (line,) = log.lines("cannot reach broker")
            assert line["reason"].startswith("'b7' answered where broker 'b0' should be")
            assert child.latest == {}

    run(story())


def test_a_broker_takes_so_many_connections_and_keeps_places_for_its_neighbours() -> None:
    """A client too many is told so and finds another server; neighbours are let in all the same."""

    async def story() -> None:
        config = cluster(2, "[limits]\nconnections_max = 2\n")
        full, other = (f"127.0.0.1:{port_of(config, me)}" for me in ("b0", "b1"))
        async with (
            brokers(config, "b0") as (first,),
            gapless.connect(full, name="one"),
            gapless.connect(full, name="two") as two,
        ):
            with pytest.raises(gapless.Unreachable, match="'b0' has 2 connections, the most it takes"):
                await gapless.connect(full, deadline=0.3)
            async with brokers(config, "b1"):
                await until(lambda: "b1" in first.latest)
                async with gapless.connect([full, other], deadline=5) as third:
                    assert third.server == "b1"
            await two.close()
            await until(lambda: "two" not in first.latest)
            async with gapless.connect(full, deadline=5) as third:
                assert third.server == "b0"

    run(story())
