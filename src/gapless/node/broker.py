"""A broker process: it listens, dials its parent, and lets the cores of its spaces decide."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gapless.delivery.port import Note, Role, SpaceSettings
from gapless.delivery.port import Tuning as CoreTuning
from gapless.model.errors import ConfigError, Refused, WireError
from gapless.node.clock import now
from gapless.node.config import ClusterConfig, SpaceConfig
from gapless.node.control import AnyControl, Hello, NotOpened, Open, Opened, Welcome
from gapless.node.dialler import Dialler
from gapless.node.greeting import Doorkeeper
from gapless.node.journal import GOODBYE, Journal
from gapless.node.link import Link, Pace, State
from gapless.node.logs import Logger
from gapless.node.sockets import cause_of, family_of
from gapless.node.space import Space

CHANNEL_MAX = (1 << 16) - 1
CONTROL_UNSENT_MAX = 8 << 20  # beside publications, which credits bound, so much may wait for a peer that reads slowly


class Broker:
    """One broker of a cluster."""

    def __init__(self, config: ClusterConfig, me: str, logger: Logger, journal: Journal | None = None) -> None:
        self.config = config
        self.me = me
        self.own = config.broker(me)
        self.log = logger
        self.journal = journal
        self.pace = _pace(config)
        self.neighbours = tuple(config.tree().neighbours(me))
        self.links: dict[int, Link] = {}
        self.roles: dict[int, Role] = {}  # of links that are open
        self.latest: dict[str, int] = {}  # the newest link of each peer
        self.channels: dict[tuple[int, int], Space] = {}  # link and channel
        self.spaces: dict[str, Space] = {}
        self.started = time.monotonic()
        self.draining = False
        self._numbers = 0
        self._door = Doorkeeper(config, me)
        self._dialler = Dialler(config, self.pace, self._new_link, logger)
        self._server: asyncio.Server | None = None

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, start the spaces, reach for the parent. Raises ConfigError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        address = self.own.listen
        try:
            self._server = await loop.create_server(
                lambda: self._new_link(dialled=False), address.host, address.port, family=family_of(address.host)
            )
        except OSError as error:
            raise ConfigError(
                f"broker {self.me!r} cannot listen on {address}: {cause_of(error)}; "
                "stop what uses that port, or give the broker another `listen`"
            ) from None
        parent = self.own.parent
        for config in self.config.spaces:
            settings = settings_of(config, self.config)
            if self.journal is not None:
                self.journal.space(settings)
            self.spaces[config.name] = Space(
                self.me, settings, self.neighbours, (parent,) if parent else (), self._dialler.dial, self._on_note
            )
        for space in self.spaces.values():
            space.start()
        self.log.info("listening", broker=self.me, cluster=self.config.name, listen=str(address))

    async def drain(self) -> None:
        """Take nobody new, let out what is queued, say farewell. Bounded by `drain_ms`."""
        self.draining = True
        self.log.info("draining", broker=self.me)
        if self.journal is not None:
            self.journal.disconnected("", f"{GOODBYE}: what waits goes out first", now())
            self.journal.flush()
        if self._server is not None:
            self._server.close()
        self._dialler.stop()
        clock = asyncio.get_running_loop().time
        until = clock() + self.config.tuning.drain_ms / 1000
        await _until(lambda: not self.queued(), until)
        left = self.queued()
        links = list(self.links.values())
        for link in links:
            link.end(f"broker {self.me!r} is going down")
        await _until(lambda: not any(link.unsent() for link in links), max(until, clock() + 0.5))
        await asyncio.sleep(0)  # links that have ended tell their owner in the next turn of the loop
        if self.journal is not None:
            for space in self.spaces.values():
                self.journal.held(space.settings.name, space.core.held(), now())
            self.journal.close(goodbye=True)
        if left:
            self.log.warning("stopped before everything was sent", broker=self.me, left=left)
        else:
            self.log.info("stopped", broker=self.me)

    def queued(self) -> int:
        """What has not gone out: bytes on links, messages in cores."""
        unsent = sum(link.unsent() for link in self.links.values())
        return unsent + sum(space.core.held().get("waiting", 0) for space in self.spaces.values())

    # --- links ------------------------------------------------------------------------------------------------------

    def _new_link(self, dialled: bool) -> Link:
        self._numbers += 1
        return Link(self, self.pace, self._numbers, dialled)

    def link_connected(self, link: Link) -> None:
        """Introduce ourselves to whom we dialled."""
        self.links[link.number] = link
        if link.dialled:
            link.say(Hello(self.me, Role.BROKER, self.config.name))
            return
        try:
            self._door.check_room(len(self.links) - 1, reserved=len(self.neighbours))
        except Refused as error:
            link.end(str(error), Refused.__name__)

    def link_control(self, link: Link, message: AnyControl) -> None:
        """The other host says something."""
        greeting, is_open = link.state is State.GREETING, link.state is State.OPEN
        if isinstance(message, Hello) and not link.dialled and greeting:
            self._on_hello(link, message)
        elif isinstance(message, Welcome) and link.dialled and greeting:
            self._on_welcome(link, message)
        elif isinstance(message, Open) and not link.dialled and is_open:
            self._on_open(link, message)
        elif isinstance(message, Opened | NotOpened) and link.dialled and is_open:
            self._on_answer(link, message)
        else:
            raise WireError(f"{type(message).__name__} makes no sense here")

    def link_frame(self, link: Link, channel: int, data: memoryview) -> None:
        """A message for a space."""
        space = self.channels.get((link.number, channel))
        if space is None:
            raise WireError(f"channel {channel} is not open")
        space.frame(link, data)

    def link_ended(self, link: Link, reason: str) -> None:
        """Tell the journal, the spaces, and the log."""
        self.links.pop(link.number, None)
        role = self.roles.pop(link.number, None)
        if role is not None:
            self._journal_end(link, role, reason)
        if self.latest.get(link.peer) == link.number:
            del self.latest[link.peer]
        for key in [key for key in self.channels if key[0] == link.number]:
            self.channels.pop(key).session_down(link)
        if role is None and link.dialled:
            return  # the dialler tells, and only the first time
        told = self.log.info if role is Role.CLIENT or self.draining else self.log.warning
        told("link ended", peer=link.peer or "unknown", address=link.address, reason=reason)

    def _journal_end(self, link: Link, role: Role, reason: str) -> None:
        """Losing a peer is a fault; sending one away is our decision; a peer that takes leave tells of it itself.

        A broker that drains is missed as one that dies, so where failures belong to the run that is one.
        """
        if self.journal is None:
            return
        if self.draining and link.code == "Closed":
            self.journal.disconnected(link.peer, GOODBYE, now())
        elif link.code and link.code != "Unreachable":
            self.journal.disconnected(link.peer, f"{link.code.lower()}: {reason}", now())
        elif link.farewell is None or (role is Role.BROKER and self.journal.faults):
            self.journal.link_down(link.peer, now())

    # --- greeting ---------------------------------------------------------------------------------------------------

    def _on_hello(self, link: Link, hello: Hello) -> None:
        self._door.check_open(self.draining)
        self._door.check_hello(hello)
        if hello.role is Role.CLIENT and hello.node not in self.latest:
            self._door.check_room(sum(role is Role.CLIENT for role in self.roles.values()))
        tuning = self.config.tuning
        link.say(
            Welcome(
                self.me,
                self.config.name,
                tuning.heartbeat_ms,
                tuning.suspect_after_ms,
                self.config.limits.frame_bytes_max,
                str(self.own.http or ""),
            )
        )
        self._opened(link, hello.node, hello.role)

    def _on_welcome(self, link: Link, welcome: Welcome) -> None:
        self._door.check_welcome(welcome, self._dialler.expected(link))
        self._opened(link, welcome.node, Role.BROKER)
        for channel, space in enumerate(self.spaces.values(), 1):
            self.channels[link.number, channel] = space
            link.say(Open(channel, space.settings.name))

    def _opened(self, link: Link, peer: str, role: Role) -> None:
        older = self.links.get(self.latest.get(peer, 0))
        link.open(peer)
        self.latest[peer] = link.number
        self.roles[link.number] = role
        if older is not None:
            older.end(f"{peer!r} has connected to broker {self.me!r} anew; the newest link of a name stays", "Fenced")
        if self.journal is not None and role is Role.BROKER:
            self.journal.link_up(peer, now())
        self.log.info("link open", peer=peer, role=str(role), address=link.address)

    def _on_open(self, link: Link, message: Open) -> None:
        space = self.spaces.get(message.space)
        if space is None:
            known = ", ".join(self.spaces)
            text = f"cluster {self.config.name!r} has no space {message.space[:64]!r}; it has: {known}"
            link.say(NotOpened(message.channel, "UnknownSpace", text))
            return
        if not 1 <= message.channel <= CHANNEL_MAX or (link.number, message.channel) in self.channels:
            raise WireError(f"channel {message.channel} cannot be opened")
        if link.number in space.links:
            raise WireError(f"space {message.space!r} is open on this link already")
        self.channels[link.number, message.channel] = space
        link.say(Opened(message.channel, space.settings, space.core.newest(now())))
        link.widen(space.settings.tuning.window_bytes)
        space.session_up(link, message.channel, self.roles[link.number])

    def _on_answer(self, link: Link, message: Opened | NotOpened) -> None:
        space = self.channels.get((link.number, message.channel))
        if space is None or link.number in space.links:
            raise WireError(f"channel {message.channel} was not asked for")
        if isinstance(message, NotOpened):
            del self.channels[link.number, message.channel]
            self.log.warning("space not shared", peer=link.peer, space=space.settings.name, reason=message.text[:500])
            return
        if message.settings != space.settings:
            self.log.warning("space configured differently", peer=link.peer, space=space.settings.name)
        link.widen(space.settings.tuning.window_bytes)
        space.session_up(link, message.channel, Role.BROKER)

    # --- telling ----------------------------------------------------------------------------------------------------

    def _on_note(self, space: str, note: Note) -> None:
        if self.journal is not None:
            self.journal.note(space, note, now())


async def _until(true: Callable[[], bool], deadline: float) -> None:
    clock = asyncio.get_running_loop().time
    while not true() and clock() < deadline:  # noqa: ASYNC110  # queues in cores have no event to wait for
        await asyncio.sleep(0.01)


def _pace(config: ClusterConfig) -> Pace:
    """An honest peer grants at most its credit in each space it opens; what waits beyond, it does not mean to read."""
    return Pace(
        config.tuning.heartbeat_ms,
        config.tuning.suspect_after_ms,
        config.tuning.handshake_ms,
        config.limits.frame_bytes_max,
        CONTROL_UNSENT_MAX,
    )


def settings_of(space: SpaceConfig, cluster: ClusterConfig) -> SpaceSettings:
    """What the cores of a space are told of the configuration."""
    return SpaceSettings(
        name=space.name,
        delivery=space.delivery,
        attributes=dict(space.attributes),
        body_bytes_max=space.body_bytes_max,
        attributes_max=cluster.limits.attributes_max,
        attribute_bytes_max=cluster.limits.attribute_bytes_max,
        interest_bytes_max=cluster.limits.interest_bytes_max,
        names_max=cluster.limits.names_max,
        tuning=CoreTuning(
            window_bytes=space.credit_bytes,
            patience_ms=space.patience_ms,
            grace_ms=space.grace_ms,
            sources_max=space.sources_max,
        ),
    )
