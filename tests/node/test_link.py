"""The life of a link: what is in the table happens, what is not is refused, and the documentation draws the table."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.node.stage import run

from gapless.node.control import AnyControl
from gapless.node.link import TRANSITIONS, Link, Pace, State, Turn

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


class Owner:
    """Has one link, and remembers what became of it."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def link_connected(self, link: Link) -> None:
        """Says nothing."""

    def link_control(self, link: Link, message: AnyControl) -> None:
        """Hears nothing."""

    def link_frame(self, link: Link, channel: int, data: memoryview) -> None:
        """Takes nothing."""

    def link_ended(self, link: Link, reason: str) -> None:
        """Remembers."""
        self.ended.append(reason)


class Pipe(asyncio.Transport):
    """A connection into nothing."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Any."""

    def get_write_buffer_size(self) -> int:
        """Never full."""
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Gone."""

    def close(self) -> None:
        """Nothing to close."""

    def abort(self) -> None:
        """Nothing to close."""


def take(link: Link, turn: Turn) -> None:
    """Let this happen to the link."""
    if turn is Turn.CONNECTED:
        link.connection_made(Pipe())
    elif turn is Turn.GREETED:
        link.open("peer")
    else:
        link.connection_lost(None)


def reach(link: Link, state: State) -> None:
    """Bring a new link into this state."""
    ways = {
        State.CONNECTING: (),
        State.GREETING: (Turn.CONNECTED,),
        State.OPEN: (Turn.CONNECTED, Turn.GREETED),
        State.ENDED: (Turn.CONNECTED, Turn.OVER),
    }
    for turn in ways[state]:
        take(link, turn)
    assert link.state is state


@pytest.mark.parametrize("turn", Turn)
@pytest.mark.parametrize("state", State)
def test_every_turn_is_listed_or_refused(state: State, turn: Turn) -> None:
    """In each state each turn leads where the table says, or is refused and changes nothing."""

    async def story() -> None:
        owner = Owner()
        link = Link(owner, Pace(), 1, dialled=True)
        reach(link, state)
        expected = TRANSITIONS.get((state, turn))
        if expected is not None:
            take(link, turn)
            assert link.state is expected
        elif (state, turn) == (State.ENDED, Turn.OVER):
            take(link, turn)  # a link that was ended loses its connection afterwards: that is no second end
            assert link.state is State.ENDED
        else:
            with pytest.raises(AssertionError, match=f"a link that is {state.value} cannot go on when {turn.value}"):
                take(link, turn)
            assert link.state is state
        await asyncio.sleep(0)
        assert len(owner.ended) == (link.state is State.ENDED)
        if link.state is not State.ENDED and state is not State.CONNECTING:
            link.end("the test is over")

    run(story())


def test_the_page_draws_the_table() -> None:
    """The diagram in docs/operations.md is the table of transitions."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.CONNECTING.value}"]
    lines += [f"    {before.value} --> {after.value}: {turn.value}" for (before, turn), after in TRANSITIONS.items()]
    lines.append(f"    {State.ENDED.value} --> [*]")
    drawing = "```mermaid\n" + "\n".join(lines) + "\n```"
    assert drawing in PAGE.read_text(encoding="utf-8")


def test_every_state_can_be_reached_and_left() -> None:
    """From the first state each other is reached, and from each the last."""
    reached = [State.CONNECTING]
    for state in reached:
        reached += [after for (before, _), after in TRANSITIONS.items() if before is state and after not in reached]
    assert sorted(state.value for state in reached) == sorted(state.value for state in State)
    assert [before for before, _ in TRANSITIONS if before is State.ENDED] == []
