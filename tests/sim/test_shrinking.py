"""Failures that shrink themselves, to files that fail for the same reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.sim.test_runs import chain

from gapless.cli.main import main
from gapless.delivery.direct import leaf
from gapless.model.errors import ConfigError
from gapless.sim.draw import random_scenario
from gapless.sim.run import run
from gapless.sim.scenario import Topology
from gapless.sim.scenario_file import check_scenario, scenario_of, write_scenario
from gapless.sim.shrink import PASSES, Reason, Size, shrink
from gapless.sim.simpler import tidied
from gapless.sim.simpler_worlds import melted, plain_names, plain_shape, plain_topology

SMALL = {"faults": 2, "brokers": 3, "subscriptions": 2, "publications": 5}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a soak with a planted bug has written what it found."""
    folder = tmp_path_factory.mktemp("failures")
    planted = ["soak", "direct", "--seeds", "3:8", "--mutant", "order-of-arrival"]
    assert main([*planted, "--failures", str(folder)]) == 0
    return folder


def seed_in(scenario: Path) -> str:
    """The seed that the first line of a shrunk scenario names."""
    return scenario.read_text().partition(" with seed ")[2].partition(".")[0]


def test_a_soak_shrinks_what_it_finds(found: Path) -> None:
    """A planted bug that a soak has found is written down as a few lines that a person can read, with their trace."""
    (path,) = found.glob("*.toml")
    scenario = scenario_of(path.read_text())
    assert path.read_text().startswith("# publisher-order is broken with seed ")
    assert "was delivered after" in path.read_text()
    assert "The shipped cores keep every promise in it." in path.read_text()
    assert len(scenario.fault) <= SMALL["faults"]
    assert len(plain_topology(scenario, 0).topology.parents) < SMALL["brokers"]
    assert len(scenario.subscriber) <= SMALL["subscriptions"]
    assert sum(plan.batches * plan.rows for plan in scenario.publisher) <= SMALL["publications"]
    assert len(path.with_suffix(".txt").read_text().splitlines()) < 100


