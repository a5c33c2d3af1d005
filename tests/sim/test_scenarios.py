"""The scenarios that come with the project, and the seeds that once showed something wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gapless.sim.draw import random_scenario
from gapless.sim.run import run
from gapless.sim.scenario_file import read_scenario

ROOT = Path(__file__).parent.parent.parent
SCENARIOS = ROOT / "scenarios"
SEEDS = ROOT / "tests" / "seeds"

# What each is about must happen in it.
HAPPENS = {
    "killed_middle": ("fault:crash", "situation:died-between-effects", "hazard:late-link"),
    "slow_consumer": ("drop:slow-subscriber", "hazard:slow-subscriber", "situation:gap-slow-subscriber"),
    "full_both_ways": ("hazard:both-full", "hazard:queue"),
    "gryphon_figure3": ("fault:stall", "fault:link", "fault:pause", "fault:crash"),
    "moving_publisher": ("hazard:overtaken", "hazard:repeated", "drop:stale"),
}
ONCE = tomllib.loads((SEEDS / "seeds.toml").read_text())["seed"]


def test_every_scenario_is_run() -> None:
    """The table above names all scenarios that there are."""
    assert sorted(HAPPENS) == sorted(path.stem for path in SCENARIOS.glob("*.toml"))


@pytest.mark.parametrize("name", HAPPENS)
def test_scenario(name: str) -> None:
    """Every promise holds in the scenario, and what it is about happens."""
    outcome = run(read_scenario(SCENARIOS / f"{name}.toml"), 1)
    assert outcome.ok, outcome.verdict.render()
    assert [what for what in HAPPENS[name] if not outcome.coverage.get(what)] == []


def test_full_brokers_lose_nothing() -> None:
    """Without faults everything accepted is delivered, however full the brokers were."""
    outcome = run(read_scenario(SCENARIOS / "full_both_ways.toml"), 1)
    judged = outcome.verdict.judged[0]
    assert "all-delivered" in judged.promises
    assert judged.deliveries == judged.accepted > 800


def test_who_comes_late_misses_nothing() -> None:
    """What begins after the faults is judged as a run without any."""
    outcome = run(read_scenario(SCENARIOS / "killed_middle.toml"), 1)
    assert outcome.later is not None
    judged = outcome.later.judged[0]
    assert "all-delivered" in judged.promises
    assert judged.deliveries == judged.owed > 100


@pytest.mark.parametrize("entry", ONCE, ids=lambda entry: entry["scenario"].removesuffix(".toml"))
def test_seed(entry: dict[str, str | int]) -> None:
    """What once went wrong with this seed does not any more."""
    outcome = run(read_scenario(SEEDS / str(entry["scenario"])), entry["seed"])
    assert outcome.ok, "\n".join(violation.message for violation in outcome.violations)


def test_every_kept_seed_says_what_it_showed() -> None:
    """The table of seeds names all scenarios beside it, each with a line on what it showed."""
    assert sorted(entry["scenario"] for entry in ONCE) == sorted(
        path.name for path in SEEDS.glob("*.toml") if path.name != "seeds.toml"
    )
    assert all(len(entry["showed"].split()) > 5 for entry in ONCE)


def test_no_world_is_drawn_in_which_patience_is_shorter_than_the_way() -> None:
    """A broker waits for a subscriber's credit at least as long as publications there and credit back can take."""
    for seed in range(300):
        scenario = random_scenario("direct", seed)
        assert scenario.tuning.patience_ms > 2 * scenario.network.way_ms_max
