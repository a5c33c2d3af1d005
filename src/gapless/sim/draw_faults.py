"""The faults of a random scenario."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from gapless.overlay import Tree
from gapless.sim.network import NetworkSettings
from gapless.sim.scenario import ClientPlan, FaultPlan, PublisherPlan

FIRST_MS, LAST_MS = 300, 1900  # when faults begin

SINGLE = {
    "crash": 4,
    "pause": 2,
    "link": 3,
    "stall": 2,
    "one-way": 2,
    "slow": 3,
    "reset": 3,
    "suspicion": 2,
    "clock-step": 1,
    "clock-rate": 1,
    "move": 5,
    "stop-reading": 3,
}
TOGETHER = ("move_past_a_slow_link", "back_before_the_broker", "unnoticed_restart", "tail_of_the_old")


class FaultDraw:
    """Draws faults one by one, and some that go together."""

    def __init__(
        self,
        random: Random,
        tree: Tree,
        clients: Sequence[ClientPlan],
        publishers: Sequence[PublisherPlan],
        network: NetworkSettings,
    ) -> None:
        self.random = random
        self.tree = tree
        self.clients = clients
        self.by_name = {client.name: client for client in clients}
        self.publishing = [self.by_name[publisher.client] for publisher in publishers]
        self.network = network

    def faults(self) -> tuple[FaultPlan, ...]:
        """In the order of their beginning."""
        random = self.random
        kinds = random.choices(list(SINGLE), list(SINGLE.values()), k=random.randint(5, 11))
        drawn = [self.single(kind) for kind in kinds]
        for name in random.sample(TOGETHER, random.randint(1, len(TOGETHER))):
            drawn.extend(getattr(self, name)())
        return tuple(sorted(drawn, key=lambda fault: fault.at_ms))

    def single(self, kind: str) -> FaultPlan:
        """One of a kind."""
        draw = {
            "crash": self.crash,
            "clock-step": self.clock_step,
            "move": self.move,
            "stop-reading": self.stop_reading,
        }.get(kind)
        if draw:
            return draw(self.when())
        if kind in ("pause", "clock-rate"):
            factor = self.random.choice((0.5, 0.9, 1.1, 3.0)) if kind == "clock-rate" else 1.0
            return FaultPlan(kind=kind, at_ms=self.when(), for_ms=self.span(), target=self.anyone(), factor=factor)
        target, peer = self.pair()
        fields: dict[str, Any] = {}
        if kind == "slow":
            fields["factor"] = float(self.random.choice((10, 30, 100, 1000)))
        if kind == "reset":
            fields["by_ms"] = self.random.randint(-300, 300)
        span = 0 if kind in ("reset", "suspicion") else self.span()
        return FaultPlan(kind=kind, at_ms=self.when(), for_ms=span, target=target, peer=peer, **fields)

    def when(self) -> int:
        """A moment while there is load."""
        return self.random.randint(FIRST_MS, LAST_MS)

    def span(self) -> int:
        """Short, or longer than a detector waits."""
        detect = self.network.detect_ms
        return self.random.randint(5, detect) if self.random.random() < 0.5 else self.random.randint(detect, 3 * detect)

    def anyone(self) -> str:
        """A broker, or sometimes a client."""
        if self.random.random() < 0.7:
            return self.random.choice(self.tree.nodes)
        return self.random.choice(self.clients).name

    def pair(self) -> tuple[str, str]:
        """Two that have a session with each other, either way round."""
        if self.random.random() < 0.6:
            pair = self.random.choice(self.tree.links)
        else:
            client = self.random.choice(self.clients)
            pair = client.name, self.random.choice(client.servers)
        return pair if self.random.random() < 0.5 else (pair[1], pair[0])

    def crash(self, at: int) -> FaultPlan:
        """In the middle of a step, or before it."""
        random = self.random
        return FaultPlan(
            kind="crash",
            at_ms=at,
            for_ms=self.span() + 60,
            target=self.anyone(),
            effects=random.randint(0, 5),
            unplugged=random.random() < 0.4,
        )

    def clock_step(self, at: int) -> FaultPlan:
        """Forwards or backwards."""
        by = self.random.choice((-3_600_000, -5000, 50, 86_400_000))
        return FaultPlan(kind="clock-step", at_ms=at, target=self.anyone(), by_ms=by)

    def move(self, at: int) -> FaultPlan:
        """Someone with more than one server, if there is anyone; a publisher, if one is among them."""
        mobile = [client for client in self.publishing if len(client.servers) > 1]
        if not mobile or self.random.random() < 0.5:
            mobile = [client for client in self.clients if len(client.servers) > 1] or list(self.clients)
        overlap = self.random.choice((0, self.random.randint(1, 60), self.random.randint(1, 300)))
        return FaultPlan(kind="move", at_ms=at, target=self.random.choice(mobile).name, by_ms=overlap)

    def stop_reading(self, at: int) -> FaultPlan:
        """For so long that some broker loses patience, or not quite."""
        span = self.random.choice((20, 100, 400, 1500))
        return FaultPlan(kind="stop-reading", at_ms=at, for_ms=span, target=self.random.choice(self.clients).name)

    # --- what goes together

    def move_past_a_slow_link(self) -> list[FaultPlan]:
        """What a publisher sends from its new broker overtakes what it sent from the old one."""
        at = self.when()
        move = self.move(at)
        server = self.by_name[move.target].servers[0]
        peer = self.random.choice(self.tree.neighbours(server))
        ahead = self.random.randint(5, 50)
        slow = FaultPlan(
            kind="slow",
            at_ms=at - ahead,
            for_ms=ahead + 100,
            target=server,
            peer=peer,
            factor=float(self.random.choice((10, 30))),
        )
        return [slow, move]

    def back_before_the_broker(self) -> list[FaultPlan]:
        """A client and its broker die together, and the client comes back first."""
        at = self.when()
        client = self.random.choice(self.clients)
        span = self.random.randint(300, 800)
        return [
            FaultPlan(kind="crash", at_ms=at, for_ms=span, target=client.servers[0]),
            FaultPlan(kind="crash", at_ms=at, for_ms=span // 3, target=client.name),
        ]

    def unnoticed_restart(self) -> list[FaultPlan]:
        """A broker is back before its neighbours have missed it."""
        span = self.random.randint(4, 40)
        target = self.random.choice(self.tree.nodes)
        return [FaultPlan(kind="crash", at_ms=self.when(), for_ms=span, target=target, unplugged=True)]

    def tail_of_the_old(self) -> list[FaultPlan]:
        """One end of a slow wire gives it up and opens another, while the other end still reads the old one."""
        at = self.when()
        target, peer = self.pair()
        slow = FaultPlan(kind="slow", at_ms=at - 40, for_ms=41, target=target, peer=peer, factor=10.0)
        reset = FaultPlan(kind="reset", at_ms=at, target=target, peer=peer, by_ms=self.random.choice((-400, 400)))
        return [slow, reset]
