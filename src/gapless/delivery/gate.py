"""The gate: where a broker takes a batch from a client, all of it is checked once, and trusted from then on."""

from __future__ import annotations

import numpy as np

from gapless.delivery.port import Refused, SpaceSettings
from gapless.model.batch import Batch


def refusal_of(batch: Batch, settings: SpaceSettings) -> Refused | None:
    """Why this space cannot take the batch, or None. Raises WireError when it is malformed."""
    batch.validate()
    offsets = batch.bodies.offsets
    longest = int(np.diff(offsets.astype(np.int64)).max())
    if longest > settings.body_bytes_max:
        return Refused(
            "TooLarge",
            f"a body of {longest} bytes for space {settings.name!r}, which takes at most {settings.body_bytes_max}: "
            "send it in parts, or raise body_bytes_max",
        )
    for name, declared in settings.attributes.items():
        for column in batch.columns_named(name):
            if column.type is not declared:
                return Refused(
                    "SchemaError",
                    f"attribute {name!r} is {column.type.name.lower()}, but space {settings.name!r} declares it as "
                    f"{declared.name.lower()}: publish it with that type",
                )
    return None
