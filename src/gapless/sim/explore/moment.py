"""One move of a small world: what the hosts, their cores and their applications do in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gapless.delivery.journal import Journal
from gapless.delivery.port import (
    Answer,
    Confirmed,
    Deliver,
    Dial,
    Gap,
    HangUp,
    Note,
    Now,
    Published,
    Role,
    Store,
    Unknown,
    Wake,
)
from gapless.model.batch import Batch
from gapless.model.events import Event, Kind
from gapless.model.types import Source
from gapless.sim.describe import range_of
from gapless.sim.explore.cores import Cores, Input, Sent
from gapless.sim.explore.moves import Move, Moves
from gapless.sim.explore.state import ASKED, DEAD, END, KNOCK, OPEN, OVER, Host, Offered, Side, State, Subscribed, Wire
from gapless.sim.explore.world import SPACE, batch_of, interest_of
from gapless.sim.world import NEW_YEAR, SECOND

Tell = Callable[[str, str], None]  # place, what happened there


class Moment:
    """A state while a move is made in it."""

    def __init__(self, state: State, moves: Moves, cores: Cores, tell: Tell | None = None) -> None:
        self.moves = moves
        self.cores = cores
        self.tell = tell
        self.hosts = list(state.hosts)
        self.wires = list(state.wires)
        self.state = state
        self.clock = state.clock
        self.events: list[Event] = []
        self.fused = ""  # who is to die,
        self.fuse = 0  # and after how many effects
        self.taken: list[tuple[str, int]] = []  # deliveries that the application is about to take over
        self.hung_up = False  # a core has ended a session by itself

    def done(self) -> State:
        """The state after the move; what has happened is left to whoever asked for it."""
        left = [_plain(wire) for wire in self.wires if any(side.session != OVER for side in wire.sides)]
        left.sort(key=lambda wire: (wire.sides[0].host, wire.sides[1].host))
        return self.state._replace(hosts=tuple(self.hosts), wires=tuple(left), clock=self.clock)

    def make(self, move: Move) -> bool:
        """Make a move; false when a host that was to die in the middle of it has survived it."""
        if move.fuse >= 0:
            self._fault_occurs(self.moves.faults.index(("crash", move.host)))
            self.fused, self.fuse = move.host, move.fuse
        act = getattr(self, f"on_{move.kind}")
        act(move)
        self.settle_taken()
        return not self.fused

    def settle_taken(self) -> None:
        """Applications take over at once what they have been handed."""
        while self.taken:
            name, token = self.taken.pop(0)
            if not self._dead(name):
                self.give(name, ("taken", token))

    # --- hosts

    def host(self, name: str) -> Host:
        """A host as it is now."""
        return self.hosts[self.moves.places[name]]

    def change(self, name: str, **fields: Any) -> None:
        """It is not as it was."""
        place = self.moves.places[name]
        self.hosts[place] = self.hosts[place]._replace(**fields)

    def _dead(self, name: str) -> bool:
        return self.host(name).core == DEAD

    def say(self, place: str, what: str) -> None:
        """Tell whoever looks on."""
        if self.tell is not None:
            self.tell(place, what)

    def now(self) -> Now:
        """The time, of every host."""
        return Now(self.clock, NEW_YEAR + self.clock)

    def journal(self, name: str) -> Journal:
        """Where a host writes what happens."""
        return Journal(name, self.events.append)

    def world_event(self, kind: Kind, **fields: Any) -> None:
        """What nobody's journal has."""
        self.events.append(Event(event=kind, at=self.clock, **fields))

    # --- cores

    def give(self, name: str, given: Input) -> None:
        """Give a core an input, and carry out what it answers."""
        state, effects = self.cores.step(self.host(name).core, given, self.now())
        self.change(name, core=state)
        fused = self.fused == name
        life = self.host(name).life
        for effect in effects:
            if fused and self.fused:
                if self.fuse == 0:
                    self.die(name)
                    return
                self.fuse -= 1
            if self._dead(name) or self.host(name).life != life:
                return
            self.carry(name, effect)

    def carry(self, name: str, effect: Any) -> None:
        """Carry out one effect."""
        host = self.host(name)
        if isinstance(effect, Sent):
            place, side = self._session(name, effect.session)
            if place >= 0:
                self.put(place, 1 - side, effect.message)
        elif isinstance(effect, Wake):
            self.change(name, timers=tuple(sorted((*host.timers, (effect.at, effect.what)))))
        elif isinstance(effect, Dial):
            if effect.peer not in host.wanted:
                self.change(name, wanted=(*host.wanted, effect.peer))
        elif isinstance(effect, Store):
            self.change(name, doubt=(*host.doubt, (effect.record, effect.then)))
        elif isinstance(effect, HangUp):
            self.hung_up = True
            place, side = self._session(name, effect.session)
            if place >= 0:
                self.give_up(place, side, f"broken-rule: {effect.reason}")
        elif isinstance(effect, Note):
            self.journal(name).note(SPACE, effect, self.now())
            if effect.event is Kind.DROPPED:
                self.say(name, f"dropped {effect.fields['reason']} {effect.fields['count']}")
        else:
            self._tell_application(name, effect)

    def _tell_application(self, name: str, effect: Deliver | Answer | Gap) -> None:
        journal, now = self.journal(name), self.now()
        if isinstance(effect, Deliver):
            for number, rows in effect.matches:
                owner = self._subscription(name, number)
                if owner is not None:
                    journal.deliver(SPACE, owner.name, effect.batch, rows, now)
                    journal.acknowledge(SPACE, owner.name, effect.batch, rows, now)
                    self.say(name, f"deliver {owner.name} {range_of(effect.batch, rows)}")
            self.taken.append((name, effect.token))
        elif isinstance(effect, Gap):
            owner = self._subscription(name, effect.subscription)
            if owner is not None:
                journal.gap(SPACE, owner.name, effect, now)
                self.say(name, f"gap {owner.name} {effect.reason}")
        elif isinstance(effect.request, Published):
            journal.answer(SPACE, effect, "", now)
            self._answered(name, effect.request, effect.outcome)
        else:
            number = effect.request.subscription
            owner = self._subscription(name, number)
            if owner is not None:
                journal.answer(SPACE, effect, owner.name, now)
                self.say(name, f"{type(effect.outcome).__name__.lower()} {owner.name}")
                own = [
                    one._replace(confirmed=isinstance(effect.outcome, Confirmed)) if one.number == number else one
                    for one in self.host(name).subscriptions
                ]
                self.change(name, subscriptions=tuple(own))

    def _answered(self, name: str, request: Published, outcome: Any) -> None:
        self.say(name, f"{type(outcome).__name__.lower()} {request.source}:{request.first}")
        unknown = isinstance(outcome, Unknown)
        left = [
            own._replace(unknown=True) if (own.source, own.first) == (request.source.name, request.first) else own
            for own in self.host(name).offered
            if unknown or (own.source, own.first) != (request.source.name, request.first)
        ]
        self.change(name, offered=tuple(left))

    def _subscription(self, name: str, number: int) -> Subscribed | None:
        return next((own for own in self.host(name).subscriptions if own.number == number), None)

    # --- wires

    def _session(self, name: str, session: int) -> tuple[int, int]:
        for place, wire in enumerate(self.wires):
            for side, one in enumerate(wire.sides):
                if one.host == name and one.session == session:
                    return place, side
        return -1, -1

    def set_side(self, place: int, side: int, **fields: Any) -> Side:
        """One side of a wire is not as it was."""
        sides = list(self.wires[place].sides)
        sides[side] = sides[side]._replace(**fields)
        self.wires[place] = Wire((sides[0], sides[1]))
        return sides[side]

    def put(self, place: int, side: int, item: int) -> None:
        """Something is under way to this side, unless the other one has ended; who is gone hears nothing."""
        to, sender = self.wires[place].sides[side], self.wires[place].sides[1 - side]
        if not sender.ended and to.session != OVER:
            self.set_side(place, side, coming=(*to.coming, item))

    def end(self, place: int, side: int) -> None:
        """This side sends nothing more; the other learns of it behind all that was."""
        self.put(place, 1 - side, END)
        self.set_side(place, side, ended=True)

    def on_read(self, move: Move) -> None:
        """What is under way arrives."""
        side = self.wires[move.place].sides[move.side]
        peer = self.wires[move.place].sides[1 - move.side].host
        item, *rest = side.coming
        self.set_side(move.place, move.side, coming=tuple(rest))
        if item >= 0:
            if self.tell is not None:
                self.tell(f"{peer}->{side.host}", self.cores.said(item))
            self.give(side.host, ("message", side.session, item))
            return
        if item == KNOCK:
            self.put(move.place, 1 - move.side, OPEN)
            self.open(move.place, move.side)
        elif item == OPEN:
            self.open(move.place, move.side)
        elif side.open:
            self.drop(move.place, move.side)
        else:
            self._refused(move.place, move.side)

    def on_lose(self, move: Move) -> None:
        """The rest of what was under way never arrives."""
        side = self.wires[move.place].sides[move.side]
        peer = self.wires[move.place].sides[1 - move.side].host
        self.say(f"{peer}->{side.host}", f"{len(side.coming) - 1} lost")
        self.set_side(move.place, move.side, coming=(END,))

    def _refused(self, place: int, side: int) -> None:
        """Nobody has answered the call."""
        caller, called = self.wires[place].sides
        self.set_side(place, side, session=OVER, coming=())
        self.end(place, side)
        client = self.moves.clients.get(caller.host)
        host = self.host(caller.host)
        if side == 0 and client is not None and client.servers[host.place] == called.host:
            self.change(caller.host, place=(host.place + 1) % len(client.servers))

    def open(self, place: int, side: int) -> None:
        """A session opens at this side, and takes the place of an older one with the same peer."""
        me, peer = self.wires[place].sides[side].host, self.wires[place].sides[1 - side].host
        for other, wire in enumerate(self.wires):
            for number, one in enumerate(wire.sides):
                if other != place and one.host == me and one.newest and wire.sides[1 - number].host == peer:
                    self.set_side(other, number, newest=False)
                    self.end(other, number)
        host = self.host(me)
        self.change(me, sessions=host.sessions + 1)
        self.set_side(place, side, session=host.sessions + 1, newest=True)
        self.say(me, f"session {peer}")
        role = Role.CLIENT if peer in self.moves.clients else Role.BROKER
        self.give(me, ("session_up", host.sessions + 1, peer, str(role)))

    def drop(self, place: int, side: int) -> None:
        """The session is over for this side."""
        me, peer = self.wires[place].sides[side], self.wires[place].sides[1 - side].host
        self.end(place, side)
        self.set_side(place, side, session=OVER, newest=False, coming=())
        leaving = tuple(session for session in self.host(me.host).leaving if session != me.session)
        self.change(me.host, leaving=leaving)
        self.say(me.host, f"parted {peer}")
        self.give(me.host, ("session_down", me.session))

    def give_up(self, place: int, side: int, reason: str) -> None:
        """A host ends a session on its own decision."""
        me, peer = self.wires[place].sides[side].host, self.wires[place].sides[1 - side].host
        self.journal(me).disconnected(peer, reason, self.now())
        self.drop(place, side)

    def tear(self, place: int) -> None:
        """A wire breaks: either side reads a part of what was under way, and then the end."""
        for side in (0, 1):
            coming = self.wires[place].sides[side].coming
            if self.wires[place].sides[side].session != OVER and (not coming or coming[-1] != END):
                self.set_side(place, side, coming=(*coming, END))
            self.set_side(place, side, ended=True, torn=True)

    def on_dial(self, move: Move) -> None:
        """A host knocks at another."""
        self.wires.append(Wire((Side(move.host), Side(self.moves.names[move.place], coming=(KNOCK,)))))

    def on_elsewhere(self, move: Move) -> None:
        """A client turns to its next server."""
        servers = self.moves.clients[move.host].servers
        self.change(move.host, place=(self.host(move.host).place + 1) % len(servers))

    # --- life

    def on_start(self, move: Move) -> None:
        """A process begins."""
        host = self.host(move.host)
        records = tuple(record for record, _ in host.doubt[: move.place])
        disk = (*host.disk, *records)
        core = self.cores.fresh(move.host)
        self.change(move.host, core=core, life=host.life + 1, disk=disk, doubt=(), place=0, numbers=0)
        self.change(move.host, seqs=(), offered=())
        self.give(move.host, ("start", disk))

    def on_restart(self, move: Move) -> None:
        """Another process takes the place of the dead one; its application wants again what it wanted."""
        self.world_event(Kind.RESTART, node=move.host)
        self.say(move.host, "restart")
        wanted = self.host(move.host).subscriptions
        self.change(move.host, subscriptions=())
        self.on_start(move)
        for own in wanted:
            self.subscribe(move.host, own.step)

    def die(self, name: str) -> None:
        """The process is gone; of what it has sent a part may arrive."""
        self.fused = ""
        self.world_event(Kind.CRASH, node=name)
        self.say(name, "crash")
        for place, wire in enumerate(self.wires):
            for side, one in enumerate(wire.sides):
                if one.host == name:
                    if one.session != OVER:
                        self.end(place, side)
                    self.set_side(place, side, session=OVER, newest=False, coming=())
                    self.set_side(place, 1 - side, torn=True)
        self.change(name, core=DEAD, sessions=0, wanted=(), timers=(), leaving=())

    def on_stored(self, move: Move) -> None:
        """The oldest record under way is durable."""
        host = self.host(move.host)
        (record, then), *rest = host.doubt
        self.change(move.host, doubt=tuple(rest), disk=(*host.disk, record))
        self.say(move.host, f"stored {then}")
        self.give(move.host, ("stored", then))

    def on_wake(self, move: Move) -> None:
        """The next timer goes off."""
        host = self.host(move.host)
        (at, what), *rest = sorted(host.timers)
        self.change(move.host, timers=tuple(rest))
        self.clock = max(self.clock, at)
        self.state = self.state._replace(wakes=self.state.wakes + 1)
        self.say(move.host, f"wake {what}")
        self.give(move.host, ("wake", what))

    # --- applications

    def on_do(self, move: Move) -> None:
        """An application takes its next step."""
        host = self.host(move.host)
        step = self.moves.clients[move.host].steps[host.step]
        self.change(move.host, step=host.step + 1)
        self.take_step(move.host, step)

    def take_step(self, name: str, step: str) -> None:
        """What it is that an application does."""
        verb, about, *_ = step.split()
        if verb == "publish":
            self.publish(name, about, step)
        elif verb == "subscribe":
            self.subscribe(name, step)
        elif verb == "again":
            own = next(own for own in self.host(name).offered if own.source == about and own.unknown)
            self.offer(name, own._replace(unknown=False))
        elif verb == "unsubscribe":
            self._unsubscribe(name, about)

    def _unsubscribe(self, name: str, about: str) -> None:
        for own in self.host(name).subscriptions:
            if own.step.split()[1] == about:
                left = tuple(other for other in self.host(name).subscriptions if other != own)
                self.change(name, subscriptions=left)
                self.journal(name).unsubscribe(SPACE, own.name, self.now())
                self.say(name, f"unsubscribe {own.name}")
                self.give(name, ("unsubscribe", own.number))

    def publish(self, name: str, about: str, step: str) -> None:
        """An application hands in a publication."""
        host = self.host(name)
        seqs = dict(host.seqs)
        seq = seqs.get(about, 1)
        batch = batch_of(step, Source(about, host.life), seq)
        self.change(name, seqs=tuple({**seqs, about: batch.last + 1}.items()))
        self.offer(name, Offered(about, seq, bytes(batch.encode())))

    def offer(self, name: str, offered: Offered) -> None:
        """It hands them in, for the first time or again."""
        batch = Batch(offered.batch)
        others = tuple(own for own in self.host(name).offered if own[:2] != offered[:2])
        self.change(name, offered=(*others, offered))
        self.journal(name).publish(SPACE, batch, self.now())
        self.say(name, f"publish {range_of(batch)}")
        self.give(name, ("publish", offered.batch))

    def subscribe(self, name: str, step: str) -> None:
        """An application asks for a subscription."""
        host = self.host(name)
        about = step.split()[1]
        called = about if host.life == 1 else f"{about}~{host.life}"
        own = Subscribed(host.numbers + 1, called, step)
        self.change(name, numbers=own.number, subscriptions=(*host.subscriptions, own))
        interest = interest_of(step)
        self.journal(name).subscribe(SPACE, called, interest, self.now())
        self.say(name, f"subscribe {called}")
        self.give(name, ("subscribe", own.number, *interest.texts))

    def on_leave(self, move: Move) -> None:
        """A client closes a session that it has moved away from."""
        self.change(move.host, leaving=tuple(s for s in self.host(move.host).leaving if s != move.place))
        place, side = self._session(move.host, move.place)
        if place >= 0:
            self.give_up(place, side, "closed")

    # --- what goes wrong

    def _fault_occurs(self, number: int) -> None:
        kind, *parties = self.moves.faults[number]
        self.state = self.state._replace(fault=number, down=kind == "link")
        peer = parties[1] if len(parties) > 1 else ""
        self.say("world", f"fault {' '.join(self.moves.faults[number])}")
        if kind == "link":
            self.world_event(Kind.LINK_DOWN, node=parties[0], peer=peer)
        else:
            self.world_event(Kind.FAULT, node=parties[0] if parties else "", peer=peer, reason=kind)

    def on_fault(self, move: Move) -> None:
        """One of the faults occurs."""
        kind, *parties = self.moves.faults[move.place]
        self._fault_occurs(move.place)
        if kind == "crash":
            self.die(move.host)
        elif kind in ("reset", "link"):
            for place, wire in enumerate(self.wires):
                if {side.host for side in wire.sides} == {*parties}:
                    self.tear(place)
        elif kind == "suspicion":
            sessions = [
                (one.session, place, side)
                for place, wire in enumerate(self.wires)
                for side, one in enumerate(wire.sides)
                if one.host == move.host and one.open and wire.sides[1 - side].host == parties[1]
            ]
            _, place, side = max(sessions)
            self.give_up(place, side, "silent")
        else:
            self._move_on(move.host)

    def _move_on(self, name: str) -> None:
        host = self.host(name)
        for place, wire in enumerate(self.wires):
            if wire.sides[0].host == name and wire.sides[0].session == ASKED:
                self.end(place, 0)
                self.set_side(place, 0, session=OVER, coming=())
        sessions = [one.session for wire in self.wires for one in wire.sides if one.host == name and one.open]
        servers = self.moves.clients[name].servers
        self.change(name, place=(host.place + 1) % len(servers), leaving=tuple(sorted(sessions)))

    def on_hurry(self, move: Move) -> None:
        """A timer goes off although there is enough to do."""
        self._fault_occurs(move.place)
        self.on_wake(move)

    def on_mend(self, move: Move) -> None:
        """The link is there again."""
        parties = self.moves.faults[self.state.fault][1:]
        self.state = self.state._replace(down=False)
        self.world_event(Kind.LINK_UP, node=parties[0], peer=parties[1])

    def pass_time(self) -> None:
        """A second in which nothing happens."""
        self.clock += SECOND


def _plain(wire: Wire) -> Wire:
    """A wire without what makes no difference any more."""
    one, other = wire.sides
    return Wire((_plain_side(one), _plain_side(other)))


def _plain_side(side: Side) -> Side:
    if side.session == OVER:
        return Side(side.host, OVER, ended=True)
    return side._replace(torn=False) if side.torn and len(side.coming) < 2 else side
