"""Simpler worlds: fewer brokers, and less time in which nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from msgspec.structs import replace

from gapless.sim.scenario import FaultPlan, Scenario, Topology
from gapless.sim.simpler import Simplification, tidied


def plain_topology(scenario: Scenario, seed: int | str) -> Scenario:
    """The same brokers, each with its parent: whatever a shape leaves to chance is written down."""
    tree = scenario.topology.tree(Random(f"{seed}/topology"))
    parents = {child: parent for parent, child in tree.links}
    return replace(scenario, topology=replace(scenario.topology, shape="", size=0, links=(), cells={}, parents=parents))


def fewer_brokers(scenario: Scenario) -> Simplification:
    """Melt brokers into their parents, many at once at first, then fewer, then one by one."""
    size = len(scenario.topology.parents)
    while size:
        start = 0
        while start < len(brokers := tuple(scenario.topology.parents)):
            simpler = melted(scenario, brokers[start : start + size])
            if (yield simpler):
                scenario = simpler
            else:
                start += size
        size //= 2


def melted(scenario: Scenario, brokers: Iterable[str]) -> Scenario:
    """These brokers become one with their parents; whoever used them uses what they have become part of."""
    parents = dict(scenario.topology.parents)
    became: dict[str, str] = {}
    for broker in brokers:
        became[broker] = parents.pop(broker)
    for broker in became:
        while became[broker] in became:
            became[broker] = became[became[broker]]

    def now(name: str) -> str:
        return became.get(name, name)

    parents = {child: now(parent) for child, parent in parents.items()}
    starts = {broker: at for broker, at in scenario.topology.starts_ms.items() if broker not in became}
    topology = replace(scenario.topology, parents=parents, starts_ms=starts)
    if not parents:
        topology = Topology(shape="chain", size=1, starts_ms=starts)
    return tidied(
        replace(
            scenario,
            topology=topology,
            client=tuple(
                replace(client, servers=tuple(dict.fromkeys(map(now, client.servers)))) for client in scenario.client
            ),
            fault=tuple(
                replace(fault, target=now(fault.target), peer=now(fault.peer))
                for fault in scenario.fault
                if now(fault.target) != now(fault.peer)
            ),
        )
    )


def plain_starts(scenario: Scenario) -> Simplification:
    """Brokers that start late start at once."""
    for broker in ("", *scenario.topology.starts_ms):
        starts = scenario.topology.starts_ms
        left = {name: at for name, at in starts.items() if broker and name != broker}
        simpler = replace(scenario, topology=replace(scenario.topology, starts_ms=left))
        if len(left) < len(starts) and (yield simpler):
            scenario = simpler


def plain_names(scenario: Scenario) -> Scenario:
    """Brokers, clients and what they do, numbered anew."""
    tree = scenario.topology.tree(Random(0))
    now = {old: f"b{number}" for number, old in enumerate(tree.nodes)}
    now.update((client.name, f"c{number}") for number, client in enumerate(scenario.client))
    sources = {old: f"p{n}" for n, old in enumerate(dict.fromkeys(plan.name for plan in scenario.publisher))}
    topology = scenario.topology
    parents = {now[child]: now[topology.parents[child]] for child in tree.nodes if child in topology.parents}
    starts = {now[broker]: at for broker, at in topology.starts_ms.items()}
    return replace(
        scenario,
        topology=replace(topology, parents=parents, starts_ms=starts),
        client=tuple(
            replace(client, name=now[client.name], servers=tuple(now[server] for server in client.servers))
            for client in scenario.client
        ),
        publisher=tuple(replace(plan, name=sources[plan.name], client=now[plan.client]) for plan in scenario.publisher),
        subscriber=tuple(
            replace(plan, name=f"s{number}", client=now[plan.client]) for number, plan in enumerate(scenario.subscriber)
        ),
        fault=tuple(replace(fault, target=now[fault.target], peer=now.get(fault.peer, "")) for fault in scenario.fault),
    )


def plain_shape(scenario: Scenario) -> Scenario:
    """Brokers in a row are called so."""
    parents = scenario.topology.parents
    if not parents or any(parents.get(f"b{number}") != f"b{number - 1}" for number in range(1, len(parents) + 1)):
        return scenario
    shaped = Topology(shape="chain", size=len(parents) + 1, starts_ms=scenario.topology.starts_ms)
    return replace(scenario, topology=shaped)


# --- time


def less_time(scenario: Scenario) -> Simplification:
    """Between one thing and the next less time passes."""
    for share in (1, 2, 4):
        place = 1
        while place < len(moments := _moments(scenario)):
            before, after = moments[place - 1], moments[place]
            cut = (after - before) // share
            simpler = _squeezed(scenario, after, cut)
            if cut and _settling(simpler) == _settling(scenario) and (yield simpler):
                scenario = simpler
            else:
                place += 1


def calm_at_once(scenario: Scenario) -> Simplification:
    """Calm begins with the end of the last fault, and the end is as soon as what is owed is due."""
    over = max((fault.at_ms + fault.for_ms for fault in scenario.fault), default=0)
    if over < scenario.calm_ms:
        simpler = replace(scenario, calm_ms=over)
        if (yield simpler):
            scenario = simpler
    least = scenario.calm_ms + scenario.bound_ms
    for end in (least, (least + scenario.end_ms) // 2):
        if end < scenario.end_ms and (yield replace(scenario, end_ms=end)):
            return


def _moments(scenario: Scenario) -> list[int]:
    """When something begins or ends, rising."""
    found = {0, scenario.calm_ms, scenario.end_ms, *scenario.topology.starts_ms.values()}
    if scenario.fault:
        found.add(scenario.calm_ms + scenario.settle_ms)
    for client in scenario.client:
        found |= {client.start_ms, client.stop_ms}
    for publisher in scenario.publisher:
        found.add(publisher.start_ms)
    for subscriber in scenario.subscriber:
        found |= {subscriber.start_ms, subscriber.stop_ms}
    for fault in scenario.fault:
        found |= {fault.at_ms, fault.at_ms + fault.for_ms}
    return sorted(found)


def _settling(scenario: Scenario) -> tuple[int, int]:
    """Who comes before the world has settled, and who after: what the second verdict is about stays the same."""
    settled = scenario.calm_ms + scenario.settle_ms
    later = [plan.start_ms >= settled for plan in scenario.publisher]
    later += [plan.start_ms >= settled for plan in scenario.subscriber]
    return sum(later), len(later)


def _squeezed(scenario: Scenario, since: int, by: int) -> Scenario:
    """Everything from this moment on comes so much earlier."""

    def moved(at: int) -> int:
        return at - by if at >= since else at

    def moved_fault(fault: FaultPlan) -> FaultPlan:
        at = moved(fault.at_ms)
        return replace(fault, at_ms=at, for_ms=moved(fault.at_ms + fault.for_ms) - at)

    return replace(
        scenario,
        calm_ms=moved(scenario.calm_ms),
        end_ms=moved(scenario.end_ms),
        topology=replace(
            scenario.topology, starts_ms={name: moved(at) for name, at in scenario.topology.starts_ms.items()}
        ),
        client=tuple(
            replace(plan, start_ms=moved(plan.start_ms), stop_ms=moved(plan.stop_ms)) for plan in scenario.client
        ),
        publisher=tuple(replace(plan, start_ms=moved(plan.start_ms)) for plan in scenario.publisher),
        subscriber=tuple(
            replace(plan, start_ms=moved(plan.start_ms), stop_ms=moved(plan.stop_ms)) for plan in scenario.subscriber
        ),
        fault=tuple(map(moved_fault, scenario.fault)),
    )


def rounded(scenario: Scenario) -> Simplification:
    """Times become multiples of a hundred, or of ten, where that does no harm."""
    for unit in (100, 10):
        for since in reversed(_moments(scenario)):
            by = since % unit
            simpler = _squeezed(scenario, since, by)
            if by and _settling(simpler) == _settling(scenario) and (yield simpler):
                scenario = simpler


WORLDS: tuple[Callable[[Scenario], Simplification], ...] = (fewer_brokers, plain_starts)
TIMES: tuple[Callable[[Scenario], Simplification], ...] = (calm_at_once, less_time, rounded)
