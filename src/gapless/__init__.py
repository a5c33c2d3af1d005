"""Gapless: publish once; delivered once, in order, with no gaps, while brokers and links fail."""

from __future__ import annotations

from gapless.client.bus import Bus, connect
from gapless.client.publisher import Publisher
from gapless.client.receipt import Receipt
from gapless.client.subscription import GapNotice, Subscription
from gapless.model.errors import (
    AttributeTypeError,
    Closed,
    ConfigError,
    DeadlineExceeded,
    Fenced,
    FilterError,
    GaplessError,
    OutcomeUnknown,
    Overloaded,
    PublicationError,
    Refused,
    SchemaError,
    TooLarge,
    UnknownSpace,
    Unreachable,
    Unsupported,
    VersionMismatch,
    WireError,
)
from gapless.model.publication import Publication

__version__ = "0.1.0"

__all__ = [
    "connect",
    "Bus",
    "Publisher",
    "Receipt",
    "Subscription",
    "Publication",
    "GapNotice",
    "GaplessError",
    "AttributeTypeError",
    "Closed",
    "ConfigError",
    "DeadlineExceeded",
    "Fenced",
    "FilterError",
    "OutcomeUnknown",
    "Overloaded",
    "PublicationError",
    "Refused",
    "SchemaError",
    "TooLarge",
    "UnknownSpace",
    "Unreachable",
    "Unsupported",
    "VersionMismatch",
    "WireError",
]
