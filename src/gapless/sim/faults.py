"""Everything that goes wrong: the kinds of faults (GUARANTEES, section 5), and how each is done to a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gapless.model.events import Kind
from gapless.sim.host import Host
from gapless.sim.hosts import ClientHost
from gapless.sim.network import Network
from gapless.sim.scenario import FaultPlan
from gapless.sim.world import MILLISECOND, World

LAST_STEP_MS = 50  # a process that is to die in the middle of a step, and takes none, dies after so long


class FaultKind(NamedTuple):
    """What a kind of fault is done to, whether it lasts, and what else it is told."""

    says: str
    target: str  # broker, client or any
    peer: bool = False  # it is done to a pair
    lasts: bool = True  # it needs for_ms; what does not last happens at a moment
    fields: tuple[str, ...] = ()
    stores: bool = False  # it means something only to deliveries that store


KINDS: dict[str, FaultKind] = {
    "crash": FaultKind(
        "the process dies in the middle of its next step, and comes back", "any", fields=("effects", "unplugged")
    ),
    "pause": FaultKind("the process stops and goes on later, with old beliefs", "any"),
    "link": FaultKind("the link is down; what was under way is lost but for a part", "any", peer=True),
    "stall": FaultKind("the link accepts everything and delivers nothing, both ways", "any", peer=True),
    "one-way": FaultKind("nothing arrives at the peer, all is well in the other direction", "any", peer=True),
    "slow": FaultKind("messages take longer by a factor, both ways", "any", peer=True, fields=("factor",)),
    "reset": FaultKind(
        "the session breaks although nothing is wrong; the ends learn of it by_ms apart",
        "any",
        peer=True,
        lasts=False,
        fields=("by_ms",),
    ),
    "suspicion": FaultKind("the failure detector is wrong about a healthy peer", "any", peer=True, lasts=False),
    "clock-step": FaultKind("the wall clock jumps", "any", lasts=False, fields=("by_ms",)),
    "clock-rate": FaultKind("the clock runs too fast or too slow", "any", fields=("factor",)),
    "move": FaultKind(
        "a client goes over to its next server; by_ms later it closes the old session",
        "client",
        lasts=False,
        fields=("by_ms",),
    ),
    "stop-reading": FaultKind("the application stops reading", "client"),
    "disk-lost": FaultKind("the process dies and its disk with it", "broker", stores=True),
    "disk-full": FaultKind("nothing can be stored", "broker", stores=True),
}


class Faults:
    """Does to a world what a scenario plans."""

    def __init__(self, world: World, network: Network, hosts: Mapping[str, Host]) -> None:
        self.world = world
        self.network = network
        self.hosts = hosts
        self.done = 0
        self.under_load = 0  # faults that began with publications under way
        self._begin: dict[str, Callable[[FaultPlan, Host], None]] = {
            "crash": self.crash,
            "pause": lambda plan, host: self.only_if_alive(host, host.pause),
            "link": self.cut,
            "stall": self.stall,
            "one-way": lambda plan, host: self.network.block(plan.target, plan.peer),
            "slow": lambda plan, host: self.slow(plan, plan.factor),
            "reset": self.reset,
            "suspicion": self.suspect,
            "clock-step": lambda plan, host: host.clock.step(plan.by_ms * MILLISECOND),
            "clock-rate": lambda plan, host: host.clock.go(plan.factor),
            "move": self.move,
            "stop-reading": lambda plan, host: self.read(host, False),
            "disk-lost": self.lose_disk,
            "disk-full": lambda plan, host: self.fill(host, True),
        }
        self._end: dict[str, Callable[[FaultPlan, Host], None]] = {
            "crash": lambda plan, host: self.come_back(host),
            "pause": lambda plan, host: self.only_if_alive(host, host.resume),
            "link": self.mend,
            "stall": self.unstall,
            "one-way": lambda plan, host: self.network.unblock(plan.target, plan.peer),
            "slow": lambda plan, host: self.slow(plan, 1 / plan.factor),
            "clock-rate": lambda plan, host: host.clock.go(1.0),
            "stop-reading": lambda plan, host: self.read(host, True),
            "disk-lost": lambda plan, host: self.come_back(host),
            "disk-full": lambda plan, host: self.fill(host, False),
        }

    def plan(self, fault: FaultPlan) -> None:
        """Let it happen when it is time."""
        self.world.at(fault.at_ms * MILLISECOND, self._start, fault)

    def _start(self, fault: FaultPlan) -> None:
        self.done += 1
        self.under_load += self.network.carrying()
        self.begin(fault)
        if KINDS[fault.kind].lasts and fault.for_ms:
            self.world.after(fault.for_ms * MILLISECOND, self.end, fault)

    def begin(self, fault: FaultPlan) -> None:
        """It happens now."""
        self.world.count(f"fault:{fault.kind}")
        host = self.hosts[fault.target]
        if fault.kind == "link":
            self.world.journal(Kind.LINK_DOWN, node=fault.target, peer=fault.peer)
        else:
            self.world.journal(Kind.FAULT, node=fault.target, peer=fault.peer, reason=fault.kind)
        self._begin[fault.kind](fault, host)

    def end(self, fault: FaultPlan) -> None:
        """It is over."""
        if fault.kind == "link":
            self.world.journal(Kind.LINK_UP, node=fault.target, peer=fault.peer)
        elif self.world.tell is not None:
            self.world.tell(self.world.now, fault.target, f"over {fault.kind} {fault.peer}".rstrip())
        self._end[fault.kind](fault, self.hosts[fault.target])

    # --- processes

    def only_if_alive(self, host: Host, action: Callable[[], None]) -> None:
        """A dead process can neither stop nor go on."""
        if host.alive:
            action()

    def crash(self, plan: FaultPlan, host: Host) -> None:
        """Die in the middle of the next step, or soon."""
        if host.alive:
            host.fuse = plan.effects
            host.unplugged = plan.unplugged
            self.world.after(
                min(plan.for_ms or LAST_STEP_MS, LAST_STEP_MS) * MILLISECOND // 2, self._die, host, host.life
            )

    def _die(self, host: Host, life: int) -> None:
        if host.alive and host.life == life and host.fuse >= 0:
            host.die()

    def come_back(self, host: Host) -> None:
        """A new process."""
        if not host.alive:
            self._note_return(host)
            host.restart()

    def _note_return(self, host: Host) -> None:
        if isinstance(host, ClientHost):
            if any(not self.hosts[server].alive for server in host.servers):
                self.world.count("situation:client-back-before-its-broker")
        if any(not end.out.ended and end.out.into.open for end in host.ghosts):
            self.world.count("situation:back-before-anybody-noticed")

    # --- links

    def cut(self, plan: FaultPlan, host: Host) -> None:
        """Both directions are gone."""
        self.network.cut(plan.target, plan.peer)
        self.network.cut(plan.peer, plan.target)

    def mend(self, plan: FaultPlan, host: Host) -> None:
        """Both directions are there again."""
        self.network.mend(plan.target, plan.peer)
        self.network.mend(plan.peer, plan.target)

    def stall(self, plan: FaultPlan, host: Host) -> None:
        """Both directions hold everything back."""
        self.network.block(plan.target, plan.peer)
        self.network.block(plan.peer, plan.target)

    def unstall(self, plan: FaultPlan, host: Host) -> None:
        """All arrives late."""
        self.network.unblock(plan.target, plan.peer)
        self.network.unblock(plan.peer, plan.target)

    def slow(self, plan: FaultPlan, factor: float) -> None:
        """Both directions change their speed."""
        self.network.slow(plan.target, plan.peer, factor)
        self.network.slow(plan.peer, plan.target, factor)

    def reset(self, plan: FaultPlan, host: Host) -> None:
        """The two ends learn of it at different times, and what is under way is read even later."""
        end = host.newest.get(plan.peer)
        if end is not None:
            delays = (0, abs(plan.by_ms)) if plan.by_ms < 0 else (plan.by_ms, 0)
            self.network.reset(end, (delays[0] * MILLISECOND, delays[1] * MILLISECOND))

    def suspect(self, plan: FaultPlan, host: Host) -> None:
        """A host gives up a healthy peer."""
        end = host.newest.get(plan.peer)
        if end is not None and not host.paused:
            host.suspect(end, "silent")

    # --- clients

    def move(self, plan: FaultPlan, host: Host) -> None:
        """A client changes its server."""
        assert isinstance(host, ClientHost)
        if host.alive and not host.paused:
            host.move(plan.by_ms)

    def read(self, host: Host, reading: bool) -> None:
        """The application stops, or goes on."""
        assert isinstance(host, ClientHost)
        host.reading = reading
        if reading and host.alive:
            for subscriber in host.subscribers:
                subscriber.go_on()

    # --- disks

    def lose_disk(self, plan: FaultPlan, host: Host) -> None:
        """What comes back knows nothing of what was."""
        if host.alive:
            host.die()
        host.disk.lose()

    def fill(self, host: Host, full: bool) -> None:
        """Nothing can be written, or something can again."""
        host.disk.full = full
