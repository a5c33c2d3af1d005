"""What a broker sends to a client with many subscriptions, and takes from who is no honest peer."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.delivery.direct.broker import AHEAD_MAX, HEAD_BYTES_MAX, SUBSCRIPTION_BYTES, TOGETHER_MAX, DirectBroker
from gapless.delivery.direct.leaf import DirectLeaf
from gapless.delivery.direct.messages import (
    Confirm,
    Credit,
    Decline,
    Forward,
    Match,
    Publish,
    Reject,
    Subscribe,
    Unsubscribe,
)
from gapless.delivery.gate import ROWS_MAX
from gapless.delivery.port import (
    Deliver,
    Effect,
    Gap,
    HangUp,
    Message,
    Now,
    Role,
    Send,
    Session,
    SpaceSettings,
    Tuning,
    Wake,
)
from gapless.filters import Interest
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source

NOW = Now(0, 1000)


def broker_with(
    *sessions: Session, settings: SpaceSettings | None = None, neighbours: Iterable[str] = ()
) -> DirectBroker:
    """A broker with these sessions, all of which have given it room."""
    broker = DirectBroker("b0", neighbours, [], settings or SpaceSettings(name="quotes"))
    broker.on_start((), NOW)
    for session in sessions:
        broker.on_session_up(session, NOW)
        broker.on_message(session.id, Credit(1 << 30), NOW)
    return broker


def publications(count: int, first: int = 1) -> Batch:
    """So many, numbered by `n`."""
    return batch_of_rows(Source("p", 1), first, [{"n": n, "text": "ab"} for n in range(count)], [b""] * count)


def sent(effects: Iterable[Effect], kind: type[Message]) -> list[Message]:
    """The messages of a kind among effects."""
    return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def hung_up(effects: Iterable[Effect]) -> list[str]:
    """Why sessions were ended."""
    return [effect.reason for effect in effects if isinstance(effect, HangUp)]


CLIENT, PUBLISHER, NEIGHBOUR = Session(1, "c", Role.CLIENT), Session(2, "d", Role.CLIENT), Session(3, "b1", Role.BROKER)


def test_who_gets_what_is_told_in_parts_and_counts_for_credit() -> None:
    """With thousands of subscriptions what is said of them is split, is a bit for each row, and takes credit."""
    broker = broker_with(CLIENT, PUBLISHER)
    count = 12_000
    for number in range(count):
        broker.on_message(1, Subscribe(number, f"n <> {number}", ""), NOW)
    effects = broker.on_message(2, Publish(publications(1024)), NOW)
    messages = [message for message in sent(effects, Match) if isinstance(message, Match)]
    assert len(messages) > 1
    assert [number for message in messages for number in message.subscriptions] == list(range(count))
    for message in messages:
        assert sum(map(len, message.rows)) <= HEAD_BYTES_MAX
        assert message.size >= message.batch.size + sum(map(len, message.rows))
    assert broker.peers[1].outbox.room == (1 << 30) - sum(message.size for message in messages)


def test_a_leaf_takes_every_part_and_each_row_once() -> None:
    """What was split arrives whole: each subscription is handed just its rows."""
    broker = broker_with(CLIENT, PUBLISHER)
    leaf = DirectLeaf("c", SpaceSettings(name="quotes"))
    leaf.on_session_up(Session(7, "b0", Role.BROKER), NOW)
    for number in range(9000):
        leaf.on_subscribe(number, Interest.parse(f"n <> {number}"), NOW)
        for message in sent(broker.on_message(1, Subscribe(number, f"n <> {number}", ""), NOW), Confirm):
            leaf.on_message(7, message, NOW)
    rows: dict[int, int] = {}
    for message in sent(broker.on_message(2, Publish(publications(1000)), NOW), Match):
        for effect in leaf.on_message(7, message, NOW):
            assert isinstance(effect, Deliver)
            for number, chosen in effect.matches:
                rows[number] = rows.get(number, 0) + (effect.batch.rows if chosen is None else len(chosen))
    assert rows == {number: 999 if number < 1000 else 1000 for number in range(9000)}


def test_what_selects_no_rows_ends_the_session() -> None:
    """A leaf that is told of rows that the batch does not have hangs up."""
    leaf = DirectLeaf("c", SpaceSettings(name="quotes"))
    leaf.on_session_up(Session(7, "b0", Role.BROKER), NOW)
    leaf.on_subscribe(1, Interest.parse(), NOW)
    (reason,) = hung_up(leaf.on_message(7, Match(publications(3), (1,), (b"\x10",)), NOW))
    assert "do not select rows" in reason


def test_a_client_may_want_so_much_and_no_more() -> None:
    """Filters beyond the limit are declined with what to do; what is taken back makes room."""
    settings = SpaceSettings(name="quotes", interest_bytes_max=SUBSCRIPTION_BYTES + 100)
    broker = broker_with(CLIENT, settings=settings)
    long = "note <> '" + "x" * 50 + "'"
    assert sent(broker.on_message(1, Subscribe(1, long, ""), NOW), Confirm)
    (declined,) = sent(broker.on_message(1, Subscribe(2, long, ""), NOW), Decline)
    assert isinstance(declined, Decline)
    assert (declined.code, "raise interest_bytes_max" in declined.text) == ("TooLarge", True)
    broker.on_message(1, Unsubscribe(1), NOW)
    assert sent(broker.on_message(1, Subscribe(2, long, ""), NOW), Confirm)


def test_a_batch_has_so_many_publications_and_no_more() -> None:
    """A client that sends more in one batch than a broker can look at in a moment is put out."""
    broker = broker_with(CLIENT)
    assert not hung_up(broker.on_message(1, Publish(publications(ROWS_MAX)), NOW))
    (reason,) = hung_up(broker.on_message(1, Publish(publications(ROWS_MAX + 1, ROWS_MAX + 1)), NOW))
    assert f"at most {ROWS_MAX}" in reason


def test_a_malformed_batch_of_a_neighbour_is_refused() -> None:
    """Who says that it is a broker need not be one: what it forwards is checked before anybody looks into it."""
    whole = publications(3)
    data = bytearray(whole.encode())
    place = data.rindex(b"ababab") - 16
    data[place : place + 4] = b"\xff\xff\xff\x7f"
    broker = broker_with(CLIENT, NEIGHBOUR, neighbours=["b1"])
    broker.on_message(1, Subscribe(1, "text = 'ab'", ""), NOW)
    (reason,) = hung_up(broker.on_message(3, Forward(Batch(bytes(data))), NOW))
    assert reason.startswith("malformed batch")


def test_a_forgotten_source_is_missed_and_told() -> None:
    """With more sources than it remembers, a subscription is told what it can no longer tell from a repetition."""
    leaf = DirectLeaf("c", SpaceSettings(name="quotes", tuning=Tuning(sources_max=1)))
    leaf.on_session_up(Session(7, "b0", Role.BROKER), NOW)
    leaf.on_subscribe(1, Interest.parse(), NOW)
    leaf.on_message(7, Confirm(1, ()), NOW)

    def handed(name: str, incarnation: int) -> list[Effect]:
        batch = batch_of_rows(Source(name, incarnation), 1, [{}], [b""])
        return [e for e in leaf.on_message(7, Match(batch, (1,), (b"",)), NOW) if isinstance(e, Deliver | Gap)]

    assert isinstance(handed("p", 5)[0], Deliver)
    assert isinstance(handed("q", 6)[0], Deliver)
    assert handed("p", 5) == [Gap(1, "forgotten", 1)]
    assert isinstance(handed("r", 7)[0], Deliver)


def test_a_broker_tells_the_newest_incarnation() -> None:
    """Who opens a publisher is told what to be above, so that no clock but the broker's decides who is the newest."""
    broker = broker_with(CLIENT)
    assert broker.newest(NOW) == NOW.wall
    broker.on_message(1, Publish(batch_of_rows(Source("p", 7777), 1, [{}], [b""])), NOW)
    assert broker.newest(NOW) == 7777
    assert broker.newest(Now(0, 8888)) == 8888


