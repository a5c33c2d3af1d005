"""The cluster of a test: from a few words, or from the file that the application's brokers have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gapless.model.errors import ConfigError
from gapless.node.config import ClusterConfig, load_config, parse_config
from gapless.node.config_default import SHAPES

BASE_PORT = 7400
Brokers = int | Mapping[str, str | None]
Spaces = str | Iterable[str] | Mapping[str, Mapping[str, Any]]


def cluster_of(
    brokers: Brokers,
    spaces: Spaces,
    shape: str,
    tuning: Mapping[str, int] | None,
    limits: Mapping[str, int] | None,
    config: str | Path | ClusterConfig | None,
) -> ClusterConfig:
    """The configuration that these words mean. Raises ConfigError, as a broker that is started with it would."""
    if isinstance(config, ClusterConfig):
        return config
    if config is not None:
        return load_config(config)
    lines = ["[cluster]", 'name = "overlay"']
    for number, (broker, parent) in enumerate(_parents(brokers, shape).items()):
        lines += ["[[broker]]", f"id = {_toml(broker)}", f'listen = "127.0.0.1:{BASE_PORT + number}"']
        lines += [f"parent = {_toml(parent)}"] if parent is not None else []
    for space, settings in _settings(spaces).items():
        lines += ["[[space]]", *_pairs({"name": space, "delivery": "direct", **settings})]
    lines += ["[tuning]", *_pairs(tuning or {}), "[limits]", *_pairs(limits or {})]
    return parse_config("\n".join(lines), "overlay")


def _parents(brokers: Brokers, shape: str) -> dict[str, str | None]:
    if isinstance(brokers, Mapping):
        return dict(brokers)
    if shape not in SHAPES:
        raise ConfigError(f'There is no shape "{shape}"; there are {", ".join(SHAPES)}.')
    parent_of, _ = SHAPES[shape]
    return {f"b{number}": f"b{parent_of(number)}" if number else None for number in range(brokers)}


def _settings(spaces: Spaces) -> dict[str, Mapping[str, Any]]:
    if isinstance(spaces, Mapping):
        return dict(spaces)
    return {space: {} for space in ([spaces] if isinstance(spaces, str) else spaces)}


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{_toml(key)} = {_toml(value)}" for key, value in values.items()]


def _toml(value: object) -> str:
    """A value as TOML writes it, which is as JSON does, but for tables."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_pairs(value)) + " }"
    return json.dumps(value, ensure_ascii=False)
