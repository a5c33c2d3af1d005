"""Gapless: publish once; delivered once, in order, with no gaps, while brokers and links fail."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless import filters, sync
    from gapless.client.bus import Bus, connect
    from gapless.client.handout import GapNotice
    from gapless.client.publisher import Publisher
    from gapless.client.receipt import Receipt
    from gapless.client.subscription import Subscription
    from gapless.model.cursor import Cursor
    from gapless.model.errors import (
        AttributeTypeError,
        Closed,
        ConfigError,
        CursorError,
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
        TooManyNames,
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
    "sync",
    "filters",
    "Bus",
    "Publisher",
    "Receipt",
    "Subscription",
    "Publication",
    "Cursor",
    "GapNotice",
    "GaplessError",
    "AttributeTypeError",
    "Closed",
    "ConfigError",
    "CursorError",
    "DeadlineExceeded",
    "Fenced",
    "FilterError",
    "OutcomeUnknown",
    "Overloaded",
    "PublicationError",
    "Refused",
    "SchemaError",
    "TooLarge",
    "TooManyNames",
    "UnknownSpace",
    "Unreachable",
    "Unsupported",
    "VersionMismatch",
    "WireError",
]

# Where each name lives. They are fetched when first asked for: `import gapless` alone loads neither numpy nor Arrow.
_HOMES = {
    "gapless.client.bus": ("Bus", "connect"),
    "gapless.client.publisher": ("Publisher",),
    "gapless.client.receipt": ("Receipt",),
    "gapless.client.handout": ("GapNotice",),
    "gapless.client.subscription": ("Subscription",),
    "gapless.model.cursor": ("Cursor",),
    "gapless.model.publication": ("Publication",),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gapless' has no attribute {name!r}")
    if name in ("sync", "filters"):
        return import_module(f"gapless.{name}")
    home = next((home for home, names in _HOMES.items() if name in names), "gapless.model.errors")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
