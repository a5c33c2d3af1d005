"""Brokers as processes: they drain, end at once when told twice or broken, die, and come back."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.node.processes import PATIENCE_S, Process, broker, ended, gapless, gapless_ended
from tests.node.stage import SPACE, Raw, bystanders, cluster_text, held_ports, port_of, raw, run, write_cluster

import gapless as library
from gapless.delivery.direct.messages import Confirm, Credit, Match, Subscribe
from gapless.model.errors import DeadlineExceeded
from gapless.model.events import Event, Kind, read_history
from gapless.node.asking import ask_all
from gapless.node.config import ClusterConfig, load_config, parse_config
from gapless.node.fleet import Child, Fleet
from gapless.node.process import BROKEN

pytestmark = pytest.mark.live

QUICK = """
[tuning]
heartbeat_ms = 100
suspect_after_ms = 500
redial_min_ms = 10
redial_max_ms = 50
grace_ms = 2000
patience_ms = 60000
"""


def written(folder: Path, count: int, http: bool = False) -> ClusterConfig:
    """A cluster in this folder."""
    return load_config(write_cluster(folder, cluster_text(count, QUICK, http)))


def history_of(path: Path) -> list[Event]:
    """The events of a journal."""
    with path.open("rb") as file:
        return list(read_history(file))


async def waits(peer: Raw, name: str = "slow") -> None:
    """A subscriber that gives no room yet."""
    await peer.enter(node=name)
    peer.message(Subscribe(1, "", ""))
    await peer.message_of(Confirm)


async def publish(config: ClusterConfig, count: int) -> None:
    """So many publications at b0, all accepted."""
    async with library.connect(f"127.0.0.1:{port_of(config)}", name="teller") as bus:
        out = await bus.publisher(SPACE)
        for receipt in [await out.send({"n": n}, b"body") for n in range(count)]:
            await receipt


def test_what_is_queued_goes_out_before_a_broker_ends(tmp_path: Path) -> None:
    """SIGTERM: what waits for a subscriber goes out when it makes room, it is told farewell, and the status is 0."""

    async def story(process: Process, config: ClusterConfig) -> None:
        async with raw(port_of(config)) as peer, raw(port_of(config)) as late:
            await waits(peer)
            await publish(config, 50)
            process.signal(signal.SIGTERM)
            await process.heard('"draining"')
            with pytest.raises(ConnectionError):
                async with raw(port_of(config)):
                    pass
            peer.message(Credit(1 << 20))
            rows = 0
            while rows < 50:
                message = await peer.message_of(Match)
                assert isinstance(message, Match)
                rows += message.batch.rows
            told = await peer.farewell()
            assert told is not None
            assert told.text == "broker 'b0' is going down"
            late.writer.close()

    config = written(tmp_path, 1)
    with broker(tmp_path, "b0", "--journal", "journals") as process:
        run(story(process, config))
        assert process.status() == 0
        assert process.logs("stopped")
    kinds = [event.event for event in history_of(tmp_path / "journals" / "b0.ndjson")]
    assert kinds == [Kind.RUN, Kind.RUN, *[Kind.DISCONNECTED] * 3]  # it drains, parts with the client, has gone


def test_a_second_signal_ends_a_broker_at_once(tmp_path: Path) -> None:
    """While it waits for a subscriber that makes no room, another SIGTERM is enough; the status tells of it."""

    async def story(process: Process, config: ClusterConfig) -> None:
        async with raw(port_of(config)) as peer:
            await waits(peer)
            await publish(config, 50)
            process.signal(signal.SIGTERM)
            await process.heard('"draining"')
            await asyncio.sleep(0.1)
            assert process.popen.poll() is None
            process.signal(signal.SIGTERM)
            assert process.status() == 128 + signal.SIGTERM

    config = written(tmp_path, 1)
    with broker(tmp_path, "b0") as process:
        run(story(process, config))


def test_subscriptions_work_again_after_the_middle_broker_was_killed(tmp_path: Path) -> None:
    """kill -9 of the broker in the middle, and its return: clients at the ends do nothing and get everything again."""

    more = ("--journal", "journals", "--faults")

    async def story(processes: list[Process], config: ClusterConfig) -> None:
        servers = [f"127.0.0.1:{port_of(config, me)}" for me in ("b0", "b2")]
        async with (
            library.connect(servers[0], name="teller") as teller,
            library.connect(servers[1], name="listener") as listener,
        ):
            out = await teller.publisher(SPACE)
            subscription = await listener.subscribe(SPACE, "n >= 0", deadline=10)
            await (await out.send({"n": 0}, b""))
            assert (await subscription.next(5)).attributes == {"n": 0}
            processes[1].signal(signal.SIGKILL)
            processes[1].status()
            await processes[0].heard('"link ended"')
            await processes[2].heard('"link ended"')
            await (await out.send({"n": 1}, b""))  # accepted, and lost beyond the broker that is not there
            with gapless(tmp_path, "broker", "cluster.toml", "--id", "b1", *more) as again:
                await again.heard('"listening"')
                for n in range(2, 500):
                    await (await out.send({"n": n}, b""))
                    try:
                        first = await subscription.next(0.05)
                        break
                    except DeadlineExceeded:
                        continue
                assert first.attributes["n"] != 1
                sent = n
                await (await out.send({"n": sent + 1}, b""))
                assert (await subscription.next(5)).attributes["n"] in (sent, sent + 1)

    config = written(tmp_path, 3)
    with (
        broker(tmp_path, "b0", *more) as b0,
        broker(tmp_path, "b1", *more) as b1,
        broker(tmp_path, "b2", *more) as b2,
    ):
        run(story([b0, b1, b2], config))
    history = history_of(tmp_path / "journals" / "b1.ndjson")
    kinds = [event.event for event in history]
    assert kinds.count(Kind.CRASH) == kinds.count(Kind.RESTART) == 1
    assert [event.n for event in history] == list(range(1, len(history) + 1))
    neighbour = [event.event for event in history_of(tmp_path / "journals" / "b0.ndjson")]
    assert neighbour.index(Kind.LINK_DOWN) < len(neighbour) - 1 - neighbour[::-1].index(Kind.LINK_UP)


def test_a_stopped_process_is_suspected_and_taken_back(tmp_path: Path) -> None:
    """A neighbour that is stopped without a word is found out by its silence, and linked again when it goes on."""

    async def story(processes: list[Process], config: ClusterConfig) -> None:
        async with bystanders(port_of(config)) as others:
            b1 = processes[1]
            await processes[0].heard('"link open", "peer": "b1"')
            b1.signal(signal.SIGSTOP)
            await processes[0].heard("the peer was not heard from for 0.5 s")
            await others.go_on()
            b1.signal(signal.SIGCONT)
            await processes[0].heard('"link open", "peer": "b1"', times=2)

    config = written(tmp_path, 2)
    with broker(tmp_path, "b0") as b0, broker(tmp_path, "b1") as b1:
        run(story([b0, b1], config))


def test_subscribe_says_where_it_stands(tmp_path: Path) -> None:
    """When its server dies it names the next; when the last one goes it says so, and that it is trying."""
    config = written(tmp_path, 2)
    servers = ",".join(f"127.0.0.1:{port_of(config, me)}" for me in ("b1", "b0"))
    with (
        broker(tmp_path, "b0") as b0,
        broker(tmp_path, "b1") as b1,
        gapless(tmp_path, "subscribe", servers, SPACE) as sub,
    ):
        sub.wait_for("subscribed at b1\n")
        b1.signal(signal.SIGKILL)
        sub.wait_for("gapless subscribe: connected to b0 now\n")
        b0.signal(signal.SIGKILL)
        sub.wait_for("gapless subscribe: no server can be reached (127.0.0.1:")
        sub.wait_for(": connection refused); trying until one can be\n")
        sub.signal(signal.SIGINT)
        assert sub.status() == 0


PLANTED = """
import sys
from gapless.cli.main import main
from gapless.delivery.direct.broker import DirectBroker

