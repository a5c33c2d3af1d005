"""Publishing: numbers, receipts, room, deadlines, and rows that cannot be published."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.client.house import SPACE, Obedient, brokers, cluster, house, meet, obedient, run, servers_of

import gapless
from gapless.client.space import QUEUED_BYTES_MAX
from gapless.delivery.port import SpaceSettings
from gapless.model.types import AttributeType

ROOM_FOR_NOTHING = 0


class Colour(str, Enum):  # noqa: UP042  # an enumeration of the older kind is what is tried
    """Of the kind whose text is not its value."""

    RED = "red"


GOOD_VALUES: list[tuple[Any, Any]] = [
    (True, True),
    (0, 0),
    (-(1 << 63), -(1 << 63)),
    ((1 << 63) - 1, (1 << 63) - 1),
    (1e308, 1e308),
    (math.inf, math.inf),
    (-math.inf, -math.inf),
    ("", ""),
    ("naïve — 🦉", "naïve — 🦉"),
    (datetime(2024, 2, 29, 12, 0, 0, 1, UTC), datetime(2024, 2, 29, 12, 0, 0, 1, UTC)),
    (datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)),
    (pd.Timestamp("2024-01-01", tz="UTC"), datetime(2024, 1, 1, tzinfo=UTC)),
    (np.int32(7), 7),
    (np.float32(0.5), 0.5),
    (np.bool_(True), True),
    (np.str_("text"), "text"),
    (Colour.RED, "red"),
]
BAD_ROWS: list[tuple[dict[Any, Any], str]] = [
    ({"a": 1 << 63}, "'a' is 9223372036854775808"),
    ({"a": -(1 << 63) - 1}, "'a' is -9223372036854775809"),
    ({"a": "\ud800"}, "'a' is '\\\\ud800'"),
    ({"a": datetime(2024, 1, 1)}, "'a' is datetime.*without a zone"),  # noqa: DTZ001  # that is what is tried
    ({"a": datetime.max.replace(tzinfo=timezone(timedelta(hours=-9)))}, "timestamp 'a' is outside the years 1 to 9999"),
    ({"a": [1]}, r"'a' is \[1\] of type list"),
    ({"a": b"bytes"}, "'a' is b'bytes' of type bytes"),
    ({"a": 1j}, "'a' is 1j of type complex"),
    ({"a": pd.NaT}, "'a' is NaT"),
    ({"": 1}, "named ''"),
    ({"x" * 300: 1}, "longer than 255 bytes"),
    ({"\ud800": 1}, "not valid Unicode"),
    ({7: 1}, "named 7"),
]


def test_publications_arrive_as_they_were_sent() -> None:
    """A subscriber gets the attributes and the body that were published, under the source's next seq."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            out = await bus.publisher(SPACE, "till-7")
            for seq, (value, arrives) in enumerate(GOOD_VALUES, 1):
                receipt = await out.send({"value": value, "none": None}, b"body %d" % seq)
                assert await receipt == receipt.seq == seq
                publication = await subscription.next(deadline=5)
                assert publication.source == "till-7" and publication.seq == seq
                assert publication.attributes == {"value": arrives}
                assert type(publication.attributes["value"]) is type(arrives)
                assert publication.body == b"body %d" % seq
            assert out.last_accepted == len(GOOD_VALUES)

    run(story())


def test_nan_arrives() -> None:
    """Not a number is a float64 like others."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            await bus.publish(SPACE, {"price": math.nan})
            value = (await subscription.next(deadline=5)).attributes["price"]
            assert isinstance(value, float) and math.isnan(value)

    run(story())


@pytest.mark.parametrize(("row", "says"), BAD_ROWS)
def test_a_bad_row_harms_nobody(row: dict[Any, Any], says: str) -> None:
    """What cannot be published names attribute and value, at send or on the receipt; its neighbours are accepted."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            out = await bus.publisher(SPACE)
            before = await out.send({"a": "before"})
            with pytest.raises(gapless.AttributeTypeError, match=says):
                await (await out.send(row))
            after = await out.send({"a": "after"})
            await before
            await after
            assert [(await subscription.next(deadline=5)).attributes["a"] for _ in range(2)] == ["before", "after"]

            many = await out.send_many([{"a": "one"}, row, {"a": "two"}], [b"1", b"2", b"3"])
            with pytest.raises(gapless.AttributeTypeError, match=says):
                await many
            assert list(many.errors) == [many.first + 1]
            rest = [await subscription.next(deadline=5) for _ in range(2)]
            assert [(one.attributes["a"], one.body) for one in rest] == [("one", b"1"), ("two", b"3")]

    run(story())


