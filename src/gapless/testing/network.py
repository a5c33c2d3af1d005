"""A network in memory: who listens where, which connections there are, and what is wrong between whom."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context, copy_context
from typing import NamedTuple

from gapless.client.bus import Bus
from gapless.client.keeper import Keeper
from gapless.client.subscription import Subscription
from gapless.node.link import Link
from gapless.node.tables import ip_address
from gapless.testing.connection import End
from gapless.testing.loop import VirtualLoop
from gapless.testing.process import Process, process_of

ANYBODY = "*"
RETRY_S = 1.0  # who is not answered asks again
Names = tuple[str, ...]
Place = tuple[str, int]


class Listener(asyncio.AbstractServer):
    """Takes connections at a place."""

    def __init__(self, network: Network, place: Place, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.place = place
        self.factory = factory
        self.context: Context = copy_context()
        self._network = network

    def close(self) -> None:
        """Take no more."""
        self._network.leave(self)

    async def wait_closed(self) -> None:
        """It is closed at once."""

    async def start_serving(self) -> None:
        """It does from the beginning."""

    async def serve_forever(self) -> None:
        """Until whoever waits for this is cancelled."""
        await self._network.loop.create_future()

    def is_serving(self) -> bool:
        """Whether it takes connections."""
        return self._network.listeners.get(self.place) is self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Where it is."""
        return self._network.loop


class Pair(NamedTuple):
    """From whom to whom. `ANYBODY` stands for everyone."""

    one: str
    other: str


