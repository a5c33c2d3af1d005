"""The clocks of a process, as cores are given them."""

from __future__ import annotations

import time

from gapless.delivery.port import Now


def now() -> Now:
    """The time now."""
    return Now(time.monotonic_ns(), time.time_ns())
