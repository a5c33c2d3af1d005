"""Scenarios: drawn, written, read, and refused with all that is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.model.errors import ConfigError
from gapless.sim.coverage import median
from gapless.sim.draw import random_scenario
from gapless.sim.scenario_file import read_scenario, scenario_of, write_scenario

DRAWN = [random_scenario("direct", seed) for seed in range(200)]


def test_what_is_written_is_read_again() -> None:
    """A drawn scenario, written as TOML and read, is the same; so it passes all checks."""
    for scenario in DRAWN:
        assert scenario_of(write_scenario(scenario)) == scenario


def test_draws_are_of_the_size_that_is_promised() -> None:
    """A middling scenario has at least ten brokers and five faults; about one in eight has no faults."""
    sizes = [len(scenario.topology.parents) + 1 for scenario in DRAWN]
    faults = [len(scenario.fault) for scenario in DRAWN]
    assert median(sizes) >= 10
    assert median(count for count in faults if count) >= 5
    assert 15 <= faults.count(0) <= 40
    assert 8 <= sum(scenario.network.codec for scenario in DRAWN) <= 40


def test_a_seed_draws_one_scenario() -> None:
    """The same seed draws the same scenario, another seed another."""
    assert random_scenario("direct", 1) == random_scenario("direct", 1)
    assert random_scenario("direct", 1) != random_scenario("direct", 2)


def test_unknown_deliveries_are_refused() -> None:
    """Random scenarios of a delivery that there is not are refused by name."""
    with pytest.raises(ConfigError, match="'telepathy'"):
        random_scenario("telepathy", 1)


BASE = """
[topology]
shape = "chain"
size = 2
[[client]]
name = "c"
servers = ["b0"]
"""

MISTAKES = [
    ("topology = 3", r"expected `object`.*topology"),
    ("[topology]\nshap = 'chain'", "did you mean 'shape'"),
    ("[topology]\nshape = 'ring'\nsize = 3", "no shape 'ring'"),
    ("[topology]\nparents = {a = 'b', b = 'a'}", "not a tree"),
    (BASE + "[[client]]\nname = 'c'\nservers = ['b1']", "'c' is there 2 times"),
    (BASE + "[[client]]\nname = 'd'\nservers = ['b7']", "no broker 'b7'"),
    (BASE + "[[client]]\nname = 'd'\nservers = []", "'d' has no servers"),
    (BASE + "[[space]]\nname = 'x'\ndelivery = 'pigeon'", "no delivery 'pigeon'"),
    (BASE + "[[publisher]]\nclient = 'd'\nname = 'p'", "no client 'd'"),
    (BASE + "[[publisher]]\nclient = 'c'\nname = 'p'\nspace = 'x'", "no space 'x'"),
    (BASE + "[[publisher]]\nclient = 'c'\nname = 'p'\nrows = 0", "at least one"),
    (BASE + "[[publisher]]\nclient = 'c'\nname = 'p'\nattributes = {a = []}", "no values"),
    (BASE + "[[publisher]]\nclient = 'c'\nname = 'p'\nattributes = {a = [[1]]}", "attributes are"),
    (BASE + "[[subscriber]]\nclient = 'c'\nname = 's'\nfilter = 'price >'", "subscriber 's': .*column"),
    (BASE + "[[fault]]\nkind = 'crush'\nat_ms = 1", "did you mean 'crash'"),
    (BASE + "[[fault]]\nkind = 'crash'\nat_ms = 1\ntarget = 'b0'", "for_ms is missing"),
    (BASE + "[[fault]]\nkind = 'crash'\nat_ms = 1\nfor_ms = 5\ntarget = 'b0'", "make calm_ms later"),
    (BASE + "[[fault]]\nkind = 'move'\nat_ms = 0\ntarget = 'b0'", "name one of c"),
    (BASE + "[[fault]]\nkind = 'link'\nat_ms = 0\nfor_ms = 1\ntarget = 'b0'", "name the other end"),
    (BASE + "[[fault]]\nkind = 'move'\nat_ms = 0\nfor_ms = 1\ntarget = 'c'", "happens at a moment"),
    (BASE + "[[fault]]\nkind = 'pause'\nat_ms = 0\nfor_ms = 1\ntarget = 'c'\nfactor = 2.0", "factor means nothing"),
    ("end_ms = 5\n" + BASE, "end_ms is 5"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_mistakes_are_told(text: str, said: str) -> None:
    """What is wrong with a scenario is said in a sentence that names it."""
    with pytest.raises(ConfigError, match=said):
        scenario_of(text)


def test_all_mistakes_are_told_at_once() -> None:
    """One message has everything that is wrong."""
    with pytest.raises(ConfigError) as told:
        scenario_of("end_ms = 5\n" + BASE + "[[publisher]]\nclient = 'd'\nname = 'p'\nspace = 'x'")
    assert str(told.value).count(";") >= 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(ConfigError, match=r"gone\.toml cannot be read"):
        read_scenario(tmp_path / "gone.toml")
