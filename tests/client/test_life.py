"""Connections: to one of several servers, to the next when it fails, drained and closed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.client.house import SPACE, brokers, cluster, house, meet, obedient, port_of, run, servers_of, until
from tests.node.stage import cluster_text, free_ports, write_cluster

import gapless
from gapless.client.address import parse_servers
from gapless.model.events import Event, Kind, read_history
from gapless.node.control import Farewell, Welcome


def events_of(folder: Path) -> list[Event]:
    """What the one journal in this folder says."""
    (journal,) = folder.iterdir()
    with journal.open("rb") as file:
        return list(read_history(file))


def test_addresses() -> None:
    """Servers are a text with commas or a list; what is no address is refused with what to write."""
    assert parse_servers("gapless://a:1,b:2, a:1 ,[::1]:3") == (("a", 1), ("b", 2), ("::1", 3))
    assert parse_servers(["gapless://a:1", "b:2"]) == (("a", 1), ("b", 2))
    for wrong in (
        "",
        [],
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:x",
        "a:²",
        "http://a",
        "a..b:1",
        f"{'a' * 70}:1",
        "a\0b:1",
    ):
        with pytest.raises(gapless.ConfigError, match="HOST:PORT"):
            parse_servers(wrong)


def test_another_scheme_is_named() -> None:
    """An address with the scheme of something else is refused at once, and the sentence names that scheme."""
    for wrong in ("http://127.0.0.1:7400", "tcp://a:1", ["a:1", "https://b:2"]):
        with pytest.raises(gapless.ConfigError, match="has the scheme (http|tcp|https)://, and .* by gapless:// only"):
            gapless.connect(wrong)


def test_nobody_answers() -> None:
    """When no server answers in time it is Unreachable, with the servers tried and the last trouble."""

    async def story() -> None:
        one, two = free_ports(2)
        bus = gapless.connect([f"127.0.0.1:{one}", f"127.0.0.1:{two}"], deadline=0.3)
        with pytest.raises(
            gapless.Unreachable,
            match=rf"within 0.3 s \(tried 127.0.0.1:{one}, 127.0.0.1:{two}\); last trouble: .*: connection refused: ",
        ):
            await bus.open()
        with pytest.raises(gapless.Closed):
            await bus.open()

    run(story())


@pytest.mark.parametrize(
    ("first_words", "error", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", gapless.WireError, "does not speak the Gapless protocol"),
        (b"GAPLESS\x09", gapless.VersionMismatch, "speaks version 9 of the protocol"),
    ],
)
def test_foreign_servers(first_words: bytes, error: type[gapless.GaplessError], says: str) -> None:
    """A server that speaks something else is told at once, unless another server is one of ours."""

    async def story() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(first_words)
            await reader.read()
            writer.close()

        foreign = await asyncio.start_server(answer, "127.0.0.1", 0)
        address = f"127.0.0.1:{foreign.sockets[0].getsockname()[1]}"
        with pytest.raises(error, match=says):
            await gapless.connect(address).open()
        config = cluster()
        async with brokers(config), gapless.connect([address, *servers_of(config)]) as bus:
            assert bus.server == "b0" and bus.cluster == "demo"
        foreign.close()

    run(story())


def test_names_of_clients() -> None:
    """A client's name is one that files and people can bear, and not that of a broker."""

    async def story() -> None:
        for name in ("", "../up", "a b", "x" * 101):
            with pytest.raises(gapless.ConfigError, match="cannot name a client"):
                gapless.connect("a:1", name=name)
        config = cluster()
        async with brokers(config):
            with pytest.raises(gapless.ConfigError, match="give the client another name"):
                await gapless.connect(servers_of(config), name="b0").open()

    run(story())


