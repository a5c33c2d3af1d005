"""What broker and client processes have in common: sessions, effects carried out in order, dying and coming back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from gapless.delivery.journal import Journal
from gapless.delivery.port import (
    Answer,
    Core,
    Deliver,
    Dial,
    Effects,
    Gap,
    HangUp,
    Message,
    Note,
    Now,
    Role,
    Send,
    Session,
    Store,
    Wake,
)
from gapless.delivery.wire import Codec
from gapless.model.events import Kind
from gapless.sim.describe import described
from gapless.sim.disk import Disk
from gapless.sim.network import End, Item, Network, Signal
from gapless.sim.world import MILLISECOND, SECOND, Action, Clock, World


class Watcher(Protocol):
    """Looks on and counts which hazards occur in one space."""

    def on_message(self, host: Host, core: Core, end: End, message: Message, effects: Effects) -> None:
        """A core has been given a message."""
        ...

    def on_session(self, host: Host, core: Core, end: End, up: bool, effects: Effects) -> None:
        """A core has been told of a session."""
        ...

    def on_wake(self, core: Core, what: str, effects: Effects) -> None:
        """A core has been woken."""
        ...


class Host(ABC):
    """A machine with a process, whose cores come and go with it."""

    role = Role.BROKER

    def __init__(self, name: str, world: World, network: Network, parties: dict[str, Host]) -> None:
        self.name = name
        self.world = world
        self.network = network
        self.parties = parties  # every host, by name
        self.random = world.random(f"host/{name}")
        self.clock = Clock(world, self.random.randint(0, 1000) * SECOND)
        self.disk = Disk(world, name, network.settings.store_ms)
        self.journal = Journal(name, world.write)
        self.life = 0
        self.alive = False
        self.unplugged = False
        self.paused = False
        self.fuse = -1  # effects to carry out of the next step before dying; -1: no thought of dying
        self.cores: dict[str, Core] = {}
        self.codecs: dict[str, Codec] = {}
        self.watchers: dict[str, Watcher] = {}
        self.sessions = 0  # numbers given so far
        self.ends: dict[int, End] = {}
        self.newest: dict[str, End] = {}
        self.attempts: dict[str, End] = {}
        self.ghosts: list[End] = []  # of earlier lives
        self.backlog: deque[tuple[Action, tuple[Any, ...]]] = deque()
        self.acts: dict[type, Callable[[str, Any], None]] = {
            Send: self.send,
            HangUp: self.hang_up,
            Dial: self.keep_dialling,
            Wake: self.set_alarm,
            Store: self.store,
            Deliver: self.deliver,
            Answer: self.answer,
            Gap: self.tell_gap,
            Note: self.note,
        }

    # --- life

    @abstractmethod
    def make_cores(self) -> Iterable[tuple[str, Core]]:
        """The cores of a new process."""

    def start(self) -> None:
        """A process begins."""
        self.life += 1
        self.alive, self.unplugged, self.paused, self.fuse = True, False, False, -1
        self.cores = dict(self.make_cores())
        for ghost in self.ghosts:
            self.world.after(self.random.randint(0, self.network.detect), ghost.out.end)
        self.ghosts.clear()
        self.world.mark(self.name, f"start {self.life}")
        for space, core in self.cores.items():
            self.carry(space, core.on_start(self.disk.records(space), self.now()))

    def restart(self) -> None:
        """Another process takes the place of the dead one."""
        if not self.alive:
            self.world.journal(Kind.RESTART, node=self.name)
            self.start()

    def die(self) -> None:
        """The process is gone, with all that it knew. Others hear of it, unless the whole machine is off."""
        self.alive, self.paused, self.fuse = False, False, -1
        self.world.journal(Kind.CRASH, node=self.name)
        for end in (*self.ends.values(), *self.attempts.values()):
            end.open = False
            if self.unplugged:
                self.ghosts.append(end)
                self.network.listen_at(end.out)
            else:
                line = end.out
                line.tear(self.random.randint(0, len(line.queue)), self.random.randint(0, 10 * MILLISECOND))
        self.ends.clear()
        self.newest.clear()
        self.attempts.clear()
        self.backlog.clear()
        self.disk.crash()

    def pause(self) -> None:
        """The process stops, and does not know it."""
        self.paused = True
        for end in self.ends.values():
            self.network.listen_at(end.out)

    def resume(self) -> None:
        """It goes on where it stopped, with what has come in since."""
        self.paused = False
        backlog, self.backlog = self.backlog, deque()
        while backlog and self.alive and not self.paused:
            action, args = backlog.popleft()
            action(*args)
        self.backlog.extendleft(reversed(backlog) if self.alive else ())

    def now(self) -> Now:
        """The time, as cores are told it."""
        return self.clock.now()

    def stamp(self) -> Now:
        """The time, as histories have it."""
        return Now(self.world.now, self.clock.now().wall)

    def later(self, delay: int, action: Action, *args: Any) -> None:
        """Do it after a while, if this process still lives."""
        self.world.after(delay, self._due, self.life, action, args)

    def _due(self, life: int, action: Action, args: tuple[Any, ...]) -> None:
        if life != self.life or not self.alive:
            return
        if self.paused:
            self.backlog.append((action, args))
        else:
            action(*args)

    # --- sessions

    def take(self, end: End, item: Item) -> None:
        """Something has come in."""
        if self.paused:
            self.backlog.append((self.take, (end, item)))
        elif item is Signal.KNOCK:
            self._knocked(end)
        elif item is Signal.OPEN:
            if self.attempts.get(end.peer) is end:
                del self.attempts[end.peer]
                self._open(end)
        elif item is Signal.END:
            self._ended(end)
        elif end.open:
            self.read(end, *item)
        elif not self.unplugged:
            end.out.end()  # nobody is here any more who knows that session

    def _knocked(self, end: End) -> None:
        if self.alive:
            end.out.put(Signal.OPEN)
            self._open(end)
        elif not self.unplugged:
            end.out.end()

    def _open(self, end: End) -> None:
        self.sessions += 1
        end.session = self.sessions
        end.open = True
        end.spaces = tuple(space for space in self.cores if space in self.parties[end.peer].cores)  # said on opening
        older = self.newest.get(end.peer)
        if self.role is Role.CLIENT:
            for other in self.ends.values():
                other.superseded = True
        if older is not None:
            older.superseded = True
            older.out.end()  # so its peer cannot go on with it; what it has sent is still read
        self.newest[end.peer] = end
        self.ends[end.session] = end
        session = Session(end.session, end.peer, end.role)
        if self.world.tell is not None:
            self.world.tell(self.world.now, self.name, f"session {end.peer}")
        self.world.mark(self.name, f"up {end.session} {end.peer}")
        for space in end.spaces:
            if end.open:
                core = self.cores[space]
                effects = core.on_session_up(session, self.now())
                self.watchers[space].on_session(self, core, end, True, effects)
                self.carry(space, effects)

    def _ended(self, end: End) -> None:
        if end.open:
            self.drop(end)
        elif self.attempts.get(end.peer) is end:
            self._give_up(end)

    def drop(self, end: End) -> None:
        """The session is over for this host."""
        end.close()
        del self.ends[end.session]
        if self.newest.get(end.peer) is end:
            del self.newest[end.peer]
        if self.world.tell is not None:
            self.world.tell(self.world.now, self.name, f"parted {end.peer}")
        self.world.mark(self.name, f"down {end.session} {end.peer}")
        life = self.life
        for space in end.spaces:
            if self.alive and life == self.life:
                core = self.cores[space]
                effects = core.on_session_down(end.session, self.now())
                self.watchers[space].on_session(self, core, end, False, effects)
                self.carry(space, effects)
        if self.alive and life == self.life:
            self.parted(end)

    def suspect(self, end: End, reason: str) -> None:
        """This host gives a peer up."""
        if end.open and self.alive:
            self.journal.disconnected(end.peer, reason, self.stamp())
            self.drop(end)

    def dial(self, peer: str) -> None:
        """Knock at a peer, unless there is a session with it or one on its way."""
        if not self.alive or peer in self.newest or peer in self.attempts:
            return
        end = self.attempts[peer] = self.network.dial(self, self.parties[peer])
        self.later(self.network.settings.timeout_ms * MILLISECOND, self._give_up, end)

    def _give_up(self, end: End) -> None:
        if self.attempts.get(end.peer) is end:
            del self.attempts[end.peer]
            end.out.end()
            self.refused(end.peer)

    @abstractmethod
    def parted(self, end: End) -> None:
        """A session has ended."""

    @abstractmethod
    def refused(self, peer: str) -> None:
        """A peer could not be reached."""

    def soon(self) -> int:
        """How long to wait before trying again."""
        retry = self.network.settings.retry_ms * MILLISECOND
        return self.random.randint(retry // 4, retry)

    # --- steps

    def read(self, end: End, space: str, message: Message) -> None:
        """Hand a message to its core."""
        world, core, codec = self.world, self.cores[space], self.codecs[space]
        world.hops += 1
        pieces = codec.encode(message)
        if self.network.settings.codec:
            message = codec.decode(memoryview(b"".join(pieces)))
        world.mark(self.name, f"{end.session} {space}", *[memoryview(piece) for piece in pieces])
        if world.tell is not None:
            world.tell(world.now, f"{end.peer}->{self.name}", described(message))
        effects = core.on_message(end.session, message, self.clock.now())
        self.watchers[space].on_message(self, core, end, message, effects)
        self.carry(space, effects)

    def carry(self, space: str, effects: Effects) -> None:
        """Carry effects out, in order; a process that is to die does so in the middle."""
        acts = self.acts
        if self.fuse < 0:
            for effect in effects:
                acts[type(effect)](space, effect)
            return
        if len(effects) > self.fuse:
            self.world.count("situation:died-between-effects")
        for effect in effects[: self.fuse]:
            if self.alive:
                acts[type(effect)](space, effect)
        if self.alive:
            self.die()

    def send(self, space: str, effect: Send) -> None:
        """Put it on its wire, if that still stands."""
        end = self.ends.get(effect.session)
        if end is not None:
            end.out.put((space, effect.message))

    def hang_up(self, space: str, effect: HangUp) -> None:
        """A core ends a session, and so it ends for every core."""
        end = self.ends.get(effect.session)
        if end is not None:
            self.world.count("situation:hung-up")
            self.suspect(end, f"broken-rule: {effect.reason}")

    def keep_dialling(self, space: str, effect: Dial) -> None:
        """Only brokers have others to dial."""
        raise AssertionError(f"{self.name} was asked to dial {effect.peer}")

    def set_alarm(self, space: str, effect: Wake) -> None:
        """Wake a core when its time has come."""
        self.world.at(self.clock.due(effect.at), self._due, self.life, self._wake, (space, effect))

    def _wake(self, space: str, effect: Wake) -> None:
        now = self.now()
        if now.at < effect.at:
            self.set_alarm(space, effect)  # the clock has slowed down since
            return
        self.world.mark(self.name, f"wake {space} {effect.what}")
        core = self.cores[space]
        effects = core.on_wake(effect.what, now)
        self.watchers[space].on_wake(core, effect.what, effects)
        self.carry(space, effects)

    def store(self, space: str, effect: Store) -> None:
        """Hand a record to the disk."""
        life = self.life

        def outcome(then: str, failure: str) -> None:
            self._due(life, self._stored, (space, then, failure))

        self.disk.store(space, effect.record, effect.then, outcome)

    def _stored(self, space: str, then: str, failure: str) -> None:
        self.world.mark(self.name, f"stored {space} {then} {failure}")
        core = self.cores[space]
        self.carry(
            space, core.on_store_failed(then, failure, self.now()) if failure else core.on_stored(then, self.now())
        )

    def deliver(self, space: str, effect: Deliver) -> None:
        """Only clients have applications."""
        raise AssertionError(f"{self.name} was asked to deliver {effect.batch}")

    def answer(self, space: str, effect: Answer) -> None:
        """Only clients have applications."""
        raise AssertionError(f"{self.name} was asked to answer {effect.request}")

    def tell_gap(self, space: str, effect: Gap) -> None:
        """Only clients have applications."""
        raise AssertionError(f"{self.name} was asked to announce a gap to {effect.subscription}")

    def note(self, space: str, effect: Note) -> None:
        """Write it down."""
        self.journal.note(space, effect, self.stamp())
        if effect.event is Kind.DROPPED:
            reason = effect.fields["reason"]
            self.world.count(f"drop:{reason}")
            if self.world.tell is not None:
                self.world.tell(self.world.now, self.name, f"dropped {reason} {effect.fields['count']}")

    def held(self) -> None:
        """At the end: write down what has not drained."""
        for space, core in self.cores.items():
            self.journal.held(space, core.held(), self.stamp())
