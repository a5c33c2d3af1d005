"""Simpler scenarios: what can be taken out of one, or made plainer, without looking at why it is run.

Each simplification is a generator: it yields a scenario that is simpler in one respect, is told whether that one is
kept, and goes on from there. Every one of them moves towards less or towards a plain value, so that taking turns ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from random import Random
from typing import Any

from msgspec.structs import replace

from gapless.delivery.port import Tuning
from gapless.filters import Interest
from gapless.filters.syntax import Node, children_of, text_of
from gapless.model.errors import FilterError
from gapless.sim.network import NetworkSettings
from gapless.sim.scenario import ClientPlan, FaultPlan, PublisherPlan, Scenario, SubscriberPlan

Simplification = Generator[Scenario, bool, None]
PLAIN_NETWORK = NetworkSettings(jitter=0.0)
USUAL = {"every_ms": 10, "queue_bytes": 1 << 16, "body_bytes": 8}  # plainer than anything else, more or less


def tidied(scenario: Scenario) -> Scenario:
    """Without what has lost its sense: clients without an application, faults of what is not there, unused spaces."""
    names = {client.name for client in scenario.client}
    publishers = tuple(plan for plan in scenario.publisher if plan.client in names)
    subscribers = tuple(plan for plan in scenario.subscriber if plan.client in names)
    busy = {plan.client for plan in publishers} | {plan.client for plan in subscribers}
    spaces = {plan.space for plan in publishers} | {plan.space for plan in subscribers}
    clients = tuple(client for client in scenario.client if client.name in busy)
    there = {"", *scenario.topology.tree(Random(0)).nodes, *(client.name for client in clients)}
    return replace(
        scenario,
        client=clients,
        publisher=publishers,
        subscriber=subscribers,
        fault=tuple(fault for fault in scenario.fault if fault.target in there and fault.peer in there),
        space=tuple(space for space in scenario.space if space.name in spaces) or scenario.space[:1],
    )


def without(field: str) -> Callable[[Scenario], Simplification]:
    """Take parts out, many at once at first, then fewer, then one by one."""

    def simplify(scenario: Scenario) -> Simplification:
        size = len(getattr(scenario, field))
        while size:
            start = 0
            while start < len(items := getattr(scenario, field)):
                left = items[:start] + items[start + size :]
                simpler = tidied(replace(scenario, **{field: left}))
                if (yield simpler):
                    scenario = simpler
                else:
                    start += size
            size //= 2

    return simplify


# --- applications and the network


def later_begun(scenario: Scenario) -> Simplification:
    """A publisher leaves its first batches out, and those that follow come when they came."""
    for place in range(len(scenario.publisher)):
        for part in (2, 4, 8, 16):
            while (skipped := scenario.publisher[place].batches // part) > 0:
                plan = scenario.publisher[place]
                start = plan.start_ms + skipped * plan.every_ms
                begun = replace(plan, batches=plan.batches - skipped, start_ms=start)
                others = scenario.publisher
                simpler = replace(scenario, publisher=(*others[:place], begun, *others[place + 1 :]))
                if not (yield simpler):
                    break
                scenario = simpler


def plainer(scenario: Scenario) -> Simplification:
    """One value after the other is made plain, where it is not."""
    for field, values_of in (
        ("publisher", _plain_publisher),
        ("subscriber", _plain_subscriber),
        ("client", _plain_client),
        ("fault", _plain_fault),
    ):
        place = 0
        while place < len(getattr(scenario, field)):
            for name, value in values_of(scenario, getattr(scenario, field)[place]):
                parts = getattr(scenario, field)
                if place >= len(parts) or not _plainer_than(name, getattr(parts[place], name), value):
                    continue
                changed = replace(parts[place], **{name: value})
                simpler = tidied(replace(scenario, **{field: (*parts[:place], changed, *parts[place + 1 :])}))
                if len(getattr(simpler, field)) == len(parts) and (yield simpler):
                    scenario = simpler
            place += 1


def plain_settings(scenario: Scenario) -> Simplification:
    """The network and the constants of the cores become plain, all at once or one by one."""
    plain_tuning = replace(Tuning(), grace_ms=scenario.tuning.grace_ms)  # it must stay below the bound of the run
    for field, plain in (("network", PLAIN_NETWORK), ("tuning", plain_tuning)):
        for name in ("", *plain.__struct_fields__):
            now = getattr(scenario, field)
            changed = replace(now, **{name: getattr(plain, name)}) if name else plain
            simpler = replace(scenario, **{field: changed})
            if changed != now and (yield simpler):
                scenario = simpler


def _plainer_than(name: str, old: Any, new: Any) -> bool:
    """Whether a change goes towards less, or the usual; what a value was changed to meanwhile may be less already."""
    if (
        name not in USUAL
        and type(old) is type(new)
        and isinstance(new, int | str | tuple | dict)
        and not isinstance(new, bool)
    ):
        return bool(_weight(new) < _weight(old))
    return bool(old != new)


def _weight(value: Any) -> Any:
    if isinstance(value, dict):
        return sum(1 + len(values) for values in value.values())
    return len(value) if isinstance(value, str | tuple) else value


def _plain_publisher(scenario: Scenario, plan: PublisherPlan) -> Iterator[tuple[str, Any]]:
    yield from (("batches", count) for count in _fewer(plan.batches))
    yield from (("rows", count) for count in _fewer(plan.rows))
    yield "attributes", {}
    kept = dict(plan.attributes)
    for name in plan.attributes:
        yield "attributes", {other: kept[other] for other in kept if other != name}
    for name, values in plan.attributes.items():
        for value in values:
            yield "attributes", {name: (value,)}
    for name, values in plan.attributes.items():
        for value in values:
            yield "attributes", {**plan.attributes, name: (value,)}
    yield from (("absent", 0.0), ("skips", 0.0), ("retry", False), ("start_ms", 0))
    yield from USUAL.items()


def _plain_subscriber(scenario: Scenario, plan: SubscriberPlan) -> Iterator[tuple[str, Any]]:
    yield from (("topic", ""), ("filter", ""))
    if plan.filter:
        yield from (("filter", text) for text in sorted(_parts_of(plan.filter), key=len))
        for publisher in scenario.publisher:
            for name, values in publisher.attributes.items():
                yield from (("filter", f"{name} = {_literal(value)}") for value in values[:2])
    yield from (("pace_ms", 0.0), ("stop_ms", 0), ("start_ms", 0))


def _plain_client(scenario: Scenario, plan: ClientPlan) -> Iterator[tuple[str, Any]]:
    yield from (("servers", plan.servers[:count]) for count in range(1, len(plan.servers)))
    yield from (("servers", (server,)) for server in plan.servers[1:])
    yield from (("stop_ms", 0), ("start_ms", 0))


def _plain_fault(scenario: Scenario, plan: FaultPlan) -> Iterator[tuple[str, Any]]:
    yield from (("effects", 0), ("unplugged", False), ("by_ms", 0))
    if plan.for_ms:
        yield from (("for_ms", span) for span in (10, 50, 100, 200, 500, 1000) if span < plan.for_ms)
    if plan.factor > 10:
        yield "factor", 10.0


def _fewer(count: int) -> Iterable[int]:
    return sorted({1, 2, 3, 5, count // 4, count // 2, count * 3 // 4, count - 1} & {*range(1, count)})


def _parts_of(text: str) -> list[str]:
    """The conditions within a filter, as filters."""
    found: dict[str, None] = {}
    waiting: list[Node] = list(children_of(Interest.parse(text).filter.condition))
    while waiting:
        node = waiting.pop()
        waiting.extend(children_of(node))
        part = text_of(node)
        try:
            Interest.parse(part)
        except FilterError:
            continue  # a value, and no condition
        found[part] = None
    return list(found)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
