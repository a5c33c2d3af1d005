"""What this machine can do at all, measured beside the rates so that they can be judged."""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOOPBACK_CHUNK = 256 << 10
REFERENCE_STEPS = 200_000


def pin(core: int) -> None:
    """Keep this process on one core, where the machine has that many."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[core % len(cores)]})


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keep this process on one core for a while: processes started afterwards would inherit the pin."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    pin(core)
    try:
        yield
    finally:
        if before:
            os.sched_setaffinity(0, before)


def measure_limits(seconds: float) -> dict[str, Any]:
    """Loopback bytes/s, fdatasync/s at 4 and 64 KiB, and the reference loop."""
    return {
        "loopback_bytes_s": round(loopback(seconds)),
        "fdatasync_4k_s": round(fdatasync(4 << 10, seconds)),
        "fdatasync_64k_s": round(fdatasync(64 << 10, seconds)),
        "reference_us": round(reference_us(), 1),
        "cores": os.cpu_count(),
    }


def loopback(seconds: float) -> float:
    """Bytes a second through one connection on loopback, sender and receiver on a core each."""
    listener = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("spawn")
    sender = context.Process(target=_send_bytes, args=(listener.getsockname()[1], seconds))
    sender.start()
    with listener, pinned(0):
        connection, _ = listener.accept()
        buffer = bytearray(LOOPBACK_CHUNK)
        total = 0
        start = time.perf_counter()
        with connection:
            while count := connection.recv_into(buffer):
                total += count
    took = time.perf_counter() - start
    sender.join()
    return total / took


def _send_bytes(port: int, seconds: float) -> None:
    pin(1)
    chunk = bytes(LOOPBACK_CHUNK)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            connection.sendall(chunk)


def fdatasync(size: int, seconds: float) -> float:
    """Flushed appends of this size a second, in the folder for temporary files."""
    block = os.urandom(size)
    with tempfile.TemporaryDirectory() as folder:
        file = os.open(Path(folder) / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            count = 0
            start = time.perf_counter()
            while time.perf_counter() - start < seconds:
                os.write(file, block)
                os.fdatasync(file)
                count += 1
            return count / (time.perf_counter() - start)
        finally:
            os.close(file)


def reference_us() -> float:
    """Microseconds of CPU per thousand steps of a fixed loop: by it, figures of different machines are compared."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        table: dict[int, int] = {}
        for step in range(REFERENCE_STEPS):
            table[step & 1023] = table.get(step & 511, 0) + step
        best = min(best, time.process_time() - start)
    return best / REFERENCE_STEPS * 1e9
