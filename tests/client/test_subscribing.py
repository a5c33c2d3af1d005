"""Subscribing: confirmed, iterated one by one and in batches, slow, closed, and by several tasks at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from tests.client.house import SPACE, house, meet, obedient, run, until

import gapless
from gapless.delivery.direct.messages import Confirm, Decline, Match, Missed, Subscribe, Unsubscribe
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source


async def _fill(bus: gapless.Bus, count: int) -> None:
    """Publish so many, as batches of a hundred."""
    async with bus.publisher(SPACE, "source") as out:
        for start in range(0, count, 100):
            await (await out.send_many([{"n": n} for n in range(start, min(start + 100, count))]))


def test_filters_and_topics() -> None:
    """A subscription gets what its filter and its topic pattern match, and nothing else."""

    async def story() -> None:
        async with (
            house() as (bus, _, _),
            bus.subscribe(SPACE, "price > 3 AND loc = 'NY'") as dear,
            bus.subscribe(SPACE, topic="nyse/+/quotes") as topical,
            bus.subscribe(SPACE) as everything,
        ):
            await bus.publish(SPACE, {"price": 4, "loc": "NY"})
            await bus.publish(SPACE, {"price": 2, "loc": "NY", "topic": "nyse/ibm/quotes"})
            await bus.publish(SPACE, {"price": 5, "topic": "nyse/quotes"})
            assert [(await everything.next(5)).seq for _ in range(3)] == [1, 2, 3]
            assert (await dear.next(5)).seq == 1
            publication = await topical.next(5)
            assert publication.seq == 2 and publication.topic == "nyse/ibm/quotes"
            for subscription in (dear, topical):
                with pytest.raises(gapless.DeadlineExceeded, match="within 0 s"):
                    await subscription.next(deadline=0)

    run(story())


def test_wrong_filters_are_told_at_once() -> None:
    """A filter or pattern that does not parse is a FilterError where it is written, before anything is sent."""

    async def story() -> None:
        async with house() as (bus, _, _):
            for filter_text, topic in (("price >", ""), ("", "a/#/b")):
                with pytest.raises(gapless.FilterError):
                    bus.subscribe(SPACE, filter_text, topic=topic)

    run(story())


def test_where_a_subscription_begins() -> None:
    """`direct` keeps no past: it begins now, says so of every other start, and refuses what is none."""

    async def story() -> None:
        async with house() as (bus, _, _):
            async with bus.subscribe(SPACE, start="now"):
                pass
            past = datetime(2026, 1, 1, tzinfo=UTC)
            for start in ("earliest", past, gapless.Cursor(bus.cluster, SPACE, b"")):
                with pytest.raises(gapless.Unsupported, match="keeps nothing of the past"):
                    await bus.subscribe(SPACE, start=start)  # type: ignore[arg-type]  # a list of several types
            with pytest.raises(gapless.CursorError, match="use it where it was made"):
                await bus.subscribe(SPACE, start=gapless.Cursor("elsewhere", SPACE, b""))
            for nowhere in ("latest", past.replace(tzinfo=None), 5):
                with pytest.raises(gapless.ConfigError, match="start="):
                    bus.subscribe(SPACE, start=nowhere)  # type: ignore[arg-type]  # what a user may try

    run(story())


def test_a_refused_subscription() -> None:
    """What the broker refuses to subscribe raises its reason, and leaves nothing behind."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, _ = await meet(server)
            subscribing = asyncio.ensure_future(bus.subscribe(SPACE).__aenter__())
            asked = await broker.message_of(Subscribe)
            assert isinstance(asked, Subscribe)
            broker.message(Decline(asked.subscription, "FilterError", "too many filters"))
            with pytest.raises(gapless.FilterError, match="too many filters"):
                await subscribing
            await bus.close()

    run(story())