def test_bad_bodies() -> None:
    """A body that is text or too large is refused where it is handed in, or on the receipt for many."""

    async def story() -> None:
        async with house(more="[limits]\nbody_bytes_max = 100\n") as (bus, _, _):
            out = await bus.publisher(SPACE)
            with pytest.raises(gapless.AttributeTypeError, match="bodies are bytes"):
                await out.send({}, "text")  # type: ignore[arg-type]  # that is what is tried
            with pytest.raises(gapless.TooLarge, match="101 bytes for space 'quotes', which takes at most 100"):
                await out.send({}, bytes(101))
            assert await (await out.send({}, bytearray(100))) == 1
            assert await (await out.send({}, memoryview(b"view"))) == 2
            many = await out.send_many([{}] * 4, [b"", bytes(101), "text", b""])  # type: ignore[list-item]  # as above
            with pytest.raises(gapless.TooLarge):
                await many
            assert [type(error) for error in many.errors.values()] == [gapless.TooLarge, gapless.AttributeTypeError]
            table = pa.table({"body": [b"", bytes(101), b""]})
            receipt = await out.send_many(table)
            with pytest.raises(gapless.TooLarge):
                await receipt
            assert list(receipt.errors) == [receipt.first + 1]
            assert out.last_accepted == receipt.seq

    run(story())


def test_limits_of_the_space() -> None:
    """Too many attributes, too long a string, and more than a frame holds concern the publication alone."""

    async def story() -> None:
        limits = "[limits]\nattributes_max = 2\nattribute_bytes_max = 1000\n"
        async with house(more=limits) as (bus, _, _):
            out = await bus.publisher(SPACE)
            rows: list[dict[str, Any]] = [{"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": "x" * 1001}, {"c": 1, "b": 2}]
            receipt = await out.send_many(rows)
            with pytest.raises(gapless.TooLarge, match="3 attributes"):
                await receipt
            assert list(receipt.errors) == [2, 3] and out.last_accepted == 4
            one = await out.send({"z": "long" * 1000})
            with pytest.raises(gapless.TooLarge, match="'z' of 4000 bytes"):
                await one
        small = "[limits]\nframe_bytes_max = 131072\nbody_bytes_max = 1000\n"
        async with house(more=small) as (bus, _, _):
            out = await bus.publisher(SPACE)
            receipts = [await out.send({"n": n, "s": "y" * 30_000}) for n in range(20)]
            large = await out.send({f"a{n}": "z" * 60_000 for n in range(3)})
            receipts.append(await out.send({"n": 20}))
            for receipt in receipts:
                await receipt
            with pytest.raises(gapless.TooLarge, match="go over the wire"):
                await large

    run(story())


def test_wide_rows_split() -> None:
    """Publications whose attributes have more names together than a batch has columns go in several batches."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            out = await bus.publisher(SPACE)
            receipt = await out.send_many([{f"name{n}": n} for n in range(1100)] + [{f"a{n}": n for n in range(1500)}])
            for n in range(1100):
                assert (await subscription.next(deadline=5)).attributes == {f"name{n}": n}
            with pytest.raises(gapless.TooLarge, match="1500 different attributes"):
                await receipt
            assert list(receipt.errors) == [1101]

    run(story())


def test_declared_types() -> None:
    """A value of another type than the space declares is a SchemaError for that publication alone."""

    async def story() -> None:
        async with (
            house(space='attributes = { price = "float64", loc = "string" }') as (bus, _, _),
            bus.subscribe(SPACE) as subscription,
        ):
            out = await bus.publisher(SPACE)
            receipts = [await out.send({"price": price, "loc": "NY"}) for price in (1.5, 2, 2.5, None, "three", 3.5)]
            for receipt, good in zip(receipts, (True, False, True, True, False, True), strict=True):
                if good:
                    await receipt
                else:
                    with pytest.raises(gapless.SchemaError, match="'price' is .*'quotes' declares it as float64"):
                        await receipt
            prices = [(await subscription.next(deadline=5)).attributes.get("price") for _ in range(4)]
            assert prices == [1.5, 2.5, None, 3.5]
            table = await out.send_many(pa.table({"price": [1, 2]}))
            with pytest.raises(gapless.SchemaError):
                await table
            assert len(table.errors) == 2

    run(story())


def test_numbers_rise_over_what_was_refused() -> None:
    """A publication that could not be sent keeps its number, and nothing else gets it."""

    async def story() -> None:
        async with house() as (bus, _, _):
            out = await bus.publisher(SPACE)
            bad = await out.send({"a": 1 << 70})
            good = await out.send({"a": 1})
            assert (bad.seq, good.seq) == (1, 2)
            await good
            for _ in range(2):
                with pytest.raises(gapless.AttributeTypeError):
                    await bad

    run(story())


def test_tables_and_frames() -> None:
    """Arrow tables, record batches and data frames are published by columns; their nulls are absent attributes."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            out = await bus.publisher(SPACE)
            frame = pd.DataFrame(
                {
                    "sym": pd.Series(["A", None, "C"], dtype="category"),
                    "price": [1.0, math.nan, 3.0],
                    "when": pd.to_datetime(["2024-01-01", "2024-01-02", None]).tz_localize("UTC"),
                    "flag": [True, False, True],
                }
            )
            table = pa.table(
                {
                    "sym": pa.array(["A", None, "C"]).dictionary_encode(),
                    "n": pa.array([1, 2, None], pa.int8()),
                    "nothing": pa.nulls(3),
                    "body": ["x", "y", None],
                }
            )
            for rows in (frame, table, table.to_batches()[0]):
                await (await out.send_many(rows))
            got = [await subscription.next(deadline=5) for _ in range(9)]
            assert got[0].attributes == {
                "sym": "A",
                "price": 1.0,
                "when": datetime(2024, 1, 1, tzinfo=UTC),
                "flag": True,
            }
            assert got[1].attributes == {"when": datetime(2024, 1, 2, tzinfo=UTC), "flag": False}
            assert [(one.attributes, one.body) for one in got[3:6]] == [
                ({"sym": "A", "n": 1}, b"x"),
                ({"n": 2}, b"y"),
                ({"sym": "C"}, b""),
            ]
            assert [one.attributes for one in got[6:]] == [one.attributes for one in got[3:6]]

    run(story())


