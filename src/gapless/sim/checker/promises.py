"""The names of the promises, and which delivery makes which (GUARANTEES, sections 2 to 4)."""

from __future__ import annotations

from gapless.model.errors import GaplessError

SAFETY = (
    "no-invention",
    "no-duplicate",
    "publisher-order",
    "gapless",
    "confirmed-start",
    "accepted-survives",
    "causal-order",
    "key-total-order",
    "uniform-total-order",
    "announced-gap",
    "justified-gap",
)
LIVENESS = ("all-delivered", "all-confirmed", "all-covered", "state-drained")
PROMISES = SAFETY + LIVENESS

_ALWAYS = ("no-invention", "no-duplicate", "publisher-order", "justified-gap")
_ORDERS = ("causal-order", "key-total-order", "uniform-total-order")
_UNORDERED = tuple(name for name in PROMISES if name not in _ORDERS)
_EXTRA_ORDERS = {
    "direct": (),
    "stream": ("uniform-total-order",),  # holds for the subscriptions that asked for it
    "delta": (),
    "keyed": ("causal-order", "key-total-order"),  # hold for the publications that asked for them
}


class HistoryError(GaplessError):
    """A history that cannot be judged as it is."""


def promises_of(delivery: str, faults: bool, mode: str) -> tuple[str, ...]:
    """What a delivery promises in a run with or without faults, in the order of GUARANTEES.

    `hard` and `relaxed` promise by the same names; they differ in what excuses a gap (see `survival`).
    """
    if delivery not in _EXTRA_ORDERS:
        raise HistoryError(f"unknown delivery {delivery!r}: a history is of one of {', '.join(_EXTRA_ORDERS)}")
    if mode not in ("", "hard", "relaxed"):
        raise HistoryError(f"unknown mode {mode!r}: a run is hard or relaxed, or says nothing")
    if delivery == "direct" and faults:
        return tuple(name for name in PROMISES if name in _ALWAYS)
    return tuple(name for name in PROMISES if name in _UNORDERED or name in _EXTRA_ORDERS[delivery])


def known(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names themselves; raises HistoryError when one is no promise."""
    for name in names:
        if name not in PROMISES:
            raise HistoryError(f"no promise is called {name!r}: they are {', '.join(PROMISES)}")
    return names
