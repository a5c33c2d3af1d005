"""Traces: a small protocol run as readable text, commands above and what happened below.

    # What is true, in a sentence.
    brokers b1-b2-b3
    client c1 b1
    settle
    publish c1 p price=4
    settle
    ----
    > settle
    b2     session b1
    ...

`play` gives what stands below the line. The commands:

    brokers A-B-C B-D      links; the first broker is the root        tuning KEY=VALUE ...
    client NAME SERVER ... a client process                           hide TAG ...    messages that are not shown
    subscribe CLIENT NAME [topic=PATTERN] [FILTER]                    unsubscribe CLIENT NAME
    publish CLIENT SOURCE ATTRIBUTE=VALUE ... [; ...]                 a batch; its rows are parted by ;
    settle [MS]            let time pass, a second if not said
    crash HOST             restart HOST     pause HOST     resume HOST     start HOST (a late broker)
    late HOST ...          brokers that do not start by themselves
    stall A B              unstall A B      cut A B        mend A B
    slow A B FACTOR        reset A B MS     suspect A B    move CLIENT [MS]
    stop-reading CLIENT    read CLIENT
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec

from gapless.delivery.port import Tuning
from gapless.filters import Interest
from gapless.model.columns import batch_of_rows
from gapless.model.errors import ConfigError
from gapless.model.types import Attributes, Source
from gapless.sim.applications import Subscriber
from gapless.sim.hosts import ClientHost
from gapless.sim.network import NetworkSettings
from gapless.sim.run import Stage
from gapless.sim.scenario import ClientPlan, FaultPlan, Scenario, SubscriberPlan, Topology
from gapless.sim.world import MILLISECOND

LINE = "----"
NEVER_MS = 10**9
SETTLE_MS = 1000
BEFORE = ("brokers", "client", "tuning", "hide", "late")
DONE_TO_HOSTS = {
    "pause": "pause",
    "stall": "stall",
    "cut": "link",
    "slow": "slow",
    "reset": "reset",
    "suspect": "suspicion",
    "move": "move",
    "stop-reading": "stop-reading",
}
UNDONE = {"resume": "pause", "unstall": "stall", "mend": "link", "read": "stop-reading"}


def line_of(place: str, what: str) -> str:
    """One line of a trace."""
    return f"{place:6} {what}"


def play(text: str) -> str:
    """The transcript of the commands of a trace. Raises ConfigError at a command that cannot be understood."""
    commands = [line.strip() for line in text.partition(LINE)[0].splitlines()]
    player = _Player([command for command in commands if command and not command.startswith("#")])
    return "\n".join(player.transcript()) + "\n"


class _Player:
    """A stage, and the commands that are done to it."""

    def __init__(self, commands: list[str]) -> None:
        self.commands = [command for command in commands if command.split()[0] not in BEFORE]
        self.lines: list[str] = []
        self.hidden: list[str] = []
        self.late: list[str] = []
        self.stage = Stage(self._scenario(commands), 0, self._tell)
        for host in self.stage.hosts.values():
            if isinstance(host, ClientHost):
                host.spaces["main"] = self.stage.scenario.settings(self.stage.scenario.space[0])
        self.world = self.stage.world
        self.seqs: dict[str, int] = {}
        self.subscribers: dict[str, Subscriber] = {}
        self.lines.clear()

    def _scenario(self, commands: list[str]) -> Scenario:
        links: list[tuple[str, str]] = []
        clients: list[ClientPlan] = []
        tuning: dict[str, str] = {}
        for command in commands:
            verb, *words = command.split()
            if verb == "brokers":
                for chain in words:
                    links.extend(pairwise(chain.split("-")))
            elif verb == "client":
                clients.append(ClientPlan(name=words[0], servers=tuple(words[1:])))
            elif verb == "tuning":
                tuning.update(word.partition("=")[::2] for word in words)
            elif verb == "hide":
                self.hidden += words
            elif verb == "late":
                self.late += words
        return Scenario(
            topology=Topology(links=tuple(links), starts_ms=dict.fromkeys(self.late, NEVER_MS)),
            network=NetworkSettings(latency_ms=2.0, jitter=0.0),
            tuning=msgspec.convert(tuning, Tuning, strict=False),
            client=tuple(clients),
        )

    def _tell(self, at: int, place: str, what: str) -> None:
        if place != "world" and what.split()[0] not in self.hidden:
            self.lines.append(line_of(place, what))

    def transcript(self) -> list[str]:
        """Do all commands."""
        for command in self.commands:
            self.lines.append(f"> {command}")
            verb, *words = command.split()
            try:
                self._do(verb, words)
            except (KeyError, IndexError, ValueError) as error:
                raise ConfigError(f"this command of a trace cannot be done: {command!r} ({error!r})") from None
        return self.lines

    def _do(self, verb: str, words: list[str]) -> None:
        own: dict[str, Callable[[list[str]], None]] = {
            "settle": self._settle,
            "publish": self._publish,
            "subscribe": self._subscribe,
            "unsubscribe": lambda words: self.subscribers[words[1]].stop(),
            "crash": lambda words: self.stage.hosts[words[0]].die(),
            "restart": lambda words: self.stage.hosts[words[0]].restart(),
            "start": lambda words: self.stage.hosts[words[0]].start(),
        }
        if verb in own:
            own[verb](words)
            return
        kind = DONE_TO_HOSTS.get(verb) or UNDONE[verb]
        number = int(words[-1]) if words[-1].lstrip("-").isdigit() else 0
        names = [word for word in words if word in self.stage.hosts]
        fault = FaultPlan(
            kind=kind,
            at_ms=0,
            target=names[0],
            peer=names[1] if len(names) > 1 else "",
            factor=float(number or 1),
            by_ms=number,
        )
        (self.stage.faults.end if verb in UNDONE else self.stage.faults.begin)(fault)

    def _settle(self, words: list[str]) -> None:
        self.world.run(self.world.now + int(words[0] if words else SETTLE_MS) * MILLISECOND)

    def _client(self, name: str) -> ClientHost:
        host = self.stage.hosts[name]
        if not isinstance(host, ClientHost):
            raise ValueError(f"{name} is not a client")
        return host

    def _publish(self, words: list[str]) -> None:
        name = words[1]
        rows = [_attributes(row.split()) for row in " ".join(words[2:]).split(";")]
        first = self.seqs.get(name, 1)
        self.seqs[name] = first + len(rows)
        self._client(words[0]).publish("main", batch_of_rows(Source(name, 0), first, rows, [b""] * len(rows)))

    def _subscribe(self, words: list[str]) -> None:
        topic = words[2].removeprefix("topic=") if len(words) > 2 and words[2].startswith("topic=") else ""
        text = " ".join(words[3:] if topic else words[2:])
        host = self._client(words[0])
        plan = SubscriberPlan(client=words[0], name=words[1], filter=text, topic=topic)
        subscriber = self.subscribers[words[1]] = Subscriber(plan, host, Interest.parse(text, topic))
        host.subscribers.append(subscriber)
        subscriber.subscribe()


def _attributes(words: list[str]) -> Attributes:
    drawn: Attributes = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            drawn[name] = int(value)
        except ValueError:
            try:
                drawn[name] = float(value)
            except ValueError:
                drawn[name] = value
    return drawn
