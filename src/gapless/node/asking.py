"""Asks brokers for their status, at the address of their health and metrics or at the one where they listen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from gapless.delivery.port import Role
from gapless.model.errors import GaplessError, Unreachable, WireError
from gapless.node.control import Farewell, Hello, Welcome, decode_control, encode_control
from gapless.node.frames import CONTROL, HEADER, PREAMBLE, check_preamble, frame_header
from gapless.node.sockets import cause_of
from gapless.node.tables import Wrong, address, ip_address

ANSWER_BYTES_MAX = 16 << 20
GREETING_S = 0.5  # a broker greets who connects; what is silent for so long waits for a request over HTTP
Place = tuple[str, int]


async def ask_all(places: Mapping[str, Place], deadline: float) -> dict[str, dict[str, Any]]:
    """What each answers, or `{"error": why it does not}`."""
    answers = await asyncio.gather(*(_ask(*place, deadline) for place in places.values()))
    return dict(zip(places, answers, strict=True))


async def _ask(host: str, port: int, deadline: float) -> dict[str, Any]:
    try:
        async with asyncio.timeout(deadline):
            http = await _where_http_is(host, port)
            return await _get_status(*http)
    except TimeoutError:
        return {"error": f"no answer within {deadline:g} s"}
    except OSError as error:
        return {"error": cause_of(error)}
    except EOFError:
        return {"error": "it closed the connection without an answer"}
    except GaplessError as error:
        return {"error": str(error)}


async def _where_http_is(host: str, port: int) -> Place:
    """A broker tells where its status is; whatever keeps silent is taken for that place itself."""
    reader, writer = await asyncio.open_connection(host, port)
    with contextlib.closing(writer):
        try:
            async with asyncio.timeout(GREETING_S):
                preamble = await reader.readexactly(len(PREAMBLE))
        except TimeoutError:
            return host, port
        check_preamble(preamble)
        welcome = await _welcome(reader, writer)
    if not welcome.http:
        raise Unreachable(f"broker {welcome.node} has no `http` in its configuration, so it tells nobody its status")
    try:
        told = address(welcome.http)
    except Wrong:
        raise WireError(f"broker {welcome.node} says its status is at {welcome.http!r}, which is no address") from None
    if told.is_wildcard or (told.is_loopback and ip_address(host) is None):
        return host, told.port
    return told.host, told.port


async def _welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Welcome:
    hello = encode_control(Hello(f"status-{os.getpid()}", Role.CLIENT))
    writer.write(PREAMBLE + frame_header(CONTROL, len(hello)) + hello)
    length, _, _ = HEADER.unpack(await reader.readexactly(HEADER.size))
    if length > ANSWER_BYTES_MAX:
        raise WireError(f"an answer of {length} bytes is too long")
    answer = decode_control(memoryview(await reader.readexactly(length)))
    if isinstance(answer, Farewell):
        raise Unreachable(answer.text)
    if not isinstance(answer, Welcome):
        raise WireError(f"{type(answer).__name__} makes no sense as an answer")
    farewell = encode_control(Farewell("Closed", "the status is known"))
    writer.write(frame_header(CONTROL, len(farewell)) + farewell)
    return answer


async def _get_status(host: str, port: int) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection(host, port, limit=ANSWER_BYTES_MAX)
    with contextlib.closing(writer):
        writer.write(f"GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read(ANSWER_BYTES_MAX)
        while more := await reader.read(ANSWER_BYTES_MAX):
            answer += more
            if len(answer) > ANSWER_BYTES_MAX:
                break
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        status = json.loads(body)
        if not head.startswith(b"HTTP/1.1 200") or not isinstance(status, dict) or "broker" not in status:
            raise ValueError
    except ValueError:
        raise WireError(f"what answers at port {port} is not a broker of Gapless") from None
    return status
