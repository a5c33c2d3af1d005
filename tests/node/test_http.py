"""Health, metrics and status over HTTP, and what `gapless status` makes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.node.stage import LOOPS, SPACE, bystanders, cluster, cluster_text, port_of, raw, run, until, write_cluster
from tests.node.stage import brokers as started

from gapless.cli.main import main
from gapless.delivery.direct.messages import Subscribe
from gapless.node import http
from gapless.node.asking import ask_all
from gapless.node.broker import Broker
from gapless.node.config import load_config
from gapless.node.http import CONNECTIONS_MAX, HttpServer


@asynccontextmanager
async def answering(broker: Broker) -> AsyncIterator[None]:
    """A broker that answers over HTTP."""
    server = HttpServer(broker)
    await server.start()
    try:
        yield
    finally:
        server.close()


async def get(broker: Broker, request: bytes) -> tuple[int, str, bytes]:
    """Status, head and body of the answer to these bytes."""
    assert broker.own.http is not None
    reader, writer = await asyncio.open_connection(broker.own.http.host, broker.own.http.port)
    try:
        writer.write(request)
        answer = await reader.read()
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, head.decode(), body


async def is_turned_away(broker: Broker) -> bool:
    """Whether the connection is closed without an answer."""
    try:
        return (await get(broker, page("/healthz")))[0] == 0
    except ConnectionError:
        return True


def page(path: str) -> bytes:
    """An ordinary request."""
    return f"GET {path} HTTP/1.1\r\nHost: b0\r\n\r\n".encode()


@pytest.mark.parametrize("loop", LOOPS)
def test_health_is_ready_until_the_broker_drains(loop: str) -> None:
    """/healthz answers 200 with what is out of reach, and 503 while draining."""

    async def story() -> None:
        async with started(cluster(2, http=True), "b0") as (broker,), answering(broker):
            status, head, body = await get(broker, page("/healthz"))
            assert status == 200
            assert "Content-Type: application/json" in head
            assert json.loads(body) == {"broker": "b0", "ready": True, "reason": "out of reach: b1"}
            broker.draining = True
            status, _, body = await get(broker, page("/healthz?x=1"))
            assert (status, json.loads(body)["reason"]) == (503, "draining")

    run(story(), loop)


def test_metrics_count_what_went_through() -> None:
    """/metrics has, in the format of Prometheus, what came in, went out, was dropped and is open."""

    async def story() -> None:
        config = cluster(1, http=True, space="patience_ms = 1")
        async with (
            started(config) as (broker,),
            raw(port_of(config)) as slow,
            bystanders(port_of(config)) as others,
            answering(broker),
        ):
            await slow.enter(node="slow")
            slow.message(Subscribe(1, "n >= 0", ""))
            await asyncio.sleep(0.1)
            await others.go_on()
            counters = broker.spaces[SPACE].counters
            await until(lambda: counters.dropped.get("slow-subscriber", 0) == 20)
            status, head, body = await get(broker, page("/metrics"))
            assert status == 200
            assert "text/plain; version=0.0.4" in head
            seen = {
                (sample.name, *sorted(sample.labels.values())): sample.value
                for family in text_string_to_metric_families(body.decode())
                for sample in family.samples
            }
            assert seen["gapless_publications_in_total", SPACE] == 40
            assert seen["gapless_publications_out_total", SPACE] == 40
            assert seen["gapless_publications_dropped_total", SPACE, "slow-subscriber"] == 20
            assert seen["gapless_batch_bytes_in_total", SPACE] == counters.bytes_in > 0
            assert seen["gapless_links", "client"] == 3
            assert seen["gapless_sessions", SPACE] == 3
            assert seen["gapless_ready",] == 1
            assert seen["gapless_uptime_seconds",] > 0
            assert ("gapless_unsent_bytes",) in seen

    run(story())


ODD_REQUESTS = [
    (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
    (b"POST /status HTTP/1.1\r\n\r\n", 405),
    (b"\x00\xff\xfe garbage\r\n\r\n", 400),
    (b"GET /status\r\n\r\n", 400),
    (b"GET /status HTTP/1.1\r\nX: " + b"x" * http.REQUEST_BYTES_MAX * 2 + b"\r\n\r\n", 431),
]


@pytest.mark.parametrize(("request_bytes", "status"), ODD_REQUESTS)
@pytest.mark.parametrize("loop", LOOPS)
def test_odd_requests_get_their_status_and_harm_nobody(request_bytes: bytes, status: int, loop: str) -> None:
    """What is not a request for one of the pages is answered as HTTP has it, and all others go on."""

    async def story() -> None:
        config = cluster(1, http=True)
        async with started(config) as (broker,), bystanders(port_of(config)), answering(broker):
            assert (await get(broker, request_bytes))[0] == status
            assert (await get(broker, page("/status")))[0] == 200

    run(story(), loop)


def test_the_head_of_a_page_has_no_body() -> None:
    """HEAD is answered as GET is, without the page."""

    async def story() -> None:
        async with started(cluster(1, http=True)) as (broker,), answering(broker):
            status, head, body = await get(broker, page("/status").replace(b"GET", b"HEAD"))
            assert (status, body) == (200, b"")
            assert "Content-Length: 0" not in head

    run(story())


@pytest.mark.parametrize("loop", LOOPS)
def test_slow_and_vanishing_clients_of_http_harm_nobody(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that never end are given up, too many at one time are turned away, and health is told again after."""
    monkeypatch.setattr(http, "REQUEST_S", 0.3)

    async def story() -> None:
        config = cluster(1, http=True)
        async with started(config) as (broker,), bystanders(port_of(config)), answering(broker):
            assert broker.own.http is not None
            place = (broker.own.http.host, broker.own.http.port)
            slow = [await asyncio.open_connection(*place) for _ in range(CONNECTIONS_MAX)]
            for _, writer in slow:
                writer.write(b"GET /status HT")
            await asyncio.sleep(0.05)
            assert await is_turned_away(broker)
            slow[0][1].transport.abort()
            await asyncio.sleep(0.05)
            assert not await is_turned_away(broker)
            assert await asyncio.gather(*(reader.read() for reader, _ in slow[1:])) == [b""] * (CONNECTIONS_MAX - 1)
            assert (await get(broker, page("/healthz")))[0] == 200
            for _, writer in slow:
                writer.close()

    run(story(), loop)


