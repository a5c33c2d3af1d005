"""Every promise, tried on histories written by hand: some break only it, some look as if they did."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checker.story import Story, events_of, stories_in

from gapless.model.events import decode_event, encode_event
from gapless.sim.checker import PROMISES, check

FILES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
STORIES = [(path.stem, story) for path in FILES for story in stories_in(path)]


@pytest.mark.parametrize(("promise", "story"), STORIES, ids=[f"{name}-{story.title}" for name, story in STORIES])
def test_story(promise: str, story: Story) -> None:
    """Asked for all promises, the checker reports those that the story breaks and no other."""
    verdict = check(events_of(story.text), PROMISES)
    assert verdict.broken == story.breaks, verdict.render()
    assert verdict.judged[0].promises == PROMISES, "a story must let all promises be judged"


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_has_both_kinds(promise: str) -> None:
    """There is a story that breaks only this promise, and one that looks as if it did."""
    told = [story for name, story in STORIES if name == promise]
    assert any(story.breaks == (promise,) for story in told)
    assert any(not story.breaks for story in told)


@pytest.mark.parametrize("story", [story for _, story in STORIES], ids=[story.title for _, story in STORIES])
def test_witness(story: Story) -> None:
    """Each violation shows at least one event of the history, and the verdict prints it."""
    events = events_of(story.text)
    verdict = check(events, PROMISES)
    text = verdict.render()
    for violation in verdict.violations:
        assert violation.witness and all(event in events for event in violation.witness)
        assert violation.message in text


@pytest.mark.parametrize("story", [story for _, story in STORIES], ids=[story.title for _, story in STORIES])
def test_written_and_read(story: Story) -> None:
    """A history that was written down and read again gets the same verdict."""
    events = [decode_event(encode_event(event)) for event in events_of(story.text)]
    assert check(events, PROMISES).render() == check(events_of(story.text), PROMISES).render()
