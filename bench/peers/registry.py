"""Who takes part. A further system is a module in `systems/` and a name here."""

from __future__ import annotations

from bench.peers.contract import Contender
from bench.peers.systems import gapless, mosquitto, nats

OURS = gapless.ONE_AT_A_TIME  # what the others are compared with

CONTENDERS: tuple[Contender, ...] = (
    gapless.ONE_AT_A_TIME,
    gapless.BATCHES,
    nats.CORE,
    nats.JETSTREAM,
    mosquitto.QOS_0,
)


def chosen(words: str, contenders: tuple[Contender, ...] = CONTENDERS) -> tuple[Contender, ...]:
    """Those whose name has one of the words (separated by commas), and what they are compared with."""
    wanted = [word.strip().lower() for word in words.split(",")]
    named = [one for one in contenders if any(word in one.name.lower() for word in wanted)]
    return tuple(one for one in contenders if one in named or (named and one == OURS))
