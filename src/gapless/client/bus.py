"""The bus: a client's connection to a cluster, through whichever of its servers answers."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gapless.client.address import Address, parse_servers, shown
from gapless.client.publisher import Publisher
from gapless.client.space import LeafSpace
from gapless.client.subscription import GapNotice, Subscription
from gapless.delivery.port import Role
from gapless.filters import Interest
from gapless.model import errors
from gapless.model.errors import (
    Closed,
    ConfigError,
    DeadlineExceeded,
    GaplessError,
    Unreachable,
    VersionMismatch,
    WireError,
)
from gapless.model.types import AttributeValue
from gapless.node.control import AnyControl, Hello, NotOpened, Open, Opened, Welcome
from gapless.node.journal import Journal
from gapless.node.link import Link, Pace, State

CONNECT_DEADLINE = 10.0
REDIAL_FIRST = 0.05
REDIAL_MAX = 2.0
FATAL = (VersionMismatch, ConfigError)  # another try at the same server would end the same way


def connect(
    servers: str | Sequence[str],
    *,
    name: str | None = None,
    journal: str | Path | None = None,
    deadline: float | None = CONNECT_DEADLINE,
) -> Bus:
    """A bus to the cluster behind these servers: `async with gapless.connect("gapless://127.0.0.1:7400") as bus`.

    `name` is this process' in journals and status; `journal` is a folder to write its history into.
    """
    return Bus(parse_servers(servers), name or f"client-{secrets.token_hex(4)}", journal, deadline)


class Bus:
    """Keeps a link to one of the servers, and moves to the next when it ends."""

    def __init__(
        self, servers: tuple[Address, ...], name: str, journal: str | Path | None, deadline: float | None
    ) -> None:
        self.servers = servers
        self.name = name
        self.cluster = ""
        self.server = ""  # the broker it is connected to now, if any
        self._journal_folder = Path(journal) if journal is not None else None
        self._journal: Journal | None = None
        self._deadline = deadline
        self._pace = Pace()
        self._link: Link | None = None
        self._numbers = 0
        self._spaces: dict[str, LeafSpace] = {}
        self._channels: dict[int, str] = {}
        self._opening: dict[str, asyncio.Future[LeafSpace]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._pid = 0
        self._closed = False
        self._default_publishers: dict[str, Publisher] = {}
        self._trouble = ""

    # --- life -----------------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect; raises Unreachable when no server answers in time. Entering the bus does this."""
        if self._keeper is not None or self._closed:
            self._check()
            return self
        self._pid = os.getpid()
        if self._journal_folder is not None:
            self._journal = Journal(self._journal_folder, self.name)
        loop = asyncio.get_running_loop()
        self._first = loop.create_future()
        self._keeper = loop.create_task(self._keep(), name=f"gapless {self.name}")
        try:
            async with asyncio.timeout(self._deadline):
                await asyncio.shield(self._first)
        except TimeoutError:
            await self.close()
            tried = ", ".join(map(shown, self.servers))
            why = f": {self._trouble}" if self._trouble else ""
            raise Unreachable(f"no server answered within {self._deadline:g} s (tried {tried}){why}") from None
        except GaplessError:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Hang up at once. What was not accepted has an unknown outcome; `drain()` first to avoid that."""
        if self._closed:
            return
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._link is not None:
            self._link.end("the client has closed its connection")
        await asyncio.sleep(0)
        for space in self._spaces.values():
            space.close()
        if self._journal is not None:
            self._journal.close()

    async def drain(self, deadline: float | None = None) -> None:
        """Send what was handed in, wait for its outcome, then close."""
        try:
            async with asyncio.timeout(deadline):
                for space in self._spaces.values():
                    await space.flush()
        except TimeoutError:
            raise DeadlineExceeded(
                f"not everything was accepted within {deadline:g} s; the connection is open"
            ) from None
        await self.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check(self) -> None:
        if self._closed:
            raise Closed("this bus is closed: connect again")
        if self._keeper is None:
            raise Closed("this bus is not open yet: enter it with `async with`, or await bus.open()")
        if self._pid != os.getpid():
            raise Closed("this bus belongs to the process that this one was forked from: connect again here")

    # --- using it -------------------------------------------------------------------------------------------------------

    async def publisher(self, space: str, name: str | None = None, *, deadline: float | None = None) -> Publisher:
        """A publisher in this space. Under a name it is the name's newest holder, and older ones are fenced."""
        leaf = await self._space(space, deadline)
        return leaf.publisher(name or f"{self.name}.{secrets.token_hex(3)}")

    async def publish(
        self,
        space: str,
        attributes: Mapping[str, AttributeValue | None],
        body: bytes = b"",
        *,
        deadline: float | None = None,
    ) -> int:
        """Send one publication and wait until it is accepted; returns its seq."""
        if space not in self._default_publishers:
            self._default_publishers[space] = await self.publisher(space, deadline=deadline)
        receipt = await self._default_publishers[space].send(attributes, body, deadline=deadline)
        return await receipt.accepted(deadline)

    def subscribe(
        self,
        space: str,
        filter: str = "",  # noqa: A002 - the word that users know
        *,
        topic: str = "",
        on_gap: Callable[[GapNotice], None] | None = None,
        deadline: float | None = None,
    ) -> Subscribing:
        """Subscribe; awaiting or entering the result means *confirmed*. An empty filter wants everything."""
        self._check()
        return Subscribing(self, space, Interest.parse(filter, topic), on_gap, deadline)

    async def _subscribe(
        self, space: str, interest: Interest, on_gap: Callable[[GapNotice], None] | None, deadline: float | None
    ) -> Subscription:
        leaf = await self._space(space, deadline)
        subscription = leaf.subscribe(interest, on_gap)
        try:
            return await subscription.confirmed(deadline)
        except BaseException:
            await subscription.close()
            raise

    async def _space(self, name: str, deadline: float | None) -> LeafSpace:
        self._check()
        if name in self._spaces:
            return self._spaces[name]
        if name not in self._opening:
            self._opening[name] = asyncio.get_running_loop().create_future()
            if self._link is not None and self._link.state is State.OPEN:
                self._ask(self._link, name)
        try:
            async with asyncio.timeout(deadline):
                return await asyncio.shield(self._opening[name])
        except TimeoutError:
            raise DeadlineExceeded(f"space {name!r} was not opened within {deadline:g} s") from None

    # --- the link -------------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Have a link to one of the servers whenever one can be had."""
        wait = REDIAL_FIRST
        turn = 0
        while True:
            address = self.servers[turn % len(self.servers)]
            turn += 1
            link = await self._connect(address)
            if link is not None:
                await link.ended.wait()
                await asyncio.sleep(0)
                if self.server:
                    wait = REDIAL_FIRST
                self.server = ""
                self._trouble = f"{shown(address)}: {link.reason}"
                self._give_up_on(link)
            if turn % len(self.servers) == 0:
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(wait * 2, REDIAL_MAX)

    async def _connect(self, address: Address) -> Link | None:
        loop = asyncio.get_running_loop()
        self._numbers += 1
        number = self._numbers
        try:
            async with asyncio.timeout(self._pace.handshake_s):
                _, link = await loop.create_connection(lambda: Link(self, self._pace, number, True), *address)
        except (OSError, TimeoutError) as error:
            self._trouble = f"{shown(address)}: {error or 'no answer'}"
            return None
        return link

    def _give_up_on(self, link: Link) -> None:
        """When no server will ever take us, say so instead of trying for ever."""
        farewell = link.farewell
        kind = getattr(errors, farewell.code, None) if farewell is not None else None
        if kind in FATAL and farewell is not None and self._first is not None and not self._first.done():
            self._first.set_exception(kind(farewell.text))

    def link_connected(self, link: Link) -> None:
        """Introduce ourselves."""
        link.say(Hello(self.name, Role.CLIENT))

    def link_control(self, link: Link, message: AnyControl) -> None:
        """The broker's host says something."""
        if isinstance(message, Welcome) and link.state is State.GREETING:
            self._on_welcome(link, message)
        elif isinstance(message, Opened):
            self._on_opened(link, message)
        elif isinstance(message, NotOpened):
            waiting = self._opening.pop(self._channels.pop(message.channel, ""), None)
            kind = getattr(errors, message.code, GaplessError)
            if waiting is not None and not waiting.done():
                waiting.set_exception(kind(message.text))
                waiting.exception()  # whoever awaits it still gets it; nobody is warned that nobody did
        else:
            raise WireError(f"{type(message).__name__} makes no sense here")

    def link_frame(self, link: Link, channel: int, data: memoryview) -> None:
        """A message for a space."""
        space = self._spaces.get(self._channels.get(channel, ""))
        if space is None:
            raise WireError(f"channel {channel} is not open")
        space.frame(link, data)

    def link_ended(self, link: Link, reason: str) -> None:
        """Tell the spaces."""
        if self._link is link:
            self._link = None
            self._channels.clear()
            for space in self._spaces.values():
                space.session_down(link)

    def _on_welcome(self, link: Link, welcome: Welcome) -> None:
        if self.cluster and self.cluster != welcome.cluster:
            raise ConfigError(
                f"server {link.address} belongs to cluster {welcome.cluster!r}, the others to {self.cluster!r}: "
                "list servers of one cluster only"
            )
        self.cluster = welcome.cluster
        self.server = welcome.node
        link.open(welcome.node)
        self._link = link
        for name in (*self._spaces, *self._opening):
            self._ask(link, name)
        if self._first is not None and not self._first.done():
            self._first.set_result(None)

    def _ask(self, link: Link, space: str) -> None:
        channel = len(self._channels) + 1
        self._channels[channel] = space
        link.say(Open(channel, space))

    def _on_opened(self, link: Link, message: Opened) -> None:
        name = self._channels.get(message.channel)
        if name is None:
            raise WireError(f"channel {message.channel} was never asked for")
        if name not in self._spaces:
            self._spaces[name] = LeafSpace(self.name, message.settings, self._journal)
        self._spaces[name].session_up(link, message.channel)
        waiting = self._opening.pop(name, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(self._spaces[name])


class Subscribing:
    """A subscription on its way: await it or enter it."""

    def __init__(
        self,
        bus: Bus,
        space: str,
        interest: Interest,
        on_gap: Callable[[GapNotice], None] | None,
        deadline: float | None,
    ) -> None:
        self._start = lambda: bus._subscribe(space, interest, on_gap, deadline)
        self._subscription: Subscription | None = None

    def __await__(self):  # type: ignore[no-untyped-def]  # the coroutine's own generator, whose type has no name
        return self._start().__await__()

    async def __aenter__(self) -> Subscription:
        self._subscription = await self._start()
        return self._subscription

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._subscription is not None:
            await self._subscription.close()
