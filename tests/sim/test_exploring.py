"""Small worlds, exhaustively: sound cores break nothing, planted bugs are found, nothing that matters is left out."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from gapless.cli.main import main
from gapless.delivery.catalogue import DELIVERIES, Delivery
from gapless.delivery.direct.broker import DirectBroker
from gapless.delivery.direct.leaf import DirectLeaf
from gapless.delivery.port import Effects, Message, Note, Now, Role, Session, SpaceSettings, Store
from gapless.model.errors import ConfigError
from gapless.model.events import Event, Kind
from gapless.sim.checker import check
from gapless.sim.explore import search as searching
from gapless.sim.explore.fingerprint import fingerprint
from gapless.sim.explore.history import ACROSS, OF_ALL
from gapless.sim.explore.search import Explored, explore
from gapless.sim.explore.world import Client, SmallWorld, check_world, read_world
from gapless.sim.explore.worlds import WORLDS

TINY = SmallWorld(
    about="two brokers, a subscriber, a publisher and a session that breaks",
    brokers=("b0", "b1 b0"),
    client=(
        Client(name="c1", servers=("b1",), first=("subscribe s n > 0",), later=("subscribe t",)),
        Client(name="c2", servers=("b0",), steps=("publish p n=1",), later=("publish q n=2",)),
    ),
    fault=("reset b0 b1",),
)
SCENARIOS = Path(__file__).parent.parent.parent / "scenarios" / "small"


def visited(world: SmallWorld, reduced: bool) -> searching._Search:
    """Everything that is seen of a world."""
    search = searching._Search("direct", world, reduced)
    search.run(float("inf"), None)
    return search


def ends(search: searching._Search) -> set[tuple[object, ...]]:
    """What has happened at each end, in words of its own: each sequence of events."""
    numbers = {number: key for key, number in search.histories._numbers.items()}

    def sequence(number: int) -> tuple[bytes, ...]:
        words = []
        while number:
            number, data = numbers[number]
            words.append(data)
        return tuple(reversed(words))

    return {tuple(sequence(number) for number in key[0]) for key in search._ended}  # type: ignore[attr-defined]  # what happened comes first


@pytest.mark.parametrize(
    ("name", "states"), [("meet", 552), ("share", 1876), ("several", 633), ("crash-publisher", 1112)]
)
def test_sound_cores_break_nothing(name: str, states: int) -> None:
    """In every interleaving of these worlds every promise holds, and there are as many states as there were before."""
    found = explore("direct", WORLDS[name])
    assert found.ok, found.witness()
    assert found.states == states
    assert found.histories > 20


def test_exploring_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints how many states, transitions and histories there were, and what happened how often."""
    assert main(["explore", "direct", "--world", "share"]) == 0
    said = capsys.readouterr().out
    assert "1876 states, 2744 transitions (" in said
    assert "histories judged at their ends" in said
    assert "every promise held in every interleaving of 1 small worlds" in said


