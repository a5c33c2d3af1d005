"""Health, metrics and status over HTTP: enough of it for probes, scrapers and people, one request a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from gapless.model.errors import ConfigError
from gapless.node.broker import Broker
from gapless.node.sockets import cause_of, family_of
from gapless.node.telling import Metrics, health_of, status_of

REQUEST_BYTES_MAX = 8 << 10
REQUEST_S = 5.0  # to send a request, and as long again to read the answer
CONNECTIONS_MAX = 64

JSON = "application/json"
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
Answer = tuple[int, str, bytes]


class HttpServer:
    """Answers for a broker at its `http` address, if it has one."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._metrics = Metrics(broker)
        self._server: asyncio.Server | None = None
        self._busy = 0
        self._pages: dict[str, Callable[[], Answer]] = {
            "/healthz": self._health,
            "/metrics": lambda: (200, "text/plain; version=0.0.4; charset=utf-8", self._metrics.text()),
            "/status": lambda: (200, JSON, _json(status_of(broker))),
        }

    async def start(self) -> None:
        """Listen. Raises ConfigError when the address cannot be had."""
        address = self._broker.own.http
        if address is None:
            return
        try:
            self._server = await asyncio.start_server(
                self._serve, address.host, address.port, family=family_of(address.host), limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            raise ConfigError(
                f"broker {self._broker.me!r} cannot answer HTTP at {address}: {cause_of(error)}; "
                "stop what uses that port, or give the broker another `http`"
            ) from None
        self._broker.log.info("answering http", broker=self._broker.me, http=str(address))

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, one answer. Whatever goes wrong with it is the client's affair alone."""
        if self._busy >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._busy += 1
        try:
            async with asyncio.timeout(REQUEST_S):
                head, answer = await self._answer(reader)
                writer.write(_bytes_of(answer, head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError):
            pass  # gone, or too slow
        finally:
            self._busy -= 1
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[bool, Answer]:
        """The answer, and whether only its head is wanted."""
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return False, _plain(431, "the request is too long")
        except asyncio.IncompleteReadError:
            return False, _plain(400, "the request ends before it is complete")
        words = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return False, _plain(400, "this is not a request of HTTP/1.1")
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return False, _plain(405, "only GET and HEAD are answered here")
        page = self._pages.get(path)
        answer = page() if page else _plain(404, f"there are {', '.join(self._pages)}")
        return method == "HEAD", answer

    def _health(self) -> Answer:
        ready, reason = health_of(self._broker)
        return (200 if ready else 503), JSON, _json({"broker": self._broker.me, "ready": ready, "reason": reason})


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def _plain(status: int, sentence: str) -> Answer:
    return status, "text/plain; charset=utf-8", f"{sentence}\n".encode()


def _bytes_of(answer: Answer, only_head: bool) -> bytes:
    status, kind, body = answer
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if only_head else body)