def test_the_newest_of_a_name_stays() -> None:
    """A second client under one name ends the first, which says so and does not fight back."""

    async def story() -> None:
        async with house() as (bus, config, _):
            subscription = await bus.subscribe(SPACE)
            async with gapless.connect(servers_of(config), name="tester") as newer:
                with pytest.raises(gapless.Fenced, match="the newest link of a name stays"):
                    await subscription.next(5)
                with pytest.raises(gapless.Fenced):
                    bus.subscribe(SPACE)
                assert newer.server == "b0"

    run(story())


def test_unknown_spaces() -> None:
    """A space that the cluster does not have is UnknownSpace for whoever asks, each time; others are not harmed."""

    async def story() -> None:
        async with house() as (bus, _, _):
            for _ in range(2):
                with pytest.raises(gapless.UnknownSpace, match="no space 'nope'; it has: quotes"):
                    await bus.publisher("nope")
                with pytest.raises(gapless.UnknownSpace):
                    await bus.subscribe("nope")
            await asyncio.gather(
                *(bus.publisher("nope") for _ in range(3)), bus.publish(SPACE, {}), return_exceptions=True
            )
            assert await bus.publish(SPACE, {}) == 2

    run(story())


def test_before_and_after() -> None:
    """A bus that is not open yet, or no longer, says so; opening it twice is opening it once."""

    async def story() -> None:
        config = cluster()
        async with brokers(config):
            bus = gapless.connect(servers_of(config))
            with pytest.raises(gapless.Closed, match="not open yet"):
                bus.subscribe(SPACE)
            assert await asyncio.gather(bus.open(), bus.open()) == [bus, bus]
            await bus.close()
            await bus.close()
            for call in (bus.publish(SPACE, {}), bus.open(), bus.drain()):
                with pytest.raises(gapless.Closed, match="connect again"):
                    await call

    run(story())


def test_cancelled_while_connecting() -> None:
    """Cancelled while it connects, a bus leaves nothing behind."""

    async def story() -> None:
        bus = gapless.connect(f"127.0.0.1:{free_ports(1)[0]}")
        opening = asyncio.ensure_future(bus.open())
        await asyncio.sleep(0.05)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("gapless")]

    run(story())


def test_closing_wakes_everybody() -> None:
    """Whoever waits when the bus closes gets an answer: Closed, or an unknown outcome for what had been sent."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server)
            subscribing = asyncio.ensure_future(bus.subscribe(SPACE).__aenter__())
            await broker.confirm()
            subscription = await subscribing
            receipts = []
            for n in range(2):
                receipts.append(await out.send({"n": n}))
                await broker.published()
            waits = [
                asyncio.ensure_future(wait)
                for wait in (
                    subscription.next(),
                    bus.subscribe(SPACE).__aenter__(),
                    bus._space("other", None),
                    out.flush(),
                    receipts[0].accepted(),
                )
            ]
            await asyncio.sleep(0.01)
            unsent = await out.send({"n": 2})
            waits.append(asyncio.ensure_future(unsent.accepted()))
            await asyncio.sleep(0)
            await bus.close()
            got = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 5)
            assert [type(one) for one in got] == [gapless.Closed] * 3 + [gapless.OutcomeUnknown] * 2 + [gapless.Closed]
            assert "was never sent" in str(got[-1])
            with pytest.raises(gapless.Closed):
                await out.send({})

    run(story())


def test_drain() -> None:
    """`drain` takes nothing new, waits for the outcome of everything, then closes; late, it leaves the bus open."""

    async def story() -> None:
        async with house() as (bus, config, _), gapless.connect(servers_of(config)) as other:
            out = await bus.publisher(SPACE)
            subscription = await other.subscribe(SPACE)
            receipts = [await out.send({"n": n}) for n in range(500)]
            await bus.drain(deadline=5)
            assert all(receipt.settled and not receipt.errors for receipt in receipts)
            assert (await subscription.next(5)).seq == 1
            with pytest.raises(gapless.Closed):
                await bus.publish(SPACE, {})
        async with obedient() as server:
            bus, broker, out = await meet(server)
            receipt = await out.send({})
            message = await broker.published()
            with pytest.raises(gapless.DeadlineExceeded, match="drain again"):
                await bus.drain(deadline=0.05)
            with pytest.raises(gapless.Closed):
                await out.send({})
            broker.accept(message)
            assert await receipt == 1
            await bus.drain(deadline=5)

    run(story())


def test_drain_raises_what_nobody_saw() -> None:
    """A failure that no receipt has told is raised by `drain`, after it has closed."""

    async def story() -> None:
        async with house() as (bus, _, _):
            out = await bus.publisher(SPACE)
            await out.send({"a": 1 << 70})
            with pytest.raises(gapless.AttributeTypeError):
                await bus.drain(deadline=5)
            with pytest.raises(gapless.Closed):
                bus.check()

    run(story())


def test_over_a_reconnection() -> None:
    """What was under way is unknown, what was not sent goes on; a subscription stands again, with a gap before it."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server)
            subscribing = asyncio.ensure_future(bus.subscribe(SPACE).__aenter__())
            await broker.confirm()
            subscription = await subscribing
            under_way = []
            for n in range(2):
                under_way.append(await out.send({"n": n}))
                await broker.published()
            unsent = await out.send({"n": 2})
            broker.vanish()
            for receipt in under_way:
                with pytest.raises(gapless.OutcomeUnknown, match="may or may not have been accepted"):
                    await receipt
            broker = await server.next()
            await broker.welcome()
            await broker.confirm()
            message = await broker.published()
            assert (message.batch.first, message.batch.last) == (3, 3)
            broker.accept(message)
            assert await unsent == 3
            with pytest.raises(gapless.DeadlineExceeded):
                await subscription.next(0.05)
            assert list(subscription.gaps) == [gapless.GapNotice("disconnected", -1)] and subscription.missed == 0
            await bus.close()

    run(story())


