"""What a cluster is: its brokers, their tree, its spaces, limits and tuning, read from a file and checked whole.

Whatever is wrong is found before anything starts and said in one error. docs/configuration.md describes every key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gapless.delivery.port import WINDOW_BYTES
from gapless.delivery.port import Tuning as CoreTuning
from gapless.model.errors import ConfigError
from gapless.model.types import AttributeType
from gapless.node.config_default import default_config
from gapless.node.config_rules import check_brokers, check_sizes, check_spaces
from gapless.node.tables import (
    REQUIRED,
    Address,
    Key,
    Problems,
    Table,
    Wrong,
    address,
    flag,
    name,
    nearest,
    shown,
    text,
    whole,
)
from gapless.overlay import Tree

__all__ = [
    "Address",
    "BrokerConfig",
    "ClusterConfig",
    "Limits",
    "SpaceConfig",
    "Tuning",
    "default_config",
    "load_config",
    "parse_config",
]

DELIVERIES = ("direct",)
LATER_DELIVERIES = ("stream", "delta", "keyed")
ATTRIBUTE_NAME_BYTES_MAX = 255
KIB, MIB = 1024, 1024 * 1024
_CORE = CoreTuning()


def _setting(default: int, least: int, most: int) -> Any:
    """A number of the configuration with its bounds beside its default, so that each is written down once."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass(frozen=True, slots=True)
class Limits:
    """How large what a peer sends may be; beyond it is refused, and harms only who sent it."""

    frame_bytes_max: int = _setting(8 * MIB, 128 * KIB, 1024 * MIB)
    body_bytes_max: int = _setting(1 * MIB, 1, 1023 * MIB)
    attributes_max: int = _setting(64, 1, 1024)
    attribute_bytes_max: int = _setting(64 * KIB, 16, 16 * MIB)
    interest_bytes_max: int = _setting(64 * MIB, 64 * KIB, 4096 * MIB)
    names_max: int = _setting(4096, 1, 1 << 24)
    connections_max: int = _setting(10_000, 1, 1 << 20)


@dataclass(frozen=True, slots=True)
class Tuning:
    """How long to wait for what, and how much may be under way."""

    heartbeat_ms: int = _setting(1_000, 10, 60_000)
    suspect_after_ms: int = _setting(5_000, 20, 600_000)
    handshake_ms: int = _setting(5_000, 100, 60_000)
    redial_min_ms: int = _setting(100, 1, 60_000)
    redial_max_ms: int = _setting(5_000, 1, 600_000)
    drain_ms: int = _setting(10_000, 0, 600_000)
    credit_bytes: int = _setting(WINDOW_BYTES, 128 * KIB, 4096 * MIB)
    patience_ms: int = _setting(_CORE.patience_ms, 0, 600_000)
    grace_ms: int = _setting(_CORE.grace_ms, 0, 600_000)
    sources_max: int = _setting(_CORE.sources_max, 1, 1 << 24)


_LIMITS, _TUNING = Limits(), Tuning()


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker: where it listens, whom it hangs on (None: it is the root), where its health and metrics are."""

    id: str
    listen: Address
    parent: str | None = None
    http: Address | None = None
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class SpaceConfig:
    """One space. Limits that it does not set itself are those of the cluster."""

    name: str
    delivery: str = "direct"
    attributes: Mapping[str, AttributeType] = field(default_factory=dict)
    body_bytes_max: int = _LIMITS.body_bytes_max
    credit_bytes: int = _TUNING.credit_bytes
    patience_ms: int = _TUNING.patience_ms
    grace_ms: int = _TUNING.grace_ms
    sources_max: int = _TUNING.sources_max


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A whole cluster, as every broker of it knows it. Below `data` brokers keep their files."""

    name: str
    data: Path
    brokers: tuple[BrokerConfig, ...]
    spaces: tuple[SpaceConfig, ...]
    limits: Limits = field(default_factory=Limits)
    tuning: Tuning = field(default_factory=Tuning)

    def tree(self) -> Tree:
        """The tree that the brokers form."""
        return Tree((broker.id, broker.parent) for broker in self.brokers)

    def broker(self, broker_id: str) -> BrokerConfig:
        """The broker of that id."""
        for broker in self.brokers:
            if broker.id == broker_id:
                return broker
        ids = [broker.id for broker in self.brokers]
        raise ConfigError(f'the cluster "{self.name}" has no broker {shown(broker_id)}; {nearest(broker_id, ids)}')


