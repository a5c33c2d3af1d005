"""Whole runs: the thinnest one, planted bugs, and that equal seeds give equal worlds."""

from __future__ import annotations

import msgspec
import pytest

from gapless.delivery.direct import leaf
from gapless.delivery.memory import Watermarks
from gapless.model.events import Event, Kind
from gapless.sim.aftermath import aftermath
from gapless.sim.draw import random_scenario
from gapless.sim.run import Outcome, run
from gapless.sim.scenario import ClientPlan, PublisherPlan, Scenario, SubscriberPlan, Topology
from gapless.sim.soak import Worker


def chain() -> Scenario:
    """Three brokers in a row, a publisher at one end and a subscriber at the other."""
    return Scenario(
        topology=Topology(shape="chain", size=3),
        client=(ClientPlan(name="c0", servers=("b0",)), ClientPlan(name="c1", servers=("b2",))),
        publisher=(
            PublisherPlan(client="c0", name="p", start_ms=300, batches=40, rows=4, attributes={"n": (1, 2, 3)}),
        ),
        subscriber=(SubscriberPlan(client="c1", name="s", filter="n > 1"),),
    )


def delivered(outcome: Outcome) -> list[tuple[str, int]]:
    """What was handed over, in order."""
    return [(e.subscription, e.seq) for e in outcome.history if e.event is Kind.DELIVERED]


def test_one_publication_goes_through_the_house() -> None:
    """Over three brokers and without faults everything that matches arrives, and every promise holds."""
    outcome = run(chain(), 1)
    assert outcome.ok, outcome.verdict.render()
    wanted = [e.seq for e in outcome.history if e.event is Kind.PUBLISH and (e.attributes or {})["n"] != 1]
    assert delivered(outcome) == [("s", seq) for seq in wanted]
    assert len(wanted) > 20


def test_a_publication_forwarded_twice_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the last defence against repetition gone, the checker would say no-duplicate."""
    monkeypatch.setattr(Watermarks, "of", lambda self, source: -1)
    monkeypatch.setattr(leaf.DirectLeaf, "on_match", _twice(leaf.DirectLeaf.on_match))
    assert "no-duplicate" in run(chain(), 1).verdict.broken


def _twice(method: object) -> object:
    def on_match(self: object, message: object, now: object) -> None:
        method(self, message, now)  # type: ignore[operator]  # a method, called as one
        method(self, message, now)  # type: ignore[operator]  # and again

    return on_match


def test_a_lost_publication_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a publication lost on the way, the checker would say gapless, and at the end all-delivered."""
    kept = leaf.DirectLeaf.on_match

    def on_match(self: leaf.DirectLeaf, message: object, now: object) -> None:
        if message.batch.first % 7:  # type: ignore[attr-defined]  # a Match
            kept(self, message, now)  # type: ignore[arg-type]  # a Match, and the time

    monkeypatch.setattr(leaf.DirectLeaf, "on_match", on_match)
    assert {"gapless", "all-delivered"} <= set(run(chain(), 1).verdict.broken)


def test_equal_seeds_give_equal_worlds() -> None:
    """A scenario and a seed give one history and one digest; another seed gives another."""
    scenario = random_scenario("direct", 11)
    one, other = run(scenario, 11), run(scenario, 11)
    assert one.history == other.history
    assert one.digest == other.digest
    assert run(scenario, 12).digest != one.digest


def test_processes_agree() -> None:
    """Processes that hash differently agree on the digest of a run."""
    workers = [Worker("direct", hash_seed) for hash_seed in (1, 2)]
    try:
        digests = [worker.run(5).digest for worker in workers]
    finally:
        for worker in workers:
            worker.close()
    assert digests[0] == digests[1] == run(random_scenario("direct", 5), 5).digest


def test_the_codec_changes_nothing() -> None:
    """With every message encoded and decoded on its way, the same happens."""
    plain = random_scenario("direct", 3)
    coded = msgspec.structs.replace(
        plain, network=msgspec.structs.replace(plain.network, codec=not plain.network.codec)
    )
    assert run(plain, 3).history == run(coded, 3).history


def test_tracing_changes_nothing() -> None:
    """A run that is watched is the run that is not."""
    lines: list[str] = []
    scenario = random_scenario("direct", 4)
    assert run(scenario, 4, lambda at, place, what: lines.append(what)).digest == run(scenario, 4).digest
    assert len(lines) > 1000


def test_a_history_ends_with_a_judgement_to_make() -> None:
    """A history begins with what the run promises, becomes calm, and ends."""
    history = run(random_scenario("direct", 2), 2).history
    kinds = [event.event for event in history]
    assert kinds[0] is Kind.RUN
    assert kinds.count(Kind.CALM) == 1
    assert kinds[-1] is Kind.END


def test_the_aftermath_is_about_what_began_late() -> None:
    """Of a history only what was published and subscribed after a moment is left, as of a run without faults."""
    history = [
        Event(event=Kind.RUN, at=0, version=1, delivery="direct", faults=True),
        Event(event=Kind.SUBSCRIBE, at=1, space="m", subscription="old"),
        Event(event=Kind.PUBLISH, at=2, space="m", source="p", seq=1),
        Event(event=Kind.CRASH, at=3, node="b"),
        Event(event=Kind.PUBLISH, at=10, space="m", source="p", seq=2),
        Event(event=Kind.SUBSCRIBE, at=11, space="m", subscription="new"),
        Event(event=Kind.DELIVERED, at=12, space="m", subscription="new", source="p", seq=1),
        Event(event=Kind.DELIVERED, at=13, space="m", subscription="new", source="p", seq=2),
        Event(event=Kind.DELIVERED, at=13, space="m", subscription="old", source="p", seq=2),
        Event(event=Kind.ACCEPTED, at=14, space="m", source="p", seq=1),
        Event(event=Kind.ACCEPTED, at=14, space="m", source="p", seq=2),
        Event(event=Kind.DROPPED, at=15, space="m", reason="old-session", count=1),
        Event(event=Kind.END, at=20),
    ]
    left = list(aftermath(history, 10))
    assert [(event.event.value, event.at) for event in left] == [
        ("run", 0),
        ("publish", 10),
        ("subscribe", 11),
        ("delivered", 13),
        ("accepted", 14),
        ("dropped", 15),
        ("end", 20),
    ]
    assert not left[0].faults
