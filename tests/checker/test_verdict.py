"""What a verdict says, and what it does not claim."""

from __future__ import annotations

import math

import msgspec
import pytest
from tests.checker.story import events_of

from gapless.model.events import Event, Kind
from gapless.sim.checker import LIVENESS, PROMISES, SAFETY, HistoryError, check, promises_of

SKIPPED = """
run stream bound=5
c subscribe s 'price > 3'
c confirmed s
p publish P:1 price=4
p publish P:2 price=5
p publish P:3 price=6
p publish P:4 price=7
p accepted P:1-4
c delivered s P:1
c delivered s P:4
c unsubscribe s
"""

SKIPPED_VERDICT = """\
space (unnamed), delivery stream: 4 publications (4 accepted), 1 subscriptions, 2 deliveries, 4 owed
  judged: gapless
  not judged: all-delivered (the history has no end event)

gapless s: P:2 to P:3 (2 publications) were skipped, P:4 was delivered
      5.000000s p        publish      P:2 attributes={price: 5} body=P:2
      8.000000s p        accepted     P:1-4
      9.000000s c        delivered    s P:1 body=P:1
     10.000000s c        delivered    s P:4 body=P:4

broken: gapless
"""

SPLIT_VERDICT = """\
space (unnamed), delivery keyed: 2 publications (2 accepted), 2 subscriptions, 4 deliveries, 4 owed
  judged: key-total-order

key-total-order s: s delivered P:1 without Q:1 before it, t delivered Q:1 without P:1 before it; \
they share key 'k' of topic 'x'
      6.000000s p        publish      P:1 attributes={topic: 'x'} body=P:1 order=total keys=k
      7.000000s q        publish      Q:1 attributes={topic: 'x'} body=Q:1 order=total keys=k
     10.000000s c        delivered    s P:1 body=P:1
     11.000000s c        delivered    s Q:1 body=Q:1
     12.000000s d        delivered    t Q:1 body=Q:1
     13.000000s d        delivered    t P:1 body=P:1

key-total-order s: no one order of total publications that share keys: P:1 before Q:1 before P:1 (as s, t had them)
     10.000000s c        delivered    s P:1 body=P:1
     11.000000s c        delivered    s Q:1 body=Q:1
     12.000000s d        delivered    t Q:1 body=Q:1
     13.000000s d        delivered    t P:1 body=P:1

broken: key-total-order
"""


def test_text_of_a_skip() -> None:
    """A verdict names what was judged and what was not, and shows the events that break the promise."""
    assert check(events_of(SKIPPED), ["gapless", "all-delivered"]).render() == SKIPPED_VERDICT


def test_text_of_a_cycle() -> None:
    """A cycle is told as a chain, with the deliveries that make it."""
    story = """
        run keyed
        c subscribe s
        c confirmed s
        d subscribe t
        d confirmed t
        p publish P:1 order=total keys=k topic=x
        q publish Q:1 order=total keys=k topic=x
        p accepted P:1
        q accepted Q:1
        c delivered s P:1
        c delivered s Q:1
        d delivered t Q:1
        d delivered t P:1
    """
    assert check(events_of(story), ["key-total-order"]).render() == SPLIT_VERDICT


@pytest.mark.parametrize(
    ("story", "message", "witness"),
    [
        ("p publish P:1\np refused P:1 reason=TooLarge\nc delivered s P:1", "P:1 was refused and yet delivered", 3),
        ("c delivered s P:1", "P:1 was delivered and never published in this space", 1),
        ("c delivered s P:1\np publish P:1", "P:1 was delivered before it was published", 2),
        ("p publish P:1 a=0\nc delivered s P:1", "P:1 does not match and was delivered", 3),
        ("p publish P:1 a=1\nc delivered s P:1 body=x", "the body of P:1 is not the one that was published", 2),
        ("p publish P:1 a=1\nc delivered s P:1 a=2", "the attributes of P:1 are not those that were published", 2),
        ("p publish P:1 a=1\nc delivered g P:1", "P:1 was delivered to a subscription that nobody asked for", 2),
        ("p publish P:1 a=1\nc delivered s P:1\nc delivered s P:1", "P:1 was delivered twice", 2),
        (
            "p publish P:1 a=1\nc delivered s P:1\nc crash\nc subscribe s\nc delivered s P:1",
            "P:1 was handed to a later process again and not marked as redelivered",
            2,
        ),
        (
            "p publish P:1 a=1\np publish P:2 a=1\nc delivered s P:2\nc delivered s P:1",
            "P:1 was delivered after P:2",
            2,
        ),
        (
            "p publish P:1 a=1\np publish P:2 a=1\np accepted P:1-2\nc delivered s P:2",
            "P:1 was published after the confirmation and left out, P:2 was delivered",
            4,
        ),
        ("p publish P:1\np accepted P:1\np refused P:1 reason=TooLarge", "P:1 was accepted and then refused", 3),
        (
            "p publish P:1 a=1 order=causal\np publish Q:1 a=1 order=causal\np accepted P:1\np accepted Q:1\n"
            "c delivered s Q:1",
            "Q:1 was delivered without P:1, which happened before it and was never delivered",
            3,
        ),
        (
            "p publish P:1 a=1 order=causal\np publish Q:1 a=1 order=causal\np accepted P:1\np accepted Q:1\n"
            "c delivered s Q:1\nc delivered s P:1",
            "Q:1 was delivered without P:1, which happened before it and was delivered later",
            4,
        ),
        ("c gap s reason=lost", "a gap was announced (lost) and nothing in the run gave cause", 1),
    ],
)
def test_messages(story: str, message: str, witness: int) -> None:
    """Each violation is a sentence that names what went wrong, with the events that show it."""
    verdict = check(events_of(f"run stream\nc subscribe s 'a = 1'\nc confirmed s\n{story}"), SAFETY)
    found = [violation for violation in verdict.violations if violation.message == message]
    assert len(found) == 1, verdict.render()
    assert len(found[0].witness) == witness


