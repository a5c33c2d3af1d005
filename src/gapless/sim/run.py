"""One run: a scenario and a seed become a world, the world runs, and the checker judges its history."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from time import process_time

from gapless.delivery.catalogue import DELIVERIES
from gapless.delivery.journal import declared
from gapless.delivery.wire import Codec
from gapless.filters import Interest
from gapless.model.events import HISTORY_VERSION, Event, Kind
from gapless.overlay import Tree
from gapless.sim.aftermath import aftermath
from gapless.sim.applications import Publisher, Subscriber
from gapless.sim.checker import check
from gapless.sim.checker.verdict import Verdict, Violation
from gapless.sim.faults import Faults
from gapless.sim.hazards import WATCHERS
from gapless.sim.host import Host
from gapless.sim.hosts import BrokerHost, ClientHost, Offers
from gapless.sim.network import Network
from gapless.sim.scenario import Scenario
from gapless.sim.world import MILLISECOND, Teller, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    history: list[Event]
    digest: str
    verdict: Verdict
    later: Verdict | None  # on what began after the faults, judged as a run without any
    coverage: dict[str, int]
    hops: int  # messages handed to cores
    publications: int
    faults: int
    faults_under_load: int  # that began while publications were under way
    brokers: int
    cpu_s: float  # of the world, without the checker

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The broken promises, with their witnesses."""
        return self.verdict.violations + (self.later.violations if self.later else ())

    @property
    def ok(self) -> bool:
        """Whether every promise held."""
        return not self.violations


class Stage:
    """A world with hosts in it, ready to run."""

    def __init__(self, scenario: Scenario, seed: int | str, tell: Teller | None = None) -> None:
        self.scenario = scenario
        self.world = World(seed, tell)
        self.network = Network(self.world, scenario.network)
        self.tree: Tree = scenario.topology.tree(self.world.random("topology"))
        self.hosts: dict[str, Host] = {}
        self._journal_run()
        self._add_brokers()
        self._add_clients()
        self.faults = Faults(self.world, self.network, self.hosts)
        for fault in scenario.fault:
            self.faults.plan(fault)
        self._start()

    def _journal_run(self) -> None:
        scenario = self.scenario
        for space in scenario.space:
            self.world.journal(
                Kind.RUN,
                space=space.name,
                version=HISTORY_VERSION,
                **declared(scenario.settings(space)),
                faults=bool(scenario.fault),
                limits=scenario.limits,
                bound=scenario.bound_ms * MILLISECOND,
                parents=self._parents() if not scenario.fault else None,
            )

    def _parents(self) -> dict[str, str]:
        parents = {child: parent for parent, child in self.tree.links}
        parents.update((client.name, client.servers[0]) for client in self.scenario.client)
        return parents

    def _add_brokers(self) -> None:
        spaces = [self.scenario.settings(space) for space in self.scenario.space]
        for name in self.tree.nodes:
            neighbours = self.tree.neighbours(name)
            parent = self.tree.parent(name)
            dials = () if parent is None else (parent,)
            self._add(BrokerHost(name, self.world, self.network, self.hosts, spaces, neighbours, dials))

    def _add_clients(self) -> None:
        spaces = {space.name: self.scenario.settings(space) for space in self.scenario.space}
        clients: dict[str, ClientHost] = {}
        for plan in self.scenario.client:
            host = clients[plan.name] = ClientHost(plan.name, self.world, self.network, self.hosts, plan.servers)
            self._add(host)
        offers = Offers()
        for publisher in self.scenario.publisher:
            host = clients[publisher.client]
            host.spaces[publisher.space] = spaces[publisher.space]
            host.publishers.append(Publisher(publisher, host, offers))
        for subscriber in self.scenario.subscriber:
            host = clients[subscriber.client]
            host.spaces[subscriber.space] = spaces[subscriber.space]
            interest = Interest.parse(subscriber.filter, subscriber.topic)
            host.subscribers.append(Subscriber(subscriber, host, interest))

    def _add(self, host: Host) -> None:
        self.hosts[host.name] = host
        for space in self.scenario.space:
            host.codecs[space.name] = Codec(DELIVERIES[space.delivery].messages)
            host.watchers[space.name] = WATCHERS[space.delivery](host)

    def _start(self) -> None:
        world, starts = self.world, self.scenario.topology.starts_ms
        for name in self.tree.nodes:
            world.at(starts.get(name, 0) * MILLISECOND, self.hosts[name].start)
        for plan in self.scenario.client:
            host = self.hosts[plan.name]
            assert isinstance(host, ClientHost)
            world.at(plan.start_ms * MILLISECOND, host.start)
            if plan.stop_ms:
                world.at(plan.stop_ms * MILLISECOND, self._say_goodbye, host)
        world.at(self.scenario.calm_ms * MILLISECOND, world.journal, Kind.CALM)

    def _say_goodbye(self, host: ClientHost) -> None:
        if host.alive:
            host.close()

    def finish(self) -> None:
        """Run to the end, and write down what is still held."""
        world = self.world
        world.run(self.scenario.end_ms * MILLISECOND)
        for host in self.hosts.values():
            if host.alive:
                host.held()
        world.journal(Kind.END)


def run(scenario: Scenario, seed: int | str, tell: Teller | None = None) -> Outcome:
    """Run a scenario with a seed and judge what happened."""
    began = process_time()
    collecting = gc.isenabled()
    gc.disable()  # a world makes much and lets go of nothing before its end
    try:
        stage = Stage(scenario, seed, tell)
        stage.finish()
    finally:
        if collecting:
            gc.enable()
    spent = process_time() - began
    world = stage.world
    later = None
    if scenario.fault:
        settled = (scenario.calm_ms + scenario.settle_ms) * MILLISECOND
        later = check(aftermath(world.history, settled))
    return Outcome(
        history=world.history,
        digest=world.digest(),
        verdict=check(world.history),
        later=later,
        coverage=dict(world.counts),
        hops=world.hops,
        publications=sum(event.event is Kind.PUBLISH for event in world.history),
        faults=stage.faults.done,
        faults_under_load=stage.faults.under_load,
        brokers=len(stage.tree),
        cpu_s=spent,
    )
