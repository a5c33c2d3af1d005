"""One publication, as an application sees it."""

from __future__ import annotations

from typing import NamedTuple

from gapless.model.types import Attributes


class Publication(NamedTuple):
    """What a subscriber iterates over. `(source, seq)` names it for ever; `time` is the accepting broker's, ns UTC."""

    source: str
    seq: int
    attributes: Attributes
    body: bytes
    time: int
    redelivered: bool = False

    @property
    def topic(self) -> str | None:
        """The attribute `topic`, if it is a string."""
        value = self.attributes.get("topic")
        return value if isinstance(value, str) else None
