"""What a broker tells of itself: its status, its health, its metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gapless.delivery.port import Role
from gapless.node.broker import Broker
from gapless.node.space import Space

PER_SPACE = (
    ("publications_in", "gapless_publications_in", "Publications received, from clients and neighbours"),
    ("publications_out", "gapless_publications_out", "Publications sent, to clients and neighbours"),
    ("batches_in", "gapless_batches_in", "Batches received"),
    ("batches_out", "gapless_batches_out", "Batches sent"),
    ("bytes_in", "gapless_batch_bytes_in", "Bytes of batches received"),
    ("bytes_out", "gapless_batch_bytes_out", "Bytes of batches sent"),
)


def status_of(broker: Broker) -> dict[str, Any]:
    """What the broker knows of itself, for people and scripts."""
    ready, reason = health_of(broker)
    return {
        "broker": broker.me,
        "cluster": broker.config.name,
        "pid": os.getpid(),
        "listen": str(broker.own.listen),
        "uptime_s": round(time.monotonic() - broker.started, 3),
        "ready": ready,
        "reason": reason,
        "draining": broker.draining,
        "journal": broker.journal.trouble or str(broker.journal.path) if broker.journal else None,
        "clients": sum(role is Role.CLIENT for role in broker.roles.values()),
        "unsent_bytes": sum(link.unsent() for link in broker.links.values()),
        "neighbours": neighbours_of(broker),
        "spaces": {name: _space(space) for name, space in broker.spaces.items()},
    }


def _space(space: Space) -> dict[str, Any]:
    return {
        "delivery": space.settings.delivery,
        "sessions": len(space.links),
        "held": space.core.held(),
        **space.counters.as_dict(),
    }


def neighbours_of(broker: Broker) -> dict[str, str]:
    """Whether each neighbour is there."""
    return {peer: "up" if peer in broker.latest else "down" for peer in broker.neighbours}


def health_of(broker: Broker) -> tuple[bool, str]:
    """Whether clients should be sent here, and what an operator should know."""
    if broker.draining:
        return False, "draining"
    down = [peer for peer, state in neighbours_of(broker).items() if state == "down"]
    return True, f"out of reach: {', '.join(down)}" if down else "ok"


class Metrics:
    """The metrics of a broker, read from it when they are asked for."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """In the text format of Prometheus."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Called by the registry."""
        broker = self._broker
        yield _gauge("gapless_uptime_seconds", "Since the broker started", time.monotonic() - broker.started)
        yield _gauge("gapless_ready", "1 when clients may be sent here", health_of(broker)[0])
        links = GaugeMetricFamily("gapless_links", "Open links", labels=["role"])
        for role in Role:
            links.add_metric([role], sum(one is role for one in broker.roles.values()))
        yield links
        unsent = sum(link.unsent() for link in broker.links.values())
        yield _gauge("gapless_unsent_bytes", "Bytes that connections have not taken yet, over all links", unsent)
        up = GaugeMetricFamily("gapless_neighbour_up", "1 for a neighbour that has a link", labels=["neighbour"])
        for peer, state in neighbours_of(broker).items():
            up.add_metric([peer], state == "up")
        yield up
        yield from self._spaces()

    def _spaces(self) -> Iterable[Metric]:
        spaces = self._broker.spaces
        for attribute, metric, words in PER_SPACE:
            family = CounterMetricFamily(metric, words, labels=["space"])
            for name, space in spaces.items():
                family.add_metric([name], getattr(space.counters, attribute))
            yield family
        dropped = CounterMetricFamily(
            "gapless_publications_dropped", "Publications let go, by reason", labels=["space", "reason"]
        )
        sessions = GaugeMetricFamily("gapless_sessions", "Open sessions of a space", labels=["space"])
        held = GaugeMetricFamily("gapless_held", "What a core holds that has to drain", labels=["space", "what"])
        for name, space in spaces.items():
            sessions.add_metric([name], len(space.links))
            for reason, count in space.counters.dropped.items():
                dropped.add_metric([name, reason], count)
            for what, count in space.core.held().items():
                held.add_metric([name, what], count)
        yield from (dropped, sessions, held)


def _gauge(name: str, words: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, words)
    family.add_metric([], float(value))
    return family