def load_config(path: str | Path) -> ClusterConfig:
    """Read and check a cluster.toml; a relative `data` is relative to the folder the file is in."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; name one that is there, or write one") from None
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise ConfigError(f"{path} cannot be read: {reason}; a configuration is a readable file") from None
    try:
        return parse_config(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}: this is not UTF-8; save the file as UTF-8") from None


def parse_config(text: str, origin: str = "cluster.toml") -> ClusterConfig:
    """Check the text of a cluster.toml; `origin` is what messages call it, and where a relative `data` starts from."""
    try:
        raw = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number too long for Python
        raise ConfigError(_syntax_error(str(error), text, origin)) from None
    problems = Problems(origin)
    tables = _read(raw, problems)
    check_brokers(tables["broker"])
    check_spaces(tables["space"], tables["limits"][0])
    check_sizes(tables["limits"][0], tables["tuning"][0], tables["space"])
    if problems.lines:
        raise ConfigError(problems.text())
    cluster, limits, tuning = (tables[one][0].values for one in ("cluster", "limits", "tuning"))
    return ClusterConfig(
        name=cluster["name"],
        data=Path(origin).parent / cluster["data"],
        brokers=tuple(BrokerConfig(**table.values) for table in tables["broker"]),
        spaces=tuple(SpaceConfig(**_inherited(table.values, limits, tuning)) for table in tables["space"]),
        limits=Limits(**limits),
        tuning=Tuning(**tuning),
    )


def _syntax_error(message: str, content: str, origin: str) -> str:
    """What the TOML reader says, with the place first."""
    what, at, place = message.removesuffix(")").rpartition(" (at ")
    if not at:
        what, place = message, "somewhere"
    elif place == "end of document":
        place = f"line {content.rstrip().count(chr(10)) + 1}"
    return f"{origin}: {place}: {what[:1].lower()}{what[1:]}; correct it, the file has to be TOML."


def _inherited(space: dict[str, Any], *outer: dict[str, Any]) -> dict[str, Any]:
    """The values of a space, those it leaves open taken from the tables of the cluster."""
    values = {key: value for key, value in space.items() if value is not None}
    for table in outer:
        values.update({key: table[key] for key in space if key in table and key not in values})
    return values


def _delivery(value: object) -> str:
    if value in DELIVERIES:
        return str(value)
    known = ", ".join(shown(one) for one in DELIVERIES)
    if value in LATER_DELIVERIES:
        raise Wrong(f"{shown(value)} is for a later version, this one has only {known}; write that for now")
    raise Wrong(f"{shown(value)} is not a delivery; write {known}, which is all that this version has")


def _attribute_types(value: object) -> dict[str, AttributeType]:
    """Reads the declared types, `{ price = "float64" }`."""
    if not isinstance(value, dict):
        raise Wrong(f'{shown(value)} does not declare types; write for example {{ price = "float64" }}')
    types = {one.name.lower(): one for one in AttributeType}
    sentences: list[str] = []
    for attribute, given in value.items():
        if not 1 <= len(attribute.encode()) <= ATTRIBUTE_NAME_BYTES_MAX:
            sentences.append(f"{shown(attribute)} cannot name an attribute; use 1 to {ATTRIBUTE_NAME_BYTES_MAX} bytes")
        if not isinstance(given, str) or given not in types:
            near = nearest(given, types) if isinstance(given, str) else f"there are {', '.join(types)}"
            sentences.append(f'"{attribute}" is declared as {shown(given)}, which is not a type; {near}')
        elif attribute == "topic" and given != "string":
            sentences.append('"topic" is always a string; declare it as "string" or leave it out')
    if sentences:
        raise Wrong(*sentences)
    return {attribute: types[given] for attribute, given in value.items()}


def _numbers(of: type[Limits] | type[Tuning]) -> tuple[Key, ...]:
    return tuple(
        Key(one.name, "integer", whole(one.metadata["least"], one.metadata["most"]), one.default) for one in fields(of)
    )


def _override(of: type[Limits] | type[Tuning], key: str) -> Key:
    """A number of the cluster that a space may set for itself; None where it does not."""
    return next(one for one in _numbers(of) if one.name == key)._replace(default=None)


# Every table and key there is; names of tables that may come several times are in REPEATED.
SCHEMA: dict[str, tuple[Key, ...]] = {
    "cluster": (
        Key("name", "name", name, REQUIRED, '"demo"'),
        Key("data", "path", text, "./data"),
    ),
    "broker": (
        Key("id", "name", name, REQUIRED, '"b0"'),
        Key("listen", "address", address, REQUIRED, '"127.0.0.1:7400"'),
        Key("parent", "name", text, None),
        Key("http", "address", address, None),
        Key("insecure", "boolean", flag, False),
    ),
    "space": (
        Key("name", "name", name, REQUIRED, '"quotes"'),
        Key("delivery", "delivery", _delivery, REQUIRED, '"direct"'),
        Key("attributes", "table", _attribute_types, {}),
        _override(Limits, "body_bytes_max"),
        *(_override(Tuning, key) for key in ("credit_bytes", "patience_ms", "grace_ms", "sources_max")),
    ),
    "limits": _numbers(Limits),
    "tuning": _numbers(Tuning),
}
REPEATED = {"broker": "id", "space": "name"}  # and the key that tells one from the other
_NOT_YET = 'belongs to the delivery "{}", which this version does not have; leave it out'
LATER_KEYS = {"delta": _NOT_YET.format("delta"), "order": _NOT_YET.format("stream")}


def _read(raw: Mapping[str, object], problems: Problems) -> dict[str, list[Table]]:
    """Every table of the file with its good values; of tables that come once there is exactly one."""
    for title in raw:
        if title not in SCHEMA:
            kind = "table" if isinstance(raw[title], dict | list) else "key"
            problems.add(f"{kind} {shown(title)}", f"there is no such {kind} at the top; {nearest(title, SCHEMA)}")
    tables: dict[str, list[Table]] = {}
    for title, keys in SCHEMA.items():
        tables[title] = _repeated(title, raw, problems) if title in REPEATED else [_single(title, raw, problems)]
        for table in tables[title]:
            table.read(keys, LATER_KEYS if title == "space" else None)
    return tables


def _single(title: str, raw: Mapping[str, object], problems: Problems) -> Table:
    given = raw.get(title, {})
    if isinstance(given, dict):
        return Table(f"[{title}]", given, problems)
    problems.add(f"[{title}]", f"this is not one table; write [{title}], once, and its keys below it")
    return Table(f"[{title}]", {}, Problems(problems.origin))


def _repeated(title: str, raw: Mapping[str, object], problems: Problems) -> list[Table]:
    given = raw.get(title, [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        problems.add(f"[[{title}]]", f"there may be several, so it has two brackets; write [[{title}]] above each")
        return []
    if not given:
        example = ", ".join(f"{key.name} = {key.example}" for key in SCHEMA[title] if key.default is REQUIRED)
        problems.add(f"[[{title}]]", f"there is none; add a table [[{title}]], for example with {example}")
    tables = []
    for number, one in enumerate(given, 1):
        label = one.get(REPEATED[title])
        called = f" ({shown(label)})" if isinstance(label, str) else ""
        tables.append(Table(f"[[{title}]] #{number}{called}", one, problems))
    return tables
