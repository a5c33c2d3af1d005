"""The orders of a history, judged once more straight from their definitions, on small worlds drawn at random."""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.model.events import HISTORY_VERSION, Event, Kind
from gapless.sim.checker import check

PROCESSES = ("a", "b", "c")


class World(NamedTuple):
    """A small run: who published what, and what each subscription was handed, in order."""

    events: list[Event]
    published: dict[str, Event]  # by name
    handed: dict[str, list[str]]  # D(s)
    wants: dict[str, frozenset[str]]  # M(s)
    steps: list[tuple[str, str, str]]  # process, what it did, publication


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Each process publishes under its own name and has one subscription that wants some of all publications."""
    names = [f"{process.upper()}:{seq}" for process in PROCESSES for seq in range(1, draw(st.integers(0, 2)) + 1)]
    wants = {process: frozenset(name for name in names if draw(st.booleans())) for process in PROCESSES}
    steps = [(name[0].lower(), "publish", name) for name in names]
    for process in PROCESSES:
        mine = draw(st.permutations(sorted(wants[process])))
        steps += [(process, "deliver", name) for name in mine[: draw(st.integers(0, len(mine)))]]
    order = draw(st.permutations(range(len(steps))))
    queues = {process: [steps[each] for each in order if steps[each][0] == process] for process in PROCESSES}
    for process in PROCESSES:  # a process publishes in the order of seq
        own = iter(sorted(step[2] for step in queues[process] if step[1] == "publish"))
        queues[process] = [(*step[:2], next(own) if step[1] == "publish" else step[2]) for step in queues[process]]
    return _play(draw, queues, wants)


def _play(draw: st.DrawFn, queues: dict[str, list[tuple[str, str, str]]], wants: dict[str, frozenset[str]]) -> World:
    """Interleave the processes; a delivery waits for its publish, and is left out when that would wait for ever."""
    events = [Event(event=Kind.RUN, at=0, delivery="keyed", version=HISTORY_VERSION)]
    for process in PROCESSES:
        text = f"w{process} = 1"
        events.append(
            Event(event=Kind.SUBSCRIBE, at=0, node=process, subscription=f"s{process}", filter=text, total=True)
        )
        events.append(Event(event=Kind.CONFIRMED, at=0, node=process, subscription=f"s{process}"))
    world = World(events, {}, {process: [] for process in PROCESSES}, wants, [])
    while any(queues.values()):
        ready = [each for each in PROCESSES if queues[each] and _possible(queues[each][0], world)]
        if not ready:
            process = next(each for each in PROCESSES if queues[each])
            queues[process].pop(0)
            continue
        step = queues[draw(st.sampled_from(ready))].pop(0)
        world.steps.append(step)
        _record(draw, step, world)
    return world


def _possible(step: tuple[str, str, str], world: World) -> bool:
    return step[1] == "publish" or step[2] in world.published


def _record(draw: st.DrawFn, step: tuple[str, str, str], world: World) -> None:
    process, what, name = step
    named = {"source": name[0], "seq": int(name[2:]), "body": name, "node": process, "at": len(world.events)}
    if what == "deliver":
        world.handed[process].append(name)
        world.events.append(Event(event=Kind.DELIVERED, subscription=f"s{process}", **named))
        return
    order = draw(st.sampled_from(("eventual", "causal", "total", "total")))
    keys = tuple(draw(st.lists(st.sampled_from("jk"), max_size=2, unique=True)))
    attributes = {f"w{each}": 1 for each in PROCESSES if name in world.wants[each]}
    event = Event(event=Kind.PUBLISH, order=order, keys=keys, attributes=attributes, **named)
    world.published[name] = event
    world.events.extend([event, Event(event=Kind.ACCEPTED, **{**named, "body": ""})])


def wanted(world: World, process: str) -> list[str]:
    """M(s): all were confirmed before anything was published, so the start is the first."""
    return [name for name in world.published if name in world.wants[process]]


@settings(max_examples=400)
@given(worlds())
def test_causal_order(world: World) -> None:
    """The checker finds causal order broken exactly where the definition, spelt out over all pairs, does."""
    ordered = [name for name, event in world.published.items() if event.order != "eventual"]
    before = {(p, q) for p in ordered for q in ordered if _directly(world, p, q)}
    for via in ordered:
        before |= {(p, q) for p, one in before if one == via for two, q in before if two == via}
    broken = any(
        {p, q} <= world.wants[process] and q in handed and p not in handed[: handed.index(q)]
        for process, handed in world.handed.items()
        for p, q in before
    )
    assert check(world.events, ["causal-order"]).ok != broken


def _directly(world: World, p: str, q: str) -> bool:
    """One process published p earlier, or was delivered it before it published q."""
    process = q[0].lower()
    when = world.steps.index((process, "publish", q))
    return any(step in world.steps[:when] for step in ((process, "publish", p), (process, "deliver", p)))


@settings(max_examples=400)
@given(worlds())
def test_key_total_order(world: World) -> None:
    """The checker finds the order of a key broken exactly where the definition does."""
    totals = [name for name, event in world.published.items() if event.order == "total"]
    shared = {(t, p) for t in totals for p in world.published if p != t and _keys(world, t) & _keys(world, p)}
    broken = any(
        _without_before(world, one, t, p) and _without_before(world, two, p, t)
        for t, p in shared
        for one in PROCESSES
        for two in PROCESSES
        if {t, p} <= world.wants[one] & world.wants[two]
    )
    pairs = {
        (t, p)
        for t, p in shared
        if p in totals
        for handed in world.handed.values()
        if t in handed and p in handed[handed.index(t) :]
    }
    fits = any(all(order.index(t) < order.index(p) for t, p in pairs) for order in permutations(totals))
    assert check(world.events, ["key-total-order"]).ok == (fits and not broken)


def _keys(world: World, name: str) -> frozenset[str]:
    return frozenset(world.published[name].keys)


def _without_before(world: World, process: str, first: str, second: str) -> bool:
    """It delivered `first` without `second` before it."""
    handed = world.handed[process]
    return first in handed and second not in handed[: handed.index(first)]


@settings(max_examples=400)
@given(worlds())
def test_uniform_total_order(world: World) -> None:
    """The checker finds no uniform order exactly where no permutation of all publications is one."""
    names = sorted(world.published)
    fits = any(
        all(order.index(p) < order.index(q) for p in names for q in names if p[0] == q[0] and p < q)
        and all(
            handed == sorted(wanted(world, process), key=order.index)[: len(handed)]
            for process, handed in world.handed.items()
        )
        for order in permutations(names)
    )
    assert check(world.events, ["uniform-total-order"]).ok == fits
