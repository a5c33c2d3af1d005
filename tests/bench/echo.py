"""The broker of `echo_server.py` as a contender: one that is always there, and one that loses something."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.bench.echo_server import PUBLISHER, SUBSCRIBER

from bench.peers.clients import Inbox, Outbox
from bench.peers.contract import AT_MOST_ONCE, Contender, Program, Promises
from bench.peers.load import decode, payload

SERVER = Path(__file__).with_name("echo_server.py")


def _command(binary: str, folder: Path, port: int) -> list[str]:
    return [binary, str(SERVER), str(port), "0"]


def _lossy_command(binary: str, folder: Path, port: int) -> list[str]:
    return [binary, str(SERVER), str(port), "1000"]


async def _publish(port: int, outbox: Outbox) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PUBLISHER)
    async for portion in outbox.portions():
        for seq, row, body in portion:
            data = payload(seq, row, body)
            writer.write(len(data).to_bytes(4, "big") + data)
        await writer.drain()
    writer.close()


async def _subscribe(port: int, inbox: Inbox) -> None:
    async def consume() -> None:
        while True:
            length = int.from_bytes(await reader.readexactly(4), "big")
            seq, price, _, body = decode(await reader.readexactly(length))
            inbox.take(seq, price, body)

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(SUBSCRIBER)
    await reader.readexactly(1)
    await inbox.until_over(consume())
    writer.close()


async def _fail(port: int, inbox: Inbox) -> None:
    raise OSError("no way to subscribe")


def contender(name: str, *, lossy: bool = False, deaf: bool = False) -> Contender:
    """One to be measured."""
    program = Program(sys.executable, "", ("--version",), _lossy_command if lossy else _command)
    promises = Promises(AT_MOST_ONCE, "nothing is acknowledged", flushed=False, deduplicated=False, ordered=True)
    return Contender(name, program, "gapless", promises, _publish, _fail if deaf else _subscribe)