@pytest.mark.parametrize(
    ("rows", "bodies", "error", "says"),
    [
        ([], None, gapless.PublicationError, "nothing to send"),
        (pa.table({"a": pa.array([], pa.int64())}), None, gapless.PublicationError, "nothing to send"),
        ({"a": 1}, None, gapless.AttributeTypeError, "one publication goes by send"),
        (7, None, gapless.AttributeTypeError, "not int"),
        ([{"a": 1}], [b"", b""], gapless.PublicationError, "1 rows with 2 bodies"),
        (pa.table({"a": [1]}), [b""], gapless.PublicationError, "its column `body`"),
        (pa.table({"a": [[1]]}), None, gapless.AttributeTypeError, "column 'a' has the Arrow type list"),
        (pa.table({"body": [1]}), None, gapless.AttributeTypeError, "bodies are binary or string"),
        (pa.table([[1], [2]], ["a", "a"]), None, gapless.AttributeTypeError, "two columns are named 'a'"),
        (pa.table({"x" * 300: [1]}), None, gapless.AttributeTypeError, "names have 1 to 255 bytes"),
        (pd.DataFrame({"a": [1, "x"]}), None, gapless.AttributeTypeError, "mixed or foreign values"),
        (pa.array([1]), None, gapless.AttributeTypeError, "not Int64Array"),
    ],
)
def test_what_cannot_be_many(rows: Any, bodies: Any, error: type[Exception], says: str) -> None:
    """What is no set of rows is refused whole, before anything is sent."""

    async def story() -> None:
        async with obedient() as server:
            bus, _, out = await meet(server)
            with pytest.raises(error, match=says):
                await out.send_many(rows, bodies)
            assert (await out.send({})).seq == 1
            await bus.close()

    run(story())


def test_an_arrow_row_out_of_range_harms_nobody() -> None:
    """A number or a time that no attribute can be is found within its table, and the rows around it are accepted."""

    async def story() -> None:
        async with house() as (bus, _, _):
            out = await bus.publisher(SPACE)
            numbers = await out.send_many(pa.table({"n": pa.array([1, 1 << 63, 3], pa.uint64())}))
            with pytest.raises(gapless.AttributeTypeError, match="'n'"):
                await numbers
            assert list(numbers.errors) == [2]
            times = pa.array([0, 1 << 62, None], pa.timestamp("us", tz="UTC"))
            receipt = await out.send_many(pa.table({"t": times}))
            with pytest.raises(gapless.AttributeTypeError, match="years 1 to 9999"):
                await receipt
            assert list(receipt.errors) == [5] and out.last_accepted == 6

    run(story())