def refused(broker: DirectBroker, session: int, source: Source) -> str:
    """The code with which a publication of this source is refused; empty when it is accepted."""
    effects = broker.on_message(session, Publish(batch_of_rows(source, 1, [{}], [b""])), NOW)
    return "".join(message.code for message in sent(effects, Reject) if isinstance(message, Reject))


def test_nobody_makes_the_publishers_after_him_look_old() -> None:
    """An incarnation far ahead of the clock is refused; many opened at one moment are not."""
    broker = broker_with(CLIENT)
    latest = NOW.wall + AHEAD_MAX
    assert refused(broker, 1, Source("evil", (1 << 63) - 1)) == "Refused"
    assert refused(broker, 1, Source("evil", latest + TOGETHER_MAX)) == "Refused"
    assert refused(broker, 1, Source("fast", latest)) == ""
    assert refused(broker, 1, Source("next", broker.newest(NOW) + TOGETHER_MAX)) == ""


def test_names_are_limited_for_each_client_and_forgotten_for_nobody_else() -> None:
    """A client that publishes under too many names is told so; the names of others stay known, and their own."""
    settings = SpaceSettings(name="quotes", names_max=3, tuning=Tuning(sources_max=1))
    broker = broker_with(CLIENT, PUBLISHER, settings=settings)
    assert refused(broker, 2, Source("till", 5)) == ""
    for number in range(10):
        assert refused(broker, 1, Source(f"x{number}", 1 << 40)) == ("" if number < 3 else "TooManyNames")
    assert refused(broker, 2, Source("till", 5)) == ""
    assert refused(broker, 2, Source("other", 5)) == ""
    assert refused(broker, 1, Source("x0", 1)) == "Fenced"
    broker.on_session_up(Session(5, "c", Role.CLIENT), NOW)
    assert refused(broker, 5, Source("y", 5)) == ""


