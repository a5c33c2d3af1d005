"""What can happen next in a small world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gapless.sim.explore.state import ASKED, END, Host, State
from gapless.sim.explore.world import SmallWorld

KINDS = {
    "read": "a message, the opening or the end of a session arrives; sessions keep their order, nothing else does",
    "lose": "of what was under way when a session broke, the rest is lost",
    "dial": "a host calls a peer that it has no session with",
    "elsewhere": "a client whose server is away turns to the next",
    "start": "a host starts (in worlds that begin cold)",
    "do": "an application takes its next step",
    "stored": "a record becomes durable",
    "wake": "a timer goes off, when nothing of the above can happen",
    "restart": "a process comes back; of its stores in doubt any first part was durable",
    "mend": "a link is there again",
    "leave": "a client closes the session that it has moved away from",
}


class Move(NamedTuple):
    """Something that can happen."""

    kind: str
    host: str = ""
    place: int = 0  # of a wire; or how many stores were durable, or which fault
    side: int = 0  # of the wire
    fuse: int = -1  # the host dies after so many effects of this


class Moves:
    """All that can happen in a state."""

    def __init__(self, world: SmallWorld) -> None:
        self.world = world
        self.names = world.names
        self.places = {name: place for place, name in enumerate(self.names)}
        self.clients = {client.name: client for client in world.client}
        self.faults = [tuple(fault.split()) for fault in world.fault]

    def faults_of(self, state: State, own: list[Move]) -> Iterator[Move]:
        """The faults that may occur now, beside what goes by itself."""
        if state.fault < 0:
            for number, (kind, *parties) in enumerate(self.faults):
                yield from self._fault(state, number, kind, parties, own)

    def own(self, state: State, idle: bool = False) -> Iterator[Move]:
        """What goes by itself; without the steps of applications, if they are idle."""
        quick = False
        for move in self.quick(state):
            if not idle or move.kind != "do":
                quick = True
                yield move
        for name, host in zip(self.names, state.hosts, strict=True):
            if not host.alive and host.life:
                yield from (Move("restart", name, kept) for kept in range(len(host.doubt) + 1))
            for session in host.leaving:
                yield Move("leave", name, session)
        if state.down:
            yield Move("mend")
        if not quick:
            yield from self.wakes(state)

    def quick(self, state: State) -> Iterator[Move]:
        """What takes no more time than messages do."""
        for place, wire in enumerate(state.wires):
            for number, side in enumerate(wire.sides):
                if side.coming:
                    yield Move("read", side.host, place, number)
                    if side.torn and side.coming[0] != END:
                        yield Move("lose", side.host, place, number)
        for name, host in zip(self.names, state.hosts, strict=True):
            if not host.life:
                yield Move("start", name)
            elif host.alive:
                yield from self._dials(state, name, host)
                if host.doubt:
                    yield Move("stored", name)
                if self._may_step(name, host):
                    yield Move("do", name)

    def wakes(self, state: State) -> Iterator[Move]:
        """The timers that are next."""
        if state.wakes >= self.world.wakes_max:
            return
        due = [min(host.timers)[0] for host in state.hosts if host.timers]
        for name, host in zip(self.names, state.hosts, strict=True):
            if host.timers and min(host.timers)[0] == min(due):
                yield Move("wake", name)

    def _may_step(self, name: str, host: Host) -> bool:
        steps = self.clients[name].steps if name in self.clients else ()
        if host.step >= len(steps):
            return False
        verb, about, *_ = steps[host.step].split()
        if verb == "again":
            return any(own.source == about and own.unknown for own in host.offered)
        if verb != "await":
            return True
        return any(own.step.split()[1] == about and own.confirmed for own in host.subscriptions)

    def _dials(self, state: State, name: str, host: Host) -> Iterator[Move]:
        client = self.clients.get(name)
        for peer in host.wanted if client is None else (client.servers[host.place],):
            if self._has(state, name, peer):
                continue
            if state.hosts[self.places[peer]].alive and not self._is_cut(state, name, peer):
                yield Move("dial", name, self.places[peer])
            elif client is not None and len(client.servers) > 1:
                yield Move("elsewhere", name)

    def _has(self, state: State, name: str, peer: str) -> bool:
        """Whether there is a session with the peer, or one is on its way."""
        for wire in state.wires:
            caller, called = wire.sides
            if (caller.host, called.host) == (name, peer) and caller.session == ASKED:
                return True
            for one, other in (wire.sides, wire.sides[::-1]):
                if one.host == name and other.host == peer and one.open and one.newest:
                    return True
        return False

    def _is_cut(self, state: State, name: str, peer: str) -> bool:
        return state.down and {name, peer} == {*self.faults[state.fault][1:]}

    def _fault(self, state: State, number: int, kind: str, parties: list[str], own: list[Move]) -> Iterator[Move]:
        if kind == "crash":
            name = parties[0]
            if state.hosts[self.places[name]].alive:
                yield Move("fault", name, number)
                yield from (move._replace(fuse=0) for move in own if move.host == name and move.kind != "restart")
        elif kind in ("reset", "link"):
            if kind == "link" or self._wired(state, parties):
                yield Move("fault", parties[0], number)
        elif kind == "suspicion":
            if self._has_open(state, *parties):
                yield Move("fault", parties[0], number)
        elif kind == "move":
            if state.hosts[self.places[parties[0]]].alive:
                yield Move("fault", parties[0], number)
        elif any(move.kind != "wake" for move in own):
            yield from (Move("hurry", move.host, number) for move in self.wakes(state))

    def _wired(self, state: State, parties: list[str]) -> bool:
        return any({side.host for side in wire.sides} == {*parties} for wire in state.wires)

    def _has_open(self, state: State, name: str, peer: str) -> bool:
        return any(
            one.host == name and other.host == peer and one.open
            for wire in state.wires
            for one, other in (wire.sides, wire.sides[::-1])
        )
