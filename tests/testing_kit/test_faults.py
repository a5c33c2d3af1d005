"""Faults at the test's command: what the application sees of them is what the real client makes of them."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

import gapless
from gapless.testing import Overlay

SPACE = "quotes"


async def arrives(bus: gapless.Bus, sub: gapless.Subscription, number: int) -> None:
    """What is published now is delivered."""
    await bus.publish(SPACE, {"n": number})
    assert (await sub.next(deadline=5)).attributes == {"n": number}


def test_a_broker_is_killed_and_comes_back() -> None:
    """While the broker in the middle is dead nothing gets through; once it is back publications arrive again."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect("b0:7400") as writer, gapless.connect("b2:7402") as reader:
            sub = await reader.subscribe(SPACE)
            await arrives(writer, sub, 1)
            overlay.kill("b1")
            await overlay.advance(1)
            await writer.publish(SPACE, {"n": 2})  # accepted: b0 has it
            with pytest.raises(gapless.DeadlineExceeded):
                await sub.next(deadline=60)
            overlay.restart("b1")
            await overlay.settle()
            await arrives(writer, sub, 3)
            assert (writer.server, reader.server) == ("b0", "b2")

    with Overlay() as overlay:
        overlay.run(story)


@pytest.mark.parametrize("unplugged", [False, True])
def test_a_client_goes_on_at_another_broker(unplugged: bool) -> None:
    """When its broker dies a client goes on at the next, told that it may have missed something.

    A machine that went with its broker refuses nothing: there it takes until the client's patience is at its end.
    """

    async def story(overlay: Overlay) -> float:
        async with gapless.connect(overlay.servers) as bus, bus.subscribe(SPACE) as sub:
            await arrives(bus, sub, 1)
            died = overlay.time
            overlay.kill("b0", unplugged=unplugged)
            while bus.server != "b1":
                await overlay.advance(0.01)
            moved = overlay.time - died
            await overlay.settle()
            await arrives(bus, sub, 2)
            assert [gap.reason for gap in sub.gaps] == ["disconnected"]
            return moved

    with Overlay() as overlay:
        moved = overlay.run(story)
        assert moved > 4.9 if unplugged else moved < 0.5


def test_what_was_under_way_is_unknown() -> None:
    """A publication whose broker dies before it answers ends in OutcomeUnknown; a later one is accepted elsewhere."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect(overlay.servers) as bus, bus.publisher(SPACE) as out:
            receipt = await out.send({"n": 1})
            await asyncio.sleep(0)
            overlay.kill("b0")
            with pytest.raises(gapless.OutcomeUnknown, match="ended before it answered"):
                await receipt
            await (await out.send({"n": 2}))
            assert bus.server == "b1"

    with Overlay() as overlay:
        overlay.run(story)


def test_a_cut_link_is_seen_by_both_and_heals() -> None:
    """A link that is cut breaks at once and stays broken; mended, it stands again."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect("b0:7400", name="app") as bus, bus.subscribe(SPACE) as sub:
            await arrives(bus, sub, 1)
            overlay.cut("app", "b0")
            await overlay.advance(0.001)
            assert bus.server == ""
            await overlay.advance(30)
            assert bus.server == ""
            overlay.mend("app", "b0")
            await overlay.settle()
            await arrives(bus, sub, 2)
            assert sub.gaps[0].reason == "disconnected"

    with Overlay() as overlay:
        overlay.run(story)


def test_brokers_that_are_cut_off_find_each_other_again() -> None:
    """A subscription made while the tree was cut names who was out of reach, and covers them when the link is back."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect("b0:7400") as writer, gapless.connect("b2:7402") as reader:
            overlay.cut("b1", "b2")
            await overlay.settle()
            sub = await reader.subscribe(SPACE)
            assert sub.exceptions == ("b1",)
            await writer.publish(SPACE, {"n": 1})
            overlay.mend()
            await overlay.settle()
            await arrives(writer, sub, 2)

    with Overlay() as overlay:
        overlay.run(story)


def test_a_stalled_link_is_noticed_by_its_silence() -> None:
    """A link that accepts and does not deliver is ended by the failure detector; a short stall only delays."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect("b0:7400", name="app") as bus, bus.subscribe(SPACE) as sub:
            overlay.stall("app", "b0")
            receipt = await (await bus.publisher(SPACE)).send({"n": 1})
            await overlay.advance(2)
            assert bus.server == "b0" and not receipt.settled
            overlay.mend()
            await overlay.advance(0.1)
            assert receipt.settled and (await sub.next(deadline=0.1)).attributes == {"n": 1}
            overlay.stall("app", "b0")
            await overlay.advance(7)
            assert bus.server == ""

    with Overlay() as overlay:
        overlay.run(story)


def test_a_stall_in_one_direction() -> None:
    """What the application says does not arrive, and it still hears the broker."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect("b0:7400", name="deaf") as one, gapless.connect("b0:7400") as other:
            sub = await one.subscribe(SPACE)
            overlay.stall("deaf", "b0", one_way=True)
            await arrives(other, sub, 1)
            with pytest.raises(gapless.OutcomeUnknown):
                await one.publish(SPACE, {"n": 2}, deadline=1)

    with Overlay() as overlay:
        overlay.run(story)


def test_deadlines_follow_the_clock_of_the_overlay() -> None:
    """On a slow link the deadline passes at its time; the publication goes on, and its receipt can be awaited again."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect("b0:7400", name="app") as bus:
            out = await bus.publisher(SPACE)
            overlay.slow("app", "b0", latency=1.0)
            begun = overlay.time
            receipt = await out.send({"n": 1})
            with pytest.raises(gapless.OutcomeUnknown, match="within 0.25 s"):
                await receipt.accepted(deadline=0.25)
            assert overlay.time == pytest.approx(begun + 0.25)
            assert await receipt == 1
            assert 1.0 <= overlay.time - begun <= 3.0
            with pytest.raises(asyncio.TimeoutError):
                async with asyncio.timeout(0.1):
                    await bus.publish(SPACE, {"n": 2})

    with Overlay() as overlay:
        overlay.run(story)


