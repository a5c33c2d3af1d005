"""The load: publications whose values differ from one to the next, and the checks a subscriber makes of each.

Four attributes (sym of 1,000 symbols, price, vol, loc of 50) and bodies of 100 bytes. A body is 25 words of 32 bits:
the sum of the others, the time it was handed in (two words), a number, and noise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.model.batch import Batch

BODY_BYTES = 100
WORDS = BODY_BYTES // 4
POOL = 64  # batches of attributes that go round
SYMBOLS = [f"SYM{n:04d}" for n in range(1000)]
PLACES = [f"place-{n:02d}" for n in range(50)]


class Load:
    """Makes batches of publications."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self._random = np.random.default_rng(seed)
        self._noise = self._random.integers(0, 1 << 32, (POOL, rows, WORDS), dtype=np.uint32)
        self._tables = [self._attributes() for _ in range(POOL)]
        self._turn = 0

    def _attributes(self) -> pa.RecordBatch:
        rows = self.rows
        return pa.RecordBatch.from_pydict(
            {
                "sym": pa.array([SYMBOLS[n] for n in self._random.integers(0, 1000, rows)]),
                "price": pa.array(self._random.uniform(1, 1000, rows).round(2)),
                "vol": pa.array(self._random.integers(1, 1_000_000, rows)),
                "loc": pa.array([PLACES[n] for n in self._random.integers(0, 50, rows)]),
            }
        )

    def _bodies(self) -> npt.NDArray[np.uint32]:
        words: npt.NDArray[np.uint32] = self._noise[self._turn % POOL]
        now = time.monotonic_ns()
        words[:, 1] = now & 0xFFFFFFFF
        words[:, 2] = now >> 32
        words[:, 3] = np.arange(self.rows, dtype=np.uint32) + np.uint32(self._turn * self.rows & 0xFFFFFFFF)
        words[:, 0] = words[:, 1:].sum(axis=1, dtype=np.uint32)
        return words

    def tables(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches with the column `body`."""
        offsets = pa.py_buffer(np.arange(self.rows + 1, dtype=np.int32) * BODY_BYTES)
        while True:
            data = pa.py_buffer(self._bodies().tobytes())
            bodies = pa.Array.from_buffers(pa.binary(), self.rows, [None, offsets, data])
            table = self._tables[self._turn % POOL]
            self._turn += 1
            yield table.append_column("body", bodies)

    def python_rows(self) -> Iterator[tuple[list[dict[str, Any]], list[bytes]]]:
        """Lists of dicts, and lists of bodies."""
        pool = [table.to_pylist() for table in self._tables]
        while True:
            data = self._bodies().tobytes()
            bodies = [data[at : at + BODY_BYTES] for at in range(0, len(data), BODY_BYTES)]
            rows = pool[self._turn % POOL]
            self._turn += 1
            yield rows, bodies

    def singles(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """One publication after the other; the body carries a CRC instead of a sum, which one body checks faster."""
        pool = [row for table in self._tables for row in table.to_pylist()]
        noise = self._noise.tobytes()
        step = len(noise) // BODY_BYTES
        clock = time.monotonic_ns
        n = 0
        while True:
            for row in pool:
                at = n % step * BODY_BYTES
                n += 1
                rest = clock().to_bytes(8, "little") + noise[at + 12 : at + BODY_BYTES]
                yield row, crc32(rest).to_bytes(4, "little") + rest


class Checks:
    """What the subscriber verifies of every publication; raises AssertionError when something is wrong."""

    def __init__(self) -> None:
        self.count = 0
        self.next_seq = 0
        self.lost = 0
        self.price_sum = 0.0
        self.latencies_ns: list[npt.NDArray[np.int64]] = []
        self.single_latencies_ns: list[int] = []
        self.keep_latencies = False

    def batch(self, batch: Batch) -> None:
        """Every seq, one attribute, a checksum of every body; vectorised."""
        rows = batch.rows
        seqs = batch.seqs
        if self.next_seq and batch.first != self.next_seq:
            self.lost += batch.first - self.next_seq
        assert int(seqs[-1]) - int(seqs[0]) == rows - 1, "seqs are not contiguous"
        self.next_seq = batch.last + 1
        (price,) = batch.columns_named("price")
        self.price_sum += float(price.values.sum())
        bodies = batch.bodies
        assert len(bodies.data) == rows * BODY_BYTES, "a body has another length"
        words = np.frombuffer(bodies.data, np.uint32).reshape(rows, WORDS)
        assert bool((words[:, 1:].sum(axis=1, dtype=np.uint32) == words[:, 0]).all()), "a body has changed on its way"
        if self.keep_latencies:
            handed_in = words[:, 1].astype(np.int64) | (words[:, 2].astype(np.int64) << 32)
            self.latencies_ns.append(time.monotonic_ns() - handed_in)
        self.count += rows
