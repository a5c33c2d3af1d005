"""How a publication travels through systems that know no attributes, and the checks a subscriber makes of each.

The load is that of `gapless bench`. Two attributes become the subject (`quotes.<loc>.<sym>`), because that is what such
systems select by; the others, the seq and the body become the payload, as msgpack.
"""

from __future__ import annotations

import time
from typing import Any
from zlib import crc32

import msgspec
import numpy as np

from gapless.cli.benches.load import BODY_BYTES, Checks
from gapless.model.batch import Batch

ROOT = "quotes"
Payload = tuple[int, float, int, bytes]  # seq, price, vol, body

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Payload).decode


def subject(row: dict[str, Any], separator: str) -> str:
    """Where a publication goes: by place and symbol."""
    return f"{ROOT}{separator}{row['loc']}{separator}{row['sym']}"


def payload(seq: int, row: dict[str, Any], body: bytes) -> bytes:
    """What the subject does not say."""
    return encode((seq, row["price"], row["vol"], body))


class Tally:
    """What a subscriber has found: how many came, how many did not, came again or were changed, and how late."""

    def __init__(self) -> None:
        self.count = 0
        self.lost = 0
        self.repeated = 0
        self.changed = 0
        self.keep_latencies = False
        self._next = 0
        self._latencies_ns: list[int] = []
        self._batches = Checks()

    def take(self, seq: int, price: Any, body: bytes) -> None:
        """One publication: its seq, one attribute, a checksum of its body."""
        if seq != self._next and self._next:
            if seq > self._next:
                self.lost += seq - self._next
            else:
                self.repeated += 1
        self._next = max(self._next, seq + 1)
        if type(price) is not float or len(body) != BODY_BYTES or crc32(body[4:]) != int.from_bytes(body[:4], "little"):
            self.changed += 1
        self.count += 1
        if self.keep_latencies:
            self._latencies_ns.append(time.monotonic_ns() - int.from_bytes(body[4:12], "little"))

    def take_batch(self, batch: Batch) -> None:
        """A batch of Gapless, by columns: the checks of `gapless bench`."""
        lost = self._batches.lost
        self._batches.keep_latencies = self.keep_latencies
        try:
            self._batches.batch(batch)
        except AssertionError:
            self.changed += batch.rows
        missing = self._batches.lost - lost  # below zero when a batch came again
        self.lost += max(missing, 0)
        self.repeated += max(-missing, 0)
        self.count += batch.rows

    def forget_latencies(self) -> None:
        """Measure lateness from here on."""
        self.keep_latencies = True
        self._latencies_ns.clear()
        self._batches.latencies_ns.clear()

    def latencies_ms(self) -> dict[str, float]:
        """How late publications were, since `forget_latencies`; empty if none came."""
        found = np.concatenate([np.array(self._latencies_ns, np.int64), *self._batches.latencies_ns])
        if not len(found):
            return {}
        values = np.percentile(found, [50, 99, 99.9]).tolist()
        return {name: round(ns / 1e6, 3) for name, ns in zip(("p50", "p99", "p99.9"), values, strict=True)}
