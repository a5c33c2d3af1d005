"""The same stories in the simulator, in the test kit, over TCP with asyncio, and with uvloop: all are told the same.

A story is written in the language of traces (see `gapless.sim.trace`); below the commands stands what each
subscription is told.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conformance.kit import play_in_the_kit
from tests.conformance.live import LiveStage, Told
from tests.node.stage import LOOPS, run

from gapless.sim.trace import play

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
LINE = re.compile(r"\S+ +(?:deliver (\S+) (\S+?)#\d+:(\S+)|gap (\S+) (\S+))")


def commands_of(story: Path) -> list[str]:
    """Its commands."""
    return [line for line in story.read_text().partition("----")[0].splitlines() if not line.startswith("#")]


def simulated(story: Path) -> list[Told]:
    """What each subscription had been told by each `settle`, in the simulator."""
    told: Told = {}
    by_settle: list[Told] = []
    for command in play(story.read_text()).split("\n> ")[0:]:
        first, *lines = command.removeprefix("> ").splitlines()
        verb, *words = first.split()
        if verb == "subscribe":
            told[words[1]] = []
        for line in lines:
            if found := LINE.match(line):
                _tell(told, *found.groups())
        if verb == "settle":
            by_settle.append({name: list(what) for name, what in told.items()})
    return by_settle


def _tell(told: Told, delivered: str | None, source: str, seqs: str, gap: str, reason: str) -> None:
    if delivered is None:
        told[gap].append(f"gap {reason}")
        return
    for part in seqs.split(","):
        first, _, last = part.partition("-")
        told[delivered].extend(f"{source}:{seq}" for seq in range(int(first), int(last or first) + 1))


def written(story: Path) -> Told:
    """What the story says they are told."""
    lines = story.read_text().partition("----\n")[2].splitlines()
    return {name: what.split(", ") if what else [] for name, _, what in (line.partition(": ") for line in lines)}


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_in_the_simulator(story: Path) -> None:
    """In the simulator subscriptions are told what the story says."""
    assert simulated(story)[-1] == written(story)


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_in_the_kit(story: Path) -> None:
    """In the test kit, with the real client and brokers, subscriptions are told the same."""
    assert play_in_the_kit(commands_of(story)) == written(story)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_over_sockets(story: Path, loop: str) -> None:
    """Over real sockets, on either event loop, subscriptions are told the same."""

    async def live() -> None:
        assert await LiveStage(simulated(story)).play(commands_of(story)) == written(story)

    run(live(), loop)
