"""Gapless itself: `direct`, one at a time as most applications would write it, and in batches from Arrow."""

from __future__ import annotations

import sys
from pathlib import Path

import gapless
from bench.peers.clients import Inbox, Outbox
from bench.peers.contract import AT_MOST_ONCE, Contender, Form, Program, Promises
from gapless.cli.benches.processes import SPACE
from gapless.cli.benches.rates import cluster_text


def _command(binary: str, folder: Path, port: int) -> list[str]:
    config = folder / "cluster.toml"
    config.write_text(cluster_text([port]))
    return [binary, "-m", "gapless", "broker", str(config), "--id", "b0", "--log-level", "warning"]


async def _publish_singles(port: int, outbox: Outbox) -> None:
    async with gapless.connect(f"127.0.0.1:{port}") as bus:
        publisher = await bus.publisher(SPACE)
        async for portion in outbox.portions():
            for _, row, body in portion:  # Gapless numbers by itself
                await publisher.send(row, body)


async def _publish_tables(port: int, outbox: Outbox) -> None:
    async with gapless.connect(f"127.0.0.1:{port}") as bus:
        publisher = await bus.publisher(SPACE)
        async for table in outbox.tables():
            await publisher.send_many(table)


async def _subscribe_singles(port: int, inbox: Inbox) -> None:
    async def consume() -> None:
        async for publication in subscription:
            inbox.take(publication.seq, publication.attributes["price"], publication.body)

    async with gapless.connect(f"127.0.0.1:{port}") as bus, bus.subscribe(SPACE) as subscription:
        await inbox.until_over(consume())


async def _subscribe_batches(port: int, inbox: Inbox) -> None:
    async def consume() -> None:
        async for batch in subscription.raw_batches():
            inbox.take_batch(batch)

    async with gapless.connect(f"127.0.0.1:{port}") as bus, bus.subscribe(SPACE) as subscription:
        await inbox.until_over(consume())


PROGRAM = Program(binary=sys.executable, package="", version=("-m", "gapless", "--version"), command=_command)
PROMISES = Promises(AT_MOST_ONCE, "acknowledged by the broker's memory", flushed=False, deduplicated=True, ordered=True)

ONE_AT_A_TIME = Contender(
    "Gapless direct, one at a time",
    PROGRAM,
    "gapless",
    PROMISES,
    _publish_singles,
    _subscribe_singles,
    portion=256,
)
BATCHES = Contender(
    "Gapless direct, batches from Arrow",
    PROGRAM,
    "gapless",
    PROMISES,
    _publish_tables,
    _subscribe_batches,
    form=Form.TABLES,
)
