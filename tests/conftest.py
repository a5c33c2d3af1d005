"""What every test stands on: reproducible properties and a quiet, bounded world."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# Timing belongs to the machine, not to the property: no deadline, and slow generation is not a failure.
settings.register_profile(
    "steady", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# For hunting by hand: HYPOTHESIS_PROFILE=search tries new examples, and many of them.
settings.register_profile(
    "search", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Who starts the tests in the background may have SIGINT ignored, and processes inherit it: those we interrupt must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
