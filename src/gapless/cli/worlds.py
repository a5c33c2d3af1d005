"""Scenarios as they are named on command lines: a file, or drawn from the seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.sim.scenario import Scenario

RANDOM = "random:"


def scenario_named(name: str, seed: int) -> Scenario:
    """The scenario of that name. Raises ConfigError when there is none, or something is wrong with it."""
    from gapless.sim.draw import random_scenario
    from gapless.sim.scenario_file import read_scenario

    if name.startswith(RANDOM):
        return random_scenario(name.removeprefix(RANDOM), seed)
    return read_scenario(Path(name))
