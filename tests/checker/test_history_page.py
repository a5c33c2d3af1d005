"""The page that documents histories keeps to the schema."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gapless.model import events
from gapless.model.events import Event, Kind, decode_event, digest_of
from gapless.sim.checker import check

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "history.md").read_text(encoding="utf-8")


def test_every_name_is_on_the_page() -> None:
    """Every kind of event, every field and every reason that explains itself is documented."""
    names = [kind.value for kind in Kind] + [field.name for field in msgspec.structs.fields(Event)]
    names += [*events.MISTAKES, events.FENCED, *events.GOODBYES, *events.HARMLESS, *events.LIMITS, events.OVER_BUDGET]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_example_is_a_history() -> None:
    """The example can be read and is judged clean, body and all."""
    history = [decode_event(line) for line in PAGE.splitlines() if line.startswith("    {")]
    verdict = check(history)
    assert verdict.ok and not verdict.judged[0].unjudged
    assert {event.body for event in history if event.body} == {digest_of(b"sold")}
