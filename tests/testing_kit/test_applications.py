"""Applications as processes of their own: they die as brokers do, and the next one goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

import gapless
from gapless.model.events import Kind
from gapless.testing import Overlay

SPACE = "quotes"


def test_an_application_dies_without_a_word() -> None:
    """Killed, an application does nothing more, not even on its way out; others see its connections break."""
    said: list[str] = []

    async def till(overlay: Overlay) -> None:
        try:
            async with gapless.connect(overlay.servers, name="till") as bus:
                out = await bus.publisher(SPACE, name="till-7")
                while True:
                    await (await out.send({"n": 1}))
                    said.append("sold")
                    await asyncio.sleep(1)
        finally:
            said.append("bye")

    async def story(overlay: Overlay) -> None:
        async with gapless.connect(overlay.servers) as bus, bus.subscribe(SPACE) as sub:
            overlay.start("till", till)
            await overlay.advance(2.5)
            overlay.kill("till")
            await overlay.settle()
            assert said == ["sold"] * 3
            assert [(await sub.next(deadline=0)).seq for _ in range(3)] == [1, 2, 3]
            with pytest.raises(gapless.DeadlineExceeded):
                await sub.next(deadline=60)
            overlay.start("till", till)  # and fences nobody, as there is nobody left
            assert (await sub.next(deadline=1)).seq == 1
            await overlay.advance(0.5)

    with Overlay() as overlay:
        overlay.run(story)
        assert said[:4] == ["sold"] * 4
        crashed = [event.node for event in overlay.history if event.event is Kind.CRASH]
        assert crashed == ["till"]


def test_an_application_that_stands_still() -> None:
    """A paused application does not read: its broker gives its connection up, and it comes back by itself."""
    got: list[int] = []

    async def reader(overlay: Overlay) -> None:
        async with gapless.connect(overlay.servers, name="reader") as bus, bus.subscribe(SPACE) as sub:
            async for publication in sub:
                got.append(publication.attributes["n"])  # noqa: PERF401  # as they come

    async def story(overlay: Overlay) -> None:
        overlay.start("app", reader)
        await overlay.settle()
        async with gapless.connect(overlay.servers) as bus:
            await bus.publish(SPACE, {"n": 1})
            overlay.pause("app")
            before = list(got)
            await bus.publish(SPACE, {"n": 2})
            await overlay.advance(20)
            await bus.publish(SPACE, {"n": 3})
            assert got == before
            overlay.resume("app")
            await overlay.settle()
            await bus.publish(SPACE, {"n": 4})
            await overlay.settle()
        assert got[-1] == 4 and 3 not in got

    with Overlay() as overlay:
        overlay.run(story)


def test_links_of_an_application() -> None:
    """Faults may name the process instead of the bus; two processes are two neighbours."""

    async def app(overlay: Overlay) -> str:
        async with gapless.connect("b0:7400") as bus:
            await asyncio.sleep(1)
            return bus.server

    async def story(overlay: Overlay) -> None:
        one, other = overlay.start("one", app), overlay.start("other", app)
        await overlay.advance(0.5)
        overlay.cut("one", "b0")
        assert (await one, await other) == ("", "b0")

    with Overlay(brokers=1) as overlay:
        overlay.run(story)


def test_an_application_that_fails_is_told() -> None:
    """What an application raises fails the test even if nobody awaits it; awaited, it is the test's own matter."""

    async def broken() -> None:
        raise ZeroDivisionError("planted")

    async def story(overlay: Overlay) -> None:
        with pytest.raises(ZeroDivisionError):
            await overlay.start("awaited", broken())
        overlay.start("forgotten", broken())
        await overlay.advance(1)

    with pytest.raises(ZeroDivisionError, match="planted"), Overlay(brokers=1) as overlay:
        overlay.run(story)


def test_names_are_taken_once() -> None:
    """Two that live cannot have one name."""
    with Overlay(brokers=1) as overlay:
        overlay.start("app", overlay.advance(5))
        for name in ("app", "b0"):
            with pytest.raises(gapless.ConfigError, match=f"'{name}' runs already"):
                overlay.start(name, Overlay.settle)
        overlay.run(overlay.advance(6))
        overlay.start("app", overlay.advance(5))


def test_the_client_without_async() -> None:
    """An application without `async` runs in a thread: while it waits for Gapless time goes on, else it stands."""

    def till(overlay: Overlay) -> list[int]:
        with gapless.sync.connect(overlay.servers) as bus, bus.subscribe(SPACE) as sub, bus.publisher(SPACE) as out:
            out.send({"n": 1}).accepted()
            out.send_many([{"n": 2}, {"n": 3}])
            got = [sub.next(deadline=5).seq for _ in range(3)]
            begun = overlay.time
            with pytest.raises(gapless.DeadlineExceeded):
                sub.next(deadline=60)
            overlay.sleep(40)
            assert overlay.time == pytest.approx(begun + 100)
            return got

    def history(seed: int) -> tuple[object, ...]:
        with Overlay(seed=seed) as overlay:
            assert overlay.run(asyncio.to_thread(till, overlay)) == [1, 2, 3]
            return overlay.history

    assert history(1) == history(1)


def test_a_thread_that_dies() -> None:
    """A process that is killed while its thread waits for Gapless never hears of it again, and holds nobody up."""
    said: list[str] = []

    def till(overlay: Overlay) -> None:
        with gapless.sync.connect(overlay.servers) as bus, bus.subscribe(SPACE) as sub:
            said.append("subscribed")
            sub.next()
            said.append("got something")

    async def story(overlay: Overlay) -> None:
        overlay.start("till", asyncio.to_thread(till, overlay))
        await overlay.advance(1)
        overlay.kill("till")
        await overlay.advance(1)
        async with gapless.connect(overlay.servers) as bus:
            await bus.publish(SPACE, {"n": 1})
        await overlay.settle()

    with Overlay() as overlay:
        overlay.run(story)
    assert said == ["subscribed"]


def test_a_thread_whose_process_has_died() -> None:
    """A thread that ends after its process has died no longer holds the clock up."""
    done = threading.Event()

    async def story(overlay: Overlay) -> None:
        overlay.start("app", asyncio.to_thread(done.wait))
        await asyncio.sleep(0)
        overlay.kill("app")
        done.set()
        await overlay.advance(1)

    with Overlay(brokers=1) as overlay:
        overlay.run(story)
