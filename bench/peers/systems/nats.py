"""NATS with its Python client: core NATS, and JetStream with every publication acknowledged."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats
from nats.aio.msg import Msg
from nats.js.api import PubAck, RetentionPolicy, StorageType, StreamConfig

from bench.peers.clients import WINDOW, Inbox, Outbox
from bench.peers.contract import AT_MOST_ONCE, Contender, Program, Promises
from bench.peers.load import ROOT, decode, payload, subject

STREAM = "BENCH"
STREAM_BYTES = 1 << 30  # the oldest go when there are more: the disk of a small machine does not fill
UNACKNOWLEDGED_MAX = 4000  # the client's default


def _command(binary: str, folder: Path, port: int) -> list[str]:
    config = folder / "nats.conf"
    settings = {
        "host": "127.0.0.1",
        "port": port,
        "jetstream": {"store_dir": str(folder / "jetstream"), "max_file_store": STREAM_BYTES * 2},
    }
    config.write_text(json.dumps(settings, indent=1))
    return [binary, "--config", str(config)]


def _url(port: int) -> str:
    return f"nats://127.0.0.1:{port}"


async def _publish(port: int, outbox: Outbox) -> None:
    connection = await nats.connect(_url(port))
    async for portion in outbox.portions():
        for seq, row, body in portion:
            await connection.publish(subject(row, "."), payload(seq, row, body))
    await connection.close()


async def _subscribe(port: int, inbox: Inbox) -> None:
    async def on_message(message: Msg) -> None:
        seq, price, _, body = decode(message.data)
        inbox.take(seq, price, body)

    connection = await nats.connect(_url(port))
    await connection.subscribe(f"{ROOT}.>", cb=on_message)
    await connection.flush()
    await inbox.until_over()
    await connection.close()


async def _publish_acknowledged(port: int, outbox: Outbox) -> None:
    connection = await nats.connect(_url(port))
    stream = connection.jetstream(publish_async_max_pending=UNACKNOWLEDGED_MAX)
    refused: list[BaseException] = []

    def on_done(future: asyncio.Future[PubAck]) -> None:
        if not future.cancelled() and (error := future.exception()):
            refused.append(error)

    async for portion in outbox.portions():
        for seq, row, body in portion:
            future = await stream.publish_async(subject(row, "."), payload(seq, row, body))
            future.add_done_callback(on_done)
        if refused:
            raise refused[0]
    await connection.close()


async def _subscribe_stream(port: int, inbox: Inbox) -> None:
    async def on_message(message: Msg) -> None:
        seq, price, _, body = decode(message.data)
        inbox.take(seq, price, body)

    connection = await nats.connect(_url(port))
    stream = connection.jetstream()
    await stream.add_stream(
        StreamConfig(
            name=STREAM,
            subjects=[f"{ROOT}.>"],
            storage=StorageType.FILE,
            retention=RetentionPolicy.LIMITS,
            max_bytes=STREAM_BYTES,
        )
    )
    # An ordered consumer is the client's own word for: in order, without gaps, no acknowledgement for each.
    await stream.subscribe(f"{ROOT}.>", cb=on_message, ordered_consumer=True, pending_msgs_limit=WINDOW * 2)
    await inbox.until_over()
    await connection.close()


PROGRAM = Program(binary="nats-server", package="nats-server", version=("--version",), command=_command)

CORE = Contender(
    "NATS core",
    PROGRAM,
    "nats-py",
    Promises(AT_MOST_ONCE, "nothing is acknowledged", flushed=False, deduplicated=False, ordered=True),
    _publish,
    _subscribe,
    portion=32,
)
JETSTREAM = Contender(
    "NATS JetStream, file storage",
    PROGRAM,
    "nats-py",
    Promises(
        "stored in a file",
        "each acknowledged when written, flushed every two minutes only",
        flushed=False,
        deduplicated=False,
        ordered=True,
    ),
    _publish_acknowledged,
    _subscribe_stream,
)
