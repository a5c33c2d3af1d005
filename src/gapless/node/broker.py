"""A broker process: it listens, dials its parent, and lets the cores of its spaces decide."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable
from typing import Any

from gapless.delivery.port import Note, Role, SpaceSettings
from gapless.delivery.port import Tuning as CoreTuning
from gapless.model.errors import ConfigError, WireError
from gapless.node.config import ClusterConfig, SpaceConfig
from gapless.node.control import AnyControl, Hello, NotOpened, Open, Opened, Welcome
from gapless.node.journal import Journal
from gapless.node.link import Link, Pace, State
from gapless.node.logs import Logger
from gapless.node.space import Space


class Broker:
    """One broker of a cluster."""

    def __init__(self, config: ClusterConfig, me: str, logger: Logger, journal: Journal | None = None) -> None:
        self.config = config
        self.me = me
        self.own = config.broker(me)
        self.log = logger
        self.journal = journal
        self.pace = Pace(
            config.tuning.heartbeat_ms,
            config.tuning.suspect_after_ms,
            config.tuning.handshake_ms,
            config.limits.frame_bytes_max,
        )
        self.links: dict[int, Link] = {}
        self.roles: dict[int, Role] = {}
        self.latest: dict[str, int] = {}  # the newest link of each peer
        self.channels: dict[tuple[int, int], Space] = {}  # link and channel
        self.spaces: dict[str, Space] = {}
        self.started = time.monotonic()
        self.draining = False
        self._numbers = 0
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, start the spaces, reach for the parent. Raises ConfigError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        address = self.own.listen
        try:
            self._server = await loop.create_server(
                lambda: self._new_link(dialled=False), address.host, address.port, family=_family(address.host)
            )
        except OSError as error:
            raise ConfigError(
                f"broker {self.me!r} cannot listen on {address}: {error.strerror or error}; "
                "stop what uses that port, or give the broker another `listen`"
            ) from None
        tree = self.config.tree()
        parent = self.own.parent
        for space in self.config.spaces:
            self.spaces[space.name] = Space(
                self.me,
                _settings(space),
                tuple(tree.neighbours(self.me)),
                (parent,) if parent else (),
                self._dial,
                self._on_note,
            )
        for space_host in self.spaces.values():
            space_host.start()
        self.log.info("listening", broker=self.me, cluster=self.config.name, listen=str(address))

    async def drain(self) -> None:
        """Take nobody new, let out what is queued, say farewell. Bounded by `drain_ms`."""
        self.draining = True
        self.log.info("draining", broker=self.me)
        if self._server is not None:
            self._server.close()
        until = time.monotonic() + self.config.tuning.drain_ms / 1000
        await _until(lambda: not self._queued(), until)
        for task in self._dialling.values():
            task.cancel()
        links = list(self.links.values())
        for link in links:
            link.end(f"broker {self.me!r} is going down", "Closed")
        await _until(lambda: not any(link.unsent() for link in links), until)
        if self.journal is not None:
            self.journal.close()
        self.log.info("stopped", broker=self.me)

    def _queued(self) -> int:
        return sum(link.unsent() for link in self.links.values()) + sum(
            space.core.held().get("waiting", 0) for space in self.spaces.values()
        )

    # --- links ------------------------------------------------------------------------------------------------------

    def _new_link(self, dialled: bool) -> Link:
        self._numbers += 1
        return Link(self, self.pace, self._numbers, dialled)

    def link_connected(self, link: Link) -> None:
        """Introduce ourselves to whom we dialled."""
        self.links[link.number] = link
        if link.dialled:
            link.say(Hello(self.me, Role.BROKER, self.config.name))

    def link_control(self, link: Link, message: AnyControl) -> None:
        """The other host says something."""
        if isinstance(message, Hello) and not link.dialled and link.state is State.GREETING:
            self._on_hello(link, message)
        elif isinstance(message, Welcome) and link.dialled and link.state is State.GREETING:
            self._on_welcome(link, message)
        elif isinstance(message, Open) and not link.dialled and link.state is State.OPEN:
            self._on_open(link, message)
        elif isinstance(message, Opened) and link.dialled and (link.number, message.channel) in self.channels:
            self.channels[link.number, message.channel].session_up(link, message.channel, Role.BROKER)
        elif isinstance(message, NotOpened) and link.dialled:
            self.channels.pop((link.number, message.channel), None)
            self.log.warning("space not shared", peer=link.peer, reason=message.text)
        else:
            raise WireError(f"{type(message).__name__} makes no sense here")

    def link_frame(self, link: Link, channel: int, data: memoryview) -> None:
        """A message for a space."""
        space = self.channels.get((link.number, channel))
        if space is None:
            raise WireError(f"channel {channel} is not open")
        space.frame(link, data)

    def link_ended(self, link: Link, reason: str) -> None:
        """Tell the spaces, and the log."""
        self.links.pop(link.number, None)
        role = self.roles.pop(link.number, None)
        if self.latest.get(link.peer) == link.number:
            del self.latest[link.peer]
        for key in [key for key in self.channels if key[0] == link.number]:
            self.channels.pop(key).session_down(link)
        say = self.log.info if role is Role.CLIENT else self.log.warning
        say("link ended", peer=link.peer or "unknown", address=link.address, reason=reason)

    # --- greeting ---------------------------------------------------------------------------------------------------

    def _on_hello(self, link: Link, hello: Hello) -> None:
        if self.draining:
            link.end(f"broker {self.me!r} is going down: use another server", "Unreachable")
            return
        if hello.cluster and hello.cluster != self.config.name:
            link.end(f"this broker belongs to cluster {self.config.name!r}, not to {hello.cluster!r}", "ConfigError")
            return
        if hello.role is Role.BROKER:
            self.config.broker(hello.node)
        tuning = self.config.tuning
        link.say(
            Welcome(
                self.me,
                self.config.name,
                tuning.heartbeat_ms,
                tuning.suspect_after_ms,
                self.config.limits.frame_bytes_max,
            )
        )
        self._opened(link, hello.node, hello.role)

    def _on_welcome(self, link: Link, welcome: Welcome) -> None:
        self._opened(link, welcome.node, Role.BROKER)
        for channel, space in enumerate(self.spaces.values(), 1):
            self.channels[link.number, channel] = space
            link.say(Open(channel, space.settings.name))

    def _opened(self, link: Link, peer: str, role: Role) -> None:
        older = self.latest.get(peer)
        link.open(peer)
        self.latest[peer] = link.number
        self.roles[link.number] = role
        if older is not None and older in self.links:
            self.links[older].end(f"{peer!r} has opened a newer link", "Closed")
        self.log.info("link open", peer=peer, role=str(role), address=link.address)

    def _on_open(self, link: Link, message: Open) -> None:
        space = self.spaces.get(message.space)
        if space is None:
            known = ", ".join(self.spaces)
            text = f"cluster {self.config.name!r} has no space {message.space!r}; it has: {known}"
            link.say(NotOpened(message.channel, "UnknownSpace", text))
            return
        if (link.number, message.channel) in self.channels or message.channel < 1:
            raise WireError(f"channel {message.channel} cannot be opened")
        self.channels[link.number, message.channel] = space
        link.say(Opened(message.channel, space.settings))
        space.session_up(link, message.channel, self.roles[link.number])

    # --- dialling ---------------------------------------------------------------------------------------------------

    def _dial(self, peer: str) -> None:
        if peer not in self._dialling:
            self._dialling[peer] = asyncio.get_running_loop().create_task(self._keep_dialled(peer), name=f"dial {peer}")

    async def _keep_dialled(self, peer: str) -> None:
        """Have a link with this peer whenever it can be had."""
        tuning = self.config.tuning
        address = self.config.broker(peer).listen
        wait = tuning.redial_min_ms
        quiet = False
        while True:
            if peer not in self.latest:
                try:
                    link = await self._connect(address.host, address.port)
                    wait = tuning.redial_min_ms
                    quiet = False
                    await link.ended.wait()
                except (OSError, TimeoutError) as error:
                    if not quiet:
                        self.log.warning("cannot reach broker", peer=peer, address=str(address), reason=str(error))
                    quiet = True
                    wait = min(wait * 2, tuning.redial_max_ms)
            await asyncio.sleep(wait / 1000 * random.uniform(0.5, 1.0))

    async def _connect(self, host: str, port: int) -> Link:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.pace.handshake_s):
            _, link = await loop.create_connection(lambda: self._new_link(dialled=True), host, port)
        return link

    # --- telling ----------------------------------------------------------------------------------------------------

    def _on_note(self, space: str, note: Note) -> None:
        if self.journal is not None:
            self.journal.note(space, note)

    def status(self) -> dict[str, Any]:
        """What this broker knows of itself."""
        tree = self.config.tree()
        clients = sum(role is Role.CLIENT for role in self.roles.values())
        return {
            "broker": self.me,
            "cluster": self.config.name,
            "uptime_s": round(time.monotonic() - self.started, 3),
            "draining": self.draining,
            "clients": clients,
            "neighbours": {peer: "up" if peer in self.latest else "down" for peer in tree.neighbours(self.me)},
            "spaces": {
                name: {
                    "delivery": space.settings.delivery,
                    "sessions": len(space.links),
                    "held": space.core.held(),
                    **space.counters.as_dict(),
                }
                for name, space in self.spaces.items()
            },
        }

    def healthy(self) -> tuple[bool, str]:
        """Whether it should be sent work, and why not."""
        if self.draining:
            return False, "draining"
        parent = self.own.parent
        if parent and parent not in self.latest:
            return True, f"parent {parent} is out of reach"
        return True, "ok"


async def _until(true: Callable[[], bool], deadline: float) -> None:
    while not true() and time.monotonic() < deadline:  # noqa: ASYNC110 - queues in cores have no event to wait for
        await asyncio.sleep(0.01)


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _settings(space: SpaceConfig) -> SpaceSettings:
    return SpaceSettings(
        name=space.name,
        delivery=space.delivery,
        attributes=dict(space.attributes),
        body_bytes_max=space.body_bytes_max,
        tuning=CoreTuning(window_bytes=space.credit_bytes),
    )
