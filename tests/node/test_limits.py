"""The limits and the tuning of a configuration reach whatever they are about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.node.stage import SPACE, brokers, bystanders, cluster, port_of, raw, run

import gapless
from gapless.delivery.direct.messages import Publish, Reject
from gapless.delivery.gate import refusal_of
from gapless.delivery.port import SpaceSettings
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.errors import WireError
from gapless.model.types import AttributeType, Source
from gapless.node.broker import CONTROL_UNSENT_MAX, settings_of

SMALL = SpaceSettings(
    name=SPACE,
    attributes={"price": AttributeType.FLOAT64},
    body_bytes_max=10,
    attributes_max=3,
    attribute_bytes_max=8,
)


def rows(*attributes: dict[str, Any], body: bytes = b"") -> Batch:
    """A batch of these publications."""
    return batch_of_rows(Source("till", 1), 0, attributes, [body] * len(attributes))


@pytest.mark.parametrize(
    ("batch", "code", "words"),
    [
        (rows({"price": 1.0}, body=b"x" * 10), "", ""),
        (rows({"price": 1.0}, body=b"x" * 11), "TooLarge", "a body of 11 bytes for space 'quotes'"),
        (rows({"a": 1, "b": 1, "c": 1}), "", ""),
        (rows({"a": 1, "b": 1, "c": 1, "d": 1}), "TooLarge", "a publication with 4 attributes"),
        (rows({"a": 1, "b": 1}, {"c": 1, "d": 1}, {"e": 1}), "", ""),
        (rows({"a": 1, "b": 1}, {"c": 1, "d": 1, "a": 1, "b": 2}), "TooLarge", "a publication with 4 attributes"),
        (rows({"text": "12345678"}), "", ""),
        (rows({"text": "1234567ü"}), "TooLarge", "attribute 'text' of 9 bytes"),
        (rows({"price": 1}), "SchemaError", "attribute 'price' is int64, but space 'quotes' declares it as float64"),
        (rows({"at": datetime(2026, 1, 1, tzinfo=UTC)}), "", ""),
    ],
)
def test_what_is_over_a_limit_is_refused_with_the_limit(batch: Batch, code: str, words: str) -> None:
    """A batch within the limits passes; one beyond is refused whole, with what is too large and what to do."""
    refused = refusal_of(batch, SMALL)
    if not code:
        assert refused is None
    else:
        assert refused is not None
        assert refused.code == code
        assert refused.text.startswith(words)


def test_timestamps_that_no_calendar_has_are_refused() -> None:
    """A time that a subscriber could not make a datetime of never gets to one."""
    batch = rows({"at": datetime(2026, 1, 1, tzinfo=UTC)})
    value = batch.columns_named("at")[0].values.tobytes()
    for wrong in (253_402_300_800_000_000, -62_135_596_800_000_001):
        data = batch.encode().replace(value, wrong.to_bytes(8, "little", signed=True))
        refused = refusal_of(Batch(data), SMALL)
        assert refused is not None
        assert refused.code == "AttributeTypeError"
    assert (
        refusal_of(Batch(batch.encode().replace(value, (253_402_300_799_999_999).to_bytes(8, "little"))), SMALL) is None
    )


def test_numbers_beyond_63_bits_are_not_batches() -> None:
    """A seq that no subscriber could hold in an int64 is malformed."""
    batch = rows({"a": 1})
    with pytest.raises(WireError, match="63 bits"):
        refusal_of(batch_of_rows(Source("till", 1), 1 << 63, [{"a": 1}], [b""]), SMALL)
    assert refusal_of(batch, SMALL) is None


def test_a_refused_publication_leaves_the_session_open() -> None:
    """A client over a limit is told of it and goes on with its next publication."""

    async def story() -> None:
        config = cluster(1, "[limits]\nattributes_max = 2\nattribute_bytes_max = 16\n")
        async with brokers(config), bystanders(port_of(config)), raw(port_of(config)) as peer:
            opened = await peer.enter()
            assert (opened.settings.attributes_max, opened.settings.attribute_bytes_max) == (2, 16)
            peer.message(Publish(rows({"text": "x" * 17})))
            rejected = await peer.message_of(Reject)
            assert isinstance(rejected, Reject)
            assert rejected.code == "TooLarge"
            peer.message(Publish(rows({"a": 1, "b": 1, "c": 1})))
            assert isinstance(await peer.message_of(Reject), Reject)

    run(story())


def test_every_key_of_limits_and_tuning_reaches_its_place() -> None:
    """Keys of the cluster and those that a space sets for itself get to the core and to the links."""
    tables = """
[[space]]
name = "own"
delivery = "direct"
credit_bytes = 200000
patience_ms = 5
grace_ms = 6
sources_max = 7
body_bytes_max = 8
[limits]
frame_bytes_max = 140000
body_bytes_max = 30
attributes_max = 31
attribute_bytes_max = 32
[tuning]
heartbeat_ms = 33
suspect_after_ms = 340
handshake_ms = 350
credit_bytes = 360000
patience_ms = 37
grace_ms = 38
sources_max = 39
"""
    config = cluster(1, tables)
    plain, own = (settings_of(space, config) for space in config.spaces)
    assert (plain.body_bytes_max, plain.attributes_max, plain.attribute_bytes_max) == (30, 31, 32)
    assert (own.body_bytes_max, own.attributes_max, own.attribute_bytes_max) == (8, 31, 32)
    tuning = plain.tuning
    assert (tuning.window_bytes, tuning.patience_ms, tuning.grace_ms, tuning.sources_max) == (360000, 37, 38, 39)
    tuning = own.tuning
    assert (tuning.window_bytes, tuning.patience_ms, tuning.grace_ms, tuning.sources_max) == (200000, 5, 6, 7)

    async def story() -> None:
        async with brokers(config) as (broker,), gapless.connect(f"127.0.0.1:{port_of(config)}") as bus:
            pace = broker.pace
            assert (pace.heartbeat_s, pace.suspect_after_s, pace.handshake_s) == (0.033, 0.34, 0.35)
            assert pace.frame_bytes_max == 140000
            (link,) = broker.links.values()
            assert link.unsent_bytes_max == CONTROL_UNSENT_MAX
            await bus.publisher(SPACE)
            await bus.publisher("own")
            assert link.unsent_bytes_max == 360000 + 200000 + 2 * 140000 + CONTROL_UNSENT_MAX

    run(story())
