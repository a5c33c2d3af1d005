"""The time that a broker gives to what it accepts."""

from __future__ import annotations

from gapless.delivery.direct.broker import DirectBroker
from gapless.delivery.direct.messages import Credit, Match, Publish, Subscribe
from gapless.delivery.port import Now, Role, Send, Session, SpaceSettings
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source


def test_times_of_a_source_do_not_go_back_when_the_clock_does() -> None:
    """When the wall clock steps back between two batches, the second is given the time of the first."""
    broker = DirectBroker("b0", [], [], SpaceSettings(name="quotes"))
    broker.on_start((), Now(0, 1000))
    broker.on_session_up(Session(1, "c", Role.CLIENT), Now(0, 1000))
    broker.on_message(1, Credit(1 << 20), Now(0, 1000))
    broker.on_message(1, Subscribe(1, "", ""), Now(0, 1000))
    source = Source("p", 1)
    times = []
    for seq, wall in ((1, 2000), (2, 500), (3, 3000)):
        effects = broker.on_message(1, Publish(batch_of_rows(source, seq, [{"a": 1}], [b""])), Now(seq, wall))
        times += [e.message.batch.time for e in effects if isinstance(e, Send) and isinstance(e.message, Match)]
    assert times == [2000, 2000, 3000]
