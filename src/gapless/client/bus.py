"""The bus: a client's connection to a cluster, through whichever of its servers answers."""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gapless.client.address import Address, parse_servers, shown
from gapless.client.deadline import Deadline, within
from gapless.client.handout import GapNotice
from gapless.client.keeper import Keeper
from gapless.client.opening import Opening
from gapless.client.publisher import Publisher, error_named
from gapless.client.space import LeafSpace
from gapless.client.start import NOW, Start, check_start
from gapless.client.subscription import Subscription
from gapless.filters import Interest
from gapless.model.cursor import Cursor
from gapless.model.errors import (
    Closed,
    ConfigError,
    DeadlineExceeded,
    GaplessError,
    Unreachable,
    Unsupported,
    WireError,
)
from gapless.model.types import AttributeValue
from gapless.node.clock import now
from gapless.node.control import NotOpened, Open, Opened, Welcome
from gapless.node.journal import Journal
from gapless.node.link import Link
from gapless.node.surroundings import here

CONNECT_DEADLINE = 10.0
SOURCE_BYTES_MAX = 255
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def connect(
    servers: str | Sequence[str],
    *,
    name: str | None = None,
    journal: str | Path | None = None,
    faults: bool = False,
    deadline: float | None = CONNECT_DEADLINE,
) -> Bus:
    """A bus to the cluster behind these servers: `async with gapless.connect("gapless://127.0.0.1:7400") as bus`.

    `name` is this process' in journals and status; `journal` is a folder to write its history into, and `faults` says
    there that the run may contain some. Whatever takes a `deadline` takes it in seconds from the call; None waits as
    long as it takes.
    """
    return Bus(parse_servers(servers), name, Path(journal) if journal is not None else None, faults, deadline)


