"""Room: what a client may have under way, and what waiting for it leaves behind."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.house import SPACE, brokers, cluster, meet, obedient, run, servers_of

import gapless
from gapless.client.bus import Bus
from gapless.client.space import QUEUED_BYTES_MAX
from gapless.delivery.port import SpaceSettings, Tuning
from gapless.node.link import Pace


def test_a_client_may_use_all_the_credit_it_has() -> None:
    """With more credit than a link holds unsent by itself, what the credit lets through does not end the link."""

    async def story() -> None:
        held = Pace().unsent_bytes_max
        settings = SpaceSettings(name=SPACE, tuning=Tuning(window_bytes=4 * held))
        async with obedient(settings) as server:
            bus, broker, out = await meet(server, room=2 * held)
            body = bytes(1 << 20)
            count = held // len(body) + 10
            receipt = await out.send_many([{}] * count, [body] * count)
            seq = 0
            while seq < count:
                message = await broker.published()
                broker.accept(message)
                seq = message.batch.last
            assert await receipt == count
            await bus.close()

    run(story(), deadline=60)


def test_who_gave_up_waiting_for_room_leaves_nothing_behind() -> None:
    """A publisher that tries again and again while there is no room does not fill the memory of its own process."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server, room=0)
            await out.send_many([{}] * 6, [bytes(QUEUED_BYTES_MAX // 5)] * 6)
            for _ in range(50):
                with pytest.raises(gapless.Overloaded):
                    await out.send({}, deadline=0.0005)
            assert not bus._spaces[SPACE]._roomy
            broker.vanish()
            await bus.close()

    run(story())


def test_a_name_that_no_resolver_takes_is_one_server_that_does_not_answer() -> None:
    """Whatever resolving a name raises, the client goes on to the next server."""

    async def story() -> None:
        config = cluster()
        async with brokers(config):
            good = ("127.0.0.1", int(servers_of(config)[0].partition(":")[2]))
            for bad in ("a..b", "a" * 70, "a\0b"):
                async with Bus(((bad, 7400), good), deadline=5) as bus:
                    assert bus.server == "b0"

    run(story())


def test_draining_takes_nothing_new_at_once() -> None:
    """From the moment a bus drains, every publisher and the bus refuse; when the deadline passes they take again."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server)
            other = await bus.publisher(SPACE)
            receipt = await out.send({"n": 1})
            message = await broker.published()
            draining = asyncio.ensure_future(bus.drain(deadline=0.3))
            await asyncio.sleep(0.05)
            with pytest.raises(gapless.Closed, match="draining"):
                await bus.publish(SPACE, {})
            with pytest.raises(gapless.Closed, match="draining"):
                bus.subscribe(SPACE)
            with pytest.raises(gapless.Closed, match="draining"):
                bus.publisher(SPACE)
            with pytest.raises(gapless.Closed):
                await other.send({})
            with pytest.raises(gapless.DeadlineExceeded):
                await draining
            again = await (await bus.publisher(SPACE)).send({"n": 2})
            broker.accept(message)
            broker.accept(await broker.published())
            assert (await receipt, await again) == (1, 1)
            await bus.drain(deadline=5)

    run(story())