def test_not_confirmed_in_time() -> None:
    """A subscription that is not confirmed by its deadline, or is cancelled before, is given up."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, _ = await meet(server)
            with pytest.raises(gapless.DeadlineExceeded, match="not confirmed within 0.05 s"):
                await bus.subscribe(SPACE, deadline=0.05)
            await broker.message_of(Unsubscribe)
            subscribing = asyncio.ensure_future(bus.subscribe(SPACE, deadline=5).__aenter__())
            await broker.message_of(Subscribe)
            subscribing.cancel()
            await broker.message_of(Unsubscribe)
            with pytest.raises(asyncio.CancelledError):
                await subscribing
            await bus.close()

    run(story())


def test_exceptions_are_told() -> None:
    """A subscription names the brokers that were out of reach when it was confirmed."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, _ = await meet(server)
            subscribing = asyncio.ensure_future(bus.subscribe(SPACE).__aenter__())
            asked = await broker.message_of(Subscribe)
            assert isinstance(asked, Subscribe)
            broker.message(Confirm(asked.subscription, ("b7",)))
            assert (await subscribing).exceptions == ("b7",)
            await bus.close()

    run(story())


def test_batches_are_tables() -> None:
    """`batches()` gives Arrow record batches with source, seq, time, the attributes and the body of each row."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE, "n >= 10") as subscription:
            await _fill(bus, 300)
            tables: list[pa.RecordBatch] = []
            async for table in subscription.batches():
                tables.append(table)
                if sum(one.num_rows for one in tables) >= 290:
                    break
            whole = pa.Table.from_batches(tables)
            assert whole.column_names == ["source", "seq", "time", "n", "body"]
            assert whole["n"].to_pylist() == list(range(10, 300))
            assert whole["seq"].to_pylist() == list(range(11, 301))
            assert set(whole["source"].to_pylist()) == {"source"}
            assert whole["time"].type == pa.timestamp("us", tz="UTC") and whole["time"].null_count == 0

    run(story())


def test_one_by_one_and_batches_mix() -> None:
    """What was not yet taken one by one is in the next batch; nothing is skipped and nothing comes twice."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            await _fill(bus, 300)
            seen = [(await subscription.next(5)).seq for _ in range(130)]
            async for batch in subscription.raw_batches():
                seen += batch.seqs.tolist()
                break
            async for publication in subscription:
                seen.append(publication.seq)
                if publication.seq == 300:
                    break
            assert seen == list(range(1, 301))

    run(story())


def test_leaving_a_loop_and_coming_back() -> None:
    """A loop that is left and entered again goes on where it was."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            await _fill(bus, 100)
            seen = []
            while len(seen) < 100:
                async for publication in subscription:
                    seen.append(publication.seq)
                    if publication.seq % 30 == 0 or publication.seq == 100:
                        break
            assert seen == list(range(1, 101))

    run(story())


def test_several_tasks_share_a_subscription() -> None:
    """Several tasks may ask; each publication goes to one of them."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            seen: list[int] = []

            async def take() -> None:
                async for publication in subscription:
                    seen.append(publication.seq)
                    await asyncio.sleep(0)

            tasks = [asyncio.ensure_future(take()) for _ in range(5)]
            await _fill(bus, 1000)
            await until(lambda: len(seen) == 1000)
            assert sorted(seen) == list(range(1, 1001))
            await subscription.close()
            await asyncio.gather(*tasks)

    run(story())