def test_the_next_server() -> None:
    """When the server goes down the client goes on at the next of its list, and both directions work again."""

    async def story() -> None:
        config = cluster(2)
        async with brokers(config), gapless.connect(servers_of(config, "b1", "b0")) as bus:
            assert bus.server == "b1"
            subscription = await bus.subscribe(SPACE, deadline=10)
            out = await bus.publisher(SPACE, "till")
            assert await (await out.send({})) == 1
            assert (await subscription.next(5)).seq == 1
            await _stop(config, "b1", bus)
            assert await (await out.send({})) >= 2
            receipt = await out.send({"again": True})
            await receipt
            while (await subscription.next(5)).seq < receipt.seq:
                pass
            assert [notice.reason for notice in subscription.gaps] == ["disconnected"]

    async def _stop(config: gapless.node.config.ClusterConfig, me: str, bus: gapless.Bus) -> None:  # type: ignore[name-defined]  # of the test
        link = bus._keeper.link
        assert link is not None
        link.end("the test says so")
        await until(lambda: bus.server == "b0")

    run(story())


def test_a_server_of_another_cluster() -> None:
    """A server of another cluster is not used, whatever the list says."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, _ = await meet(server)
            broker.vanish()
            other = await server.next()
            other.writer.write(b"GAPLESS\x01")
            other.say(Welcome("elsewhere", "other", 1000, 5000, 1 << 20))
            said = await other.heard(Farewell)
            assert isinstance(said, Farewell) and "list servers of one cluster only" in said.text
            again = await server.next()
            await again.welcome()
            await until(lambda: bus.server == "obedient")
            await bus.close()

    run(story())


def test_a_broker_that_talks_nonsense() -> None:
    """A broker that breaks the rules costs its connection; the client says nothing worse than Unreachable."""

    async def story() -> None:
        async with obedient() as server:
            bus, broker, out = await meet(server)
            receipt = await out.send({})
            await broker.published()
            broker.frame(7, b"nonsense")
            said = await broker.heard(Farewell)
            assert isinstance(said, Farewell) and said.code == "WireError"
            with pytest.raises(gapless.OutcomeUnknown):
                await receipt
            again = await server.next()
            await again.welcome()
            assert (await out.send({})).seq == 2
            await bus.close()

    run(story())


def test_a_space_that_is_gone() -> None:
    """When the next server does not have the space, whoever used it is told and the others go on."""

    async def story() -> None:
        one = cluster(space="\n[[space]]\nname = 'second'\ndelivery = 'direct'\n")
        text = cluster_text()
        from gapless.node.config import parse_config

        other = parse_config(text)
        async with brokers(other), brokers(one), gapless.connect([*servers_of(one), *servers_of(other)]) as bus:
            gone, kept = await bus.subscribe("second"), await bus.subscribe(SPACE)
            out = await bus.publisher("second")
            link = bus._keeper.link
            assert link is not None
            link.end("the test says so")
            with pytest.raises(gapless.UnknownSpace, match="no space 'second'"):
                await gone.next(5)
            with pytest.raises(gapless.UnknownSpace):
                await out.send({})
            await until(lambda: bool(kept._queue) or bool(kept.gaps))
            assert await bus.publish(SPACE, {}) == 1
            assert (await kept.next(5)).seq == 1

    run(story())


def test_one_loop_each() -> None:
    """A bus is used in the loop it was opened in; each thread may have a loop and a bus of its own."""

    async def story() -> None:
        async with house() as (bus, config, _):

            async def elsewhere() -> None:
                with pytest.raises(gapless.Unsupported, match="another event loop"):
                    bus.subscribe(SPACE)
                async with gapless.connect(servers_of(config)) as own:
                    for n in range(20):
                        await own.publish(SPACE, {"n": n})

            threads = [threading.Thread(target=lambda: asyncio.run(elsewhere())) for _ in range(3)]
            subscription = await bus.subscribe(SPACE)
            for thread in threads:
                thread.start()
            seen = [(await subscription.next(10)).source for _ in range(60)]
            assert len(set(seen)) == 3
            for thread in threads:
                await asyncio.to_thread(thread.join)

    run(story())


def test_journals_tell_the_run(tmp_path: Path) -> None:
    """A client's journal has what it published, what became of it, and what it was handed, in this order."""

    async def story() -> None:
        config = cluster()
        async with (
            brokers(config),
            gapless.connect(servers_of(config), name="writer", journal=tmp_path, faults=True) as bus,
        ):
            subscription = await bus.subscribe(SPACE, "n < 2")
            async with bus.publisher(SPACE, "till") as out:
                await out.send_many([{"n": n} for n in range(4)])
            assert (await subscription.next(5)).seq == 1
            lines = events_of(tmp_path)
            assert [line.event for line in lines if line.event is Kind.PUBLISH] == [Kind.PUBLISH] * 4
            assert (await subscription.next(5)).seq == 2
            await bus.close()
        lines = events_of(tmp_path)
        assert [line.event.value for line in lines] == [
            *("run", "run", "subscribe", "confirmed", "publish", "publish", "publish", "publish", "accepted"),
            *("delivered", "delivered", "unsubscribe", "disconnected"),
        ]
        assert lines[1].faults and lines[1].space == SPACE and lines[1].delivery == "direct"
        assert [line.n for line in lines] == list(range(1, len(lines) + 1))
        assert (lines[8].seq, lines[8].last) == (1, 4)

    run(story())