def test_what_is_covered_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """The worlds, what can happen in them and what cannot are printed."""
    assert main(["explore", "direct", "--list"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{said}" for name in WORLDS)
    assert "what does not happen:" in said


@pytest.mark.parametrize(
    ("mutant", "world", "promise"),
    [
        ("order-of-arrival", "move", "publisher-order"),
        ("confirm-at-once", "meet", "accepted-survives"),
        ("everything-for-everyone", "several", "no-invention"),
        ("unknown-is-refused", "crash-near", "no-invention"),
        ("let-the-newest-come-again", "offer-again", "no-duplicate"),
        ("room-goes-with-the-subscription", "share", "justified-gap"),
    ],
)
def test_planted_bugs_are_found(mutant: str, world: str, promise: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A mutant breaks a promise in a world of two or three brokers, and the way to it is short and told."""
    assert main(["explore", "direct", "--world", world, "--mutant", mutant, "--json"]) == 1
    (told,) = json.loads(capfd.readouterr().out)["worlds"].values()
    assert told["promise"] == promise
    assert 0 < len(told["trace"]) < 80
    assert told["witness"][0].startswith(f"{promise} main")


def test_nothing_that_matters_is_left_out() -> None:
    """The histories at the ends are the same whether interleavings that come to the same are all tried or not."""
    free = replace(TINY, fault=(), client=(replace(TINY.client[0], steps=("subscribe u n > 0",)), TINY.client[1]))
    cold = replace(TINY, fault=(), cold=True, client=(Client(name="c", servers=("b1",), steps=("subscribe s n > 0",)),))
    for world in (TINY, free, cold):
        some, everything = visited(world, True), visited(world, False)
        assert ends(some) == ends(everything)
        assert some.found.states < everything.found.states


def _shuffled(history: list[Event], random: Random) -> list[Event]:
    """The history after many exchanges of neighbours whose order means nothing."""
    events = list(history)
    for _ in range(10 * len(events)):
        place = random.randrange(1, len(events) - 1)
        one, other = events[place : place + 2]
        if place + 2 == len(events) or one.node == other.node or {one.event, other.event} & {*OF_ALL}:
            continue
        same = (one.source, one.seq) == (other.source, other.seq)  # it is published before it is delivered
        if not same and not (one.event in ACROSS and other.event in ACROSS):
            events[place : place + 2] = other, one
    return events


def test_order_that_means_nothing_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories that are merged as one are judged alike, whether they break promises or not."""
    seen: list[list[Event]] = []

    def noted(history: Any, promises: Any = None) -> Any:
        seen.append(list(history))
        return check(seen[-1], promises)

    monkeypatch.setattr(searching, "check", noted)
    visited(replace(TINY, fault=("crash b1",)), True)
    monkeypatch.setattr(DirectLeaf, "on_accept", lambda self, message, now: None)
    explore("direct", replace(TINY, fault=()))
    random = Random(7)
    broken = 0
    for history in random.sample(seen, 60) + seen[-1:]:
        verdict = check(history)
        broken += not verdict.ok
        assert check(_shuffled(history, random)).broken == verdict.broken
    assert broken


def test_the_way_to_a_broken_promise_is_the_shortest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told of a violation begins with what was there before, and has no more moves than it takes."""
    monkeypatch.setattr(DirectLeaf, "_fresh", lambda self, number, batch, rows: rows)
    monkeypatch.setattr(DirectLeaf, "on_match", _twice(DirectLeaf.on_match))
    found = explore("direct", TINY)
    assert found.violation is not None and found.violation.promise == "no-duplicate"
    way = found.trace[found.trace.index(searching.THEN) + 1 :]
    assert [line.split()[1] for line in way if "publish p" in line][:1] == ["publish"]
    assert way[-1].split()[1] == "deliver"
    assert len(way) <= 9


def _twice(method: Any) -> Any:
    def on_match(self: object, message: object, now: object) -> None:
        method(self, message, now)
        method(self, message, now)

    return on_match


# --- stores


class Storing(DirectBroker):
    """A broker that stores two records whenever it starts, and notes it when one is durable."""

    def on_start(self, stored: Sequence[bytes], now: Now) -> Effects:
        return [*super().on_start(stored, now), Store(b"one", "one"), Store(b"two", "two")]

    def on_stored(self, then: str, now: Now) -> Effects:
        return [Note(Kind.DROPPED, {"reason": "stale", "count": 1})]


def test_stores_are_in_doubt_when_their_process_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of records under way at a crash a later process finds none, the first or both, although it was told of none."""
    monkeypatch.setitem(DELIVERIES, "direct", DELIVERIES["direct"]._replace(broker=Storing))
    world = replace(TINY, cold=True, brokers=("b0",), client=(Client(name="c", servers=("b0",)),), fault=("crash b0",))
    found = explore("direct", world)
    assert found.ok, found.witness()
    search = visited(world, True)
    untold = set()
    for state, number in search._seen.items():
        kinds = [event.event for event in search._history(number)]
        if Kind.RESTART in kinds and Kind.DROPPED not in kinds:
            untold.add(state.hosts[0].disk)
    assert untold == {(), (b"one",), (b"one", b"two")}


# --- fingerprints


def core(name: str = "b1") -> DirectBroker:
    """A broker."""
    return DirectBroker(name, ("b0",), (), SpaceSettings(name="main"))


def test_equal_fingerprints_are_equal_states() -> None:
    """Cores that have been given the same are the same; whatever else they have been given shows."""
    now = Now(1, 2)
    session = Session(1, "b0", Role.BROKER)
    one, other, third = core(), core(), core()
    for each in (one, other):
        each.on_session_up(session, now)
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint(third)
    third.on_session_up(session._replace(id=2), now)
    assert fingerprint(one) != fingerprint(third)
    assert fingerprint(core("b1")) != fingerprint(core("b2"))


def test_fingerprints_see_what_is_shared() -> None:
    """One thing held twice is not two equal things, as what is done to it will show in both places."""
    shared: list[int] = [1]
    assert fingerprint([shared, shared]) != fingerprint([[1], [1]])
    other: list[int] = [1]
    assert fingerprint([shared, other, shared]) != fingerprint([shared, other, other])
    assert fingerprint([1]) != fingerprint([True]) != fingerprint([1.0])
    assert fingerprint({"a": 1, "b": 2}) != fingerprint({"b": 2, "a": 1})
    assert fingerprint({3, 1, 2}) == fingerprint({1, 2, 3})
    assert fingerprint(deque([1])) != fingerprint([1])


def test_what_cannot_be_seen_is_refused() -> None:
    """A core that holds something whose state does not show cannot be explored, and a sentence names it."""
    with pytest.raises(TypeError, match="generator"):
        fingerprint([(n for n in range(3))])
    with pytest.raises(TypeError, match="lock"):
        fingerprint({"lock": __import__("threading").Lock()})


def test_a_core_that_depends_on_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that does not answer by its inputs alone is noticed."""
    drawn = iter(range(1_000_000))

    class Moody(DirectBroker):
        def on_message(self, session: int, message: Message, now: Now) -> Effects:
            self.mood = next(drawn)
            return super().on_message(session, message, now)

    delivery: Delivery = DELIVERIES["direct"]._replace(broker=Moody)
    monkeypatch.setitem(DELIVERIES, "direct", delivery)
    with pytest.raises(AssertionError, match="depends on more than what it is given"):
        explore("direct", TINY)


def test_who_hangs_up_is_explored_without_shortcuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a core ends a session by itself, interleavings that come to the same are not left out."""
    kept = DirectLeaf.on_accept

    def on_accept(self: DirectLeaf, message: Any, now: Now) -> None:
        kept(self, message, now)
        self._hang_up("planted")

    monkeypatch.setattr(DirectLeaf, "on_accept", on_accept)
    found: Explored = explore("direct", replace(TINY, fault=()))
    assert not found.reduced
    assert found.violation is not None and found.violation.promise == "justified-gap"


# --- worlds as files


def test_worlds_are_read_from_files() -> None:
    """The small worlds of the project are files that can be read, and sound cores keep every promise in them."""
    for path in SCENARIOS.glob("*.toml"):
        world = read_world(path)
        found = explore("direct", replace(world, fault=()))
        assert found.ok, found.witness()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"brokers": ("b0", "b1 b7")}, "brokers: "),
    ({"fault": ("earthquake",)}, "there is no fault 'earthquake': there are crash, "),
    ({"fault": ("reset b0 c9",)}, "it names 2 of b0, b1, c1, c2"),
    ({"fault": ("move b0",)}, "only clients move"),
    ({"client": (Client(name="c1", servers=()),)}, "has no servers"),
    ({"client": (Client(name="c1", servers=("b9",)),)}, "there is no broker 'b9'"),
    ({"client": (Client(name="b0", servers=("b0",)),)}, "'b0' is there 2 times"),
    ({"client": (Client(name="c1", servers=("b0",), steps=("shout p",)),)}, "is no step"),
    ({"client": (Client(name="c1", servers=("b0",), steps=("subscribe s n >",)),)}, "column"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said for _, said in WRONG])
def test_wrong_worlds_are_refused(changes: dict[str, Any], said: str) -> None:
    """What is wrong with a small world is told before anything runs."""
    with pytest.raises(ConfigError, match=said):
        check_world(replace(TINY, **changes))


@pytest.mark.parametrize(
    "arguments",
    [["telepathy"], ["direct", "--world", "atlantis"], ["direct", "--world", "none.toml"], ["direct", "--mutant", "x"]],
    ids=" ".join,
)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use gives status 2 and a sentence."""
    assert main(["explore", *arguments]) == 2
    assert capsys.readouterr().err.startswith("gapless explore: ")
