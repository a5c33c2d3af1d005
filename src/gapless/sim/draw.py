"""Random scenarios: whatever a seed draws stands in the scenario, so that it can be written down and run alone."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from gapless.delivery.port import Tuning
from gapless.model.errors import ConfigError
from gapless.overlay import Tree
from gapless.sim.draw_faults import FaultDraw
from gapless.sim.network import NetworkSettings
from gapless.sim.scenario import ClientPlan, FaultPlan, PublisherPlan, Scenario, SpacePlan, SubscriberPlan, Topology

DELIVERIES = ("direct",)
FAULT_FREE_SHARE = 1 / 8
CODEC_SHARE = 1 / 10
LOAD_MS = 2000  # for so long, about, publishers publish
LATER_MS = 600  # and so long those do that begin when all has settled
SETTLE_MS = 3000
BOUND_MS = 3000
PATIENT_MS = 700  # without faults nobody waits for so long

ATTRIBUTES: dict[str, tuple[Any, ...]] = {
    "topic": ("nyse/ibm/quotes", "nyse/ibm/trades", "nyse/sun/quotes", "nasdaq/sun/trades"),
    "loc": ("NY", "LA", "SF"),
    "price": (1.5, 2.0, 3.5, 4, 5.25, 8),
    "volume": (0, 1, 4, 10, 25),
    "urgent": (True, False),
    "note": ("a_b", "axb", "it's", "größer", "", "100%"),
    "mixed": (1, 2.5, "x", True),
    "when": ("@now",),
}
FILTERS = (
    "",
    "loc = 'NY'",
    "price > {n}",
    "price BETWEEN {n} AND 5",
    "loc IN ('NY', 'LA') AND NOT urgent",
    "note LIKE 'a!_%' ESCAPE '!'",
    "volume / 2 >= {n} OR price IS NULL",
    "urgent",
    "loc <> 'SF' AND price * 2 + 1 < volume",
    "note LIKE '%x_' or note = 'it''s'",
    "mixed = {n} OR mixed = 'x' OR mixed",
    "(loc = 'NY' OR loc = 'LA') AND volume > {n}",
    "NOT (price < {n}) AND loc IS NOT NULL",
    "-volume + 10 > price",
    "when > 0 AND volume NOT IN ('x')",
    "loc NOT LIKE 'N%'",
)
TOPICS = ("", "", "", "nyse/+/quotes", "nyse/#", "+/sun/+", "nyse/ibm/trades")


def random_scenario(delivery: str, seed: int) -> Scenario:
    """The scenario of a seed."""
    if delivery not in DELIVERIES:
        raise ConfigError(
            f"there are no random scenarios for delivery {delivery!r}: there are for {', '.join(DELIVERIES)}"
        )
    return _Draw(delivery, seed).scenario()


class _Draw:
    """The choices of one seed."""

    def __init__(self, delivery: str, seed: int) -> None:
        self.delivery = delivery
        self.seed = seed
        self.random = Random(f"{seed}/scenario")
        self.pacing = Random(f"{seed}/pacing")
        self.faulty = self.random.random() >= FAULT_FREE_SHARE
        self.spaces = ("main",) if self.random.random() < 0.7 else ("main", "side")
        self.topology = self.draw_topology()
        self.tree: Tree = self.topology.tree(Random(0))
        self.clients = self.draw_clients()
        self.network = self.draw_network()
        self.asked: list[tuple[str, str, str]] = []

    def scenario(self) -> Scenario:
        """All of it."""
        random = self.random
        publishers = self.draw_publishers()
        subscribers = self.draw_subscribers()
        faults: tuple[FaultPlan, ...] = ()
        calm = 0
        if self.faulty:
            faults = FaultDraw(random, self.tree, self.clients, publishers, self.network).faults()
            calm = max(LOAD_MS, *(fault.at_ms + fault.for_ms for fault in faults)) + 200
        later = calm + SETTLE_MS
        if self.faulty:
            subscribers += self.draw_later_subscribers(later)
            publishers += self.draw_later_publishers(later + 1200, [publisher.client for publisher in publishers])
            self.draw_later_goodbyes(later + 1200, publishers)
        return Scenario(
            about=f"drawn for {self.delivery} from seed {self.seed}",
            topology=self.topology,
            network=self.network,
            tuning=self.draw_tuning(),
            space=tuple(SpacePlan(name=name, delivery=self.delivery) for name in self.spaces),
            client=tuple(self.clients),
            publisher=tuple(publishers),
            subscriber=tuple(subscribers),
            fault=faults,
            limits=("slow-subscriber",) if self.faulty else (),  # with faults, patience is drawn short
            calm_ms=calm,
            settle_ms=SETTLE_MS,
            bound_ms=BOUND_MS,
            end_ms=later + 1200 + LATER_MS + BOUND_MS + 1000 if self.faulty else LOAD_MS + 2 * BOUND_MS,
        )

    def draw_topology(self) -> Topology:
        """Mostly a tree of ten to sixteen brokers; sometimes a few, or cells."""
        random = self.random
        size = random.randint(2, 6) if random.random() < 0.15 else random.randint(10, 16)
        shape = random.random()
        parents: dict[str, str] = {}
        for number in range(1, size):
            above = number - 1 if shape < 0.15 else 0 if shape < 0.25 else random.randrange(max(0, number - 5), number)
            parents[f"b{number}"] = f"b{above}"
        cells: dict[str, tuple[str, ...]] = {}
        if shape > 0.9:
            cells = {name: (f"{name}.0", f"{name}.1") for name in ("b0", *parents) if random.random() < 0.3}
        topology = Topology(parents=parents, cells=cells)
        names = topology.tree(Random(0)).nodes
        starts = {name: random.randint(1, 250) for name in names if random.random() < 0.3}
        return Topology(parents=parents, cells=cells, starts_ms=starts)

    def draw_network(self) -> NetworkSettings:
        """How fast all is, and how nervous."""
        random = self.random
        return NetworkSettings(
            latency_ms=round(random.uniform(0.5, 8), 2),
            jitter=round(random.choice((0.1, 0.5, 2.0)), 2),
            detect_ms=random.randint(120, 500),
            retry_ms=random.randint(10, 150),
            timeout_ms=random.randint(100, 400),
            store_ms=round(random.uniform(0.5, 10), 2),
            codec=random.random() < CODEC_SHARE,
        )

    def draw_tuning(self) -> Tuning:
        """The constants of the cores; small windows make brokers full."""
        random = self.random
        return Tuning(
            window_bytes=random.choice((500, 500, 1500, 4000, 16_000, 4 << 20)),
            patience_ms=random.choice((50, 200, 1000)) if self.faulty else PATIENT_MS,
            grace_ms=random.choice((1200, 3000)) if self.faulty else BOUND_MS,
            sources_max=random.choice((256, 1 << 16)),
            unheard_bytes=self.pacing.choice((1, 100, 1 << 20)),
        )

    def draw_clients(self) -> list[ClientPlan]:
        """Processes, each with a few brokers to choose from."""
        random = self.random
        clients = []
        for number in range(random.randint(5, 9)):
            servers = random.sample(self.tree.nodes, min(len(self.tree), random.randint(1, 3)))
            leaves = not self.faulty and number and random.random() < 0.5
            clients.append(
                ClientPlan(
                    name=f"c{number}",
                    servers=tuple(servers),
                    start_ms=random.randint(0, 300) if random.random() < 0.5 else 0,
                    stop_ms=random.randint(600, LOAD_MS) if leaves else 0,
                )
            )
        return clients

    def draw_publishers(self) -> list[PublisherPlan]:
        """Enough of them for some hundred publications; now and then two hold one name."""
        random = self.random
        count = random.randint(3, 6)
        wanted = random.randint(450, 800)
        plans: list[PublisherPlan] = []
        for number in range(count):
            rows = random.choice((1, 3, 5, 8))
            batches = max(5, round(wanted / count / ((1 + rows) / 2)))
            start = random.randint(50, 400)
            twin = plans and random.random() < 0.25
            plans.append(
                self.publisher(
                    name=plans[-1].name if twin else f"p{number}",
                    client=random.choice([client.name for client in self.clients if not client.stop_ms]),
                    start_ms=start + (random.randint(100, 900) if twin else 0),
                    batches=batches,
                    rows=rows,
                    every_ms=max(1, LOAD_MS // batches),
                    space=plans[-1].space if twin else random.choice(self.spaces),
                    retry=self.faulty and random.random() < 0.5,
                )
            )
        return plans

    def draw_later_publishers(self, start: int, publishing: list[str]) -> list[PublisherPlan]:
        """Those that begin when the faults are forgotten: one in each space, at a client that has been publishing."""
        return [
            self.publisher(
                name=f"late-{space}",
                client=self.random.choice(publishing),
                start_ms=start,
                batches=20,
                rows=3,
                every_ms=self.random.choice((1, 1, 5, LATER_MS // 20)),
                space=space,
            )
            for space in self.spaces
        ]

    def draw_later_goodbyes(self, start: int, publishers: list[PublisherPlan]) -> None:
        """Some who do not publish leave while others do."""
        publishing = [publisher.client for publisher in publishers]
        for number, client in enumerate(self.clients):
            if client.name not in publishing and self.random.random() < 0.5:
                stop = start + self.random.randint(10, LATER_MS)
                self.clients[number] = msgspec.structs.replace(client, stop_ms=stop)

    def publisher(self, **fields: Any) -> PublisherPlan:
        """A publisher with a few of the attributes."""
        random = self.random
        names = random.sample(list(ATTRIBUTES), random.randint(4, len(ATTRIBUTES)))
        return PublisherPlan(
            attributes={name: ATTRIBUTES[name] for name in sorted(names)},
            absent=random.choice((0.0, 0.1, 0.3)),
            skips=random.choice((0.0, 0.1)),
            body_bytes=random.choice((8, 8, 100)),
            queue_bytes=random.choice((2000, 1 << 16)),
            **fields,
        )

    def draw_subscribers(self) -> list[SubscriberPlan]:
        """Those of the beginning: some come late, some leave, some read slowly."""
        random = self.random
        plans = []
        for number in range(random.randint(6, 12)):
            start = random.choice((0, 0, random.randint(0, 1200)))
            pace = random.choice((0.0, 0.0, random.uniform(0.5, 3)))
            plans.append(
                self.subscriber(
                    name=f"s{number}",
                    client=random.choice(self.clients).name,
                    start_ms=start,
                    stop_ms=start + random.randint(200, 1500) if random.random() < 0.35 else 0,
                    pace_ms=round(pace, 1),
                )
            )
        return plans

    def draw_later_subscribers(self, start: int) -> list[SubscriberPlan]:
        """Those who come when the faults are forgotten."""
        return [
            self.subscriber(name=f"late{number}", client=client.name, start_ms=start + self.random.randint(1, 300))
            for number, client in enumerate(self.random.sample(self.clients, min(4, len(self.clients))))
        ]

    def subscriber(self, **fields: Any) -> SubscriberPlan:
        """A subscriber with some filter; small numbers of filters make some equal."""
        random = self.random
        few: Sequence[str] = FILTERS if random.random() < 0.7 else FILTERS[:3]
        asked = (random.choice(self.spaces), random.choice(few).format(n=random.randint(1, 4)), random.choice(TOPICS))
        if self.asked and random.random() < 0.3:
            asked = random.choice(self.asked)  # the same as somebody else
        self.asked.append(asked)
        space, text, topic = asked
        return SubscriberPlan(space=space, filter=text, topic=topic, **fields)
