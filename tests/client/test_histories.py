"""The journals of clients, judged: what they say is true, and enough for every promise of `direct`."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

from tests.client.house import SPACE, brokers, cluster, run, servers_of, until

import gapless
from gapless.cli.histories import read_history
from gapless.model.events import Event, Kind
from gapless.sim.checker import check
from gapless.sim.checker.verdict import Verdict


def _judged(folder: Path, without: Kind | None = None) -> Verdict:
    """The verdict on the journals, watched until now; one event of the kind `without` left out."""
    events = [*read_history([folder]), Event(event=Kind.END, at=time.monotonic_ns())]
    events.sort(key=lambda event: event.at)
    if without is not None:
        del events[next(place for place, event in enumerate(events) if event.event is without)]
    return check(events)


def test_a_run_without_faults(tmp_path: Path) -> None:
    """In a run without faults every promise of `direct` holds, whichever way is published and read."""

    async def reader(bus: gapless.Bus, filter_text: str, count: int, one_by_one: bool) -> None:
        async with bus.subscribe(SPACE, filter_text) as subscription:
            ready.release()
            while count > 0:
                if one_by_one:
                    await subscription.next(10)
                    count -= 1
                else:
                    batch = await subscription.next_batch(10)
                    assert batch is not None
                    count -= batch.rows

    async def story() -> None:
        config = cluster(2)
        async with (
            brokers(config),
            gapless.connect(servers_of(config, "b0"), name="writer", journal=tmp_path) as writer,
            gapless.connect(servers_of(config, "b1"), name="reader", journal=tmp_path) as listener,
        ):
            readers = [
                asyncio.ensure_future(reader(listener, "n >= 0", 300, True)),
                asyncio.ensure_future(reader(listener, "n >= 100", 200, False)),
                asyncio.ensure_future(reader(writer, "n < 100 OR n IS NULL", 101, True)),
            ]
            for _ in readers:
                await ready.acquire()
            async with writer.publisher(SPACE, "till") as out:
                for n in range(150):
                    await out.send({"n": n}, b"%d" % n)
                bad = await out.send({"n": 1 << 70})
                await out.send_many([{"n": n} for n in range(150, 300)])
                with suppress(gapless.AttributeTypeError):
                    await bad
            await listener.publish(SPACE, {"n": None})
            await asyncio.gather(*readers)

    ready = asyncio.Semaphore(0)
    run(story())
    verdict = _judged(tmp_path)
    assert verdict.violations == ()
    for name in ("no-invention", "no-duplicate", "publisher-order", "all-delivered", "all-confirmed", "justified-gap"):
        assert name in verdict.judged[0].promises, name
    broken = _judged(tmp_path, without=Kind.PUBLISH).violations
    assert {violation.promise for violation in broken} == {"no-invention"}


def test_a_run_with_a_broken_connection(tmp_path: Path) -> None:
    """Over broken connections the journals still bear every promise that holds then."""

    async def story() -> None:
        config = cluster(2)
        async with (
            brokers(config),
            gapless.connect(servers_of(config), name="client", journal=tmp_path, faults=True) as bus,
            bus.subscribe(SPACE) as subscription,
        ):
            out = await bus.publisher(SPACE, "till")
            for n in range(300):
                await out.send({"n": n})
                await asyncio.sleep(0)
                if n % 100 == 50:
                    at = bus._keeper._numbers
                    link = bus._keeper.link
                    assert link is not None and link._transport is not None
                    link._transport.abort()
                    await until(lambda at=at: bus._keeper._numbers > at and bool(bus.server))  # type: ignore[misc]  # bound here
            with suppress(gapless.OutcomeUnknown):
                await out.flush(10)
            last = await out.send({"n": 300})
            await last
            while (await subscription.next(10)).seq < last.seq:
                pass
            assert len(subscription.gaps) == 3

    run(story())
    assert _judged(tmp_path).violations == ()
    kinds = [event.event for event in read_history([tmp_path])]
    assert kinds.count(Kind.GAP) == kinds.count(Kind.LINK_DOWN) == 3 and Kind.UNKNOWN in kinds
    unjustified = _judged(tmp_path, without=Kind.LINK_DOWN).violations
    assert "justified-gap" in {violation.promise for violation in unjustified}
