"""For tests of applications that use Gapless: an overlay in the test's own process, time and faults at its command.

    def test_my_application(overlay):
        async def story(overlay):
            async with gapless.connect(overlay.servers) as bus:
                ...
        overlay.run(story)

With pytest the fixture `overlay` is there by itself. docs/testing.md tells the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless.testing.history import BrokenPromise
    from gapless.testing.loop import Stalled
    from gapless.testing.overlay import Overlay

__all__ = ["BrokenPromise", "Overlay", "Stalled"]

# Where each name lives. pytest loads this package in every project it is used in: nothing heavy before it is asked for.
_HOMES = {
    "BrokenPromise": "gapless.testing.history",
    "Overlay": "gapless.testing.overlay",
    "Stalled": "gapless.testing.loop",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gapless.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