class Network:
    """Knows its participants by their names: brokers by their ids, clients by those of their buses."""

    def __init__(self, loop: VirtualLoop, latency_s: float, places: Mapping[str, Place]) -> None:
        """`places` says where each broker listens when it does."""
        self.loop = loop
        self.places = places
        self.listeners: dict[Place, Listener] = {}
        self.unplugged: dict[str, None] = {}  # who does not even refuse
        self.stirred = 0.0  # when something other than a sign of life was last on its way
        self.under_way = 0  # how much of that is on its way now
        self.clients: dict[Keeper, Process | None] = {}  # that have dialled, and the process they are in
        self._latency_s = latency_s
        self._ends: dict[End, None] = {}
        self._cut: dict[Pair, None] = {}
        self._silent: dict[Pair, None] = {}
        self._slow: dict[Pair, float] = {}

    # --- connecting ---------------------------------------------------------------------------------------------------

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Listener:
        """Take connections there."""
        if (host, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        listener = self.listeners[host, port] = Listener(self, (host, port), factory)
        return listener

    def leave(self, listener: Listener) -> None:
        """Take no more connections there."""
        if self.listeners.get(listener.place) is listener:
            del self.listeners[listener.place]

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[End, asyncio.BaseProtocol]:
        """Connect to what listens there."""
        protocol = factory()  # first, because it knows whose connection this is
        mine, place = self._names_of(protocol), self._place(host, port)
        theirs = tuple(name for name, at in self.places.items() if at == place)
        await asyncio.sleep(self.latency(mine, theirs))
        while not self._reaches(mine, theirs):  # noqa: ASYNC110  # as a real one does, it asks again
            await asyncio.sleep(RETRY_S)
        listener = self.listeners.get(place)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        await asyncio.sleep(self.latency(theirs, mine))
        if not self._reaches(theirs, mine) or not listener.is_serving():
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        end = End(self, protocol, mine, copy_context(), place)
        other = End(self, listener.factory(), theirs, listener.context, (mine[0] if mine else "application", 0))
        end.join(other)
        other.join(end)
        self._ends[end] = self._ends[other] = None
        self.loop.call_soon(other.begin, context=other.context)
        end.begin()
        return end, protocol

    def _names_of(self, protocol: asyncio.BaseProtocol) -> Names:
        process = process_of(None)
        names = () if process is None else (process.name,)
        if isinstance(protocol, Link) and isinstance(protocol.owner, Keeper):
            self.clients[protocol.owner] = process
            names = (protocol.owner.name, *names)
        return names

    def _place(self, host: str, port: int) -> Place:
        """What this address means here: a broker may be called by its id, and may listen at every address."""
        if host in self.places:
            return self.places[host]
        host = "127.0.0.1" if host.lower() == "localhost" else host
        for place in (*self.listeners, *self.places.values()):
            address = ip_address(place[0])
            if place == (host, port) or (place[1] == port and address is not None and address.is_unspecified):
                return place
        known = ", ".join(f"{name} at {place[0]}:{place[1]}" for name, place in self.places.items())
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} is nowhere in this overlay; there is {known}")

    def _reaches(self, one: Names, other: Names) -> bool:
        """Whether what one sends arrives; raises when it knows that it cannot."""
        if _applies(self._cut, one, other) or _applies(self._cut, other, one):
            raise OSError(errno.EHOSTUNREACH, "No route to host")
        gone = any(name in self.unplugged for name in (*one, *other))
        return not gone and not self.is_silent(one, other) and not self.is_silent(other, one)

    def forget(self, end: End) -> None:
        """The connection is over for this end: what was on its way there is lost."""
        self._ends.pop(end, None)
        other = end.out.receiver
        other.out.drop()
        other.went_out()

    # --- what is on its way -------------------------------------------------------------------------------------------

    def stir(self) -> None:
        """Something happens now that others may answer."""
        self.stirred = self.loop.time()

    def set_out(self) -> None:
        """Something is on its way."""
        self.under_way += 1
        self.stir()

    def arrived(self) -> None:
        """It has arrived, or is lost."""
        self.under_way -= 1
        self.stir()

    def latency(self, one: Names, other: Names) -> float:
        """How long something takes from one to the other."""
        slow = [self._slow[pair] for pair in _pairs(one, other) if pair in self._slow] if self._slow else ()
        return max(slow, default=self._latency_s) * self.loop.uniform(0.5, 1.5)

    def is_silent(self, one: Names, other: Names) -> bool:
        """Whether nothing gets through."""
        return _applies(self._silent, one, other)

    def go_on(self) -> None:
        """Something may get through again."""
        for end in tuple(self._ends):
            end.out.go_on()
            end.out.receiver.out.go_on()

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """Break every connection between the two, now and until mended."""
        self._cut[Pair(one, other)] = None
        for end in tuple(self._ends):
            receiver = end.out.receiver
            if _applies(self._cut, end.names, receiver.names) or _applies(self._cut, receiver.names, end.names):
                self._break(end)

    def _break(self, end: End) -> None:
        end.out.drop()
        lost = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        self.loop.call_soon(end.lose, lost, context=end.context)

    def silence(self, one: str, other: str) -> None:
        """Let nothing arrive of what one sends to the other; nobody is told."""
        self._silent[Pair(one, other)] = None

    def slow(self, one: str, other: str, latency_s: float) -> None:
        """Let everything between the two take so long."""
        self._slow[Pair(one, other)] = self._slow[Pair(other, one)] = latency_s

    def mend(self, one: str | None = None, other: str = ANYBODY) -> None:
        """End what is wrong between the two; None: everything."""
        for pair in {**self._cut, **self._silent, **self._slow}:
            if one is None or pair in ((one, other), (other, one)):
                self._cut.pop(pair, None)
                self._silent.pop(pair, None)
                self._slow.pop(pair, None)
        self.go_on()

    def subscriptions(self) -> Iterator[tuple[str, Subscription, str]]:
        """Those of clients that live: the space, the subscription, the client."""
        for keeper, process in self.clients.items():
            if isinstance(keeper.owner, Bus) and (process is None or process.alive):
                for leaf in keeper.owner.spaces:
                    for subscription in leaf.subscriptions:
                        yield leaf.settings.name, subscription, keeper.name

    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return not (self._cut or self._silent or self._slow)

    def close(self) -> None:
        """Every connection is gone, and nobody is told."""
        for end in tuple(self._ends):
            end.vanish()

    def die(self, name: str, unplugged: bool) -> None:
        """The process is gone: the operating system tells its peers, unless that is gone as well."""
        for listener in tuple(self.listeners.values()):
            process = process_of(listener.context)
            if process is not None and process.name == name:
                listener.close()
        if unplugged:
            self.unplugged[name] = None
        for end in tuple(self._ends):
            if name in end.names:
                wire, other = end.out, end.out.receiver
                end.vanish()
                if unplugged:
                    wire.drop()
                elif not other.over:
                    wire.put(None, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def come_back(self, name: str) -> None:
        """It is there again, and does not know the connections that others still have with it."""
        self.unplugged.pop(name, None)
        for end in tuple(self._ends):
            if name in end.out.receiver.names and end.out.receiver.over:
                self._break(end)


def _pairs(one: Names, other: Names) -> list[Pair]:
    return [Pair(a, b) for a in (*one, ANYBODY) for b in (*other, ANYBODY)]


def _applies(wrong: Mapping[Pair, None], one: Names, other: Names) -> bool:
    return bool(wrong) and any(pair in wrong for pair in _pairs(one, other))
