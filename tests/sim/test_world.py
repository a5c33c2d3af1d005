"""Time, order, chance and clocks of a simulated world."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.sim.world import SECOND, Clock, World


@given(st.lists(st.integers(0, 50), max_size=40))
def test_things_happen_in_order(times: list[int]) -> None:
    """What is due happens by time, and at one time in the order in which it was asked for."""
    world = World(1)
    happened: list[tuple[int, int]] = []
    for order, at in enumerate(times):
        world.at(at, lambda order: happened.append((world.now, order)), order)
    world.run(25)
    assert happened == [(at, order) for at, order in sorted(zip(times, range(len(times)), strict=True)) if at <= 25]
    assert world.now == 25


def test_nothing_happens_in_the_past() -> None:
    """What is asked for too late happens now."""
    world = World(1)
    seen: list[int] = []
    world.at(10, lambda: world.at(3, lambda: seen.append(world.now)))
    world.run(20)
    assert seen == [10]


def test_chance_depends_on_seed_and_purpose_alone() -> None:
    """Streams of one seed and purpose are equal, whatever was drawn before; others differ."""
    one, other = World(7), World(7)
    one.random("noise").random()
    assert one.random("path/a/b").random() == other.random("path/a/b").random()
    assert one.random("path/a/b").random() != one.random("path/b/a").random()
    assert World(8).random("path/a/b").random() != other.random("path/a/b").random()


def test_the_digest_covers_time_place_and_content() -> None:
    """Worlds in which anything differs have different digests."""

    def digest(at: int, place: str, content: bytes) -> str:
        world = World(1)
        world.at(at, world.mark, place, "read", content)
        world.run(100)
        return world.digest()

    digests = [digest(1, "a", b"x"), digest(2, "a", b"x"), digest(1, "b", b"x"), digest(1, "a", b"y")]
    assert len(dict.fromkeys(digests)) == 4
    assert digest(1, "a", b"x") == digests[0]


@given(
    st.lists(st.tuples(st.integers(0, SECOND), st.floats(0.1, 10), st.integers(-10 * SECOND, 10 * SECOND)), max_size=10)
)
def test_monotonic_time_never_goes_back(changes: list[tuple[int, float, int]]) -> None:
    """Whatever drift and steps do to a clock, its monotonic time does not go back."""
    world = World(1)
    clock = Clock(world, 5 * SECOND)
    before = clock.now().at
    for passed, rate, step in changes:
        world.run(world.now + passed)
        assert clock.now().at >= before
        before = clock.now().at
        clock.go(rate)
        clock.step(step)
        assert abs(clock.now().at - before) <= 1


def test_steps_move_the_wall_alone() -> None:
    """A step moves the wall clock by so much, and monotonic time not at all."""
    clock = Clock(World(1))
    at, wall = clock.now()
    clock.step(-SECOND)
    assert clock.now() == (at, wall - SECOND)


@given(st.floats(0.2, 5), st.integers(0, 5 * SECOND))
def test_alarms_are_never_early(rate: float, ahead: int) -> None:
    """When a time is due in the world, the host's clock shows it."""
    world = World(1)
    clock = Clock(world, SECOND)
    clock.go(rate)
    at = clock.now().at + ahead
    world.run(clock.due(at))
    assert clock.now().at >= at
    assert clock.now().at - at <= rate * 3 + 3