def on_subscribe(self, peer, message, now):
    raise ZeroDivisionError("planted")

DirectBroker.on_subscribe = on_subscribe
{loop}
sys.exit(main(["broker", "cluster.toml", "--id", "b0"]))
"""


@pytest.mark.parametrize(
    "loop", ["", "import asyncio, gapless.node.process as p; p.new_event_loop = asyncio.new_event_loop"]
)
def test_a_bug_ends_the_process_with_a_status_of_its_own(tmp_path: Path, loop: str) -> None:
    """An unexpected exception in a core is logged with its traceback, and nothing is done after it."""

    async def story(config: ClusterConfig) -> None:
        async with raw(port_of(config)) as peer:
            await peer.enter()
            peer.message(Subscribe(1, "", ""))
            assert await peer.farewell() is None

    config = written(tmp_path, 1)
    process = Process(tmp_path, sys.executable, "-c", PLANTED.format(loop=loop))
    try:
        process.wait_for('"listening"')
        run(story(config))
        assert process.status() == BROKEN
        (line,) = process.logs("broken: this is a bug in Gapless, and the broker ends here")
        assert line["reason"] == "ZeroDivisionError: planted"
        assert "on_subscribe" in line["traceback"]
    finally:
        process.stop()


def test_a_broker_refuses_to_run_without_assertions(tmp_path: Path) -> None:
    """With assertions off it says so and does not start, with the status of what could not start."""
    written(tmp_path, 1)
    command = ("broker", "cluster.toml", "--id", "b0", "--log-format", "text")
    done = ended(tmp_path, sys.executable, "-O", "-m", "gapless", *command)
    assert done.returncode == 2
    assert done.stderr.startswith("gapless broker: gapless runs with assertions on")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("http", [False, True])
def test_a_broker_whose_port_is_taken_says_so(tmp_path: Path, http: bool) -> None:
    """A port in use, of either kind, is one sentence and status 2; among logs in JSON it is a line like the others."""
    with held_ports(1) as (port,):
        text = cluster_text(1)
        listen = load_config(write_cluster(tmp_path, text)).brokers[0].listen
        if http:
            text = text.replace(f'"{listen}"', f'"{listen}"\nhttp = "127.0.0.1:{port}"')
        else:
            text = text.replace(str(listen), f"127.0.0.1:{port}")
        write_cluster(tmp_path, text)
        arguments = ("broker", "cluster.toml", "--id", "b0", "--log-level", "error", "--log-format")
        done = gapless_ended(tmp_path, *arguments, "text")
        logged = gapless_ended(tmp_path, *arguments, "json")
    assert done.returncode == logged.returncode == 2
    what = "answer HTTP at" if http else "listen on"
    assert done.stderr.startswith(
        f"gapless broker: broker 'b0' cannot {what} 127.0.0.1:{port}: address already in use; "
    )
    assert done.stderr.count("\n") == 1
    line = json.loads(logged.stderr)
    assert (line["level"], line["event"], line["broker"]) == ("error", "cannot start", "b0")
    assert line["time"] and f"gapless broker: {line['reason']}\n" == done.stderr


def test_a_broker_can_end_with_whoever_started_it(tmp_path: Path) -> None:
    """With --until-input-ends it drains when the other end of its standard input is gone."""
    written(tmp_path, 1)
    with broker(tmp_path, "b0", "--until-input-ends", stdin=subprocess.PIPE) as process:
        assert process.popen.stdin is not None
        process.popen.stdin.close()
        assert process.status() == 0


def test_up_starts_all_says_when_one_dies_and_drains_the_rest(tmp_path: Path) -> None:
    """`gapless up` goes on without a broker that was killed, says how to bring it back, and ends with status 1."""
    config = written(tmp_path, 3, http=True)
    options = ("--journal", "my journals", "--faults", "--log-format", "json")
    with gapless(tmp_path, "up", "cluster.toml", *options) as up:
        up.wait_for("is up; cluster.toml describes it.")
        up.wait_for("  gapless status cluster.toml\n")
        victim = int(
            subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(up.popen.pid)], capture_output=True, text=True, check=True
            ).stdout.split()[1]
        )
        os.kill(victim, signal.SIGKILL)
        up.wait_for("b1 was killed by SIGKILL; the others go on. To bring it back: ")
        up.wait_for("gapless broker cluster.toml --id b1 --log-format json --journal 'my journals' --faults\n")
        answers = asyncio.run(ask_all({me: config.broker(me).http or ("", 0) for me in ("b0", "b1", "b2")}, 5))
        assert answers["b1"] == {"error": "connection refused"}
        assert answers["b0"]["neighbours"] == {"b1": "down"}
        up.signal(signal.SIGINT)
        assert up.status() == 1
        assert "b1 was killed by SIGKILL\n" in up.text()
        assert {line["broker"] for line in up.logs("stopped")} == {"b0", "b2"}
    kinds = [event.event for event in history_of(tmp_path / "my journals" / "up.ndjson")]
    assert kinds == [Kind.RUN, Kind.FAULT, Kind.END, Kind.DISCONNECTED]


def test_up_writes_a_cluster_and_drains_it(tmp_path: Path) -> None:
    """Without a file it writes one that it names; Ctrl-C drains all, and the status is 0."""
    with held_ports(1) as (port,):
        pass
    arguments = ("up", "--brokers", "2", "--shape", "star", "--port", str(port), "--log-format", "text")
    with gapless(tmp_path, *arguments) as up:
        up.wait_for("Cluster 'demo' is up; cluster.toml describes it.")
        up.wait_for("b1 |")
        up.signal(signal.SIGINT)
        assert up.status() == 0
        assert up.text().endswith("All brokers have drained.\n")
    assert len(load_config(tmp_path / "cluster.toml").brokers) == 2
    (tmp_path / "cluster.toml").write_text("mine")
    done = gapless_ended(tmp_path, *arguments)
    assert done.returncode == 2
    assert "cluster.toml is there already" in done.stderr
    assert (tmp_path / "cluster.toml").read_text() == "mine"


def test_up_leaves_nothing_behind_when_ports_are_taken(tmp_path: Path) -> None:
    """A new cluster whose ports are in use is not written down, and the sentence says how to choose others."""
    with held_ports(1) as (port,):
        done = gapless_ended(tmp_path, "up", "--brokers", "2", "--port", str(port - 1))
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert f"something listens on 127.0.0.1:{port} already" in done.stderr and "with --port" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_up_names_no_command_that_fails(tmp_path: Path) -> None:
    """Brokers without `http` tell nobody their status, so `gapless status` is not among what to type next."""
    written(tmp_path, 1)
    with gapless(tmp_path, "up", "cluster.toml") as up:
        up.wait_for("Ctrl-C drains all brokers.")
        assert "gapless publish" in up.text() and "gapless status" not in up.text()


def test_up_stops_all_when_one_cannot_start(tmp_path: Path) -> None:
    """A broker that cannot start is told with its reason, and none is left running."""
    config = written(tmp_path, 2)
    text = (tmp_path / "cluster.toml").read_text()
    with held_ports(1) as (port,):
        write_cluster(tmp_path, text.replace(str(port_of(config, "b1")), str(port)))
        done = gapless_ended(tmp_path, "up", "cluster.toml", "--log-format", "json")
    assert done.returncode == 1
    logs = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(log["time"] and log["level"] and log["broker"] for log in logs)
    (line,) = [log for log in logs if log["event"] == "cannot start"]
    assert f"cannot listen on 127.0.0.1:{port}: address already in use" in line["reason"]
    assert "Not every broker could start; the others are stopped." in done.stdout


def test_what_is_no_log_becomes_one() -> None:
    """A line of a broker that is no log, as Python writes when it ends badly, is given a time and a level."""
    logs: list[Mapping[str, object]] = []
    config = parse_config(cluster_text(1))
    fleet = Fleet(config, [], lambda me, log: logs.append(log), lambda child: None)
    for text in ("Fatal Python error: none", "7", '{"a": 1}'):
        fleet._heard(Child("b0", None), text)  # type: ignore[arg-type]  # no process is needed to be heard
    assert [log["text"] for log in logs] == ["Fatal Python error: none", "7", '{"a": 1}']
    assert all(log["time"] and (log["level"], log["event"]) == ("error", "output") for log in logs)


def test_brokers_end_when_up_is_killed(tmp_path: Path) -> None:
    """kill -9 of `gapless up` leaves no broker behind."""
    config = written(tmp_path, 2)

    with gapless(tmp_path, "up", "cluster.toml") as up:
        up.wait_for("is up;")
        up.signal(signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        while is_served(port_of(config, "b0")) or is_served(port_of(config, "b1")):
            assert time.monotonic() < until
            time.sleep(0.05)


def is_served(port: int) -> bool:
    """Whether anything listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
