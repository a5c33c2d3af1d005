"""The journal: requests and answers as history events."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from gapless.delivery.journal import Journal
from gapless.delivery.port import Accepted, Answer, Confirmed, Gap, Note, Now, Published, Refused, Subscribed, Unknown
from gapless.filters import Interest
from gapless.model.columns import batch_of_rows
from gapless.model.events import Event, Kind, digest_of
from gapless.model.types import Source

NOW = Now(5, 7)
SOURCE = Source("p", 2)
WHEN = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
BATCH = batch_of_rows(SOURCE, 4, [{"n": 1, "at": WHEN}, {"n": None}, {"n": 3}], [b"a", b"b", b"c"])


@pytest.fixture
def events() -> list[Event]:
    """What has been written."""
    return []


@pytest.fixture
def journal(events: list[Event]) -> Journal:
    """A journal of which two events have been written before."""
    return Journal("c", events.append, 2)


def test_publications_are_written_one_by_one(journal: Journal, events: list[Event]) -> None:
    """Each publication is a line with its attributes, times as microseconds, and the digest of its body."""
    journal.publish("m", BATCH, NOW)
    assert [(e.seq, e.attributes, e.body) for e in events] == [
        (4, {"n": 1, "at": 1767225601000000}, digest_of(b"a")),
        (5, {}, digest_of(b"b")),
        (6, {"n": 3}, digest_of(b"c")),
    ]
    assert {(e.event, e.node, e.space, e.source, e.incarnation, e.at, e.wall) for e in events} == {
        (Kind.PUBLISH, "c", "m", "p", 2, 5, 7)
    }
    assert [e.n for e in events] == [3, 4, 5]


@pytest.mark.parametrize(
    ("outcome", "kind", "reason"),
    [
        (Accepted(), Kind.ACCEPTED, ""),
        (Refused("TooLarge", "no room"), Kind.REFUSED, "TooLarge: no room"),
        (Unknown("gone"), Kind.UNKNOWN, ""),
    ],
)
def test_outcomes_are_ranges(
    journal: Journal, events: list[Event], outcome: Accepted | Refused | Unknown, kind: Kind, reason: str
) -> None:
    """What became of a batch is one line for all of it; a range of one names no last."""
    journal.answer("m", Answer(Published(SOURCE, 4, 6), outcome), "", NOW)
    journal.answer("m", Answer(Published(SOURCE, 4, 4), outcome), "", NOW)
    assert [(e.event, e.source, e.incarnation, e.seq, e.last, e.reason) for e in events] == [
        (kind, "p", 2, 4, 6, reason),
        (kind, "p", 2, 4, 0, reason),
    ]


def test_subscriptions_are_written_as_asked(journal: Journal, events: list[Event]) -> None:
    """A subscribe has filter and topic as given, its confirmation the exceptions."""
    journal.subscribe("m", "s", Interest.parse("n>1  AND n<5", "a/#"), NOW)
    journal.answer("m", Answer(Subscribed(1), Confirmed(("b1",))), "s", NOW)
    journal.unsubscribe("m", "s", NOW)
    assert [(e.event, e.subscription) for e in events] == [
        (Kind.SUBSCRIBE, "s"),
        (Kind.CONFIRMED, "s"),
        (Kind.UNSUBSCRIBE, "s"),
    ]
    assert (events[0].filter, events[0].topic) == ("n>1  AND n<5", "a/#")
    assert events[1].exceptions == ("b1",)


def test_deliveries_are_written_row_by_row(journal: Journal, events: list[Event]) -> None:
    """A delivery is a line for each of its rows, an acknowledgement one for the last."""
    rows = np.array([0, 2])
    journal.deliver("m", "s", BATCH, rows, NOW)
    journal.acknowledge("m", "s", BATCH, rows, NOW)
    journal.deliver("m", "s", BATCH, None, NOW)
    journal.acknowledge("m", "s", BATCH, None, NOW)
    assert [(e.event.value, e.seq) for e in events] == [
        ("delivered", 4),
        ("delivered", 6),
        ("acknowledged", 6),
        ("delivered", 4),
        ("delivered", 5),
        ("delivered", 6),
        ("acknowledged", 6),
    ]
    assert events[1].body == digest_of(b"c")


def test_losses_are_written_with_their_reasons(journal: Journal, events: list[Event]) -> None:
    """Gaps, drops, disconnections and what is held say why and how many; how many is left out where nobody knows."""
    journal.gap("m", "s", Gap(1, "slow-subscriber", 3), NOW)
    journal.gap("m", "s", Gap(1, "disconnected", -1), NOW)
    journal.note("m", Note(Kind.DROPPED, {"reason": "stale", "count": 2}), NOW)
    journal.disconnected("b1", "closed", NOW)
    journal.held("m", {"waiting": 4}, NOW)
    assert [(e.event.value, e.reason, e.count) for e in events] == [
        ("gap", "slow-subscriber", 3),
        ("gap", "disconnected", 0),
        ("dropped", "stale", 2),
        ("disconnected", "closed", 0),
        ("held", "waiting", 4),
    ]
    assert events[3].peer == "b1"
