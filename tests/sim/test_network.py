"""Paths and wires: in order or ended, late when held back, and silent when nobody speaks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gapless.delivery.direct.messages import Credit
from gapless.delivery.port import Role
from gapless.sim.network import End, Network, NetworkSettings, Signal
from gapless.sim.world import MILLISECOND, World


class Ear:
    """A host that agrees to every session and remembers what it hears."""

    role = Role.BROKER

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.alive = True
        self.paused = False
        self.heard: list[Any] = []
        self.times: list[int] = []
        self.suspected: list[str] = []
        self.ends: list[End] = []

    def take(self, end: End, item: Any) -> None:
        if item is Signal.KNOCK:
            end.open = True
            self.ends.append(end)
            end.out.put(Signal.OPEN)
        elif item is Signal.OPEN:
            end.open = True
        elif item is Signal.END:
            end.open = False
            self.heard.append("end")
        else:
            self.heard.append(item[1].size)
        self.times.append(self.world.now)

    def suspect(self, end: End, reason: str) -> None:
        self.suspected.append(reason)
        end.close()


def wire(detect_ms: int = 100) -> tuple[World, Network, Ear, Ear, End]:
    """Two hosts with an open session."""
    world = World(3)
    network = Network(world, NetworkSettings(latency_ms=4, jitter=1.0, detect_ms=detect_ms))
    a, b = Ear("a", world), Ear("b", world)
    end = network.dial(a, b)
    world.run(100 * MILLISECOND)
    assert end.open
    return world, network, a, b, end


def say(end: End, *numbers: int) -> None:
    for number in numbers:
        end.out.put(("main", Credit(number)))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.data())
def test_messages_arrive_in_order(pauses: list[int], data: st.DataObject) -> None:
    """Whatever stalls and slows a path, messages come in the order in which they were sent, and all of them."""
    world, network, _, b, end = wire(detect_ms=10_000)
    for number, pause in enumerate(pauses):
        trouble = data.draw(st.sampled_from(("none", "stall", "slow")))
        if trouble == "stall":
            network.block("a", "b")
            world.after(30 * MILLISECOND, network.unblock, "a", "b")
        elif trouble == "slow":
            network.slow("a", "b", 8.0)
            world.after(20 * MILLISECOND, network.slow, "a", "b", 1 / 8)
        say(end, number)
        world.run(world.now + pause * MILLISECOND)
    world.run(world.now + 60_000 * MILLISECOND)
    assert b.heard == list(range(len(pauses)))


def test_a_stall_holds_everything_back() -> None:
    """Nothing arrives while a path is stalled; all of it arrives afterwards."""
    world, network, _, b, end = wire(detect_ms=10_000)
    network.block("a", "b")
    say(end, 1, 2)
    world.run(world.now + 1000 * MILLISECOND)
    assert b.heard == []
    network.unblock("a", "b")
    world.run(world.now + 100 * MILLISECOND)
    assert b.heard == [1, 2]


def test_one_direction_may_fail_alone() -> None:
    """What is sent against a path that is stalled in one direction arrives."""
    world, network, a, b, end = wire(detect_ms=10_000)
    network.block("a", "b")
    say(end, 1)
    say(b.ends[0], 2)
    world.run(world.now + 100 * MILLISECOND)
    assert (a.heard, b.heard) == ([2], [])


def test_silence_is_noticed() -> None:
    """A host that hears nothing for longer than it is patient gives its peer up, and not before."""
    world, network, _, b, _ = wire()
    network.block("a", "b")
    world.run(world.now + 90 * MILLISECOND)
    assert b.suspected == []
    world.run(world.now + 100 * MILLISECOND)
    assert b.suspected == ["silent"]


def test_a_short_stall_is_not_noticed() -> None:
    """A stall shorter than the patience of a detector ends no session."""
    world, network, a, b, end = wire()
    network.block("a", "b")
    world.run(world.now + 50 * MILLISECOND)
    network.unblock("a", "b")
    world.run(world.now + 1000 * MILLISECOND)
    assert (a.suspected, b.suspected, end.open) == ([], [], True)


def test_a_slow_path_delays_signs_of_life() -> None:
    """A path that becomes slower than a detector is patient loses its sessions, even if it is soon fast again."""
    world, network, _, b, _ = wire()
    network.slow("a", "b", 1000.0)
    world.run(world.now + 300 * MILLISECOND)
    assert b.suspected == ["silent"]


@given(st.integers(0, 20))
def test_a_torn_wire_delivers_a_prefix(seed: int) -> None:
    """When a wire breaks, each end reads a prefix of what was under way and then the end, and not at the same time."""
    world, network, a, b, end = wire()
    for path in network.paths.values():
        path.trouble.seed(seed)  # another break for each example
    say(end, *range(10))
    say(b.ends[0], *range(10))
    network.reset(end, (0, 50 * MILLISECOND))
    say(end, 99)
    world.run(world.now + 1000 * MILLISECOND)
    for ear in (a, b):
        assert ear.heard[-1] == "end"
        assert ear.heard[:-1] == list(range(len(ear.heard) - 1))
    assert a.times[-1] - b.times[-1] >= 30 * MILLISECOND


def test_trouble_elsewhere_changes_nothing_here() -> None:
    """What a break leaves of a wire does not depend on what else has gone wrong, on other paths."""

    def heard(elsewhere: bool) -> tuple[list[Any], list[int]]:
        world, network, _, b, end = wire()
        if elsewhere:
            for _ in range(5):
                network.cut("c", "d")
                network.reset(network.dial(Ear("c", world), Ear("d", world)), (0, 0))
        say(end, *range(10))
        network.reset(end, (0, 50 * MILLISECOND))
        world.run(world.now + 1000 * MILLISECOND)
        return b.heard, b.times

    assert heard(False) == heard(True)


def test_a_link_that_is_down_carries_nothing() -> None:
    """While a link is down sessions on it end and no new one opens."""
    world, network, a, b, end = wire()
    network.cut("a", "b")
    network.cut("b", "a")
    world.run(world.now + 200 * MILLISECOND)
    assert (a.heard, b.heard, end.open) == (["end"], ["end"], False)
    again = network.dial(a, b)
    world.run(world.now + 500 * MILLISECOND)
    assert not again.open
    network.mend("a", "b")
    network.mend("b", "a")
    later = network.dial(a, b)
    world.run(world.now + 100 * MILLISECOND)
    assert later.open