FORKED = """
import asyncio, os, sys, threading
import gapless

async def main(server):
    async with gapless.connect(server, journal=sys.argv[2]) as bus, bus.subscribe("quotes") as sub:
        out = await bus.publisher("quotes")
        await (await out.send({"n": 1}))
        assert (await sub.next(5)).seq == 1
        with gapless.sync.connect(server) as plain:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    for use in (lambda: bus.subscribe("quotes"), lambda: bus.publisher("quotes")):
                        try:
                            use()
                        except gapless.Closed as error:
                            assert "forked" in str(error)
                        else:
                            raise AssertionError("used in the child")
                    for use in (out.send({}), sub.next()):
                        try:
                            use.send(None)
                        except gapless.Closed as error:
                            assert "forked" in str(error)
                        else:
                            raise AssertionError("used in the child")
                    try:
                        plain.publish("quotes", {})
                    except gapless.Closed as error:
                        assert "forked" in str(error)
                    plain.close()
                    with gapless.sync.connect(server) as own:
                        assert own.publish("quotes", {"child": True}) == 1
                    status = 0
                finally:
                    os._exit(status)
            assert await asyncio.to_thread(os.waitpid, child, 0) == (child, 0)
            assert (await sub.next(5)).attributes == {"child": True}
            assert plain.publish("quotes", {}, deadline=5) == 1
            assert await (await out.send({"n": 2})) == 2

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child(tmp_path: Path) -> None:
    """In a forked child a bus is Closed with a sentence, a new one works, and the parent's goes on unharmed."""

    async def story() -> None:
        config = cluster()
        async with brokers(config):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", FORKED, f"127.0.0.1:{port_of(config)}", str(tmp_path)),
                stderr=asyncio.subprocess.PIPE,
            )
            _, complaints = await process.communicate()
            assert process.returncode == 0, complaints.decode()

    run(story())
    lines = events_of(tmp_path)
    assert [line.n for line in lines] == list(range(1, len(lines) + 1))


