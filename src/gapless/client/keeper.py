"""Keeps a link to one of several servers, and moves on to the next when it ends."""

from __future__ import annotations

import asyncio
from typing import Protocol

from gapless.client.address import Address, shown
from gapless.delivery.port import Role
from gapless.model.errors import ConfigError, Fenced, GaplessError, VersionMismatch, WireError
from gapless.node.control import AnyControl, Hello, NotOpened, Opened, Welcome
from gapless.node.link import Link, Pace, State
from gapless.node.sockets import cause_of
from gapless.node.surroundings import here

REDIAL_FIRST_S = 0.05
REDIAL_MAX_S = 2.0
LINGER_S = 0.5  # how long hanging up may take to go out
FATAL: dict[str, type[GaplessError]] = {  # another try at the same server would end the same way
    kind.__name__: kind for kind in (VersionMismatch, ConfigError, WireError)
}


class Kept(Protocol):
    """Who uses the link: the bus."""

    def linked(self, link: Link, welcome: Welcome) -> None:
        """There is a link."""
        ...

    def unlinked(self, link: Link) -> None:
        """It has ended; there will be another."""
        ...

    def told(self, link: Link, message: Opened | NotOpened) -> None:
        """What the broker says of a channel. May raise WireError."""
        ...

    def framed(self, link: Link, channel: int, data: memoryview) -> None:
        """A message on a channel. May raise WireError."""
        ...

    def doomed(self, error: GaplessError) -> None:
        """There will never be a link (again), for this reason."""
        ...


class Keeper:
    """Dials the servers in turn."""

    def __init__(self, servers: tuple[Address, ...], name: str, owner: Kept) -> None:
        self.servers = servers
        self.name = name
        self.cluster = ""
        self.link: Link | None = None  # open
        self._trouble = ""  # why there was none the last time
        self._dialling: Address | None = None
        self.owner = owner
        self._numbers = 0
        self._fatal: dict[Address, GaplessError] = {}
        self._linked_once = False
        self._dialled: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._disowned = False

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"gapless {self.name}")

    @property
    def trouble(self) -> str:
        """Why there is no link; empty while there is one, or nothing is known yet."""
        if self.link is not None or self._dialling is None:
            return ""
        if self._dialled is not None and self._dialled.state is State.GREETING:
            return (
                f"{shown(self._dialling)}: something took the connection and has not introduced itself; "
                "a broker is reached at the port of its `listen`, not at that of its `http`"
            )
        return self._trouble or f"{shown(self._dialling)}: no answer yet"

    def stop(self, reason: str) -> None:
        """Hang up, and dial no more."""
        if self._task is not None:
            self._task.cancel()
        link, self.link = self.link, None
        for one in (link, self._dialled):
            if one is not None:
                one.end(reason)

    def disown(self) -> None:
        """This is the copy of the keeper in a forked process: it touches nothing, and dials nobody."""
        self.link = None
        self._disowned = True
        if self._dialled is not None:
            self._dialled.disown()

    async def stopped(self) -> None:
        """Wait until the connection is gone, but not for long."""
        until = asyncio.get_running_loop().time() + LINGER_S
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.sleep(0)
        link = self._dialled
        while link is not None and link.unsent() and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110  # no event
            await asyncio.sleep(0.01)

    # --- dialling -----------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Have a link to one of the servers whenever one can be had."""
        wait = REDIAL_FIRST_S
        turn = 0
        while not self._disowned:
            address = self._dialling = self.servers[turn % len(self.servers)]
            turn += 1
            link = await self._dial(address)
            if link is not None:
                await link.ended.wait()
                await asyncio.sleep(0)
                if link.peer:
                    wait = REDIAL_FIRST_S
                self._trouble = f"{shown(address)}: {link.reason}"
                if self._hopeless(address, link):
                    return
            if turn % len(self.servers) == 0:
                await asyncio.sleep(wait * here().uniform(0.5, 1.0))
                wait = min(wait * 2, REDIAL_MAX_S)

    async def _dial(self, address: Address) -> Link | None:
        loop = asyncio.get_running_loop()
        pace = Pace()
        self._numbers += 1
        number = self._numbers
        try:
            async with asyncio.timeout(pace.handshake_s):
                _, self._dialled = await loop.create_connection(lambda: Link(self, pace, number, True), *address)
        except (OSError, TimeoutError, ValueError) as error:  # the last is raised for names that no resolver takes
            self._trouble = f"{shown(address)}: {cause_of(error)}"
            return None
        return self._dialled

    def _hopeless(self, address: Address, link: Link) -> bool:
        """When no server will ever take us, say so instead of trying for ever."""
        code = link.farewell.code if link.farewell is not None else link.code
        if code == Fenced.__name__:
            self.owner.doomed(Fenced(link.reason))
            return True
        if code in FATAL and not self._linked_once:
            self._fatal[address] = FATAL[code](f"{shown(address)}: {link.reason}")
            if len(self._fatal) == len(self.servers):
                self.owner.doomed(self._fatal[address])
                return True
        return False

    # --- what links tell their owner ----------------------------------------------------------------------------------

    def link_connected(self, link: Link) -> None:
        """Introduce ourselves."""
        self._dialled = link
        link.say(Hello(self.name, Role.CLIENT))

    def link_control(self, link: Link, message: AnyControl) -> None:
        """The broker's host says something."""
        if isinstance(message, Welcome) and link.state is State.GREETING:
            self._on_welcome(link, message)
        elif isinstance(message, Opened | NotOpened) and link is self.link:
            self.owner.told(link, message)
        else:
            raise WireError(f"{type(message).__name__} makes no sense here")

    def link_frame(self, link: Link, channel: int, data: memoryview) -> None:
        """A message for a space."""
        self.owner.framed(link, channel, data)

    def link_ended(self, link: Link, reason: str) -> None:
        """The link is over."""
        if self.link is link:
            self.link = None
            self.owner.unlinked(link)

    def _on_welcome(self, link: Link, welcome: Welcome) -> None:
        if self.cluster and self.cluster != welcome.cluster:
            raise ConfigError(
                f"server {link.address} belongs to cluster {welcome.cluster!r}, the others to {self.cluster!r}: "
                "list servers of one cluster only"
            )
        self.cluster = welcome.cluster
        self._fatal.clear()
        self._linked_once = True
        self._trouble = ""
        frame = 2 * welcome.frame_bytes_max  # what comes has passed that limit; who of us wants it is said beside it
        link.open(welcome.node, Pace(welcome.heartbeat_ms, welcome.suspect_after_ms, frame_bytes_max=frame))
        self.link = link
        self.owner.linked(link, welcome)