def test_what_was_shrunk_fails_for_the_same_reason(found: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Run from its file with the planted bug it breaks the promise that it is said to break; without, it keeps all."""
    (path,) = found.glob("*.toml")
    again = ["sim", str(path), "--seed", seed_in(path), "--json"]
    assert main([*again, "--mutant", "order-of-arrival"]) == 1
    assert json.loads(capfd.readouterr().out)["violations"][0]["promise"] == "publisher-order"
    assert main(again) == 0


def test_shrinking_depends_on_scenario_and_seed_alone(
    found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shrunk once more, by a command of its own, the failure becomes the same scenario with the same trace."""
    again = ["shrink", "random:direct", "--seed", "5", "--mutant", "order-of-arrival", "--failures", str(tmp_path)]
    assert main([*again, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (path,) = found.glob("*.toml")
    assert scenario_of(Path(told["scenario"]).read_text()) == scenario_of(path.read_text())
    assert Path(told["trace"]).read_text() == path.with_suffix(".txt").read_text()
    assert told["finished"]
    assert all(told["after"][name] <= most for name, most in SMALL.items())
    assert told["before"]["publications"] > 500


def test_what_does_not_fail_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario that keeps every promise is not shrunk, a sentence says so, and nothing is written."""
    assert main(["shrink", "random:direct", "--seed", "2", "--failures", str(tmp_path / "none")]) == 2
    assert "every promise holds in this scenario with seed 2" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_clean_soak_writes_nothing(tmp_path: Path) -> None:
    """Where nothing fails there is nothing to shrink."""
    assert main(["soak", "direct", "--seeds", "2:3", "--failures", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none").exists()


def test_what_is_raised_shrinks_to_the_same_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that raises is a failure as well: of the same kind, at the same place."""
    kept = leaf.DirectLeaf.on_match

    def on_match(self: leaf.DirectLeaf, message: object, now: object) -> None:
        if message.batch.last > 20:  # type: ignore[attr-defined]  # a Match
            raise KeyError("planted")
        kept(self, message, now)  # type: ignore[arg-type]  # a Match, and the time

    monkeypatch.setattr(leaf.DirectLeaf, "on_match", on_match)
    shrunk = shrink(chain(), 1)
    assert shrunk.reason.startswith("KeyError (test_shrinking.py:")
    assert shrunk.after.brokers == 1
    assert 20 < shrunk.after.publications <= 2 * 20 + 2
    assert shrunk.trace.splitlines()[-1].startswith("raised KeyError")


def test_runs_and_time_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """When runs or time are used up, what has been found by then is told, and that there may be less."""
    monkeypatch.setattr(leaf.DirectLeaf, "on_match", lambda self, message, now: None)
    assert not shrink(chain(), 1, runs_max=4).finished
    assert shrink(chain(), 1, runs_max=4).runs == 4
    assert not shrink(chain(), 1, seconds_max=0.0).finished
    with pytest.raises(ConfigError, match="nothing to shrink"):
        monkeypatch.undo()
        shrink(chain(), 1)


def test_reasons_are_alike_when_the_promise_is() -> None:
    """What shows only after the faults may come to show at once, and not the other way round."""
    at_once, later = Reason("gapless"), Reason("gapless", later=True)
    assert at_once.like(later) and at_once.like(at_once)
    assert not later.like(at_once)
    assert not at_once.like(Reason("no-duplicate"))


@settings(max_examples=25)
@given(st.integers(0, 60), st.data())
def test_every_simplification_can_be_written_and_comes_to_an_end(seed: int, data: st.DataObject) -> None:
    """Whatever is kept and whatever is not, each way to simplify ends, and what it yields is valid or refused."""
    scenario = tidied(plain_topology(random_scenario("direct", seed), seed))
    for simplify in PASSES:
        keep = data.draw(st.integers(0, 4))
        steps, yielded = simplify(scenario), 0
        candidate = next(steps, None)
        while candidate is not None:
            yielded += 1
            assert yielded < 3000
            try:
                check_scenario(candidate)
                sound = True
            except ConfigError:
                sound = False
            if sound and yielded % 50 == 1:
                assert scenario_of(write_scenario(candidate)) == candidate
            if sound and keep and yielded % keep == 0:
                scenario = candidate
                answer = True
            else:
                answer = False
            try:
                candidate = steps.send(answer)
            except StopIteration:
                candidate = None


def test_brokers_melt_into_their_parents() -> None:
    """Who used a broker that is gone uses the one that it has become part of; faults between the two are gone."""
    scenario = plain_topology(random_scenario("direct", 27), 27)
    parents = scenario.topology.parents
    gone = tuple(parents)[2:5]
    simpler = melted(scenario, gone)
    assert list(simpler.topology.parents) == [name for name in parents if name not in gone]
    check_scenario(simpler)
    alone = melted(scenario, tuple(parents))
    assert len(alone.topology.tree(None).nodes) == 1  # type: ignore[arg-type]  # nothing is left to chance
    assert {server for client in alone.client for server in client.servers} == {"b0"}


def test_a_plain_topology_is_the_same_one() -> None:
    """Parents that are written down, and brokers in a row that are called so, give the run that they gave before."""
    drawn = replace(chain(), topology=Topology(shape="random", size=7))
    assert run(plain_topology(drawn, 3), 3).digest == run(drawn, 3).digest
    scenario = plain_topology(replace(chain(), client=chain().client[::-1]), 1)
    assert plain_shape(scenario).topology.shape == "chain"
    assert run(plain_shape(scenario), 1).digest == run(scenario, 1).digest


def test_names_are_numbered() -> None:
    """Plain names are plain already, and nothing else changes with them."""
    scenario = plain_names(tidied(plain_topology(random_scenario("direct", 12), 12)))
    assert plain_names(scenario) == scenario
    assert [client.name for client in scenario.client] == [f"c{number}" for number in range(len(scenario.client))]


def test_sizes_are_told() -> None:
    """A size is read as a list of what there is."""
    size = Size(faults=1, brokers=2, subscriptions=3, publications=4, ms=5)
    assert str(size) == "1 faults, 2 brokers, 3 subscriptions, 4 publications, 5 ms"
