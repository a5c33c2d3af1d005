"""End to end: publications a second through one broker or a chain, with the CPU of every process beside it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from gapless.cli.benches.processes import (
    SETTLE_S,
    SPACE,
    Plan,
    broker_process,
    free_ports,
    publisher_process,
    subscriber_process,
)
from gapless.model.errors import GaplessError

LATENCY_MS_MAX = 50.0  # p99 at 80% of a rate, or the rate does not count
WARM_UP_S = 2.0
FILTER = "price > 0 AND vol BETWEEN 1 AND 1000000 AND loc LIKE 'place-%'"


class Case(NamedTuple):
    """One line of the report."""

    name: str
    brokers: int
    api: str
    rows: int
    floor: float  # publications a second that the project promises
    filter: str = ""  # what the subscriber asks for: true of every publication, but no broker knows that beforehand


CASES = (
    Case("one broker, batches from Arrow", 1, "table", 1024, 1_500_000),
    Case("one broker, batches from Python rows", 1, "rows", 1024, 0),
    Case("chain of three, batches from Arrow", 3, "table", 1024, 800_000),
    Case("chain of three, batches from Python rows", 3, "rows", 1024, 0),
    Case("chain of three, filtered at every hop", 3, "table", 1024, 800_000, FILTER),
    Case("one broker, one at a time", 1, "single", 1024, 200_000),
)


class Child(NamedTuple):
    """A process of the measurement and the pipe to it."""

    name: str
    process: Any
    pipe: Connection

    def ask(self, word: str) -> Any:
        """Its answer."""
        self.pipe.send(word)
        return self.pipe.recv()


class House:
    """The processes of one case, on their cores: clients share a core with the second broker, if there is one."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.context = multiprocessing.get_context("spawn")
        self.ports = free_ports(case.brokers)
        self.children: list[Child] = []
        text = cluster_text(self.ports)
        for number in range(case.brokers):
            self.start(f"b{number}", broker_process, text, f"b{number}", number % 2)

    def start(self, name: str, target: Callable[..., None], *arguments: Any) -> Child:
        """Start a process and wait until it is ready."""
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=target, args=(*arguments, theirs), name=name, daemon=True)
        process.start()
        child = Child(name, process, ours)
        self.children.append(child)
        if not ours.poll(30) or ours.recv() != "up":
            raise RuntimeError(f"{name} did not start")
        return child

    def publish(self, rate: float, seconds: float) -> Child:
        """Start a publisher and let it go."""
        plan = Plan(self.ports[0], self.case.api, rate, seconds, self.case.rows if rate == 0 or rate > 50_000 else 64)
        child = self.start("publisher", publisher_process, plan, 1)
        child.pipe.send("go")
        return child

    def cpu(self) -> dict[str, float]:
        """CPU seconds of every broker so far."""
        return {child.name: child.ask("cpu") for child in self.children if child.name.startswith("b")}

    def close(self) -> None:
        """End them all."""
        for child in reversed(self.children):
            if child.process.is_alive():
                child.pipe.send("stop")
                child.process.join(5)
            if child.process.is_alive():
                child.process.kill()
                child.process.join()


def cluster_text(ports: list[int]) -> str:
    """The configuration of a chain on these ports."""
    lines = ['[cluster]\nname = "bench"\ndata = "bench-data"\n']
    for number, port in enumerate(ports):
        lines.append(f'[[broker]]\nid = "b{number}"\nlisten = "127.0.0.1:{port}"')
        lines.append(f'parent = "b{number - 1}"\n' if number else "")
    lines.append(f'[[space]]\nname = "{SPACE}"\ndelivery = "direct"\n')
    return "\n".join(lines)


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """The rate as fast as it goes, then the latency at 80% of it."""
    house = House(case)
    try:
        subscriber = house.start("subscriber", subscriber_process, house.ports[-1], case.filter, case.api, 1)
        flood = _flood(house, subscriber, seconds)
        latency = _latency(house, subscriber, flood["rate"] * 0.8, min(seconds, 10.0))
    finally:
        house.close()
    counts = flood["lost"] == 0 and latency["p99_ms"] <= LATENCY_MS_MAX
    return {"case": case.name, "floor": case.floor, **flood, "at_80_percent": latency, "counts": counts}


def _flood(house: House, subscriber: Child, seconds: float) -> dict[str, Any]:
    publisher = house.publish(0, WARM_UP_S + seconds + SETTLE_S)
    time.sleep(WARM_UP_S)
    cpu_before, before = house.cpu(), subscriber.ask("mark")
    time.sleep(seconds)
    cpu_after, after = house.cpu(), subscriber.ask("mark")
    report = publisher.pipe.recv()
    publisher.pipe.send("stop")
    count = after["count"] - before["count"]
    if not count:
        raise GaplessError(f"nothing arrived within {seconds:g} s: measure for longer, with --seconds")
    cpu = {name: (cpu_after[name] - cpu_before[name]) / count * 1e6 for name in cpu_after}
    cpu["publisher"] = report["cpu_s"] / report["count"] * 1e6
    cpu["subscriber"] = (after["cpu_s"] - before["cpu_s"]) / count * 1e6
    return {
        "rate": count / (after["at"] - before["at"]),
        "seconds": after["at"] - before["at"],
        "cpu_us": {name: round(value, 3) for name, value in cpu.items()},
        "lost": after["lost"] + after["missed"],
    }


def _latency(house: House, subscriber: Child, rate: float, seconds: float) -> dict[str, Any]:
    time.sleep(0.5)
    publisher = house.publish(rate, seconds + 1.0)
    time.sleep(1.0)
    subscriber.pipe.send("latencies")
    report = publisher.pipe.recv()
    time.sleep(0.2)
    mark = subscriber.ask("mark")
    publisher.pipe.send("stop")
    if not mark["latency_ms"]:
        raise GaplessError(f"no latency could be measured within {seconds:g} s: measure for longer, with --seconds")
    p50, p99 = mark["latency_ms"]
    return {"rate": round(report["count"] / report["seconds"]), "p50_ms": p50, "p99_ms": p99}