class Bus:
    """One connection for everything this process publishes and subscribes; it moves on when a server fails."""

    def __init__(
        self,
        servers: tuple[Address, ...],
        name: str | None = None,
        journal: Path | None = None,
        faults: bool = False,
        deadline: float | None = CONNECT_DEADLINE,
    ) -> None:
        if name is not None and not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} cannot name a client: use up to 100 letters, digits, '.', '_' and '-', "
                "the first a letter or digit"
            )
        self.servers = servers
        self.name = name or f"client-{here().token(8)}"
        # Subscriptions of an earlier process of the same name are others than ours.
        self._run = f"{here().token(3)}-" if name else ""
        self._journal_folder = journal
        self._faults = faults
        self._journal: Journal | None = None
        self._deadline = deadline
        self._keeper = Keeper(servers, self.name, self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._linked: asyncio.Future[None] | None = None  # the first link, or why there will be none
        self._frame_bytes_max = 0  # of the broker
        self._spaces: dict[str, LeafSpace] = {}
        self._channels: dict[int, str] = {}  # of the link there is now
        self._opening: dict[str, asyncio.Future[LeafSpace]] = {}
        self._own_publishers: dict[str, Publisher] = {}  # those of `publish`, by space
        self._closed: GaplessError | None = None
        self._draining = False

    # --- life ---------------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect; raises Unreachable when no server answers in time. Entering the bus does this."""
        if self._loop is None and self._closed is None:
            if self._journal_folder is not None:
                self._journal = Journal(self._journal_folder, self.name, faults=self._faults)
            else:
                self._journal = here().journal(self.name)
            self._loop = asyncio.get_running_loop()
            self._linked = self._loop.create_future()
            _buses.add(self)
            self._keeper.start()
        self.check()
        assert self._linked is not None
        try:
            async with within(self._deadline, self._unreachable):
                await asyncio.shield(self._linked)
        except BaseException:
            await self.close()
            raise
        return self

    def _unreachable(self) -> Unreachable:
        tried = ", ".join(map(shown, self.servers))
        return Unreachable(
            f"no server answered within {self._deadline:g} s (tried {tried}){self._why()}: start one, or name another"
        )

    def _why(self) -> str:
        """Why there is no link, if there is none."""
        return f"; last trouble: {self.trouble}" if self.trouble else ""

    @property
    def cluster(self) -> str:
        """The name of the cluster, once a server has told it."""
        return self._keeper.cluster

    @property
    def server(self) -> str:
        """The broker it is connected to now; empty while it is looking for one."""
        return self._keeper.link.peer if self._keeper.link is not None else ""

    @property
    def trouble(self) -> str:
        """Why it is connected to no broker now; empty while it is."""
        return self._keeper.trouble

    @property
    def spaces(self) -> tuple[LeafSpace, ...]:
        """What this process has to do with each space, for whoever looks after it from outside."""
        return tuple(self._spaces.values())

    async def close(self) -> None:
        """Hang up at once. What was not accepted has an unknown outcome; `drain()` first to avoid that."""
        if self._closed is None:
            self._shut(Closed("this bus is closed: connect again"))
            await self._keeper.stopped()

    def _shut(self, reason: GaplessError) -> None:
        """Nothing comes or goes any more: tell everybody who waits."""
        self._closed = reason
        _buses.discard(self)
        for space in self._spaces.values():
            space.leave()
        self._keeper.stop("the client has closed its connection")
        for space in self._spaces.values():
            space.close(reason)
        waiting: list[asyncio.Future[Any] | None] = [self._linked, *self._opening.values()]
        for future in filter(None, waiting):
            if not future.done():
                future.set_exception(reason)
                future.exception()  # whoever awaits it still gets it; nobody is warned that nobody did
        if self._journal is not None:
            self._journal.close(goodbye=True)

    async def drain(self, deadline: float | None = None) -> None:
        """Take nothing new, wait for the outcome of what was handed in, then close.

        When the deadline passes first: DeadlineExceeded, and the bus is open and goes on sending.
        """
        self.check()
        failure: GaplessError | None = None
        late = lambda: DeadlineExceeded(  # noqa: E731  # a name for the sentence
            f"not everything was accepted within {deadline:g} s{self._why()}: drain again, or close and give it up"
        )
        publishers = [publisher for space in self._spaces.values() for publisher in space.publishers]
        self._draining = True
        try:
            for publisher in publishers:
                publisher.stop()
            async with within(deadline, late):
                for publisher in publishers:
                    try:
                        await publisher.flush()
                    except GaplessError as error:
                        failure = failure or error
        finally:
            self._draining = False
        await self.close()
        if failure is not None:
            raise failure

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, Any, Self]:
        return self.open().__await__()

    def check(self) -> None:
        """Raise unless it can be used here and now."""
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self._loop is None:
            raise Closed("this bus is not open yet: enter it with `async with`, or await bus.open()")

    def _check_taking(self) -> None:
        """Raise unless new things can be begun here and now."""
        self._check_loop()
        if self._draining:
            raise Closed("this bus is draining and takes nothing new: connect again")

    def _check_loop(self) -> None:
        self.check()
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not self._loop:
            raise Unsupported(
                "this bus belongs to another event loop: use it where it was opened, connect here as well, "
                "or use gapless.sync, which works in every thread"
            )

    # --- using it -----------------------------------------------------------------------------------------------------

    def publisher(self, space: str, name: str | None = None, *, deadline: float | None = None) -> Opening[Publisher]:
        """A publisher in this space: await it, or enter it, which flushes at the end.

        Under a name it is the name's newest holder, and older ones are fenced.
        """
        self._check_taking()
        if name is not None:
            _check_source(name)
        return Opening(lambda: self._publisher(space, name, deadline))

    async def _publisher(self, space: str, name: str | None, deadline: float | None) -> Publisher:
        leaf = await self._space(space, deadline)
        return leaf.publisher(name)

    async def publish(
        self,
        space: str,
        attributes: Mapping[str, AttributeValue | None],
        body: bytes = b"",
        *,
        deadline: float | None = None,
    ) -> int:
        """Send one publication and wait until it is accepted; returns its seq."""
        self._check_taking()
        limit = Deadline(deadline)
        leaf = await self._space(space, deadline)
        publisher = self._own_publishers.get(space)
        if publisher is None or publisher.closed is not None:
            publisher = self._own_publishers[space] = leaf.publisher(None)
        receipt = await publisher.send(attributes, body, deadline=limit.left())
        return await receipt.accepted(limit.left())

    def subscribe(
        self,
        space: str,
        filter: str = "",  # noqa: A002  # the word that users know
        *,
        topic: str = "",
        start: Start = NOW,
        on_gap: Callable[[GapNotice], None] | None = None,
        deadline: float | None = None,
    ) -> Opening[Subscription]:
        """Subscribe; awaiting or entering the result means *confirmed*. An empty filter wants everything.

        `start` is "now"; where the delivery of the space keeps the past also "earliest", a time, or a cursor.
        """
        self._check_taking()
        interest = Interest.parse(filter, topic)
        check_start(start)
        return Opening(lambda: self._subscribe(space, interest, start, on_gap, deadline))

    async def _subscribe(
        self,
        space: str,
        interest: Interest,
        start: Start,
        on_gap: Callable[[GapNotice], None] | None,
        deadline: float | None,
    ) -> Subscription:
        limit = Deadline(deadline)
        leaf = await self._space(space, deadline)
        if isinstance(start, Cursor):
            start.check(self.cluster, space)
        subscription = leaf.subscribe(interest, start, on_gap)
        try:
            return await subscription.confirmed(limit.left())
        except BaseException:
            await subscription.close()
            raise

    async def _space(self, name: str, deadline: float | None) -> LeafSpace:
        self._check_taking()
        if name in self._spaces:
            return self._spaces[name]
        if name not in self._opening:
            self._opening[name] = asyncio.get_running_loop().create_future()
            if self._keeper.link is not None:
                self._ask(self._keeper.link, name)
        late = lambda: DeadlineExceeded(  # noqa: E731  # a name for the sentence
            f"space {name!r} was not opened within {deadline:g} s{self._why()}: try again, or name more servers"
        )
        async with within(deadline, late):
            space = await asyncio.shield(self._opening[name])
        self._check_taking()
        return space

    # --- what the keeper tells ----------------------------------------------------------------------------------------

    def linked(self, link: Link, welcome: Welcome) -> None:
        """There is a link."""
        self._frame_bytes_max = welcome.frame_bytes_max
        for name in (*self._spaces, *self._opening):
            self._ask(link, name)
        if self._linked is not None and not self._linked.done():
            self._linked.set_result(None)

    def unlinked(self, link: Link) -> None:
        """It has ended; there will be another."""
        self._channels.clear()
        if self._journal is not None:
            self._journal_end(self._journal, link)
        for space in self._spaces.values():
            space.session_down(link)

    def _journal_end(self, journal: Journal, link: Link) -> None:
        """Losing the broker is a fault; to leave it is our decision. One that says farewell tells of it itself."""
        if link.code and link.code != Unreachable.__name__:
            journal.disconnected(link.peer, f"{link.code.lower()}: {link.reason}", now())
        elif link.farewell is None or self._faults:
            journal.link_down(link.peer, now())

    def doomed(self, error: GaplessError) -> None:
        """There will never be a link (again), for this reason."""
        if self._closed is None:
            self._shut(error)

    def told(self, link: Link, message: Opened | NotOpened) -> None:
        """What the broker says of a channel."""
        name = self._channels.get(message.channel)
        if name is None:
            raise WireError(f"channel {message.channel} was never asked for")
        waiting = self._opening.pop(name, None)
        try:
            if isinstance(message, NotOpened):
                raise error_named(message.code, message.text)
            if name not in self._spaces:
                self._spaces[name] = LeafSpace(self.name, self._run, message.settings, self._journal)
        except GaplessError as error:
            if name in self._spaces:
                self._spaces.pop(name).close(error)
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # as in `_shut`
            return
        link.widen(message.settings.tuning.window_bytes)
        self._spaces[name].session_up(link, message.channel, self._frame_bytes_max, message.newest)
        if waiting is not None and not waiting.done():
            waiting.set_result(self._spaces[name])

    def framed(self, link: Link, channel: int, data: memoryview) -> None:
        """A message for a space."""
        name = self._channels.get(channel)
        if name is None:
            raise WireError(f"channel {channel} is not open")
        space = self._spaces.get(name)
        if space is not None:
            space.frame(link, data)

    def _ask(self, link: Link, space: str) -> None:
        channel = len(self._channels) + 1
        self._channels[channel] = space
        link.say(Open(channel, space))

    # --- forks --------------------------------------------------------------------------------------------------------

    def flush_journal(self) -> None:
        """Write out what the journal holds: a copy of this process would write it a second time."""
        if self._journal is not None:
            self._journal.flush()

    def disown(self) -> None:
        """This is the copy of the bus in a forked process: it may not touch the connection."""
        closed = Closed("this bus belongs to the process that this one was forked from: connect again here")
        self._closed = closed
        self._journal = None
        self._keeper.disown()
        for space in self._spaces.values():
            space.disown(closed)


def _check_source(name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= SOURCE_BYTES_MAX or not name.isprintable():
        raise ConfigError(f"{name[:40]!r} cannot name a publisher: use 1 to {SOURCE_BYTES_MAX} printable characters")


_buses: weakref.WeakSet[Bus] = weakref.WeakSet()  # those that are open


def _before_fork() -> None:
    for bus in tuple(_buses):
        bus.flush_journal()


def _after_fork_in_child() -> None:
    for bus in tuple(_buses):
        bus.disown()
    _buses.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
