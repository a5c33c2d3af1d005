"""Time in the test kit: it passes at once, and what happens in it depends on the seed alone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import gapless
from gapless.testing import Overlay, Stalled

SPACE = "quotes"


async def published_and_read(overlay: Overlay) -> list[int]:
    """Three publications from one end of the chain to the other."""
    async with (
        gapless.connect(overlay.server("b2")) as reader,
        gapless.connect(overlay.server("b0")) as writer,
        reader.subscribe(SPACE, "price > 3") as sub,
    ):
        for price in (4.5, 2.0, 5.5):
            await writer.publish(SPACE, {"price": price}, b"body")
        return [(await sub.next(deadline=1)).seq for _ in range(2)]


def test_publications_arrive() -> None:
    """The real client publishes and subscribes through three real brokers, and the history keeps every promise."""
    with Overlay() as overlay:
        assert overlay.run(published_and_read) == [1, 3]
        (judged,) = overlay.check().judged
        assert (judged.publications, judged.accepted, judged.deliveries) == (3, 3, 2)


def test_waiting_takes_no_time() -> None:
    """An application that waits for a minute, and then for a day, is tested in a moment."""

    async def story() -> float:
        async with gapless.connect("b0:7400") as bus, bus.subscribe(SPACE) as sub:
            await asyncio.sleep(60)
            with pytest.raises(gapless.DeadlineExceeded, match="within 30 s"):
                await sub.next(deadline=30)
            begun = asyncio.get_running_loop().time()
            await asyncio.sleep(3600)
            return asyncio.get_running_loop().time() - begun

    begun = time.perf_counter()
    with Overlay(brokers=1) as overlay:
        assert overlay.run(story(), limit=10_000) == pytest.approx(3600)
        assert 3690 < overlay.time < 3691
    assert time.perf_counter() - begun < 10  # a busy machine needs a second


def test_equal_seeds_have_equal_histories() -> None:
    """The same seed gives the same history, event for event and to the nanosecond; another gives another."""

    def history(seed: int) -> tuple[object, ...]:
        async def story(overlay: Overlay) -> None:
            async with gapless.connect(overlay.servers, name="app") as bus, bus.subscribe(SPACE) as sub:
                out = await bus.publisher(SPACE)
                for number in range(50):
                    await out.send({"n": number})
                    if number == 20:
                        overlay.cut("app", "b0")
                        await overlay.advance(0.5)
                        overlay.mend()
                await overlay.settle()
                with pytest.raises(gapless.OutcomeUnknown):
                    await out.flush()
                while sub.newest or sub.missed == 0:
                    try:
                        await sub.next(deadline=1)
                    except gapless.DeadlineExceeded:
                        return

        with Overlay(seed=seed) as overlay:
            overlay.run(story)
            return overlay.history

    first = history(7)
    assert len(first) > 50
    assert first == history(7)
    assert first != history(8)


def test_runs_follow_one_another() -> None:
    """What one run leaves open the next finds there."""
    with Overlay(brokers=1) as overlay:
        bus = overlay.run(gapless.connect(overlay.servers).open())
        assert overlay.run(bus.publish(SPACE, {"n": 1})) == 1
        before = overlay.time
        overlay.run(overlay.advance(5))
        assert overlay.time == pytest.approx(before + 5)
        overlay.run(bus.close())


def test_a_story_without_end_is_told_where_it_waits() -> None:
    """A story that waits for what never comes ends at the limit, with the line at which it waits."""

    async def story() -> None:
        async with gapless.connect("b0:7400") as bus, bus.subscribe(SPACE) as sub:
            await sub.next()

    where = r"after 100 s; it waits: story at test_time\.py:\d+ in story"
    with Overlay(brokers=1) as overlay, pytest.raises(Stalled, match=where):
        overlay.run(story(), limit=100)


def test_time_stands_still_while_a_thread_works() -> None:
    """What is handed to a thread is waited for, and takes no time of the overlay."""

    async def story(overlay: Overlay) -> str:
        async with asyncio.timeout(0.001):
            return await asyncio.to_thread(Path(__file__).read_text)

    with Overlay(brokers=1) as overlay:
        assert "test_time_stands_still" in overlay.run(story)


def test_servers_may_be_those_of_the_application(tmp_path: Path) -> None:
    """With the application's own cluster.toml its own addresses reach the brokers."""
    path = tmp_path / "cluster.toml"
    path.write_text(
        '[cluster]\nname = "ours"\n[[space]]\nname = "ledger"\ndelivery = "direct"\n'
        '[[broker]]\nid = "east"\nlisten = "127.0.0.1:7000"\n'
        '[[broker]]\nid = "west"\nlisten = "10.0.0.7:7000"\ninsecure = true\nparent = "east"\n'
    )

    async def story() -> tuple[str, str]:
        async with gapless.connect("gapless://10.0.0.7:7000") as bus:
            await bus.publish("ledger", {"n": 1})
            return bus.cluster, bus.server

    with Overlay(config=path) as overlay:
        assert overlay.run(story()) == ("ours", "west")
        assert overlay.servers == "gapless://east:7000,west:7000"


def test_an_address_that_is_nowhere_is_refused() -> None:
    """Nothing leaves the process: another address is refused, and the error says which there are."""

    async def story() -> None:
        with pytest.raises(gapless.Unreachable, match="nowhere in this overlay; there is b0 at 127"):
            await gapless.connect("192.0.2.1:7400", deadline=3)

    with Overlay(brokers=1) as overlay:
        overlay.run(story())


def test_a_wrong_configuration_is_told() -> None:
    """What is asked for is checked as a file would be."""
    with pytest.raises(gapless.ConfigError, match='did you mean "patience_ms"'):
        Overlay(spaces={SPACE: {"patience": 5}})
    with pytest.raises(gapless.ConfigError, match="there are chain, star, tree"):
        Overlay(shape="ring")


def test_spaces_and_brokers_are_as_asked_for() -> None:
    """Declared attributes are enforced, and a tree may be given by its parents."""

    async def story(overlay: Overlay) -> None:
        async with gapless.connect(overlay.server("leaf")) as bus:
            with pytest.raises(gapless.SchemaError):
                await bus.publish("ledger", {"price": "dear"})
            await bus.publish("ledger", {"price": 4.5})

    with Overlay(
        brokers={"root": None, "leaf": "root"},
        spaces={"ledger": {"attributes": {"price": "float64"}}},
        tuning={"heartbeat_ms": 100, "suspect_after_ms": 500},
    ) as overlay:
        overlay.run(story)


def test_streams_of_asyncio_are_served() -> None:
    """Other protocols may use the network as well: what one end writes the other reads, and its end is seen."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def story() -> bytes:
        async with await asyncio.start_server(echo, "127.0.0.1", 9000):
            reader, writer = await asyncio.open_connection("localhost", 9000)
            writer.write(b"x" * 2_000_000)
            answer = await reader.readexactly(2_000_000)
            writer.close()
            assert await reader.read() == b""
            return answer

    with Overlay(brokers=1) as overlay:
        assert overlay.run(story()) == b"x" * 2_000_000
