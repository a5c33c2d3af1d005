"""The gate: where a broker takes a batch from a client, all of it is checked once, and trusted from then on."""

from __future__ import annotations

import numpy as np

from gapless.delivery.port import Refused, SpaceSettings
from gapless.model.batch import Batch, Texts, values_in_rows
from gapless.model.errors import WireError
from gapless.model.types import INT64_MAX, AttributeType

ROWS_MAX = 4096  # of a batch from a client: what a broker does in one step has to end soon


def refusal_of(batch: Batch, settings: SpaceSettings) -> Refused | None:
    """Why this space cannot take the batch, or None. Raises WireError when it is malformed."""
    if batch.rows > ROWS_MAX:
        raise WireError(f"a batch of {batch.rows} publications; a client sends at most {ROWS_MAX} in one")
    batch.validate()
    if batch.last > INT64_MAX or batch.header.incarnation > INT64_MAX:
        raise WireError(f"a batch of {batch.source} has numbers beyond 63 bits")
    return _too_large(batch, settings) or _mistyped(batch, settings)


def _too_large(batch: Batch, settings: SpaceSettings) -> Refused | None:
    longest = _longest(batch.bodies, settings.body_bytes_max)
    if longest > settings.body_bytes_max:
        return Refused(
            "TooLarge",
            f"a body of {longest} bytes for space {settings.name!r}, which takes at most {settings.body_bytes_max}: "
            "send it in parts, or raise body_bytes_max",
        )
    count = _attributes_of_widest(batch, settings.attributes_max)
    if count > settings.attributes_max:
        return Refused(
            "TooLarge",
            f"a publication with {count} attributes for space {settings.name!r}, which takes at most "
            f"{settings.attributes_max}: put some of them into the body, or raise attributes_max",
        )
    for column in batch.columns:
        length = _longest(column.raw, settings.attribute_bytes_max) if isinstance(column.raw, Texts) else 0
        if length > settings.attribute_bytes_max:
            return Refused(
                "TooLarge",
                f"attribute {column.name!r} of {length} bytes for space {settings.name!r}, which takes at most "
                f"{settings.attribute_bytes_max}: put it into the body, or raise attribute_bytes_max",
            )
    return None


def _mistyped(batch: Batch, settings: SpaceSettings) -> Refused | None:
    for name, declared in settings.attributes.items():
        for column in batch.columns_named(name):
            if column.type is not declared and (column.valid is None or bool(column.valid.any())):
                return Refused(
                    "SchemaError",
                    f"attribute {name!r} is {column.type.name.lower()}, but space {settings.name!r} declares it as "
                    f"{declared.name.lower()}: publish it with that type",
                )
    for column in batch.columns:
        if column.type is AttributeType.TIMESTAMP and len(column.rows_beyond_calendar()):
            return Refused("AttributeTypeError", f"timestamp {column.name!r} is outside the years 1 to 9999")
    return None


def _longest(texts: Texts, enough: int) -> int:
    """The length of the longest value; not looked for when all of them together are short enough."""
    return len(texts.data) if len(texts.data) <= enough else int(np.diff(texts.offsets.astype(np.int64)).max())


def _attributes_of_widest(batch: Batch, enough: int) -> int:
    """How many attributes the row with the most of them has; not looked for when there are few columns."""
    if batch.header.columns <= enough:
        return batch.header.columns
    return int(values_in_rows(batch.columns, batch.rows).max())