def test_a_slow_consumer_is_told_what_it_missed() -> None:
    """Who does not read in time is told how many it lost, where they are missing, and no promise is broken."""

    async def story(overlay: Overlay) -> list[int]:
        notices: list[gapless.GapNotice] = []
        async with gapless.connect("b0:7400") as bus:
            sub = await bus.subscribe(SPACE, on_gap=notices.append)
            out = await bus.publisher(SPACE)
            for _ in range(8):
                await (await out.send({}, bytes(50_000)))
            await overlay.advance(5)  # beyond the patience of the broker
            got = [(await sub.next(deadline=1)).seq for _ in range(3)]
            with pytest.raises(gapless.DeadlineExceeded):
                await sub.next(deadline=1)
            await (await out.send({}))
            got.append((await sub.next(deadline=1)).seq)
            assert [(gap.reason, gap.count) for gap in notices] == [("slow-subscriber", 5)] and sub.missed == 5
            return got

    with Overlay(spaces={SPACE: {"credit_bytes": 131_072}}) as overlay:
        assert overlay.run(story) == [1, 2, 3, 9]


def test_a_paused_broker_goes_on_with_what_came_in() -> None:
    """A broker that is stopped for a while answers late; stopped for too long it is left, and returns by itself."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect(overlay.servers) as bus:
            out = await bus.publisher(SPACE)
            overlay.pause("b0")
            receipt = await out.send({"n": 1})
            await overlay.advance(2)
            assert not receipt.settled
            overlay.resume("b0")
            await overlay.advance(0.1)
            assert receipt.settled
            overlay.pause("b0")
            await overlay.settle()
            assert bus.server == "b1"
            overlay.resume("b0")
            await overlay.settle()
            sub = await bus.subscribe(SPACE)
            assert not sub.exceptions
            await arrives(bus, sub, 2)

    with Overlay() as overlay:
        overlay.run(story)


def test_faults_between_runs() -> None:
    """What is broken before a story, or between two, is broken in the next."""

    async def story() -> str:
        async with gapless.connect("b0:7400,b1:7401") as bus:
            return bus.server

    with Overlay() as overlay:
        overlay.kill("b0")
        assert overlay.run(story()) == "b1"
        overlay.restart("b0")
        assert overlay.run(story()) == "b0"


def test_who_is_not_there_is_told() -> None:
    """A fault for a broker or a link that does not exist is a mistake of the test, and said so."""

    async def story() -> None:
        await gapless.connect("b0:7400", name="app")

    with Overlay() as overlay:
        with pytest.raises(gapless.ConfigError, match='no broker "b7"'):
            overlay.kill("b7")
        overlay.cut("ap", "b0")
        overlay.run(story())
        with pytest.raises(gapless.ConfigError, match=r"nobody in this overlay is called 'ap': .*app"):
            overlay.check()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_fails_no_promise_breaks(seed: int) -> None:
    """An application under faults drawn from the seed: it stays alive, and the history keeps what `direct` promises."""

    async def publish(overlay: Overlay) -> None:
        async with gapless.connect(overlay.servers, name="writer") as bus:
            out = await bus.publisher(SPACE)
            for number in range(400):
                await out.send({"n": number}, deadline=30)
                await asyncio.sleep(0.05)

    async def read(overlay: Overlay, got: list[int]) -> None:
        servers = [overlay.server(me) for me in reversed(overlay.brokers)]
        async with gapless.connect(servers, name="reader") as bus, bus.subscribe(SPACE, "n >= 0") as sub:
            async for publication in sub:
                got.append(publication.seq)  # noqa: PERF401  # as they come

    async def story(overlay: Overlay) -> list[int]:
        got: list[int] = []
        reader = asyncio.create_task(read(overlay, got))
        writer = asyncio.create_task(publish(overlay))
        chance = Random(seed)
        for _ in range(6):
            await asyncio.sleep(chance.uniform(0.1, 3))
            broker = chance.choice(overlay.brokers)
            what = chance.choice(["kill", "unplug", "cut", "stall", "pause", "slow"])
            if what in ("kill", "unplug"):
                overlay.kill(broker, unplugged=what == "unplug")
            elif what == "pause":
                overlay.pause(broker)
            elif what == "slow":
                overlay.slow(broker, latency=0.3)
            else:
                getattr(overlay, what)(broker)
            await asyncio.sleep(chance.uniform(0.1, 8))
            overlay.mend()
            overlay.resume(broker)
            if what in ("kill", "unplug"):
                overlay.restart(broker)
        await writer
        await overlay.settle()
        before = len(got)
        async with gapless.connect(overlay.servers) as bus:
            await bus.publish(SPACE, {"n": 1000})
            await overlay.settle()
        assert len(got) == before + 1
        reader.cancel()
        return got

    with Overlay(brokers=5, shape="tree", seed=seed) as overlay:
        got = overlay.run(story)
        assert len(got) > 20
