"""Which interleavings need not be tried, because they come to the same.

In many states there is a host of which it can be shown that, whatever all others do before it makes its next move,
it will have no other moves to choose from than it has now, and that each of these moves comes to the same before and
after whatever the others do. Then it is enough to go on with the moves of this host (they are a persistent set): all
states in which nothing more happens are still found, and with them every history, up to the order of events whose
order means nothing (`history`). A host is one when

- no fault may occur any more, and it has something to do that takes no time, so that no timer goes off before;
- something is under way to it by every wire it has, or whoever is at the other end can do nothing until it moves;
- nobody else can call it, nor come to life or reach so that it would call;
- what its moves write into the history has no order with what others write.

That a session stays open until its end arrives is part of the second and the third. A core that hangs up breaks it: an
exploration in which one has is begun anew without any of this.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.model.events import Event
from gapless.sim.explore.history import ACROSS, OF_ALL
from gapless.sim.explore.moves import Move, Moves
from gapless.sim.explore.state import ASKED, END, OVER, State

TAKES_NO_TIME = ("read", "dial", "do", "stored")


class Reduction:
    """Finds hosts whose moves are enough."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self._order = [*moves.clients, *moves.names[: len(moves.names) - len(moves.clients)]]
        self._dials = {place.name: place.dials for place in moves.world.places()}

    def hosts(self, state: State, own: Sequence[Move]) -> list[str]:
        """Those of which all but the last condition hold, which is about what comes of their moves."""
        if self._moves.faults and state.fault < 0:
            return []
        able = {move.host for move in own if move.host}
        ready = {move.host for move in own if move.kind in TAKES_NO_TIME}
        if not all(host.life for host in state.hosts):
            return []
        return [name for name in self._order if name in ready and self._is_alone(state, name, able)]

    def _is_alone(self, state: State, name: str, able: set[str]) -> bool:
        if state.down and name in self._moves.faults[state.fault][1:]:
            return False
        if any(not self._alive(state, peer) and not self._has(state, name, peer) for peer in self._may_call(name)):
            return False
        active = self._active(state, name, able)
        for other in sorted(active):
            if name in self._may_call(other) and not self._stays(state, other, name):
                return False
        for wire in state.wires:
            for mine, theirs in (wire.sides, wire.sides[::-1]):
                if mine.host == name and mine.session != OVER and not mine.coming and theirs.host in active:
                    return False
        return True

    def _active(self, state: State, name: str, able: set[str]) -> set[str]:
        """The others that can do something before this host moves."""
        active = able - {name}
        if not active:
            return active
        names = self._moves.names
        if state.down or any(
            not self._alive(state, other) or any(not self._has(state, other, peer) for peer in self._may_call(other))
            for other in names
            if other != name
        ):
            return {*names} - {name}  # they may call each other
        for _ in names:
            for wire in state.wires:
                one, other = wire.sides
                if name not in (one.host, other.host) and (one.host in active) != (other.host in active):
                    active |= {one.host, other.host}
        return active

    def _alive(self, state: State, name: str) -> bool:
        return state.hosts[self._moves.places[name]].alive

    def _may_call(self, name: str) -> tuple[str, ...]:
        """Whom it may ever call."""
        client = self._moves.clients.get(name)
        return self._dials[name] if client is None else client.servers

    def _has(self, state: State, name: str, peer: str) -> bool:
        """Whether it has a session with the peer, or has called and not been answered."""
        for wire in state.wires:
            for one, other in (wire.sides, wire.sides[::-1]):
                if one.host == name and other.host == peer and ((one.open and one.newest) or one.session == ASKED):
                    return True
        return False

    def _stays(self, state: State, name: str, peer: str) -> bool:
        """Whether it has a session with the peer of which it will not see the end before the peer moves."""
        if state.hosts[self._moves.places[name]].leaving:
            return False
        for wire in state.wires:
            for one, other in (wire.sides, wire.sides[::-1]):
                if one.host == name and other.host == peer and one.open and one.newest and END not in one.coming:
                    return not other.ended
        return False


def without_order(events: Sequence[Event]) -> bool:
    """Whether it does not matter when others write into the history."""
    return not any(event.event in ACROSS or event.event in OF_ALL for event in events)
