"""The audit finds each promise broken where it is, and nothing where it only looks so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from gapless.model.events import Event, Kind, digest_of, digest_of_attributes, write_history
from gapless.sim.checker import check
from gapless.spark.audit import JUDGED_PROMISES, AuditVerdict, Result, audit

pytestmark = pytest.mark.spark

INVENTION, DUPLICATE, ORDER, DELIVERED = JUDGED_PROMISES


class Story:
    """A history in a space of its own: what is said is what happens, in this order."""

    def __init__(self, space: str) -> None:
        self.space = space
        self.events: list[Event] = []

    def tell(self, kind: Kind, **fields: Any) -> None:
        node = fields.pop("node", "pub" if kind in (Kind.PUBLISH, Kind.ACCEPTED, Kind.REFUSED, Kind.UNKNOWN) else "sub")
        space = "" if kind is Kind.CRASH else self.space
        self.events.append(Event(event=kind, at=0, node=f"{self.space}.{node}", space=space, **fields))

    def subscribe(self, name: str = "s", filter_text: str = "price > 2", **fields: Any) -> None:
        self.tell(Kind.SUBSCRIBE, subscription=name, filter=filter_text, **fields)
        self.tell(Kind.CONFIRMED, subscription=name)

    def offer(self, seq: int, price: float | None = 3, source: str = "p", incarnation: int = 1, **fields: Any) -> None:
        attributes = fields.pop("attributes", {"price": price})
        body = digest_of(f"{source}{incarnation}{seq}".encode())
        self.tell(
            Kind.PUBLISH,
            source=source,
            incarnation=incarnation,
            seq=seq,
            **{"attributes": attributes, "body": body} | fields,
        )

    def accept(self, seq: int, last: int = 0, source: str = "p", incarnation: int = 1) -> None:
        self.tell(Kind.ACCEPTED, source=source, incarnation=incarnation, seq=seq, last=last)

    def publish(self, *seqs: int, **fields: Any) -> None:
        for seq in seqs:
            self.offer(seq, **fields)
            self.accept(seq, **{name: fields[name] for name in ("source", "incarnation") if name in fields})

    def deliver(self, *seqs: int, name: str = "s", source: str = "p", incarnation: int = 1, **fields: Any) -> None:
        for seq in seqs:
            body = fields.get("body", digest_of(f"{source}{incarnation}{seq}".encode()))
            named = {"subscription": name, "source": source, "incarnation": incarnation, "seq": seq, "body": body}
            self.tell(Kind.DELIVERED, **named | fields)


Case = Callable[[Story], None]
QUIET: dict[str, tuple[Case, str]] = {}
FAULTY: dict[str, tuple[Case, str]] = {}


def case(breaks: str = "", among: dict[str, tuple[Case, str]] = QUIET) -> Callable[[Case], Case]:
    def keep(story: Case) -> Case:
        among[story.__name__] = story, breaks
        return story

    return keep


# --- no-invention


@case()
def all_is_well(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2, 3)
    story.deliver(1, 2, 3)


@case(INVENTION)
def never_published(story: Story) -> None:
    all_is_well(story)
    story.deliver(9)


@case(INVENTION)
def published_later(story: Story) -> None:
    story.subscribe()
    story.deliver(1)
    story.publish(1)


@case(INVENTION)
def refused(story: Story) -> None:
    story.subscribe()
    story.offer(1)
    story.offer(2)
    story.tell(Kind.REFUSED, source="p", incarnation=1, seq=1, last=2, reason="fenced")
    story.deliver(2)


@case()
def refused_is_its_neighbour(story: Story) -> None:
    story.subscribe()
    for seq in (1, 2, 3, 4):
        story.offer(seq)
    story.tell(Kind.REFUSED, source="p", incarnation=1, seq=2, last=3, reason="fenced")
    story.accept(1)
    story.accept(4)
    story.deliver(1, 4)


@case(INVENTION)
def does_not_match(story: Story) -> None:
    story.subscribe()
    story.publish(1, price=2)
    story.deliver(1)


@case(INVENTION)
def is_unknown_not_true(story: Story) -> None:
    story.subscribe(filter_text="NOT (price > 2)")
    story.publish(1, price=None)
    story.deliver(1)


@case(INVENTION)
def matches_but_for_the_topic(story: Story) -> None:
    story.subscribe(topic="nyse/+")
    story.publish(1, attributes={"price": 3, "topic": "nyse/ibm/quotes"})
    story.deliver(1)


@case()
def matches_with_its_topic(story: Story) -> None:
    story.subscribe(topic="nyse/#")
    story.publish(1, attributes={"price": 3, "topic": "nyse/ibm/quotes"})
    story.deliver(1)


@case(INVENTION)
def other_bytes(story: Story) -> None:
    story.subscribe()
    story.publish(1)
    story.deliver(1, body=digest_of(b"other"))


@case(INVENTION)
def other_attributes(story: Story) -> None:
    story.subscribe()
    story.publish(1, attributes={"price": 3, "loc": "NY"})
    story.deliver(1, attributes={"price": 3.0, "loc": "NY"})


@case()
def attributes_in_another_order(story: Story) -> None:
    story.subscribe()
    story.publish(1, attributes={"price": 3, "loc": "NY", "note": None})
    story.deliver(1, attributes={"loc": "NY", "price": 3})


@case()
def attributes_of_its_digest(story: Story) -> None:
    story.subscribe(filter_text="")
    for seq, value in enumerate((3, 3.0, 1e300, 5e-324, 1 << 60, True, '\u00e4\u20ac"', math.nan), 1):
        story.publish(seq, attributes={"value": value, "loc": "NY"})
        story.deliver(seq, digest=digest_of_attributes({"loc": "NY", "value": value}))


@case(INVENTION)
def attributes_of_another_digest(story: Story) -> None:
    story.subscribe()
    story.publish(1, attributes={"price": 3, "loc": "NY"})
    story.deliver(1, digest=digest_of_attributes({"price": 3.0, "loc": "NY"}))


@case(INVENTION)
def nobody_asked(story: Story) -> None:
    story.publish(1)
    story.deliver(1)


# --- no-duplicate


@case(DUPLICATE)
def twice(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2)
    story.deliver(1, 2, 1)


@case()
def offered_twice_is_one(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2)
    story.publish(1)
    story.deliver(1, 2)


@case()
def same_number_elsewhere(story: Story) -> None:
    story.subscribe()
    story.subscribe("other")
    for source, incarnation in (("p", 1), ("p", 2), ("q", 1)):
        story.publish(1, source=source, incarnation=incarnation)
        for name in ("s", "other"):
            story.deliver(1, name=name, source=source, incarnation=incarnation)


@case()
def subscribed_anew(story: Story) -> None:
    all_is_well(story)
    story.tell(Kind.UNSUBSCRIBE, subscription="s")
    story.subscribe()
    story.deliver(2, 3)


# --- publisher-order


@case(ORDER)
def out_of_order(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2, 3)
    story.deliver(1, 3, 2)


@case()
def orders_of_two_sources(story: Story) -> None:
    story.subscribe()
    story.publish(5, 6)
    story.publish(1, 2, source="q")
    story.deliver(5)
    story.deliver(1, source="q")
    story.deliver(6)
    story.deliver(2, source="q")


@case()
def newer_incarnation_begins_low(story: Story) -> None:
    story.subscribe()
    story.publish(8, 9)
    story.publish(1, incarnation=2)
    story.deliver(8, 9)
    story.deliver(1, incarnation=2)


@case()
def incarnations_side_by_side(story: Story) -> None:
    story.subscribe()
    story.publish(1)
    story.publish(1, incarnation=2)
    story.deliver(1, incarnation=2)
    story.deliver(1)


# --- all-delivered


@case(DELIVERED)
def last_is_missing(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2, 3)
    story.deliver(1, 2)


@case(DELIVERED)
def one_of_two_subscriptions_goes_without(story: Story) -> None:
    story.subscribe()
    story.subscribe("other")
    story.publish(1)
    story.deliver(1)


@case(DELIVERED)
def published_before_but_after_the_start(story: Story) -> None:
    story.tell(Kind.SUBSCRIBE, subscription="s", filter="")
    story.publish(1, 2)
    story.tell(Kind.CONFIRMED, subscription="s")
    story.deliver(1)


@case(DELIVERED)
def unknown_and_delivered_to_another(story: Story) -> None:
    story.subscribe()
    story.subscribe("other")
    story.offer(1)
    story.tell(Kind.UNKNOWN, source="p", incarnation=1, seq=1)
    story.deliver(1)


@case()
def unknown_and_delivered_to_nobody(story: Story) -> None:
    story.subscribe()
    story.offer(1)
    story.tell(Kind.UNKNOWN, source="p", incarnation=1, seq=1)
    story.offer(2)


@case()
def published_before_it_was_confirmed(story: Story) -> None:
    story.tell(Kind.SUBSCRIBE, subscription="s", filter="")
    story.publish(1, 2)
    story.tell(Kind.CONFIRMED, subscription="s")
    story.publish(3)
    story.deliver(2, 3)


@case()
def never_confirmed(story: Story) -> None:
    story.tell(Kind.SUBSCRIBE, subscription="s", filter="")
    story.publish(1)


@case()
def left_before(story: Story) -> None:
    story.subscribe()
    story.publish(1)
    story.tell(Kind.UNSUBSCRIBE, subscription="s")


@case()
def told_of_the_gap(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2, 3, 4)
    story.deliver(1)
    story.tell(Kind.GAP, subscription="s", source="p", incarnation=1, seq=2, last=3, reason="slow")
    story.deliver(4)


@case(DELIVERED)
def told_of_another_gap(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2, 3, 4)
    story.deliver(1)
    story.tell(Kind.GAP, subscription="s", source="p", incarnation=1, seq=2, reason="slow")
    story.deliver(4)


# --- after the death of a subscriber's process (in `stream`, where another process goes on)


@case(among=FAULTY)
def handed_over_again_with_a_mark(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2, 3)
    story.deliver(1, 2, 3)
    story.tell(Kind.ACKNOWLEDGED, subscription="s", source="p", incarnation=1, seq=1)
    story.tell(Kind.CRASH)
    story.subscribe()
    story.deliver(2, 3, redelivered=True)


@case(DUPLICATE, among=FAULTY)
def handed_over_again_without_a_mark(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2)
    story.deliver(1, 2)
    story.tell(Kind.ACKNOWLEDGED, subscription="s", source="p", incarnation=1, seq=1)
    story.tell(Kind.CRASH)
    story.subscribe()
    story.deliver(2)


@case(DUPLICATE, among=FAULTY)
def handed_over_again_though_acknowledged(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2)
    story.deliver(1, 2)
    story.tell(Kind.ACKNOWLEDGED, subscription="s", source="p", incarnation=1, seq=2)
    story.tell(Kind.CRASH)
    story.subscribe()
    story.deliver(2, redelivered=True)


@case(among=FAULTY)
def goes_back_to_its_cursor(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2, 3)
    story.deliver(1, 2, 3)
    story.tell(Kind.ACKNOWLEDGED, subscription="s", source="p", incarnation=1, seq=3)
    story.tell(Kind.SUBSCRIBE, subscription="s", filter="price > 2", node="sub2", source="p", incarnation=1, seq=1)
    story.tell(Kind.CONFIRMED, subscription="s", node="sub2")
    story.deliver(2, 3, redelivered=True, node="sub2")


@case(ORDER, among=FAULTY)
def behind_what_was_acknowledged(story: Story) -> None:
    story.subscribe()
    story.publish(1, 2, 3)
    story.deliver(1, 3)
    story.tell(Kind.ACKNOWLEDGED, subscription="s", source="p", incarnation=1, seq=3)
    story.tell(Kind.CRASH)
    story.subscribe()
    story.deliver(2)


@case(DUPLICATE, among=FAULTY)
def twice_across_a_reconnection(story: Story) -> None:
    story.subscribe()
    story.publish(1)
    story.deliver(1)
    story.subscribe()
    story.deliver(1, redelivered=True)


@case(ORDER, among=FAULTY)
def older_incarnation_after_the_newer(story: Story) -> None:
    story.subscribe()
    story.publish(1)
    story.publish(1, incarnation=2)
    story.deliver(1, incarnation=2)
    story.deliver(1)


# --- the tests


def history_of(cases: dict[str, tuple[Case, str]], delivery: str, faults: bool) -> list[Event]:
    """One history of all cases, each in its space; time passes with every event."""
    events = [Event(event=Kind.RUN, at=0, version=1, delivery=delivery, faults=faults)]
    for name, (tell, _) in cases.items():
        story = Story(name)
        tell(story)
        events += story.events
    events.append(Event(event=Kind.END, at=0))
    return [replace(event, at=1000 * place) for place, event in enumerate(events)]


@pytest.fixture(scope="module")
def quiet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Event], AuditVerdict]:
    events = history_of(QUIET, "direct", faults=False)
    path = tmp_path_factory.mktemp("quiet") / "history.ndjson"
    with path.open("wb") as file:
        write_history(file, events)
    return events, audit([path], spark)


@pytest.fixture(scope="module")
def faulty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Event], AuditVerdict]:
    events = history_of(FAULTY, "stream", faults=True)
    path = tmp_path_factory.mktemp("faulty") / "history.ndjson"
    with path.open("wb") as file:
        write_history(file, events)
    return events, audit([path], spark)


@pytest.mark.parametrize("name", QUIET)
def test_breaks_only_what_it_breaks(name: str, quiet: tuple[list[Event], AuditVerdict]) -> None:
    """In a run without faults each history breaks the promise it was written to break, and no other."""
    _, verdict = quiet
    broken = {violation.promise for violation in verdict.violations if violation.space == name}
    assert broken == ({QUIET[name][1]} - {""})


@pytest.mark.parametrize("name", FAULTY)
def test_cuts_back_what_was_delivered(name: str, faulty: tuple[list[Event], AuditVerdict]) -> None:
    """What a dead process had not acknowledged may come again, marked; what it had acknowledged may not."""
    _, verdict = faulty
    broken = {violation.promise for violation in verdict.violations if violation.space == name}
    assert broken == ({FAULTY[name][1]} - {""})
    assert verdict.of(DELIVERED).result is Result.NOT_JUDGED


@pytest.mark.parametrize("which", ["quiet", "faulty"])
def test_agrees_with_the_checker(which: str, request: pytest.FixtureRequest) -> None:
    """The audit and the in-process checker, which share no judgement, agree on the same histories."""
    events, verdict = request.getfixturevalue(which)
    judged = [promise.promise for promise in verdict.promises if promise.result is not Result.NOT_JUDGED]
    found = {(violation.space, violation.promise) for violation in verdict.violations}
    checked = {(violation.space, violation.promise) for violation in check(events).violations}
    assert found == {(space, promise) for space, promise in checked if promise in judged}


def test_shows_the_events(quiet: tuple[list[Event], AuditVerdict]) -> None:
    """A violation names the subscription and the publications, and shows the lines of the journal that prove it."""
    events, verdict = quiet
    [found] = [violation for violation in verdict.violations if violation.space == "twice"]
    assert (found.subscription, found.publications) == ("s", ("p#1/1",))
    first, second = found.witnesses
    assert events[first.line - 1].event is events[second.line - 1].event is Kind.DELIVERED
    assert events[first.line - 1].space == events[second.line - 1].space == "twice"
    assert first.line < second.line
    assert "history.ndjson" in verdict.render() and "delivered again: p#1/1" in verdict.render()
