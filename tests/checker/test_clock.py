"""Histories merged from the journals of several processes: only causality orders them."""

from __future__ import annotations

import random

import pytest
from tests.checker.story import events_of

from gapless.model.events import Kind
from gapless.sim.checker import PROMISES, check
from gapless.sim.checker.clock import in_causal_order

CHAIN = """
run keyed clock=causal bound=5
d subscribe t
d confirmed t
c subscribe s
c confirmed s
p publish P:1 order=causal
p accepted P:1
d delivered t P:1
d publish D:1 order=causal
d accepted D:1
c delivered s P:1
c delivered s D:1
d delivered t D:1
c unsubscribe s
d unsubscribe t
end
"""


@pytest.mark.parametrize("seed", range(20))
def test_any_interleaving_is_judged_alike(seed: int) -> None:
    """The lines of different journals may come in any order."""
    events = events_of(CHAIN)
    random.Random(seed).shuffle(events)
    assert check(events, PROMISES).ok
    swapped = events_of(CHAIN.replace("c delivered s P:1\nc delivered s D:1", "c delivered s D:1\nc delivered s P:1"))
    random.Random(seed).shuffle(swapped)
    assert check(swapped, PROMISES).broken == ("causal-order",)


def test_journals_keep_their_order() -> None:
    """Each journal stays in its own order, and a delivery comes after its publish."""
    events = events_of(CHAIN)
    ordered = in_causal_order(events[::-1])
    assert sorted(event.at for event in ordered) == [event.at for event in events]
    for node in ("c", "d", "p", ""):
        mine = [event.n for event in ordered if event.node == node]
        assert mine == sorted(mine)
    assert next(event.event for event in ordered if event.source == "P") is Kind.PUBLISH


def test_what_contradicts_itself_is_still_judged() -> None:
    """A process that was delivered its own publication before publishing it has invented it."""
    story = """
        run stream clock=causal
        c subscribe s
        c confirmed s
        c delivered s C:1
        c publish C:1
        d subscribe t
        d delivered t C:1
        d delivered t D:1
        e delivered t D:1
        d publish D:1
    """
    verdict = check(events_of(story), ["no-invention"])
    assert {found.message.partition(" ")[0] for found in verdict.violations} == {"C:1", "D:1"}


@pytest.mark.parametrize(
    ("between", "broken"),
    [
        ("", ()),  # nothing tells p of the confirmation
        ("c publish C:1\nc accepted C:1\np subscribe t\np delivered t C:1", ("confirmed-start",)),
        (
            "c publish C:1\nc accepted C:1\nm subscribe u\nm delivered u C:1\nm publish M:1\np delivered t M:1",
            ("confirmed-start",),
        ),
    ],
)
def test_after_the_confirmation(between: str, broken: tuple[str, ...]) -> None:
    """A publish began after a confirmation when its process could know of it."""
    story = f"""
        run stream clock=causal
        p subscribe t
        c subscribe s
        c confirmed s
        {between}
        p publish P:1
        p publish P:2
        p accepted P:1-2
        c delivered s P:2
    """
    verdict = check(events_of(story), ["confirmed-start"])
    assert verdict.broken == broken, verdict.render()


def test_knowledge_of_what_came_before_the_confirmation_is_not_enough() -> None:
    """What a publisher was delivered from before the confirmation tells it nothing of the confirmation."""
    story = """
        run stream clock=causal
        p subscribe t
        c subscribe s
        c publish C:1
        c confirmed s
        p delivered t C:1
        p publish P:1
        p publish P:2
        p accepted P:1-2
        c delivered s P:2
    """
    assert check(events_of(story), ["confirmed-start"]).ok


def test_knowledge_does_not_shrink() -> None:
    """Older news from a third process does not make a publisher forget the confirmation."""
    story = """
        run stream clock=causal
        c subscribe s
        m subscribe u
        p subscribe t
        c publish C:1
        c confirmed s
        c publish C:2
        m delivered u C:1
        m publish M:1
        p delivered t C:2
        p delivered t M:1
        p publish P:1
        p publish P:2
        p accepted P:1-2
        c delivered s P:2
    """
    assert check(events_of(story), ["confirmed-start"]).broken == ("confirmed-start",)


def test_a_cause_may_stand_anywhere() -> None:
    """Who journals faults is not ordered with who sees their consequences."""
    story = "run direct faults clock=causal\nb dropped reason=slow-subscriber count=1\nm crash"
    assert check(events_of(story), ["justified-gap"]).ok
    assert check(events_of(story.replace("clock=causal", "")), ["justified-gap"]).broken == ("justified-gap",)


def test_all_is_due_at_the_end() -> None:
    """Times of different processes cannot be compared, so nothing is too late to be due."""
    story = "run stream bound=100 clock=causal\nc subscribe s\nc confirmed s\nc publish P:1\nc accepted P:1\nend"
    assert check(events_of(story), ["all-delivered"]).broken == ("all-delivered",)
    assert check(events_of(story.replace("clock=causal", "")), ["all-delivered"]).ok
