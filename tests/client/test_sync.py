"""The client without async: the same answers, from any thread, and safe with Ctrl-C."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
from tests.client.house import SPACE
from tests.client.serving import served

import gapless


def test_everything_without_async() -> None:
    """Publishing, receipts, tables, iteration, batches, deadlines and errors work without async."""
    with served() as servers, gapless.sync.connect(servers, name="plain") as bus:
        assert (bus.name, bus.cluster, bus.server) == ("plain", "demo", "b0")
        notices: list[gapless.GapNotice] = []
        with bus.subscribe(SPACE, "n >= 0", on_gap=notices.append) as sub, bus.publisher(SPACE, "till") as out:
            assert bus.publish(SPACE, {"n": -1}) == 1
            receipt = out.send({"n": 0}, b"body")
            assert (receipt.accepted(deadline=5), receipt.seq, receipt.errors) == (1, 1, {})
            publication = sub.next(deadline=5)
            assert (publication.source, publication.seq, publication.body) == ("till", 1, b"body")
            out.send_many(pa.table({"n": list(range(1, 2001))}))
            out.flush(deadline=5)
            seen = []
            for publication in sub:
                seen.append(publication.attributes["n"])
                if len(seen) == 1500:
                    break
            for table in sub.batches():
                assert isinstance(table, pa.RecordBatch)
                seen += table.column("n").to_pylist()
                if len(seen) == 2000:
                    break
            assert seen == list(range(1, 2001))
            with pytest.raises(gapless.DeadlineExceeded):
                sub.next(deadline=0.05)
            bad = out.send_many([{"n": 1}, {"n": 1 << 70}])
            with pytest.raises(gapless.AttributeTypeError):
                bad.accepted(deadline=5)
            assert list(bad.errors) == [2003] and out.last_accepted == 2002 and out.name == "till"
            assert sub.missed == 0 and sub.gaps == () and sub.exceptions == () and not notices
            assert sub.next(deadline=5).attributes == {"n": 1}
            out.send_many([{"n": n} for n in range(10)]).accepted(deadline=5)
            assert sub.next(deadline=5).attributes == {"n": 0}
        with pytest.raises(gapless.Closed):
            sub.next()
        assert list(sub) == [] and list(sub.batches()) == []
        with pytest.raises(gapless.FilterError):
            bus.subscribe(SPACE, "n >")
        with pytest.raises(gapless.UnknownSpace):
            bus.publisher("nope")
        bus.drain(deadline=5)
        for use in (lambda: bus.publish(SPACE, {}), lambda: bus.drain(), lambda: out.send({})):
            with pytest.raises(gapless.Closed):
                use()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gapless")]


def test_nobody_answers() -> None:
    """A connection that cannot be had leaves no thread behind."""
    with pytest.raises(gapless.Unreachable):
        gapless.sync.connect("127.0.0.1:1", deadline=0.1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gapless")]


def test_within_a_running_loop() -> None:
    """It works where a loop is running already, as in a notebook."""

    async def notebook(servers: list[str]) -> None:
        with gapless.sync.connect(servers) as bus:
            assert bus.publish(SPACE, {}) == 1

    with served() as servers:
        asyncio.run(notebook(servers))


def test_many_threads_share_a_bus() -> None:
    """Any number of threads may publish through one bus; every number is given once."""
    with served() as servers, gapless.sync.connect(servers) as bus, bus.publisher(SPACE) as out:
        seqs: list[int] = []

        def publish() -> None:
            seqs.extend(out.send({"n": n}).accepted() for n in range(50))

        threads = [threading.Thread(target=publish) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seqs) == list(range(1, 201))


def test_closing_wakes_other_threads() -> None:
    """A thread that waits for a publication gets Closed when another closes the bus."""
    with served() as servers:
        bus = gapless.sync.connect(servers)
        sub = bus.subscribe(SPACE)
        got: list[BaseException] = []

        def wait() -> None:
            try:
                sub.next()
            except gapless.GaplessError as error:
                got.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        bus.close()
        bus.close()
        thread.join(5)
        assert [type(error) for error in got] == [gapless.Closed]


INTERRUPTED = """
import os, signal, sys, threading
import gapless

with gapless.sync.connect(sys.argv[1]) as bus, bus.subscribe("quotes") as sub, bus.publisher("quotes") as out:
    seen = []
    for n in range(20):
        timer = threading.Timer(0.005 * (n % 4), lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while True:
                seen.append(sub.next(deadline=10).attributes["n"])
        except KeyboardInterrupt:
            pass
        out.send({"n": n}).accepted(5)
    while len(seen) < 20:
        seen.append(sub.next(deadline=5).attributes["n"])
    assert seen == list(range(20)), seen
    assert not sub._subscription._waiters  # nobody waits on behalf of who was interrupted
print("good")
"""


def test_ctrl_c_loses_nothing() -> None:
    """Ctrl-C ends a wait with KeyboardInterrupt; everything can be used on, and no publication is lost by it."""
    with served() as servers:
        done = subprocess.run(
            [sys.executable, "-c", INTERRUPTED, servers[0]], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout == "good\n", done.stderr


def test_exit_without_close() -> None:
    """A script that ends without closing its bus ends."""
    with served() as servers:
        program = (
            "import sys, gapless; bus = gapless.sync.connect(sys.argv[1]); bus.publish('quotes', {}); print('end')"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, servers[0]], capture_output=True, text=True, timeout=30, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
