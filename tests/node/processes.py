"""Brokers and commands as processes of tests: started, listened to, and gone when the test is over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0


class Process:
    """A command, its output and its logs as they come."""

    def __init__(self, folder: Path, *command: str, stdin: int = subprocess.DEVNULL) -> None:
        self.output = folder / f"{time.monotonic_ns()}.out"
        with self.output.open("wb") as file:
            self.popen = subprocess.Popen(
                command, cwd=folder, stdin=stdin, stdout=file, stderr=subprocess.STDOUT, env=environment()
            )

    def text(self) -> str:
        """All it has said."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def logs(self, event: str) -> list[dict[str, Any]]:
        """The log lines of this event."""
        lines = [json.loads(line) for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if line["event"] == event]

    def wait_for(self, words: str, times: int = 1) -> None:
        """Wait until it has said this so many times."""
        until = time.monotonic() + PATIENCE_S
        while self.text().count(words) < times:
            assert time.monotonic() < until, f"never said {words!r}:\n{self.text()}"
            assert self.popen.poll() is None or self.text().count(words) >= times, f"ended early:\n{self.text()}"
            time.sleep(0.02)

    async def heard(self, words: str, times: int = 1) -> None:
        """The same, and the loop of the test goes on meanwhile."""
        await asyncio.to_thread(self.wait_for, words, times)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)

    def status(self) -> int:
        """Wait for its end; the exit status."""
        return self.popen.wait(PATIENCE_S)

    def stop(self) -> None:
        """Whatever state it is in."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.terminate()
            try:
                self.popen.wait(3)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


def environment() -> dict[str, str]:
    """That of this process, with the package on the path."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}


@contextmanager
def gapless(folder: Path, *arguments: str, stdin: int = subprocess.DEVNULL) -> Iterator[Process]:
    """A `gapless` command that runs until the test is over."""
    process = Process(folder, sys.executable, "-m", "gapless", *arguments, stdin=stdin)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def broker(folder: Path, me: str, *arguments: str, stdin: int = subprocess.DEVNULL) -> Iterator[Process]:
    """A broker of the cluster.toml in this folder, listening."""
    with gapless(folder, "broker", "cluster.toml", "--id", me, *arguments, stdin=stdin) as process:
        process.wait_for('"listening"')
        yield process


def ended(folder: Path, *command: str, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    everything = {**environment(), **(more or {})}
    return subprocess.run(command, cwd=folder, env=everything, capture_output=True, text=True, timeout=30, check=False)


def gapless_ended(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A `gapless` command that ends by itself."""
    return ended(folder, sys.executable, "-m", "gapless", *arguments)