def test_receipts() -> None:
    """A receipt can be awaited by many and often; a deadline that passes leaves it as it is."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server)
            receipt = await out.send({"a": 1})
            message = await broker.published()
            with pytest.raises(gapless.OutcomeUnknown, match="may still be"):
                await receipt.accepted(deadline=0.01)
            with pytest.raises(gapless.OutcomeUnknown):
                await out.flush(deadline=0.01)
            cancelled = asyncio.ensure_future(receipt.accepted())
            waiting = [asyncio.ensure_future(receipt.accepted()) for _ in range(3)]
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.sleep(0)
            assert not receipt.settled and len(receipt._pending()[0]._waiters) == 3
            broker.accept(message)
            assert await asyncio.gather(*waiting) == [1, 1, 1]
            assert await receipt == 1 and receipt.settled and receipt.errors == {}
            with pytest.raises(gapless.Unsupported):
                await receipt.delivered()
            await bus.close()

    run(story())


def test_one_at_a_time_leaves_at_once_and_the_rest_together() -> None:
    """On a quiet line a publication leaves at once; what comes while two batches are under way goes together."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server)
            messages = []
            for n in range(2):
                await out.send({"n": n})
                messages.append(await broker.published())
            for n in range(2, 50):
                await out.send({"n": n})
                await asyncio.sleep(0)
            assert [message.batch.rows for message in messages] == [1, 1]
            broker.accept(messages[0])
            together = await broker.published()
            assert (together.batch.first, together.batch.last) == (3, 50)
            await bus.close()

    run(story())


def test_no_room() -> None:
    """Without room `send` waits, and raises Overloaded at its deadline before a number is given; room lets it on."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server, room=ROOM_FOR_NOTHING)
            body, last = bytes(100_000), 0
            with pytest.raises(gapless.Overloaded, match="no room within 0.05 s.*nothing was taken"):
                while last < 100:
                    last = (await out.send({}, body, deadline=0.05)).seq
            assert last * len(body) > QUEUED_BYTES_MAX
            with pytest.raises(gapless.Overloaded):
                await out.send_many([{}], [b""], deadline=0.01)
            waiting = asyncio.ensure_future(out.send({}, b"last"))
            stopped = asyncio.ensure_future(out.send({}, b"never"))
            await asyncio.sleep(0.01)
            stopped.cancel()
            assert not waiting.done()
            broker.give_room()
            assert (await waiting).seq == last + 1
            await bus.close()

    run(story())


def test_many_are_taken_whole() -> None:
    """Once the first rows of many are taken, a deadline that passes takes the rest too and does not tear them."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server, room=ROOM_FOR_NOTHING)
            receipt = await out.send_many([{}] * 4000, [bytes(5000)] * 4000, deadline=0.05)
            assert (receipt.first, receipt.seq) == (1, 4000)
            broker.give_room()
            await _accept_all(broker, 4000)
            assert await receipt == 4000
            await bus.close()

    run(story())


async def _accept_all(broker: Obedient, count: int) -> None:
    """Accept batches until so many publications have come, each once and in order."""
    expected = 1
    while expected <= count:
        message = await broker.published()
        assert message.batch.first == expected
        expected = message.batch.last + 1
        broker.accept(message)


def test_many_wait_their_turn() -> None:
    """Tasks that waited for room together go on in turn, and every publication keeps a number of its own."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server, room=ROOM_FOR_NOTHING)
            await out.send_many([{}] * 100, [bytes(50_000)] * 100)
            tasks: list[asyncio.Task[gapless.Receipt]] = []
            for n in range(5):
                tasks.append(asyncio.ensure_future(out.send({"n": n})))
                tasks.append(asyncio.ensure_future(out.send_many([{"n": n}] * 2)))
            await asyncio.sleep(0.01)
            assert not any(task.done() for task in tasks)
            broker.give_room()
            accepting = asyncio.ensure_future(_accept_all(broker, 115))
            receipts = [await task for task in tasks]
            numbers = [range(receipt.first, receipt.seq + 1) for receipt in receipts]
            assert sorted(seq for some in numbers for seq in some) == list(range(101, 116))
            for receipt in receipts:
                await receipt
            await accepting
            await bus.close()

    run(story())


def test_a_bad_row_keeps_its_own_reason() -> None:
    """When the outcome of a batch is unknown, a row that was never in it still says what was wrong with it."""

    async def story() -> None:
        async with obedient(SpaceSettings(name=SPACE, attributes={"n": AttributeType.INT64})) as server:
            bus, broker, out = await meet(server)
            receipt = await out.send_many([{"n": 1}, {"n": "two"}, {"n": 3}])
            message = await broker.published()
            assert message.batch.seqs.tolist() == [1, 3]
            broker.vanish()
            with pytest.raises(gapless.OutcomeUnknown):
                await receipt
            kinds = [type(error) for error in receipt.errors.values()]
            assert kinds == [gapless.OutcomeUnknown, gapless.SchemaError, gapless.OutcomeUnknown]
            await bus.close()

    run(story())


def test_flush_tells_what_no_receipt_told() -> None:
    """`flush` raises the first failure nobody has seen yet, once; what a receipt raised is not raised again."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.publisher(SPACE) as out:
            for value in (1 << 70, "\ud800"):
                await out.send({"a": value})
            with pytest.raises(gapless.AttributeTypeError, match="outside the 64-bit"):
                await out.flush(deadline=5)
            await out.flush(deadline=5)
            seen = await out.send({"a": 1 << 70})
            with pytest.raises(gapless.AttributeTypeError):
                await seen
            await out.flush(deadline=5)

    run(story())