def test_messages_of_liveness() -> None:
    """What has not come about is told with what was asked, and with the answer if there was a bad one."""
    story = """
        run delta faults
        c subscribe s
        c confirmed s
        d subscribe t
        d confirmed t
        p publish P:1
        p accepted P:1
        p publish P:2
        p accepted P:2
        p publish P:3
        d delivered t P:3
        p unknown P:3
        p publish P:4
        p refused P:4
        p publish P:5
        b9 join
        e subscribe u
        e refused subscription=u
        b crash
        b restart
        calm
        end
        b held reason=queue count=2
    """
    verdict = check(events_of(story), LIVENESS)
    assert [(found.subscription, found.message, len(found.witness)) for found in verdict.violations] == [
        ("s", "P:1 and 1 more of its source had not been delivered when the run ended", 3),
        ("t", "P:1 and 1 more of its source had not been delivered when the run ended", 3),
        ("u", "the subscribe was refused without a reason", 2),
        ("", "the outcome of P:3 is still unknown, and its publisher lives", 2),
        ("", "P:4 was refused without a reason", 2),
        ("", "P:5 was neither accepted nor refused", 1),
        ("", "the join of b9 has no answer", 1),
        ("", "b still holds 2 of queue", 1),
    ]
    lost = check(events_of(story), ["accepted-survives"]).violations
    assert [found.message for found in lost] == [
        f"P:{seq} was accepted and nobody was ever handed it; it is owed to s, t" for seq in (1, 2)
    ]


def test_witness_of_an_unknown_outcome() -> None:
    """What nobody accepted is owed because another was handed it, so that delivery is shown."""
    story = """
        run stream faults
        c subscribe s
        c confirmed s
        d subscribe t
        d confirmed t
        p publish P:1
        d delivered t P:1
        p crash
        calm
        end
    """
    (found,) = check(events_of(story), ["all-delivered"]).violations
    assert [event.event for event in found.witness] == [Kind.PUBLISH, Kind.DELIVERED, Kind.END]


def test_nothing_is_said_of_what_is_not_judged() -> None:
    """State that is held in a run that was not watched to its end is not reported."""
    assert check(events_of("run stream\nb held reason=queue count=1")).ok


def test_not_a_number_is_itself() -> None:
    """An attribute that is NaN arrives as it was published when it arrives as NaN."""

    def judge(published: float, delivered: float) -> bool:
        events = events_of("run direct\nc subscribe s\np publish P:1\nc delivered s P:1")
        offered, handed = (
            msgspec.structs.replace(event, attributes={"a": value})
            for event, value in zip(events[2:], (published, delivered), strict=True)
        )
        return check([*events[:2], offered, handed], ["no-invention"]).ok

    assert judge(math.nan, math.nan)
    assert not judge(math.nan, 1.0)
    assert not judge(1.0, math.nan)


@pytest.mark.parametrize(
    ("story", "why"),
    [
        ("run stream faults bound=5\ncalm\n+100", "the history has no end event"),
        ("run stream faults bound=5\n+100 end", "the run never became calm"),
        ("run stream bound=5\nb crash\n+100 end", "the run never became calm"),
        ("run stream faults bound=5\ncalm\nb crash\n+100 end", "a fault came after calm"),
        ("run stream faults bound=5\ncalm\n+4 end", "the run ended before its bound had passed since calm"),
        ("run stream faults bound=5\nb crash\ncalm\n+5 end", ""),
        ("run stream bound=5\nend", ""),
    ],
)
def test_when_liveness_is_judged(story: str, why: str) -> None:
    """Liveness is judged at the end of a run that was calm for its bound; the verdict says so if it was not."""
    events = events_of(story.removesuffix("+100"))
    judged = check(events).judged[0]
    assert judged.unjudged == dict.fromkeys(LIVENESS, why) if why else not judged.unjudged
    assert set(LIVENESS) <= set(judged.promises) or why


