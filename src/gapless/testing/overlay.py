"""A whole overlay in one process, in time that the test owns: real brokers, the real client, a network in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

from gapless.model.errors import ConfigError
from gapless.model.events import Event, Kind
from gapless.node.config import ClusterConfig
from gapless.sim.checker import Verdict
from gapless.testing.cluster import Brokers, Spaces, cluster_of
from gapless.testing.history import NS, History
from gapless.testing.hosting import Application, Hosted
from gapless.testing.loop import Stalled, VirtualLoop
from gapless.testing.network import ANYBODY, Network
from gapless.testing.process import Process
from gapless.testing.stories import cancel, where

T = TypeVar("T")
Story = Callable[["Overlay"], Coroutine[Any, Any, T]] | Coroutine[Any, Any, T]

LATENCY_S = 0.001
LIMIT_S = 600.0
FAREWELL_S = 60.0  # for the application's tasks to end when they are cancelled
_STEP_S = 0.001


class Overlay:
    """Brokers of a cluster, in memory. What runs in `run` reaches them with `gapless.connect(overlay.servers)`.

    Seconds are those of the overlay: they pass at once when nothing is left to do before they have passed.
    """

    def __init__(
        self,
        brokers: Brokers = 3,
        spaces: Spaces = "quotes",
        *,
        shape: str = "chain",
        tuning: Mapping[str, int] | None = None,
        limits: Mapping[str, int] | None = None,
        config: str | Path | ClusterConfig | None = None,
        seed: int = 0,
        latency: float = LATENCY_S,
        log: TextIO | None = None,
    ) -> None:
        """`brokers` are how many, b0, b1 … in a `shape` (chain, star, tree), or each one's parent, None for the root.

        `spaces` are names, or for each name the keys that a `[[space]]` has in a cluster.toml, as `tuning` and `limits`
        are those of its tables; `config` is such a file, instead of all these. A message takes `latency` seconds,
        give or take a half; `seed` decides that and all else that is left to chance. `log` is where brokers log.
        """
        self.config = cluster_of(brokers, spaces, shape, tuning, limits, config)
        self.brokers = tuple(broker.id for broker in self.config.brokers)
        self._loop = VirtualLoop(seed)
        times = self.config.tuning
        waits_ms = [times.suspect_after_ms, times.handshake_ms, times.redial_max_ms]
        self._patience_s = (
            sum(waits_ms) + max(space.patience_ms + space.grace_ms for space in self.config.spaces)
        ) / 1000
        self._history = History(self.config, self._patience_s, self._loop.now)
        places = {broker.id: (broker.listen.host, broker.listen.port) for broker in self.config.brokers}
        self._network = Network(self._loop, latency, places)
        self._loop.network = self._network
        self._loop.journals = self._history.journal
        self._hosted = {me: Hosted(self.config, me, self._loop, self._history, log) for me in self.brokers}
        self._begun = False
        self._broken = False  # whether that has been told already
        self._applications: dict[str, Application] = {}  # those that were started as processes
        self._processes: list[Process] = []  # all there ever were
        self._named: dict[str, None] = {}  # whose links were to fail

    # --- what the application is told ---------------------------------------------------------------------------------

    @property
    def servers(self) -> str:
        """The address of every broker, for `gapless.connect`."""
        return "gapless://" + ",".join(self.server(me) for me in self.brokers)

    def server(self, broker: str) -> str:
        """The address of one broker."""
        return f"{broker}:{self.config.broker(broker).listen.port}"

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, story: Story[T], *, limit: float = LIMIT_S) -> T:
        """Run a coroutine, or a function of the overlay that makes one, and return its result.

        Before the first, the brokers find each other. Raises Stalled when it has not ended after `limit` seconds.
        """
        self._loop.horizon_ns = round((self._loop.time() + limit) * NS)
        task = self._loop.create_task(self._tell(story), name="story")
        try:
            result = self._loop.run_until_complete(task)
        except Stalled as stalled:
            raise Stalled(f"{stalled} after {limit:g} s; {where(self._loop.tasks)}") from None
        if self._loop.troubles:
            raise self._loop.troubles.pop(0)
        return result

    async def _tell(self, story: Story[T]) -> T:
        if not self._begun:
            self._begun = True
            for hosted in self._hosted.values():
                self._processes.append(hosted.start())
            while not all(map(Hosted.has_all_its_neighbours, self._hosted.values())):  # noqa: ASYNC110  # no event
                await asyncio.sleep(_STEP_S)
            self._history.events.clear()  # history begins with the story
        return await self._coroutine(story)

    def _coroutine(self, story: Story[T]) -> Coroutine[Any, Any, T]:
        return story if isinstance(story, Coroutine) else story(self)

    def start(self, name: str, story: Story[T]) -> asyncio.Task[T]:
        """A process of the application, which can be killed: it runs this, beside the story.

        What it opens goes by this name as well. An error in it that nobody awaits is raised at the end.
        """
        if name in self.brokers or (name in self._applications and self._applications[name].is_running):
            raise ConfigError(f"{name!r} runs already: kill it first, or take another name")
        self._begin()
        process = Process(name)
        self._processes.append(process)
        self._network.come_back(name)
        task = self._loop.create_task(self._coroutine(story), name=name, context=process.context)
        self._applications[name] = Application(process, task)
        return task

    @property
    def time(self) -> float:
        """Seconds since the beginning."""
        return self._loop.time()

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, with all that is due in it."""
        await asyncio.sleep(seconds)

    def sleep(self, seconds: float) -> None:
        """For code in a thread, which cannot await: what `time.sleep` is elsewhere."""
        self._loop.lending.submit(lambda: asyncio.sleep(seconds)).result()

    async def settle(self) -> None:
        """Let time pass until nothing happens any more but signs of life, whatever the brokers might still wait for.

        What the application itself sleeps for is not waited for.
        """
        await asyncio.sleep(0)
        if self._is_well():
            self._history.calm()
        while (left := self._unsettled()) > 0:  # noqa: ASYNC110  # quiet is nothing that happens
            await asyncio.sleep(left)

    def _unsettled(self) -> float:
        """How long at least it takes until all is quiet; 0 when it is."""
        since = max(self._network.stirred, self._history.calm_since or 0.0)
        left = since + self._patience_s - self.time
        return max(left, _STEP_S) if self._network.under_way or left > _STEP_S / 1000 else 0.0

    def _is_well(self) -> bool:
        """Whether nothing is wrong that the test has asked for."""
        running = all(hosted.process.alive and not hosted.process.held for hosted in self._hosted.values())
        return running and self._network.is_well()

    # --- processes ----------------------------------------------------------------------------------------------------

    def kill(self, name: str, *, unplugged: bool = False) -> None:
        """The process dies between two of its steps. With `unplugged` its machine dies too: nobody is told."""
        process = self._process(name)
        clients = [client.name for client, its in self._network.clients.items() if its is process]

        def act() -> None:
            for node in [name] if name in self.brokers else clients:
                self._history.fault(Kind.CRASH, node=node)
            self._loop.kill(process)
            self._network.die(name, unplugged)

        if process.alive:
            self._now(act)

    def restart(self, broker: str) -> None:
        """A new process of the broker; one that still runs is killed first. For applications there is `start`."""
        self.config.broker(broker)
        self.kill(broker)

        def act() -> None:
            self._history.fault(Kind.RESTART, node=broker)
            self._network.come_back(broker)
            self._processes.append(self._hosted[broker].start())

        self._now(act)

    def pause(self, name: str) -> None:
        """The process stops; whoever wants something of it waits."""
        process = self._process(name)

        def act() -> None:
            self._history.fault(Kind.FAULT, reason="pause", node=name)
            process.hold()

        self._now(act)

    def resume(self, name: str) -> None:
        """It goes on, with old beliefs and all that came in since."""
        self._now(lambda: self._process(name).release(self._loop))

    def _process(self, name: str) -> Process:
        self._begin()
        if name in self._applications:
            return self._applications[name].process
        self.config.broker(name)
        return self._hosted[name].process

    def _begin(self) -> None:
        """Let the brokers find each other, if they have not yet."""
        if not self._begun:
            self.run(asyncio.sleep(0))

    def _now(self, act: Callable[[], object]) -> None:
        """Do it in the loop, whether the story does so or the test around it."""
        if self._loop.is_running():
            act()
            self._network.stir()
        else:
            self.run(_acting(lambda: self._now(act)))

    # --- links --------------------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str = ANYBODY) -> None:
        """Break the link between the two, brokers by id and clients by the name of their bus; both see it at once."""
        self._wrong(Kind.LINK_DOWN, "", one, other, lambda: self._network.cut(one, other))

    def stall(self, one: str, other: str = ANYBODY, *, one_way: bool = False) -> None:
        """Let nothing get through, and tell nobody. With `one_way` the first still hears the other."""

        def act() -> None:
            self._network.silence(one, other)
            if not one_way:
                self._network.silence(other, one)

        self._wrong(Kind.FAULT, "stall", one, other, act)

    def slow(self, one: str, other: str = ANYBODY, *, latency: float) -> None:
        """Let each message take so many seconds, give or take a half."""
        self._wrong(Kind.FAULT, "slow", one, other, lambda: self._network.slow(one, other, latency))

    def mend(self, one: str | None = None, other: str = ANYBODY) -> None:
        """End what was done to this link by cut, stall and slow; without names, to every link."""

        def act() -> None:
            self._network.mend(one, other)
            self._history.note(Kind.LINK_UP, node=one or "", peer=other)

        self._now(act)

    def _wrong(self, kind: Kind, reason: str, one: str, other: str, act: Callable[[], None]) -> None:
        """Make a link fail, and write it down."""
        self._named.update({one: None, other: None})

        def both() -> None:
            self._history.fault(kind, node=one, peer=other, reason=reason)
            act()

        self._now(both)

    # --- the verdict --------------------------------------------------------------------------------------------------

    @property
    def history(self) -> tuple[Event, ...]:
        """All that happened so far, in the schema of docs/history.md."""
        return tuple(self._history.whole([]))

    def check(self) -> Verdict:
        """Judge what happened so far by the promises of the spaces. Raises BrokenPromise, with the events that show it.

        That all has been delivered, and that nothing is held that should have drained, is judged after `settle`.
        """
        self._check_names()
        left = [event for hosted in self._hosted.values() for event in hosted.held()] if self._can_be_drained() else []
        self._broken = True  # if this raises, once is enough
        verdict = self._history.check([*self._history.unread(self._network), *left])
        self._broken = False
        return verdict

    def _can_be_drained(self) -> bool:
        return self._begun and self._is_well() and self._unsettled() == 0

    def _check_names(self) -> None:
        """A fault between nobody is a mistake of the test."""
        clients = [client.name for client in self._network.clients]
        known = [*self.brokers, *dict.fromkeys([*self._applications, *clients]), ANYBODY]
        strangers = [name for name in self._named if name not in known]
        self._named.clear()  # told once
        if strangers:
            raise ConfigError(f"nobody in this overlay is called {strangers[0]!r}: there were {', '.join(known[:-1])}")

    # --- end ----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End what still runs; nothing is left open."""
        self._end(judge=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(judge=error is None)

    def _end(self, judge: bool) -> None:
        """Judge what happened unless that was done, cancel the application's tasks, and drop everything else."""
        if self._loop.is_closed():
            return
        try:
            if judge and self._begun and not self._broken:
                self.check()
        finally:
            self._shut(judge)

    def _shut(self, judge: bool) -> None:
        failed = [error for one in self._applications.values() if (error := one.failure()) is not None]
        try:
            if self._begun:
                self.run(self._cancel(), limit=FAREWELL_S)
            self._loop.lending.close()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            rest = Process("the rest")
            rest.tasks.update(self._loop.tasks)
            for process in (*self._processes, rest):
                process.die()
                process.bury()
            self._network.close()
            self._loop.close()
        if judge and failed:
            raise failed[0]

    async def _cancel(self) -> None:
        """The application ends."""
        for application in self._applications.values():
            application.process.release(self._loop)
        brokers = {task for hosted in self._hosted.values() for task in hosted.process.tasks}
        await cancel([task for task in self._loop.tasks if task not in brokers])


async def _acting(act: Callable[[], object]) -> None:
    act()
