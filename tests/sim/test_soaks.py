"""Soaks, their coverage, and the mutants that prove that the checker sees."""

from __future__ import annotations

import importlib
import inspect

import pytest

from gapless.model.errors import ConfigError
from gapless.sim.coverage import ENOUGH_RUNS, Coverage, expected
from gapless.sim.hazards import HAZARDS
from gapless.sim.mutants import MUTANTS, Mutant, edited, mutant_named
from gapless.sim.soak import CATCHES, Hunted, Soaked, hunt, soak, unhunted
from gapless.sim.worker import Result

DIRECT = MUTANTS["direct"]


@pytest.mark.parametrize("mutant", DIRECT, ids=lambda mutant: mutant.name)
def test_mutants_fit_the_source(mutant: Mutant) -> None:
    """What a mutant edits stands in the shipped module exactly once, and what comes of it compiles."""
    source = inspect.getsource(importlib.import_module(mutant.module))
    changed = edited(source, mutant)
    assert changed != source
    compile(changed, mutant.module, "exec")


def test_every_hazard_is_hunted() -> None:
    """There is a mutant for every named hazard, and none for another."""
    for delivery, hazards in HAZARDS.items():
        assert unhunted(delivery, hazards) == []
        assert [mutant.name for mutant in MUTANTS[delivery] if mutant.hazard not in hazards] == []


def test_mutants_out_of_date_are_told() -> None:
    """A mutant whose text is gone, or there twice, is refused by name."""
    with pytest.raises(ConfigError, match="occurs 0 times"):
        edited("nothing here", DIRECT[0])
    with pytest.raises(ConfigError, match="occurs 2 times"):
        edited(DIRECT[0].old * 2, DIRECT[0])
    with pytest.raises(ConfigError, match="no mutant 'xyzzy'"):
        mutant_named("direct", "xyzzy")


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("everything-for-everyone", "no-invention"),
        ("fence-oneself", "justified-gap"),
        ("one-too-many-is-old", "all-delivered"),
        ("keep-the-room", "state-drained"),
    ],
)
def test_mutants_are_caught(name: str, promise: str) -> None:
    """The checker sees these within a few seeds, by the promise that they break, from the history alone."""
    hunted = hunt("direct", name, range(12), 1)
    assert any(promise == broken for result in hunted.caught for broken, _ in result.violations), hunted.line()


def test_hunts_end_when_the_mutant_is_caught_often_enough() -> None:
    """A hunt is over at the third catch, wherever that is, and does not depend on how many processes run it."""
    one, two = hunt("direct", "any-end-ends-all", range(200), 1), hunt("direct", "any-end-ends-all", range(200), 2)
    assert one.results[-1].caught
    assert len(one.caught) == CATCHES
    assert [(r.seed, r.digest) for r in one.results] == [(r.seed, r.digest) for r in two.results]


def test_soaks_do_not_depend_on_jobs() -> None:
    """One process or two: the same results, and some of them clean."""
    one, two = soak("direct", range(19, 25), 1), soak("direct", range(19, 25), 2)
    assert one.digest == two.digest
    assert [r.digest for r in one.results] == [r.digest for r in two.results]
    assert one.coverage.lines() == two.coverage.lines()
    assert one.ok, "\n".join(one.lines())
    assert one.differing == []


def test_what_never_occurred_is_a_failure() -> None:
    """A soak of enough runs in which something expected never occurred is not clean, and says what it was."""
    everything = dict.fromkeys(expected("direct"), 1)
    some = {name: count for name, count in everything.items() if name != "hazard:overtaken"}
    size = {"publications": 600, "brokers": 12, "faults_under_load": 7, "faulty": True, "digest": "x"}

    def soaked(coverage: dict[str, int], runs: int = ENOUGH_RUNS) -> Soaked:
        results = [Result(seed=n, coverage=coverage, **size) for n in range(runs)]  # type: ignore[arg-type]  # as named above
        return Soaked("direct", results, [])

    assert soaked(everything).ok
    assert soaked(some).shortcomings() == ["hazard:overtaken never occurred"]
    assert soaked(some, ENOUGH_RUNS - 1).ok


def test_small_runs_do_not_count() -> None:
    """A soak whose middling run is too small is not clean."""
    everything = dict.fromkeys(expected("direct"), 1)
    results = [Result(seed=n, coverage=everything, publications=10, brokers=12) for n in range(ENOUGH_RUNS)]
    assert not Soaked("direct", results, []).ok


def test_differing_digests_are_a_failure() -> None:
    """A seed that gave another digest in another process makes a soak unclean."""
    assert Soaked("direct", [Result(seed=20)], [20]).shortcomings() == [
        "seed 20 gave another digest in another process"
    ]


def test_a_mutant_that_raises_is_not_caught() -> None:
    """Only a broken promise counts as caught; a core that raises does not."""
    hunted = Hunted(DIRECT[0], [Result(seed=1, raised="KeyError: 3")])
    assert hunted.caught == []
    assert "ESCAPED" in hunted.line()
    assert "raised in 1" in hunted.line()


def test_coverage_counts_runs() -> None:
    """However often something occurs in a run, it is one run in which it did."""
    coverage = Coverage("direct")
    coverage.add({"fault:crash": 5})
    coverage.add({"fault:crash": 1, "fault:link": 0})
    assert coverage.seen == {"fault:crash": 2}
    assert "fault:link" in coverage.missing()
    assert "fault:disk-lost" not in coverage.missing()
