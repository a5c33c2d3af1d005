"""Cores as what they are: functions of their inputs. Each step of each state is taken once, and remembered.

A state of a core is a number. To take a step from it the core is there still, as the step before has left it, or it is
made anew and given everything that it was given on its way there: nothing is ever copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gapless.delivery.catalogue import DELIVERIES
from gapless.delivery.port import Effect, Now, Role, Send, Session, SpaceSettings
from gapless.delivery.wire import Codec
from gapless.filters import Interest
from gapless.model.batch import Batch
from gapless.sim.describe import described
from gapless.sim.explore.fingerprint import fingerprint

Input = tuple[Any, ...]  # the name of a method of the port without its on_, and its arguments as plain values


class Sent(NamedTuple):
    """A `Send` with its message by number."""

    session: int
    message: int


class Step(NamedTuple):
    """What came of an input."""

    state: int
    effects: tuple[Sent | Effect, ...]


class Place(NamedTuple):
    """Where a core stands."""

    name: str
    role: Role
    neighbours: tuple[str, ...] = ()
    dials: tuple[str, ...] = ()


class Cores:
    """All states that the cores of a small world have been seen in."""

    def __init__(self, delivery: str, settings: SpaceSettings, places: Sequence[Place]) -> None:
        self._delivery = DELIVERIES[delivery]
        self._settings = settings
        self._places = {place.name: place for place in places}
        self._codec = Codec(self._delivery.messages)
        self._messages: list[bytes] = []
        self._message_ids: dict[bytes, int] = {}
        self._states: dict[tuple[str, bytes], int] = {}
        self._came: list[tuple[str, int, Input, Now]] = []  # of each state: whose, and from where by what
        self._steps: dict[tuple[int, Input, Now], Step] = {}
        self._fresh: dict[str, int] = {}
        self._living: dict[int, Any] = {}  # cores that stand in a state just now

    def __len__(self) -> int:
        """How many states."""
        return len(self._came)

    @property
    def steps(self) -> int:
        """How many steps."""
        return len(self._steps)

    def fresh(self, name: str) -> int:
        """The state of a core that has just been made."""
        if name not in self._fresh:
            core = self._make(name)
            self._fresh[name] = self._state(name, core, -1, (), Now(0, 0))
        return self._fresh[name]

    def step(self, state: int, given: Input, now: Now) -> Step:
        """Give a core an input."""
        key = state, given, now
        known = self._steps.get(key)
        if known is None:
            name = self._came[state][0]
            core = self._living.pop(state, None) or self._again(state)
            effects = self._give(core, given, now)
            sent = tuple(self._sent(effect) if isinstance(effect, Send) else effect for effect in effects)
            known = self._steps[key] = Step(self._state(name, core, state, given, now), sent)
        return known

    def held(self, state: int) -> dict[str, int]:
        """What a core holds."""
        core = self._living.get(state)
        if core is None:
            core = self._living[state] = self._again(state)
        held: dict[str, int] = core.held()
        return held

    def said(self, message: int) -> str:
        """A message for people."""
        return described(self._codec.decode(memoryview(self._messages[message])))

    # --- live cores

    def _make(self, name: str) -> Any:
        place = self._places[name]
        if place.role is Role.CLIENT:
            return self._delivery.leaf(name, self._settings)
        return self._delivery.broker(name, place.neighbours, place.dials, self._settings)

    def _state(self, name: str, core: Any, before: int, given: Input, now: Now) -> int:
        key = name, fingerprint(core)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = len(self._came)
            self._came.append((name, before, given, now))
            self._living[state] = core
        return state

    def _again(self, state: int) -> Any:
        """A new core in this state. Raises AssertionError when a core depends on more than it is given."""
        name = self._came[state][0]
        path: list[tuple[Input, Now]] = []
        place = state
        while place != self._fresh[name]:
            _, before, given, now = self._came[place]
            path.append((given, now))
            place = before
        core = self._make(name)
        for given, now in reversed(path):
            self._give(core, given, now)
        if self._states.get((name, fingerprint(core))) != state:
            raise AssertionError(f"the core of {name} depends on more than what it is given: {path[0]}")
        return core

    def _give(self, core: Any, given: Input, now: Now) -> Sequence[Effect]:
        what, *arguments = given
        if what == "start":
            effects = core.on_start(arguments[0], now)
        elif what == "session_up":
            effects = core.on_session_up(Session(arguments[0], arguments[1], Role(arguments[2])), now)
        elif what == "message":
            message = self._codec.decode(memoryview(self._messages[arguments[1]]))
            effects = core.on_message(arguments[0], message, now)
        elif what == "publish":
            effects = core.on_publish(Batch(arguments[0]), now)
        elif what == "subscribe":
            effects = core.on_subscribe(arguments[0], Interest.parse(arguments[1], arguments[2]), now)
        else:
            effects = getattr(core, f"on_{what}")(*arguments, now)
        return list(effects)

    def _sent(self, effect: Send) -> Sent:
        data = b"".join(self._codec.encode(effect.message))
        number = self._message_ids.get(data)
        if number is None:
            number = self._message_ids[data] = len(self._messages)
            self._messages.append(data)
        return Sent(effect.session, number)
