"""Scenarios as TOML, both ways, and what must hold of one before it is run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from gapless.delivery.catalogue import DELIVERIES
from gapless.filters import Interest
from gapless.model.columns import check_attributes
from gapless.model.errors import AttributeTypeError, ConfigError, FilterError
from gapless.overlay import TreeError
from gapless.sim.faults import KINDS
from gapless.sim.scenario import FaultPlan, PublisherPlan, Scenario, SubscriberPlan


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file. Raises ConfigError, which says all that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path} cannot be read: {why}; name a scenario file, or random:DELIVERY") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8; a scenario is a TOML file") from None
    return scenario_of(text, str(path))


def scenario_of(text: str, name: str = "the scenario") -> Scenario:
    """The scenario of a text. Raises ConfigError, which says all that is wrong with it."""
    try:
        scenario = msgspec.toml.decode(text, type=Scenario)
    except msgspec.DecodeError as error:
        said = str(error)
        advice = _advice(said) or "; docs/simulator.md shows what a scenario may say"
        raise ConfigError(f"{name}: {said[:1].lower()}{said[1:]}{advice}") from None
    check_scenario(scenario, name)
    return scenario


def _advice(error: str) -> str:
    """The key that may have been meant."""
    if "unknown field" not in error:
        return ""
    written = error.split("`")[1]
    fields = [field.name for part in _parts() for field in msgspec.structs.fields(part)]
    near = get_close_matches(written, fields, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _parts() -> Iterator[type[msgspec.Struct]]:
    from gapless.sim import scenario as parts

    for part in vars(parts).values():
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            yield part


def check_scenario(scenario: Scenario, name: str = "the scenario") -> None:
    """Raise ConfigError with everything that is wrong."""
    flaws = list(_flaws(scenario))
    if flaws:
        raise ConfigError(f"{name}: " + "; ".join(flaws))


def _flaws(scenario: Scenario) -> Iterator[str]:
    try:
        brokers = scenario.topology.tree(Random(0)).nodes
    except TreeError as error:
        yield f"topology: {error}"
        return
    if scenario.topology.shape not in ("", "chain", "star", "random"):
        yield f"topology: there is no shape {scenario.topology.shape!r}: use chain, star or random"
    for broker in scenario.topology.starts_ms:
        if broker not in brokers:
            yield f"topology: starts_ms names {broker!r}, which is not a broker"
    yield from _space_flaws(scenario)
    yield from _client_flaws(scenario, brokers)
    yield from _application_flaws(scenario)
    for number, fault in enumerate(scenario.fault, 1):
        for flaw in _fault_flaws(fault, scenario, brokers):
            yield f"fault {number} ({fault.kind} at {fault.at_ms} ms): {flaw}"
    begins = scenario.calm_ms + scenario.bound_ms
    if scenario.end_ms < begins:
        yield f"end_ms is {scenario.end_ms}: liveness is judged bound_ms after calm_ms, so make it {begins} or more"


def _space_flaws(scenario: Scenario) -> Iterator[str]:
    for space in scenario.space:
        if space.delivery not in DELIVERIES:
            known = ", ".join(DELIVERIES)
            yield f"space {space.name!r}: there is no delivery {space.delivery!r}: there are {known}"
    yield from _repeated("space", [space.name for space in scenario.space])


def _client_flaws(scenario: Scenario, brokers: tuple[str, ...]) -> Iterator[str]:
    yield from _repeated("client", [*brokers, *(client.name for client in scenario.client)])
    for client in scenario.client:
        if not client.servers:
            yield f"client {client.name!r} has no servers: name at least one broker"
        for server in client.servers:
            if server not in brokers:
                yield f"client {client.name!r}: there is no broker {server!r}: there are {', '.join(brokers)}"


def _application_flaws(scenario: Scenario) -> Iterator[str]:
    clients = [client.name for client in scenario.client]
    spaces = [space.name for space in scenario.space]
    yield from _repeated("subscriber", [subscriber.name for subscriber in scenario.subscriber])
    plans: list[PublisherPlan | SubscriberPlan] = [*scenario.publisher, *scenario.subscriber]
    for plan in plans:
        what = f"{'publisher' if isinstance(plan, PublisherPlan) else 'subscriber'} {plan.name!r}"
        if plan.client not in clients:
            yield f"{what}: there is no client {plan.client!r}: add it as [[client]]"
        if plan.space not in spaces:
            yield f"{what}: there is no space {plan.space!r}: add it as [[space]]"
    for subscriber in scenario.subscriber:
        try:
            Interest.parse(subscriber.filter, subscriber.topic)
        except FilterError as error:
            yield f"subscriber {subscriber.name!r}: {error}"
    for publisher in scenario.publisher:
        if publisher.rows < 1:
            yield f"publisher {publisher.name!r}: rows is {publisher.rows}: a batch has at least one"
        for name, values in publisher.attributes.items():
            if not values:
                yield f"publisher {publisher.name!r}: attribute {name!r} has no values to choose from"
            try:
                for value in values:
                    check_attributes({name: value})
            except AttributeTypeError as error:
                yield f"publisher {publisher.name!r}: {error}"


def _fault_flaws(fault: FaultPlan, scenario: Scenario, brokers: tuple[str, ...]) -> Iterator[str]:
    kind = KINDS.get(fault.kind)
    if kind is None:
        near = get_close_matches(fault.kind, KINDS, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(KINDS)}"
        yield f"no such kind; {advice}"
        return
    clients = tuple(client.name for client in scenario.client)
    allowed = {"broker": brokers, "client": clients}.get(kind.target, brokers + clients)
    if fault.target not in allowed:
        yield f"target is {fault.target!r}: name one of {', '.join(allowed)}"
    if kind.peer and fault.peer not in brokers + clients:
        yield f"peer is {fault.peer!r}: name the other end"
    if not kind.peer and fault.peer:
        yield "it has no peer: leave it out"
    for field, unset in (("factor", 1.0), ("by_ms", 0), ("effects", 0), ("unplugged", False)):
        if field not in kind.fields and getattr(fault, field) != unset:
            yield f"{field} means nothing here: leave it out"
    if fault.factor <= 0:
        yield f"factor is {fault.factor}: it must be above 0"
    if kind.lasts and fault.for_ms <= 0:
        yield "for_ms is missing: say how long it lasts"
    if not kind.lasts and fault.for_ms:
        yield "for_ms means nothing here: it happens at a moment"
    if fault.at_ms + fault.for_ms > scenario.calm_ms:
        yield f"it is over at {fault.at_ms + fault.for_ms} ms, after calm_ms ({scenario.calm_ms}): make calm_ms later"


def _repeated(what: str, names: list[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{what} {name!r} is there {names.count(name)} times: names are used once"


def write_scenario(scenario: Scenario) -> str:
    """The scenario as TOML, which `scenario_of` reads again. What is as it is by default is left out."""
    return "\n".join(_table(_said(scenario), ())) + "\n"


def _said(part: msgspec.Struct) -> dict[str, Any]:
    """What differs from the defaults."""
    said: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(part)):
        value = getattr(part, field.encode_name)
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if field.required or value != default:
            many = isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct)
            one = _said(value) if isinstance(value, msgspec.Struct) else msgspec.to_builtins(value)
            said[field.encode_name] = [_said(each) for each in value] if many else one
    return said


def _table(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """The plain values of a table first, then its tables."""
    inner: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict) or (_is_list(value) and value and isinstance(value[0], dict)):
            inner.append((key, value))
        else:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inner:
        name = ".".join(map(_key, (*path, key)))
        for one in value if _is_list(value) else (value,):
            yield ""
            yield f"[[{name}]]" if _is_list(value) else f"[{name}]"
            yield from _table(one, (*path, key))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if _is_list(value):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