def test_a_publisher_closes() -> None:
    """Leaving a publisher waits for its outcome; closed, it takes no more; closing lets go who waits for room."""

    async def story() -> None:
        async with house() as (bus, _, _):
            async with bus.publisher(SPACE) as out:
                receipts = [await out.send({"n": n}) for n in range(100)]
            assert all(receipt.settled for receipt in receipts)
            for call in (out.send({}), out.send_many([{}])):
                with pytest.raises(gapless.Closed, match="make a new one"):
                    await call
            with pytest.raises(KeyError):
                async with bus.publisher(SPACE) as out:
                    left = await out.send({})
                    raise KeyError
            assert await left == 1
        async with obedient() as server:
            bus, _, out = await meet(server, room=ROOM_FOR_NOTHING)
            await out.send_many([{}] * 100, [bytes(100_000)] * 100, deadline=0)
            waiting = asyncio.ensure_future(out.send({}))
            await asyncio.sleep(0.01)
            with pytest.raises(gapless.OutcomeUnknown):
                await out.close(deadline=0.01)
            with pytest.raises(gapless.Closed):
                await waiting
            await bus.close()

    run(story())


def test_a_name_fences_its_older_holder() -> None:
    """Whoever takes a publisher's name is its only holder; the older one is told, on the receipt and from then on."""

    async def story() -> None:
        async with house() as (bus, _, _):
            old = await bus.publisher(SPACE, "till")
            assert await (await old.send({})) == 1
            new = await bus.publisher(SPACE, "till")
            assert await (await new.send({})) == 1
            with pytest.raises(gapless.Fenced, match="'till' has been taken over"):
                await (await old.send({}))
            with pytest.raises(gapless.Fenced):
                await old.send({})
            assert await (await new.send({})) == 2
            for name in ("", "x" * 256, "\ud800", "line\nbreak"):
                with pytest.raises(gapless.ConfigError, match="cannot name a publisher"):
                    bus.publisher(SPACE, name)

    run(story())


def test_publish_is_send_and_accepted() -> None:
    """`bus.publish` returns the seq once it is accepted; side by side they share one source."""

    async def story() -> None:
        async with house() as (bus, _, _), bus.subscribe(SPACE) as subscription:
            seqs = await asyncio.gather(*(bus.publish(SPACE, {"n": n}) for n in range(10)))
            assert sorted(seqs) == list(range(1, 11))
            got = [await subscription.next(deadline=5) for _ in range(10)]
            assert len({one.source for one in got}) == 1
            with pytest.raises(gapless.AttributeTypeError, match="give a mapping"):
                await bus.publish(SPACE, ["a"])  # type: ignore[arg-type]  # that is what is tried
        async with obedient(SpaceSettings(name=SPACE)) as server:
            connecting = asyncio.ensure_future(gapless.connect(server.server).open())
            broker = await server.next()
            greeting = asyncio.ensure_future(broker.welcome())
            bus = await connecting
            with pytest.raises(gapless.OutcomeUnknown):
                await bus.publish(SPACE, {}, deadline=0.2)
            await greeting
            await bus.close()

    run(story())


def test_the_newest_holder_of_a_name_is_who_opened_it_last_whatever_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose clock is behind takes a publisher's name over all the same, and the older holder is fenced."""

    async def story() -> None:
        config = cluster()
        async with brokers(config), gapless.connect(servers_of(config)) as one:
            older = await one.publisher(SPACE, name="till-7")
            await (await older.send({"n": 1}))
            behind = time.time_ns() - 3_600_000_000_000
            monkeypatch.setattr(time, "time_ns", lambda: behind)
            async with gapless.connect(servers_of(config)) as other:
                newer = await other.publisher(SPACE, name="till-7")
                await (await newer.send({"n": 2}))
                receipt = await older.send({"n": 3})
                with pytest.raises(gapless.Fenced):
                    await receipt
                await (await newer.send({"n": 4}))

    run(story())