def test_importing_starts_nothing() -> None:
    """Importing the whole client starts no thread, loop, socket or child, and is quick to ask for nothing."""
    program = """
import os, sys, threading
import gapless
assert "numpy" not in sys.modules
before = set(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else set()
gapless.connect, gapless.sync.connect, gapless.Publisher, gapless.Subscription
after = set(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else set()
assert before == after, after - before
assert threading.active_count() == 1
import asyncio
try:
    asyncio.get_running_loop()
except RuntimeError:
    pass
heavy = {"pandas", "pyspark", "prometheus_client"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.live
def test_a_broker_is_killed(tmp_path: Path) -> None:
    """With its broker killed a client goes on at the next one, tells the gap, and everything later arrives."""
    path = write_cluster(tmp_path, cluster_text(2))

    async def story() -> None:
        from gapless.node.config import load_config

        config = load_config(path)
        processes = {
            me: await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gapless.cli.main", "broker", str(path), "--id", me),
                stderr=asyncio.subprocess.DEVNULL,
            )
            for me in ("b0", "b1")
        }
        try:
            async with gapless.connect(servers_of(config, "b1"), deadline=20):
                pass  # it is up
            async with (
                gapless.connect(servers_of(config, "b1", "b0"), deadline=20) as bus,
                gapless.connect(servers_of(config, "b0"), deadline=20) as other,
            ):
                subscription = await bus.subscribe(SPACE, deadline=20)
                assert await other.publish(SPACE, {"n": 1}, deadline=10) == 1
                assert (await subscription.next(10)).attributes == {"n": 1}
                assert bus.server == "b1"
                processes["b1"].send_signal(signal.SIGKILL)
                await until(lambda: bus.server == "b0")
                again = await bus.subscribe(SPACE, deadline=20)
                assert await other.publish(SPACE, {"n": 2}, deadline=10) == 2
                assert (await subscription.next(10)).attributes == {"n": 2}
                assert list(subscription.gaps) == [gapless.GapNotice("disconnected", -1)]
                assert (await again.next(10)).seq == 2 and not again.gaps
        finally:
            for process in processes.values():
                if process.returncode is None:
                    process.terminate()
                await process.wait()

    run(story(), deadline=60)


def test_a_name_that_does_not_resolve() -> None:
    """A host that does not exist is trouble that is named."""

    async def story() -> None:
        with pytest.raises(gapless.Unreachable, match="no-such-host.invalid"):
            await gapless.connect("no-such-host.invalid:7400", deadline=0.5).open()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            with pytest.raises(gapless.Unreachable, match="took the connection and has not introduced itself"):
                await gapless.connect(f"127.0.0.1:{port}", deadline=0.2).open()

    run(story())
