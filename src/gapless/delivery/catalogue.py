"""Which deliveries there are, and how their cores are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gapless.delivery.direct.broker import DirectBroker
from gapless.delivery.direct.leaf import DirectLeaf
from gapless.delivery.direct.messages import DirectMessage
from gapless.delivery.port import Core, LeafCore, SpaceSettings


class Delivery(NamedTuple):
    """One way to deliver."""

    name: str
    messages: Any  # the union of its messages
    # me, neighbours, those of them that are mine to dial, settings
    broker: Callable[[str, Iterable[str], Iterable[str], SpaceSettings], Core]
    leaf: Callable[[str, SpaceSettings], LeafCore]


DELIVERIES: dict[str, Delivery] = {"direct": Delivery("direct", DirectMessage, DirectBroker, DirectLeaf)}
