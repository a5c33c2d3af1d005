"""The types of attributes, and identities."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import IntEnum
from typing import NamedTuple

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND_FIRST = -62_135_596_800_000_000  # of the year 1, as a timestamp
MICROSECOND_LAST = 253_402_300_799_999_999  # of the year 9999
INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1


class AttributeType(IntEnum):
    """What an attribute may be. The numbers are those of the wire."""

    BOOL = 1
    INT64 = 2
    FLOAT64 = 3
    STRING = 4
    TIMESTAMP = 5


AttributeValue = bool | int | float | str | datetime
Attributes = dict[str, AttributeValue | None]


class Source(NamedTuple):
    """A publisher's identity inside a space. A higher incarnation of a name fences the lower ones."""

    name: str
    incarnation: int

    def __str__(self) -> str:
        return f"{self.name}#{self.incarnation}"