def test_only_some_are_listed() -> None:
    """Of many violations of one promise the first are listed and the others counted."""
    lines = [line for seq in range(1, 31) for line in (f"p publish P:{seq}", f"c delivered s P:{seq} body=no")]
    verdict = check(events_of("\n".join(["run stream", "c subscribe s", *lines])))
    assert len(verdict.violations) == 20
    assert verdict.left_out == {"no-invention": 10}
    assert "and more of the same: 10 of no-invention" in verdict.render()


def test_spaces_are_judged_apart() -> None:
    """Each space is held to what its own delivery promises, and what concerns processes is reported once."""
    story = """
        run direct space=a
        run stream faults space=b
        c subscribe s space=a
        c confirmed s space=a
        c subscribe s space=b
        c confirmed s space=b
        p publish P:1 space=a
        p publish P:1 space=b
        c delivered s P:1 space=a
        c delivered s P:1 space=a
        c delivered s P:1 space=b
        b disconnected peer=c reason=whim
    """
    verdict = check(events_of(story))
    assert [(found.promise, found.space) for found in verdict.violations] == [
        ("no-duplicate", "a"),
        ("justified-gap", ""),
    ]
    assert [(judged.space, judged.delivery, judged.deliveries) for judged in verdict.judged] == [
        ("a", "direct", 2),
        ("b", "stream", 1),
    ]
    assert "no-duplicate a/s: P:1 was delivered twice" in verdict.render()


def test_clean_verdict() -> None:
    """A clean verdict says so, with the counts that tell it from an empty one."""
    story = "run direct\nc subscribe s\nc confirmed s\np publish P:1\np accepted P:1\nc delivered s P:1\nend"
    verdict = check(events_of(story))
    assert verdict.ok and verdict.render().endswith("every promise held\n")
    judged = verdict.judged[0]
    assert (judged.publications, judged.accepted, judged.subscriptions, judged.deliveries, judged.owed) == (
        1,
        1,
        1,
        1,
        1,
    )


@pytest.mark.parametrize(
    ("story", "message"),
    [
        ("", "this history is empty"),
        ("p publish P:1", "no run event says what space '' promises"),
        ("run stream space=a\np publish P:1 space=b", "no run event says what space 'b' promises"),
        ("run postal\np publish P:1", "unknown delivery 'postal'"),
        ("run delta mode=soft\np publish P:1", "unknown mode 'soft'"),
        ("run stream clock=sundial\np publish P:1", "unknown clock 'sundial'"),
        ("run stream\nrun delta\np publish P:1", "disagree on delivery: 'stream' and 'delta'"),
    ],
)
def test_what_cannot_be_judged(story: str, message: str) -> None:
    """A history that does not say what it promises is refused with a sentence that says what is missing."""
    with pytest.raises(HistoryError, match=message):
        check(events_of(story))


def test_other_versions_are_refused() -> None:
    """A history of another version is refused, and the sentence names both."""
    with pytest.raises(HistoryError, match="of version 7, and version 1 is what is read here"):
        check([Event(event=Kind.RUN, at=0, delivery="stream", version=7)])


def test_unknown_promises_are_refused() -> None:
    """Asked for a promise that does not exist, the checker names those that do."""
    with pytest.raises(HistoryError, match=r"no promise is called 'fast': they are no-invention, .*, state-drained"):
        check(events_of("run stream"), ["fast"])


def test_named_promises_need_no_run_event() -> None:
    """Promises named by the caller are judged whatever the history says it promises."""
    verdict = check(events_of("c subscribe s\nc delivered s P:1"), ["no-invention"])
    assert verdict.broken == ("no-invention",)


def test_table_of_promises() -> None:
    """The table of GUARANTEES, section 4."""
    always = ("no-invention", "no-duplicate", "publisher-order", "justified-gap")
    orders = {"causal-order", "key-total-order", "uniform-total-order"}
    assert promises_of("direct", True, "") == always
    assert set(promises_of("direct", False, "")) == set(PROMISES) - orders
    for faults in (True, False):
        assert set(promises_of("stream", faults, "")) == set(PROMISES) - {"causal-order", "key-total-order"}
        assert set(promises_of("delta", faults, "hard")) == set(PROMISES) - orders
        assert set(promises_of("keyed", faults, "")) == set(PROMISES) - {"uniform-total-order"}
    assert SAFETY + LIVENESS == PROMISES and len(PROMISES) == 15