def test_subscriptions_cost_something_each() -> None:
    """A client cannot have subscriptions without end, however short they are; what it gives back it may ask again."""
    broker = broker_with(CLIENT, settings=SpaceSettings(name="quotes", interest_bytes_max=10 * SUBSCRIPTION_BYTES))
    for number in range(11):
        effects = broker.on_message(1, Subscribe(number, "", ""), NOW)
        assert len(sent(effects, Decline)) == (number == 10)
    for _ in range(3):
        broker.on_message(1, Unsubscribe(5), NOW)
        assert sent(broker.on_message(1, Subscribe(5, "", ""), NOW), Confirm)


def test_one_wake_watches_over_a_client_at_a_time() -> None:
    """However often a client's queue fills and empties, one wake is under way for it, and patience ends on time."""
    patience = 1000 * 1_000_000
    broker = DirectBroker("b0", (), (), SpaceSettings(name="quotes"))
    for session in (CLIENT, PUBLISHER):
        broker.on_session_up(session, NOW)
    broker.on_message(1, Subscribe(1, "", ""), NOW)
    under_way: list[Wake] = []
    for step in range(50):
        at = Now(step * patience // 10, 0)
        for wake in [wake for wake in under_way if wake.at <= at.at]:
            under_way.remove(wake)
            under_way += [e for e in broker.on_wake(wake.what, at) if isinstance(e, Wake)]
        effects = broker.on_message(2, Publish(publications(1, step)), at)
        under_way += [effect for effect in effects if isinstance(effect, Wake)]
        assert len(under_way) == (1 if broker.peers[1].missed is None else 0)
        if step < 20:
            broker.on_message(1, Credit(broker.peers[1].outbox.size - broker.peers[1].outbox.room), at)
            assert not broker.peers[1].outbox.waiting
        assert (broker.peers[1].missed is not None) == (step >= 30), step
