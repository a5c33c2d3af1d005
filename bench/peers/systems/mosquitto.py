"""Mosquitto, at quality of service 0, with the fastest of the Python clients."""

from __future__ import annotations

import asyncio
import getpass
from pathlib import Path
from typing import Any

import gmqtt

from bench.peers.clients import Inbox, Outbox
from bench.peers.contract import AT_MOST_ONCE, Contender, Program, Promises
from bench.peers.load import ROOT, decode, payload, subject

MQTT_311 = 4  # the protocol's number of that version, which is the leaner one
QUEUED_MAX = 1_000_000  # far above the window: the broker has no reason to drop
CONFIG = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages {queued}
set_tcp_nodelay true
log_type error
user {user}
"""


def _command(binary: str, folder: Path, port: int) -> list[str]:
    config = folder / "mosquitto.conf"
    # Started by root it would become another user, and not be tied to this process any more.
    config.write_text(CONFIG.format(port=port, queued=QUEUED_MAX, user=getpass.getuser()))
    return [binary, "-c", str(config)]


async def _publish(port: int, outbox: Outbox) -> None:
    client = gmqtt.Client("publisher")
    await client.connect("127.0.0.1", port, version=MQTT_311)
    async for portion in outbox.portions():
        for seq, row, body in portion:
            client.publish(subject(row, "/"), payload(seq, row, body), qos=0)
    await client.disconnect()


async def _subscribe(port: int, inbox: Inbox) -> None:
    def on_message(client: Any, topic: str, data: bytes, qos: int, properties: Any) -> int:
        seq, price, _, body = decode(data)
        inbox.take(seq, price, body)
        return 0  # what the client wants of a handler: received well

    subscribed = asyncio.Event()
    client = gmqtt.Client("subscriber")
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = on_message
    await client.connect("127.0.0.1", port, version=MQTT_311)
    client.subscribe(f"{ROOT}/#", qos=0)
    await subscribed.wait()
    await inbox.until_over()
    await client.disconnect()


PROGRAM = Program(binary="mosquitto", package="mosquitto", version=("-h",), command=_command)

QOS_0 = Contender(
    "Mosquitto, QoS 0",
    PROGRAM,
    "gmqtt",
    Promises(AT_MOST_ONCE, "nothing is acknowledged", flushed=False, deduplicated=False, ordered=True),
    _publish,
    _subscribe,
)