def test_status_tells_of_neighbours_clients_and_spaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked by configuration, by health address or by the address where it listens, a broker answers the same."""
    path = write_cluster(tmp_path, cluster_text(2, "[tuning]\ngrace_ms = 100\n", http=True))
    config = load_config(path)
    b0, b1 = config.brokers
    assert b0.http is not None
    assert b1.http is not None
    printed: dict[str, str] = {}

    def command(*arguments: str) -> int:
        status = main(["status", *arguments])
        printed["out"] = capsys.readouterr().out
        return status

    async def story() -> None:
        async with started(config, "b0") as (broker,), bystanders(port_of(config)), answering(broker):
            assert await asyncio.to_thread(command, str(path), "--json") == 1
            answers = json.loads(printed["out"])
            assert answers["b1"] == {"error": "connection refused"}
            told = answers["b0"]
            assert (told["broker"], told["ready"], told["neighbours"]) == ("b0", True, {"b1": "down"})
            assert told["spaces"][SPACE]["publications_in"] == 20
            assert await asyncio.to_thread(command, f"{b0.listen},{b0.http}", "--json") == 0
            answers = json.loads(printed["out"])
            assert [answer["broker"] for answer in answers.values()] == ["b0", "b0"]
            assert await asyncio.to_thread(command, str(path)) == 1
            assert "b1 is unreachable: connection refused" in printed["out"]
            assert "b1 DOWN" in printed["out"]

    run(story())


def test_a_broker_that_tells_nobody_is_told_apart_from_one_that_is_gone() -> None:
    """Asked where it listens, a broker without `http` says so; what is no broker is named as that."""

    async def story() -> None:
        config = cluster(1)
        async with started(config):
            (answer,) = (await ask_all({"b0": ("127.0.0.1", port_of(config))}, 5)).values()
            assert answer["error"].startswith("broker b0 has no `http` in its configuration")

        async def parrot(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n[]")
            writer.close()

        async with await asyncio.start_server(parrot, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            (answer,) = (await ask_all({"x": ("127.0.0.1", port)}, 5)).values()
            assert answer["error"] == f"what answers at port {port} is not a broker of Gapless"

    run(story())


def test_status_of_a_configuration_without_http_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no broker has an address to ask, the command says what to add."""
    path = write_cluster(tmp_path, cluster_text(1))
    assert main(["status", str(path)]) == 2
    assert 'add for example http = "127.0.0.1:8400"' in capsys.readouterr().err