def test_cancelled_waits_lose_nothing() -> None:
    """Asking for the next with deadlines that pass, or in tasks that are cancelled, loses no publication."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            filling = asyncio.ensure_future(_fill(bus, 500))
            seen: list[int] = []
            while len(seen) < 500:
                task = asyncio.ensure_future(subscription.next())
                await asyncio.sleep(0)
                if len(seen) % 3 == 0:
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    seen.append((await task).seq)
                except asyncio.CancelledError:
                    try:
                        seen.append((await subscription.next(deadline=0.0001)).seq)
                    except gapless.DeadlineExceeded:
                        continue
            await filling
            assert seen == list(range(1, 501))

    run(story())


def test_closing_a_subscription() -> None:
    """Closed by another task, a loop ends and who asks for the next gets Closed; nothing more is handed out."""

    async def story() -> None:
        async with house() as (bus, _, _):
            subscription = await bus.subscribe(SPACE)
            await _fill(bus, 100)
            assert (await subscription.next(5)).seq == 1
            await subscription.close()
            await subscription.close()
            with pytest.raises(gapless.Closed, match="subscribe again"):
                await subscription.next()
            assert [publication async for publication in subscription] == []
            assert [batch async for batch in subscription.batches()] == []

            waiting = await bus.subscribe(SPACE)
            asking = asyncio.ensure_future(waiting.next())
            await asyncio.sleep(0)
            await waiting.close()
            with pytest.raises(gapless.Closed):
                await asking

    run(story())


def test_a_slow_subscriber_is_told() -> None:
    """Who does not read loses publications, and is told how many where they are missing, before anything later."""

    async def story() -> None:
        notices: list[gapless.GapNotice] = []
        more = "[tuning]\ncredit_bytes = 131072\npatience_ms = 100\n"
        async with house(more=more) as (bus, _, _), bus.subscribe(SPACE, on_gap=notices.append) as slow:
            out = await bus.publisher(SPACE)
            for n in range(200):
                await (await out.send({"n": n}, bytes(10_000)))
            await asyncio.sleep(0.3)  # longer than the patience of the broker
            seen = []
            while not notices:
                seen.append((await slow.next(5)).seq)
                if len(seen) in (10, 20):
                    await (await out.send({"n": -1}))
            before, after = seen[:-1], seen[-1]
            assert before == list(range(1, len(before) + 1))
            assert [notice.reason for notice in notices] == ["slow-subscriber"] and list(slow.gaps) == notices
            assert slow.missed == notices[0].count == after - len(before) - 1 > 100

    run(story())


def test_gaps_come_at_their_place() -> None:
    """A gap notice stands between what came before and what comes after it."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, _ = await meet(server)
            subscribing = asyncio.ensure_future(bus.subscribe(SPACE).__aenter__())
            number = await broker.confirm()
            subscription = await subscribing
            for first in (1, 5):
                batch = batch_of_rows(Source("source", 1), first, [{"n": first}], [b""])
                broker.message(Match(batch, (number,), (b"",)))
                broker.message(Missed("slow-subscriber", (number,), (3,)))
            assert (await subscription.next(5)).seq == 1 and subscription.missed == 0
            assert (await subscription.next(5)).seq == 5 and subscription.missed == 3
            with pytest.raises(gapless.DeadlineExceeded):
                await subscription.next(0.05)
            assert [notice.count for notice in subscription.gaps] == [3, 3]
            await bus.close()

    run(story())


def test_who_leaves_gives_room() -> None:
    """What a closed subscription had not read does not take room from the others of its client."""

    async def story() -> None:
        more = "[tuning]\ncredit_bytes = 131072\n"
        async with house(more=more) as (bus, _, _), bus.subscribe(SPACE, "n >= 0") as stays:
            leaves = await bus.subscribe(SPACE)
            out = await bus.publisher(SPACE)
            for n in range(20):  # more than there is room for
                await (await out.send({"n": n}, bytes(10_000)))
            await leaves.close()
            for n in range(20):
                assert (await stays.next(5)).attributes == {"n": n}
            assert stays.missed == 0

    run(story())


def test_room_is_given_as_publications_are_taken() -> None:
    """A subscriber that reads gets any amount through a window of credit, and misses nothing."""

    async def story() -> None:
        more = "[tuning]\ncredit_bytes = 131072\n"
        async with (
            house(more=more) as (bus, _, _),
            bus.subscribe(SPACE) as subscription,
            bus.subscribe(SPACE, "n < 0"),
            bus.subscribe(SPACE, "n >= 0") as same,
        ):

            async def send() -> None:
                async with bus.publisher(SPACE) as out:
                    for n in range(300):
                        await out.send({"n": n}, bytes(10_000))

            sending = asyncio.ensure_future(send())
            for n in range(300):
                assert (await subscription.next(5)).attributes["n"] == n
                assert (await same.next(5)).attributes["n"] == n
            await sending
            assert subscription.missed == same.missed == 0

    run(story())
