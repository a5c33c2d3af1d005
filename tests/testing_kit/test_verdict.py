"""The verdict on a test's history: it finds planted bugs, is fair to applications, and leaves nothing open."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading

import pytest

import gapless
from gapless.client.handout import Parcel
from gapless.client.subscription import Subscription
from gapless.delivery.direct.broker import DirectBroker
from gapless.model.events import Kind
from gapless.node.broker import Broker
from gapless.testing import BrokenPromise, Overlay

SPACE = "quotes"


async def three(overlay: Overlay) -> None:
    """Three publications, and a subscriber that reads what comes."""
    async with gapless.connect(overlay.servers, name="app") as bus, bus.subscribe(SPACE) as sub:
        for number in range(3):
            await bus.publish(SPACE, {"n": number})
        for _ in range(3):
            try:
                await sub.next(deadline=1)
            except gapless.DeadlineExceeded:
                break
        await overlay.settle()
        overlay.check()


def test_something_delivered_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that hands out everything twice breaks `no-duplicate`, and the error shows the events."""
    put = Subscription.put

    def twice(self: Subscription, parcel: Parcel) -> None:
        put(self, parcel)
        put(self, parcel)

    monkeypatch.setattr(Subscription, "put", twice)
    with Overlay() as overlay:
        with pytest.raises(BrokenPromise, match="no-duplicate") as broken:
            overlay.run(three)
        assert "delivered    app/" in str(broken.value) and "no-duplicate" in broken.value.verdict.broken


def test_something_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any fault a publication that never comes out breaks `all-delivered`, once all has settled."""
    put = Subscription.put
    parcels: list[Parcel] = []

    def lossy(self: Subscription, parcel: Parcel) -> None:
        parcels.append(parcel)
        if len(parcels) != 3:
            put(self, parcel)

    monkeypatch.setattr(Subscription, "put", lossy)
    with Overlay() as overlay, pytest.raises(BrokenPromise, match="all-delivered"):
        overlay.run(three)


def test_the_end_is_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who never asks for the verdict gets it at the end."""
    put = Subscription.put
    monkeypatch.setattr(Subscription, "put", lambda self, parcel: (put(self, parcel), put(self, parcel)))

    async def story() -> None:
        async with gapless.connect("b0:7400") as bus, bus.subscribe(SPACE) as sub:
            await bus.publish(SPACE, {"n": 1})
            await sub.next()
            await sub.next()

    with pytest.raises(BrokenPromise, match="no-duplicate"), Overlay() as overlay:
        overlay.run(story())


def test_a_broken_broker_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody catches in a broker is a bug: it is raised where the story runs, at once."""

    def broken(self: DirectBroker, peer: object, message: object, now: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(DirectBroker, "on_publish", broken)

    async def story() -> None:
        async with gapless.connect("b0:7400") as bus:
            await bus.publish(SPACE, {"n": 1})

    with Overlay() as overlay, pytest.raises(ZeroDivisionError, match="planted"):
        overlay.run(story())


def test_an_application_may_do_as_it_likes() -> None:
    """Not to read, to leave a batch half read, to close too early and to leave a bus open break no promise."""

    async def story(overlay: Overlay) -> None:
        bus = await gapless.connect(overlay.servers, name="app")
        unread, half, read = [await bus.subscribe(SPACE, f"n >= {least}") for least in (0, 1, 2)]
        out = await bus.publisher(SPACE)
        await (await out.send_many([{"n": number} for number in range(10)]))
        await half.next()
        for number in range(2, 10):
            assert (await read.next()).attributes == {"n": number}
        await overlay.settle()
        (judged,) = overlay.check().judged
        assert "all-delivered" in judged.promises and not judged.unjudged
        assert unread.newest == half.newest
        async with gapless.connect(overlay.servers) as hasty:
            await (await hasty.publisher(SPACE)).send({"n": 11})
        asyncio.get_running_loop().create_task(asyncio.sleep(1e9), name="for ever")

    with Overlay() as overlay:
        overlay.run(story)


def test_state_that_does_not_drain_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker still holds when everything is quiet breaks `state-drained`."""
    monkeypatch.setattr(DirectBroker, "held", lambda self: {"waiting": 3} if self.me == "b1" else {})
    with Overlay() as overlay, pytest.raises(BrokenPromise, match="b1 still holds 3 of waiting"):
        overlay.run(three)


def test_the_history_tells_what_the_test_did() -> None:
    """Faults stand in the history between what the application did, so that one sees what followed from what."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect(overlay.servers, name="app") as bus:
            await bus.publish(SPACE, {"n": 1})
            overlay.kill("b0")
            await overlay.settle()
            overlay.restart("b0")
            await bus.publish(SPACE, {"n": 2})
            await overlay.settle()

    with Overlay() as overlay:
        overlay.run(story)
        kinds = [event.event for event in overlay.history if event.node in ("", "app", "b0")]
        expected = [Kind.RUN, Kind.PUBLISH, Kind.ACCEPTED, Kind.CRASH, Kind.RESTART, Kind.PUBLISH, Kind.ACCEPTED]
        assert [kind for kind in kinds if kind in expected] == expected
        assert kinds[-1] is Kind.END and Kind.CALM in kinds


def test_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket is ever made, no file or thread stays, and nothing complains when all is collected."""

    def refused(*arguments: object, **options: object) -> None:
        raise AssertionError("a socket was asked for")

    async def story(overlay: Overlay) -> None:
        bus = await gapless.connect(overlay.servers)
        await bus.subscribe(SPACE)
        overlay.kill("b0")
        overlay.pause("b1")
        await overlay.advance(20)
        await asyncio.to_thread(len, "thread")
        asyncio.get_running_loop().create_task(bus.publish(SPACE, {"n": 1}))
        overlay.restart("b0")

    open_before, threads = len(os.listdir("/dev/fd")), threading.active_count()
    monkeypatch.setattr(socket, "socket", refused)
    with Overlay() as overlay:
        overlay.run(story)
    del overlay
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is Broker]
    assert len(os.listdir("/dev/fd")) == open_before and threading.active_count() == threads
