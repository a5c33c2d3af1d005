"""One contender, once: as fast as it goes, the latency at 80% of that, and the latency at a fixed rate."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from bench.peers.clients import RECEIVED, SENT, Plan, publisher_process, subscriber_process
from bench.peers.contract import Contender, Form
from bench.peers.servers import Server, busy_s, cpu_s, running

SERVER_CORE, CLIENT_CORE = 0, 1
FIXED_RATE = 2_000.0
WARM_UP_S = 1.5
AFTER_S = 0.3
AT_80_PERCENT_S = 3.0
LATENCY_MS_MAX = 50.0  # p99 at 80% of a rate, or the rate does not count
PATIENCE_S = 30.0
PUNCTUAL = 0.95  # of a rate that was asked for, or the latency is that of another one


class Broken(Exception):
    """A process of the measurement failed; what it said."""


class Client(NamedTuple):
    """A client's process and the pipe to it."""

    name: str
    process: Any
    pipe: Connection

    def hear(self, seconds: float = PATIENCE_S) -> Any:
        """What it says next."""
        if not self.pipe.poll(seconds):
            raise Broken(f"the {self.name} did not answer within {seconds:.0f} s")
        try:
            return self.pipe.recv()
        except EOFError:
            raise Broken(f"the {self.name} ended") from None

    def await_word(self, word: str, seconds: float = PATIENCE_S) -> None:
        """Until it says this; anything else is its error."""
        said = self.hear(seconds)
        if said != word:
            raise Broken(f"the {self.name} failed: {said}")


class Stage:
    """Server, subscriber and publisher of one contender, ready; all gone when it is left."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self._context = multiprocessing.get_context("spawn")
        self.board = self._context.RawArray("q", 2)
        self._clients: list[Client] = []
        self._exits = ExitStack()
        self.server: Server

    def __enter__(self) -> Stage:
        with ExitStack() as exits:
            self.server = exits.enter_context(running(self.contender.program, SERVER_CORE))
            exits.callback(self._end_clients)
            self.subscriber = self._start("subscriber", subscriber_process)
            self.publisher = self._start("publisher", publisher_process)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def _start(self, name: str, target: Callable[..., None]) -> Client:
        ours, theirs = self._context.Pipe()
        arguments = (self.contender, self.server.port, self.board, CLIENT_CORE, theirs)
        process = self._context.Process(target=target, args=arguments, name=name, daemon=True)
        process.start()
        theirs.close()  # so that its end is heard
        client = Client(name, process, ours)
        self._clients.append(client)
        client.await_word("up")
        return client

    def _end_clients(self) -> None:
        for client in reversed(self._clients):
            client.pipe.close()
            client.process.join(5)
            if client.process.is_alive():
                client.process.kill()
                client.process.join()

    def cpu(self) -> dict[str, float]:
        """CPU seconds of every process so far, the server first."""
        clients = {client.name: cpu_s(client.process.pid) for client in (self.publisher, self.subscriber)}
        return {"server": cpu_s(self.server.pid), **clients}

    def findings(self) -> dict[str, Any]:
        """What the subscriber has found so far."""
        self.subscriber.pipe.send("findings")
        found = self.subscriber.hear()
        if not isinstance(found, dict):
            raise Broken(f"the subscriber failed: {found}")
        return found

    def flood(self, seconds: float) -> dict[str, Any]:
        """As fast as it goes, after warming up: publications a second, and CPU of each process for one."""
        self.publisher.pipe.send(Plan(0, WARM_UP_S + seconds + AFTER_S))
        time.sleep(WARM_UP_S)
        busy, cpu, count, at = busy_s(), self.cpu(), int(self.board[RECEIVED]), time.perf_counter()
        time.sleep(seconds)
        cpu_after, count_after, at_after = self.cpu(), int(self.board[RECEIVED]), time.perf_counter()
        everybody = busy_s() - busy
        self.publisher.await_word("done")
        received, took = count_after - count, at_after - at
        if not received:
            raise Broken("nothing arrived")
        used = {name: cpu_after[name] - cpu[name] for name in cpu}
        return {
            "rate": received / took,
            "cpu_us": {name: s / received * 1e6 for name, s in used.items()},
            "server_core": used["server"] / took,
            "client_core": (used["publisher"] + used["subscriber"]) / took,
            "others": max(everybody - sum(used.values()), 0.0) / took,
        }

    def latency(self, rate: float, seconds: float) -> dict[str, float]:
        """How late publications are at this rate, after half a second of it."""
        self.publisher.pipe.send(Plan(rate, 0.5))
        self.publisher.await_word("done")
        self.subscriber.pipe.send("latencies")
        sent, start = int(self.board[SENT]), time.perf_counter()
        self.publisher.pipe.send(Plan(rate, seconds))
        self.publisher.await_word("done", PATIENCE_S + seconds)
        took = max(time.perf_counter() - start, seconds)
        found = self.findings()["latency_ms"]
        if not found:
            raise Broken("nothing arrived")
        return {"rate": (int(self.board[SENT]) - sent) / took, **found}


def measure(contender: Contender, seconds: float) -> dict[str, Any]:
    """All of it, for one contender."""
    with Stage(contender) as stage:
        sample = stage.flood(seconds)
        sample["at_80_percent"] = stage.latency(sample["rate"] * 0.8, min(seconds, AT_80_PERCENT_S))
        if contender.form is Form.SINGLES:
            sample["at_fixed_rate"] = stage.latency(FIXED_RATE, seconds)
        found = stage.findings()
        sent = int(stage.board[SENT])
    sample["sent"] = sent
    sample["lost"] = max(sent - found["count"] + found["repeated"], 0)
    sample |= {name: found[name] for name in ("repeated", "changed")}
    sample["faults"] = faults(sample)
    return sample


def faults(sample: dict[str, Any]) -> list[str]:
    """Why the rate of a sample does not count; empty when it does."""
    said = [f"{sample[what]:,} {what}" for what in ("lost", "repeated", "changed") if sample[what]]
    late = sample["at_80_percent"]
    if late["p99"] > LATENCY_MS_MAX:
        said.append(f"p99 {late['p99']:.0f} ms at 80%")
    fixed = sample.get("at_fixed_rate")
    if fixed and fixed["rate"] < FIXED_RATE * PUNCTUAL:
        said.append(f"only {fixed['rate']:,.0f}/s of {FIXED_RATE:,.0f}/s reached")
    return said
