"""Runs without a fault that end in every orderly way: their journals keep every promise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.client.house import SPACE, cluster, run
from tests.node.stage import Log, port_of, until

import gapless
from gapless.cli.histories import read_history
from gapless.model.events import Event, Kind
from gapless.node.broker import Broker
from gapless.node.journal import Journal
from gapless.sim.checker import check


@asynccontextmanager
async def journaling(folder: Path, space: str = "") -> AsyncIterator[tuple[Broker, str]]:
    """A broker that keeps a journal, and where it listens."""
    config = cluster(space=space)
    broker = Broker(config, "b0", Log().logger, Journal(folder, "b0"))
    await broker.start()
    try:
        yield broker, f"127.0.0.1:{port_of(config)}"
    finally:
        if not broker.draining:
            await broker.drain()


def judged(*paths: Path) -> list[Event]:
    """The events of these journals, which keep every promise."""
    history = read_history(paths)
    verdict = check(history)
    assert verdict.ok, verdict.render()
    assert "justified-gap" in verdict.judged[0].promises and "gapless" in verdict.judged[0].promises
    return history


@pytest.mark.parametrize("politely", [False, True])
def test_a_client_that_closes_while_publications_wait_for_it(politely: bool, tmp_path: Path) -> None:
    """What waits at the broker for a client that closes is wanted no more, and nobody is blamed for it."""

    async def story() -> None:
        async with (
            journaling(tmp_path, "credit_bytes = 131072") as (broker, server),
            gapless.connect(server, name="teller", journal=tmp_path) as teller,
        ):
            listener = await gapless.connect(server, name="listener", journal=tmp_path).open()
            subscription = await listener.subscribe(SPACE)
            out = await teller.publisher(SPACE, "teller")
            for n in range(20):
                await (await out.send({"n": n}, bytes(10_000)))
            assert broker.spaces[SPACE].core.held().get("waiting")
            if politely:
                await subscription.close()
            await listener.close()
            await until(lambda: "listener" not in broker.latest)

    run(story())
    dropped = [event.reason for event in judged(tmp_path) if event.event is Kind.DROPPED]
    assert bool(dropped) != politely and set(dropped) <= {"unsubscribed"}


def test_a_consumer_that_pauses(tmp_path: Path) -> None:
    """Whoever reads too slowly misses something and is told; the run declares that this may be."""

    async def story() -> None:
        async with (
            journaling(tmp_path, "credit_bytes = 131072\npatience_ms = 20") as (broker, server),
            gapless.connect(server, name="teller", journal=tmp_path) as teller,
            gapless.connect(server, name="listener", journal=tmp_path) as listener,
        ):
            subscription = await listener.subscribe(SPACE)
            out = await teller.publisher(SPACE, "teller")
            for n in range(40):
                await (await out.send({"n": n}, bytes(10_000)))
            await until(lambda: bool(broker.spaces[SPACE].counters.dropped))
            for _ in range(10):
                await subscription.next(5)
            last = await out.send({"n": 40})
            await last
            while (await subscription.next(5)).seq < last.seq:
                pass
            assert [gap.reason for gap in subscription.gaps] == ["slow-subscriber"]

    run(story())
    judged(tmp_path)


def test_a_broker_that_drains(tmp_path: Path) -> None:
    """A subscriber whose broker goes down in an orderly way is told, and the broker's journal says why."""

    async def story() -> None:
        async with (
            journaling(tmp_path) as (broker, server),
            gapless.connect(server, name="listener", journal=tmp_path) as listener,
        ):
            subscription = await listener.subscribe(SPACE)
            await broker.drain()
            with pytest.raises(gapless.DeadlineExceeded):
                await subscription.next(0.2)
            assert [gap.reason for gap in subscription.gaps] == ["disconnected"]

    run(story())
    history = judged(tmp_path)
    without = [event for event in history if event.event is not Kind.DISCONNECTED or event.node != "b0"]
    assert "justified-gap" in check(without).broken


def test_two_processes_of_one_name(tmp_path: Path) -> None:
    """The newest of a name stays, and the older one's end is nobody's fault."""

    async def story() -> None:
        async with journaling(tmp_path) as (_, server):
            older = await gapless.connect(server, name="twin", journal=tmp_path / "older").open()
            subscription = await older.subscribe(SPACE)
            async with gapless.connect(server, name="twin", journal=tmp_path) as newer:
                with pytest.raises(gapless.Fenced):
                    await subscription.next(5)
                await newer.publish(SPACE, {"n": 1})
            await older.close()
            await asyncio.sleep(0)

    run(story())
    judged(tmp_path, tmp_path / "older")
