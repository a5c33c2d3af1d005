"""Judges a history by every name of GUARANTEES, sections 2 and 3, and shows the events that break a promise.

    verdict = check(read_history(path))
    print(verdict.render())

`reader` makes a history into one `View` for each space; `owed` works out what each subscription is owed; and one module
for each family of promises judges them: `handed`, `sequence`, `survival`, `causal`, `total`, `gaps`, `liveness`.
"""

from __future__ import annotations

from gapless.sim.checker.judge import check
from gapless.sim.checker.promises import LIVENESS, PROMISES, SAFETY, HistoryError, promises_of
from gapless.sim.checker.verdict import Judged, Verdict, Violation

__all__ = [
    "LIVENESS",
    "PROMISES",
    "SAFETY",
    "HistoryError",
    "Judged",
    "Verdict",
    "Violation",
    "check",
    "promises_of",
]
