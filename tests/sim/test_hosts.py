"""Hosts: effects in order, death between any two of them, disks that outlive processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from gapless.delivery.port import Core, Effects, Now, Send, Session, Store, Wake
from gapless.sim.host import Host
from gapless.sim.network import End, Network, NetworkSettings
from gapless.sim.world import MILLISECOND, World


class Counting:
    """A core that stores a number for each wake, and says so when it is durable."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.next = 0

    def on_start(self, stored: Sequence[bytes], now: Now) -> Effects:
        self.log.append(f"found {b''.join(stored).decode()}")
        self.next = len(stored)
        return [Wake(now.at + 10 * MILLISECOND, "more")]

    def on_wake(self, what: str, now: Now) -> Effects:
        self.next += 1
        return [Store(str(self.next).encode(), f"kept {self.next}"), Wake(now.at + 10 * MILLISECOND, "more")]

    def on_stored(self, then: str, now: Now) -> Effects:
        self.log.append(then)
        return []

    def on_store_failed(self, then: str, reason: str, now: Now) -> Effects:
        self.log.append(f"not {then}: {reason}")
        return []

    def on_session_up(self, session: Session, now: Now) -> Effects:
        return [Send(session.id, None), Send(session.id, None), Send(session.id, None)]  # type: ignore[arg-type]  # counted only

    def on_session_down(self, session: int, now: Now) -> Effects:
        return []

    def on_message(self, session: int, message: Any, now: Now) -> Effects:
        return []

    def held(self) -> dict[str, int]:
        return {}


class Blind:
    """A watcher who sees no hazards."""

    def on_message(self, *_: object) -> None: ...
    def on_session(self, *_: object) -> None: ...
    def on_wake(self, *_: object) -> None: ...


class Lone(Host):
    """A host with that core and no peers."""

    def __init__(self, world: World, network: Network, log: list[str]) -> None:
        super().__init__("lone", world, network, {})
        self.log = log
        self.watchers = {"main": Blind()}

    def make_cores(self) -> Iterable[tuple[str, Core]]:
        yield "main", Counting(self.log)

    def parted(self, end: End) -> None: ...
    def refused(self, peer: str) -> None: ...


def lone(seed: int = 1) -> tuple[World, Lone, list[str]]:
    """A started host."""
    world = World(seed)
    log: list[str] = []
    host = Lone(world, Network(world, NetworkSettings(store_ms=15.0)), log)
    host.start()
    return world, host, log


def test_records_become_durable_in_order() -> None:
    """Stores are answered after a while, in their order, and a new process finds them."""
    world, host, log = lone()
    world.run(75 * MILLISECOND)
    assert log[:3] == ["found ", "kept 1", "kept 2"]
    kept = len(host.disk.records("main"))
    host.die()
    host.restart()
    found = int(log[-1].removeprefix("found ")[-1])
    assert log[-1] == "found " + "".join(str(n) for n in range(1, found + 1))
    assert found >= kept


def test_a_crash_leaves_stores_in_doubt() -> None:
    """Of the stores under way at a crash, some worlds keep none, some keep all, and all keep a prefix."""
    found = []
    for seed in range(30):
        world, host, log = lone(seed)
        world.run(45 * MILLISECOND)
        sure = log.count("kept 1") + log.count("kept 2") + log.count("kept 3") + log.count("kept 4")
        host.die()
        host.restart()
        found.append(len(host.disk.records("main")) - sure)
    assert min(found) == 0
    assert max(found) >= 2


def test_the_dead_hear_nothing_of_their_stores() -> None:
    """What an earlier process had stored is not answered to a later one."""
    world, host, log = lone()
    world.run(12 * MILLISECOND)
    host.die()
    host.restart()
    world.run(100 * MILLISECOND)
    answers = [line for line in log if line.startswith("kept")]
    assert len(dict.fromkeys(answers)) == len(answers)


def test_a_lost_disk_is_empty() -> None:
    """After the loss of its disk a process finds nothing."""
    world, host, log = lone()
    world.run(100 * MILLISECOND)
    host.die()
    host.disk.lose()
    host.restart()
    assert log[-1] == "found "


def test_a_full_disk_fails_stores() -> None:
    """While a disk is full stores fail, with a reason; afterwards they succeed again."""
    world, host, log = lone()
    host.disk.full = True
    world.run(60 * MILLISECOND)
    assert "not kept 1: the disk is full" in log
    assert host.disk.records("main") == []
    host.disk.full = False
    world.run(200 * MILLISECOND)
    assert log[-1].startswith("kept")


def test_a_paused_process_does_nothing_until_it_goes_on() -> None:
    """What is due while a process is paused happens when it goes on."""
    world, host, log = lone()
    host.pause()
    world.run(100 * MILLISECOND)
    assert log == ["found "]
    host.resume()
    world.run(200 * MILLISECOND)
    assert "kept 1" in log


@pytest.mark.parametrize("effects", range(4))
def test_death_falls_between_effects(effects: int) -> None:
    """A process that is to die after so many effects of its next step carries out no more."""
    _, host, _ = lone()
    sent: list[object] = []
    host.acts[Send] = lambda space, effect: sent.append(effect)
    host.fuse = effects
    host.carry("main", host.cores["main"].on_session_up(Session(1, "peer", host.role), host.now()))
    assert len(sent) == effects
    assert not host.alive
